"""Growth is judged by differences in every kind: a ratio to a side that hardly grows says nothing."""

import numpy as np
import pytest
from tests.analysis.test_results import block_records, header

from hakmem_lab.designs.candidates import sweep
from hakmem_lab.designs.cells import matrix
from hakmem_lab.designs.contrasts import ab, compare
from hakmem_lab.judge import early
from hakmem_lab.judge.analysis import doubling, log_ratios, measured
from hakmem_lab.judge.statistics.plan import SHARE
from hakmem_lab.kinds.tune import search
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.show.report.model import LoadedRun
from hakmem_lab.show.report.series import block_ratios

PEAK_KIB, RUN_S = 90_000, 10.0
ONE_RUN = PEAK_KIB * 3600 / RUN_S  # KiB/h by which memory doubles in one run
AB = {"metric": "growth", "control": "c", "treatment": "t", "looks": 1, "margin": "5%"}
PAIR = ["c", "t"]


def records(growths, count=12, phase="measure", name="growth", noise=0.01, peak_kib=PEAK_KIB):
    """Blocks of sides that grow by so many KiB/h."""
    rng, found = np.random.default_rng(3), []
    for block in range(count):
        order = list(growths) if block % 2 else list(growths)[::-1]
        for record in block_records(block, order, growths, phase=phase):
            if record["type"] == "run":
                own = growths[record["arm"]] * np.exp(rng.normal(0, noise))
                value = own if name == "growth" else RUN_S * np.exp(rng.normal(0, noise))
                record |= {"metrics": {name: value, "growth": own}, "value": value}
                record |= {"wall_s": RUN_S, "rss_peak_kib": peak_kib}
            found.append(record | {"phase": phase})
    return found


def judged(control, treatment, **more):
    return ab.analyse(header("ab", PAIR, **AB | more), records({"c": control, "t": treatment}))


@pytest.mark.parametrize(("control", "treatment"), [(100.0, 10_000.0), (10_000.0, 100.0), (0.001, 1000.0)])
def test_a_hundred_times_next_to_nothing_is_nothing(control, treatment):
    result = judged(control, treatment)
    assert result["verdict"] == "NEUTRAL" and result["comparisons"][0]["estimate"] == pytest.approx(0, abs=0.001)


@pytest.mark.parametrize(("less", "verdict"), [(0.1, "GO"), (-0.1, "NO-GO"), (0.03, "NEUTRAL"), (-0.03, "NEUTRAL")])
def test_the_margin_is_a_share_of_the_memory_of_one_run(less, verdict):
    control = ONE_RUN / 2
    assert judged(control, control - less * 1.5 * ONE_RUN)["verdict"] == verdict


def test_a_change_is_said_as_a_difference_in_a_unit_that_fits():
    result = judged(0.2 * ONE_RUN, 100.0)
    assert result["headline"].startswith("t memory growth 6.") and "GiB/h lower than c [" in result["headline"]
    assert result["metric"]["doubling"] == pytest.approx(ONE_RUN)
    assert result["metric"]["base"] == pytest.approx(1.2 * ONE_RUN, rel=0.02)
    mean = next(row for row in result["comparisons"] if row["metric"] == "mean of growth")
    assert "GiB/h lower" in mean["sentence"]
    assert "within 1.545 GiB/h of c (10" in judged(100.0, 90.0)["headline"]


def test_a_leak_is_said_whatever_its_size():
    worse = judged(100.0, 40 * ONE_RUN)
    assert worse["verdict"] == "NO-GO" and "t memory growth 1.2" in worse["headline"]
    assert "TiB/h higher than c [" in worse["headline"]


def test_of_requests_it_is_a_share_of_what_a_run_of_them_needs():
    result = judged(200.0, 80.0, requests=500_000)  # 180 KiB per 1,000 requests double the memory
    assert result["metric"]["doubling"] == pytest.approx(PEAK_KIB / 500)
    assert "KiB/1,000 requests lower than c" in result["headline"] and result["verdict"] == "GO"


def test_where_the_memory_is_not_known_ratios_are_compared():
    blocks = measured(records({"c": 10.0, "t": 20.0}, peak_kib=None))
    assert doubling(blocks, "c", Metric("growth")) == 0
    assert np.median(log_ratios(blocks, "c", "t", Metric("growth"))) == pytest.approx(-np.log(2), abs=0.02)


def test_only_growth_is_shifted():
    assert doubling(measured(records({"c": 10.0, "t": 20.0})), "c", Metric("wall")) == 0


