"""The parts of a result, computed from records with known figures."""

import math

import pytest

from hakmem_lab.judge import analysis
from hakmem_lab.judge.statistics.paired import Interval, quantile_interval
from hakmem_lab.plan.metrics import METRICS, Metric

WALL = Metric("wall")


def run(arm: str = "c", block: int = 0, **more: object) -> dict:
    given = {
        "type": "run", "phase": "measure", "block": block, "attempt": 0, "position": 0, "arm": arm, "ok": True,
        "why": None, "wall_s": 2.0, "cpu_s": 1.5, "rss_peak_kib": 5000, "rss_mean_kib": 4000.0, "minor_faults": 7,
        "major_faults": 3, "value": 2.0, "metrics": {"wall": 2.0},
    }  # fmt: skip
    return given | more


def arm(name: str, **more: object) -> dict:
    known = {"library": "/x.so", "sha256": "ab", "version": "1", "configuration": "k:v", "variables": {"A": "1"}}
    return {"name": name, "allocator": "glibc"} | known | more


def header(**more: object) -> dict:
    spec = {"metric": "wall", "higher-is-better": False, "margin": 0.02, "alpha": 0.04, "max-blocks": 12}
    given = {"kind": "ab", "id": "r1", "question": "?", "spec": spec, "arms": [arm("c"), arm("t")], "git": None}
    return given | more


def test_the_subject_is_the_server_where_there_is_one() -> None:
    alone = run()
    assert analysis.subject(alone) == alone
    served = analysis.subject(run(server={"cpu_s": 9.0, "rss_peak_kib": 70, "rss_mean_kib": 60.0}))
    expected = dict.fromkeys(analysis.ARM_MEDIANS) | {
        "cpu_s": 9.0,
        "rss_peak_kib": 70,
        "rss_mean_kib": 60.0,
        "wall_s": 2.0,
    }
    assert served == expected


@pytest.mark.parametrize(
    ("peak", "mean", "shown"),
    [(5000, 4000.0, 5000), (4000, 4000.0, 4000), (4000, 4000.2, 4001), (None, 4000.0, None), (5000, None, 5000)],
)
def test_a_peak_is_never_below_a_mean(peak: int, mean: float, shown: int) -> None:
    assert analysis.subject(run(rss_peak_kib=peak, rss_mean_kib=mean))["rss_peak_kib"] == shown


@pytest.mark.parametrize(
    ("peak", "seen", "is_of_another"),
    [
        (5000, [300, 1249], True),
        (5000, [1250, 300], False),
        (5000, [300, 1250], False),
        (5000, [1], True),
        (5000, [0], False),
        (5000, [], False),
        (5000, None, False),
        (None, [400], False),
        (None, [0.2], False),
    ],
)
def test_a_mean_does_not_stand_beside_the_peak_of_another_process(peak, seen, is_of_another) -> None:
    """A peak more than four times the first process's samples must be of another process, so the mean is dropped."""
    series = None if seen is None else [[10 * place, kib] for place, kib in enumerate(seen)]
    given = run(rss_peak_kib=peak, rss_series=series)
    assert analysis.subject(given) == given | ({"rss_mean_kib": None} if is_of_another else {})
    served = analysis.subject(given | {"server": {"rss_peak_kib": 5000, "rss_mean_kib": 60.0}})
    assert served["rss_mean_kib"] == 60.0


@pytest.mark.parametrize(
    ("metric", "more", "value"),
    [
        ("wall", {"metrics": {"wall": 8.0}}, 8.0),
        ("wall", {"metrics": {}}, 2.0),
        ("cpu", {}, 1.5),
        ("rss", {}, 5000),
        ("rss-mean", {}, 4000.0),
        ("pss", {"pss_peak_kib": 11}, 11),
        ("pss-mean", {"pss_mean_kib": 12.0}, 12.0),
        ("pss", {}, None),
        ("faults", {}, 10),
        ("faults", {"metrics": {"faults": 4}}, 4),
        ("faults", {"minor_faults": 0, "major_faults": 0}, None),
        ("faults", {"minor_faults": None, "major_faults": None}, None),
        ("cpu", {"cpu_s": 0.0}, None),
        ("cpu", {"cpu_s": None}, None),
        ("regex:x", {}, None),
        ("regex:x", {"metrics": {"regex:x": 3.0}}, 3.0),
        ("cpu", {"server": {"cpu_s": 9.0}}, 9.0),
        ("faults", {"server": {"cpu_s": 9.0}}, None),
    ],
)
def test_a_metric_of_every_run_or_none(metric: str, more: dict, value: float | None) -> None:
    whole = run(metrics={metric: 1.0})
    assert analysis.values([whole, run(**more)], metric) == (None if value is None else [1.0, value])


def test_the_ratio_of_a_block_is_that_of_geometric_means() -> None:
    blocks = [
        {"c": [run(value=1, metrics={"wall": 1.0}), run(metrics={"wall": 4.0})], "t": [run(metrics={"wall": 1.0})]}
    ]
    assert analysis.log_ratios(blocks * 2, "c", "t", WALL) == pytest.approx([math.log(2)] * 2)
    assert analysis.log_ratios(blocks, "c", "t", Metric("wall", True)) == pytest.approx([-math.log(2)])
    assert analysis.log_ratios(blocks, "t", "c", WALL) == pytest.approx([-math.log(2)])
    lacking = {"c": [run()], "t": [run(cpu_s=None)]}
    assert analysis.log_ratios([{"c": [run()], "t": [run()]}, lacking], "c", "t", Metric("cpu")) is None
    assert analysis.log_ratios([{"c": [run(cpu_s=None)], "t": [run()]}], "c", "t", Metric("cpu")) is None


def test_a_comparison_states_ratios() -> None:
    row = analysis.comparison(Interval(math.log(2), 0.0, math.inf, 0.9, 9), "c", "t", "wall", "GO")
    assert row == {
        "name": "t against c", "metric": "wall", "control": "c", "treatment": "t", "estimate": pytest.approx(1.0),
        "ci_low": 0.0, "ci_high": math.inf, "level": 0.9, "verdict": "GO",
    }  # fmt: skip
    assert analysis.comparison(Interval(0, 0, 0, 0.9, 9), "c", "t", "wall")["verdict"] is None


def test_the_row_of_an_arm_has_the_median_of_each_of_its_figures() -> None:
    runs = [run("t", i, value=float(i + 1), wall_s=i + 1.0, cpu_s=2.0 * i + 1, minor_faults=i) for i in range(8)]
    runs[3]["rss_mean_kib"] = None
    rows = analysis.arm_rows(header(), [{"t": [one]} for one in runs], WALL)
    assert rows[0] == {key: arm("c")[key] for key in arm("c") if key != "allocator"} | {"n": 0}
    row = rows[1]
    assert (row["n"], row["name"], row["variables"]) == (8, "t", {"A": "1"})
    assert (row["median"], row["ci_low"], row["ci_high"]) == quantile_interval(range(1, 9), 0.5, 0.95)
    assert row["rss_mean_kib"] is row["rss_area_kib_s"] is None and "rss_mean_kib" not in row["intervals"]
    figures = {"wall_s": range(1, 9), "cpu_s": range(1, 17, 2), "minor_faults": range(8), "major_faults": [3] * 8}
    for name, values in figures.items():
        assert (row[name], *row["intervals"][name]) == quantile_interval(values, 0.5, 0.95)
    assert row["rss_peak_kib"] == 5000


def test_the_area_is_the_mean_memory_for_as_long_as_it_ran() -> None:
    (_, row) = analysis.arm_rows(header(), [{"t": [run("t", wall_s=3.0)]}], WALL)
    assert row["rss_area_kib_s"] == 12000.0
    (_, row) = analysis.arm_rows(header(), [{"t": [run("t", wall_s=None)]}], WALL)
    assert row["rss_area_kib_s"] is None


FAILED = run("t", 4, ok=False, why="exit 1")