def test_the_first_block_decides_for_all_of_them():
    blocks = measured(records({"c": ONE_RUN, "t": ONE_RUN / 2}))
    blocks[5] = {name: [run | {"rss_peak_kib": 9 * PEAK_KIB} for run in runs] for name, runs in blocks[5].items()}
    d = log_ratios(blocks, "c", "t", Metric("growth"))
    assert d[:5] == log_ratios(blocks[:5], "c", "t", Metric("growth"))
    assert d == pytest.approx([np.log(2 / 1.5)] * 12, abs=0.03)


def test_a_limit_and_a_further_metric_are_differences_too():
    growths = {"c": 100.0, "t": 0.2 * ONE_RUN}
    limited = ab.analyse(
        header("ab", PAIR, **AB | {"metric": "wall", "guardrails": {"growth": "10%"}}), records(growths, name="wall")
    )
    (rail,) = limited["guardrails"]
    assert rail["status"] == "failed" and rail["estimate"] == pytest.approx(1 / 1.2 - 1, abs=0.01)
    further = ab.analyse(
        header("ab", PAIR, **AB | {"metric": "wall", "also": ["growth"]}), records(growths, name="wall")
    )
    row = next(row for row in further["comparisons"] if row["metric"] == "growth")
    assert "GiB/h higher than c [" in row["sentence"]
    little = ab.analyse(header("ab", PAIR, **AB | {"guardrails": {"growth": "10%"}}), records({"c": 1.0, "t": 50.0}))
    assert [rail["status"] for rail in little["guardrails"]] == ["held"]


def test_many_sides_are_compared_with_the_first_ones_memory():
    spec = {"metric": "growth", "allocators": ["c", "t", "u"], "baseline": "c", "margin": "5%"}
    found = records({"c": 100.0, "t": 900.0, "u": ONE_RUN})
    result = compare.analyse(header("compare", ["c", "t", "u"], **spec), found)
    verdicts = {row["treatment"]: row["verdict"] for row in result["comparisons"] if row["verdict"]}
    assert verdicts == {"t": "NEUTRAL", "u": "NO-GO"}


def test_settings_of_a_matrix_act_on_the_memory_of_one_run():
    cells = ["(none)", "A", "B", "A+B"]
    head = header("matrix", cells, factors={"A": "X=1", "B": "Y=1"}, metric="growth", margin="5%") | {"anytime": SHARE}
    little, much = (
        matrix.analyse(head, records(dict(zip(cells, growths, strict=True)), 24))
        for growths in ((100.0, 1.0, 100.0, 1.0), (ONE_RUN, 10.0, ONE_RUN, 10.0))
    )
    simple = {row["name"]: row["reading"] for row in little["effects"] if row["kind"] == "simple"}
    assert set(simple.values()) == {"the same within the margin"}
    assert {row["reading"] for row in much["effects"] if row["name"].startswith("A while")} == {"better"}
    assert "GiB/h lower" in much["headline"]


def test_a_choice_among_candidates_takes_the_one_that_grows_less_by_amount():
    growths = {"default": 0.5 * ONE_RUN, "a": 0.1 * ONE_RUN, "b": 0.09 * ONE_RUN}
    found = records(growths, phase="select")
    candidates = {"a": "glibc,X=1", "b": "glibc,X=2"}
    spec = {"default": "glibc", "candidates": candidates, "metric": "growth", "select-blocks": 12}
    result = sweep.found(header("sweep", list(growths), **spec), found)
    assert result["selection"]["chosen"] == "b"
    worst = [row["estimate"] for row in result["selection"]["candidates"]]
    assert worst == pytest.approx([1.5 / 1.09 - 1, 1.5 / 1.1 - 1], abs=0.02)
    aim = search.Aim("default", Metric("growth"), {Metric("growth"): 0.0})
    blocks = [dict(each) for each in measured(records(growths))]
    assert search.score(blocks, "a", aim, 0.0).slack == pytest.approx(np.log(1.5 / 1.1), abs=0.02)


def test_a_first_estimate_is_a_difference():
    blocks = measured(records({"c": 0.2 * ONE_RUN, "t": 100.0}, count=4))
    (text,) = early.estimate(header("ab", PAIR, **AB), blocks)
    assert text.startswith("t memory growth 6.") and "GiB/h lower than c in single blocks [" in text


def test_a_picture_has_the_ratios_that_were_judged():
    found = records({"c": 0.5 * ONE_RUN, "t": 100.0})
    head = header("ab", PAIR, **AB)
    result = ab.analyse(head, found)
    run = LoadedRun.from_records([{"type": "header", **head}, *found], result)
    drawn = block_ratios(run, result["comparisons"][0]).log_ratios
    assert list(drawn) == pytest.approx(log_ratios(measured(found), "c", "t", Metric("growth")))