def test_every_failure_is_listed() -> None:
    records = [run(), FAILED, {"type": "event", "ok": False}, FAILED | {"phase": "warm-up", "block": 5}]
    why = {"arm": "t", "why": "exit 1"}
    assert analysis.failures(records) == [{"block": 4} | why, {"block": 5} | why]


def block(index: int, **more: object) -> dict:
    return {"type": "block", "phase": "measure", "block": index, "attempt": 0, "ok": True, "order": ["c"]} | more


def test_events_that_a_reader_should_know_of_once_each() -> None:
    told = ("load", "fitness", "fitness-unknown", "no-groups")
    records = [{"type": "event", "what": what, "text": what} for what in (*told, "settled", "load")]
    assert analysis.warnings(header(), records) == ["fitness", "load", "no-groups", "fitness-unknown"]


@pytest.mark.parametrize(("disturbed", "said"), [(1, False), (2, True)])
def test_more_than_a_tenth_of_disturbed_blocks_is_said(disturbed: int, said: bool) -> None:
    records = [block(i, disturbed="load" if i < disturbed else None) for i in range(10)]
    expected = (
        [f"{disturbed} of 10 blocks were disturbed: stolen time; repeat the run on a quieter machine"] if said else []
    )
    assert analysis.warnings(header(), records) == analysis.warnings(header(), [run()] * 20 + records) == expected
    last = [*records[:-1], block(9, disturbed="another program")]
    expected = [f"{disturbed + 1} of 10 blocks were disturbed: another program; repeat the run on a quieter machine"]
    assert analysis.warnings(header(), last) == expected
    assert analysis.warnings(header(), []) == []


def test_failed_blocks_earlier_tries_and_a_changed_checkout_are_said() -> None:
    lost = "t failed twice; the failed blocks were run again, and their records are kept"
    assert analysis.warnings(header(), [FAILED, FAILED]) == [lost]
    tried = analysis.warnings(header(earlier=[{"id": "r0", "verdict": None}], anytime=0.35), [])
    assert len(tried) == 1 and "asked once before: r0 (no verdict)" in tried[0] and "hak runs resume --more" in tried[0]
    (alone,) = analysis.warnings(header(kind="fleet", earlier=[{"id": "r0", "verdict": None}]), [])
    assert alone.endswith("every try is one more chance to be wrong"), "a fleet cannot be prolonged"
    changed = header(git={"dirty": True}, arms=[arm("c"), arm("t", allocator="hakmem")])
    assert analysis.warnings(changed, []) == ["hakmem's checkout had uncommitted changes; commit them"]
    assert analysis.warnings(header(git={"dirty": True}), []) == []
    assert analysis.warnings(changed | {"git": {"dirty": False}}, []) == []
    assert analysis.warnings(changed | {"git": None}, []) == []


def test_what_every_result_begins_with() -> None:
    head = header(earlier=[{"id": "r0", "verdict": "GO"}])
    records = [FAILED, {"type": "event", "what": "more", "until": 20, "settled": True}]
    blocks = [{"c": [run()], "t": [run("t")]}]
    assert analysis.base_result(head, records, blocks) == {
        "kind": "ab", "id": "r1", "question": "?", "verdict": None, "final": False,
        "metric": {"name": "wall", "label": "", "unit": "s", "higher_is_better": False},
        "watched": [], "margin": 0.02, "alpha": 0.04, "blocks": 1,
        "max_blocks": 20, "earlier": [{"id": "r0", "verdict": "GO"}],
        "arms": analysis.arm_rows(head, blocks, WALL), "failures": analysis.failures(records),
        "warnings": analysis.warnings(head, records), "schedule": None,
    }  # fmt: skip
    assert analysis.base_result(header(), [], [])["earlier"] == []


def test_blocks_of_the_measurement_alone_are_measured() -> None:
    records = [run(), block(0), run(phase="select", block=1), block(1, phase="select")]
    assert analysis.measured(records) == [{"c": [records[0]]}]


def test_what_is_compared_is_measured() -> None:
    assert all(analysis.values([run(metrics={name: 1.0})], name) == [1.0] for name in METRICS)
