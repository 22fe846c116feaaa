"""Results of each kind from made-up records, so that every figure is known."""

import itertools
import re

import numpy as np
import pytest

from hakmem_lab.designs.candidates import sweep
from hakmem_lab.designs.cells import matrix
from hakmem_lab.designs.contrasts import ab, compare
from hakmem_lab.designs.itself import AaSpec
from hakmem_lab.errors import LabError
from hakmem_lab.judge.statistics.plan import SHARE
from hakmem_lab.plan import spec as specs
from hakmem_lab.show import formats
from hakmem_lab.show.report.model import LoadedRun
from hakmem_lab.show.report.series import values_by_arm
from hakmem_lab.store.query import finished_blocks

USED = {"wall_s": 1.0, "cpu_s": 0.9, "rss_peak_kib": 5000, "rss_mean_kib": 4000.0, "minor_faults": 7, "major_faults": 0}


def header(kind: str, arms: list[str], **keys: object) -> dict:
    given = {"kind": kind, "command": ["true"], "max-blocks": 12} | keys
    models = {"ab": specs.AbSpec, "compare": specs.CompareSpec, "matrix": specs.MatrixSpec, "sweep": specs.SweepSpec}
    model = models[kind]
    spec = specs.build(model, given, "test")
    rows = [
        dict.fromkeys(("library", "sha256", "version", "configuration")) | {"name": n, "variables": {}} for n in arms
    ]
    rows = [row | {"allocator": "glibc"} for row in rows]
    return {"kind": kind, "id": "run", "question": "", "spec": specs.normalised(spec), "arms": rows, "git": None,
            "anytime": SHARE}  # fmt: skip


def run_record(arm: str, block: int, value: float, position: int = 0, attempt: int = 0, **more: object) -> dict:
    key = {"type": "run", "phase": "measure", "block": block, "attempt": attempt, "position": position, "arm": arm}
    measures = USED | {"wall_s": value}
    return key | measures | {"ok": True, "why": None, "value": value, "metrics": {"wall": value}} | more


def block_records(
    block: int, order: list[str], values: dict[str, float], attempt: int = 0, **more: object
) -> list[dict]:
    """A finished block. Repetitions of an arm differ a little, so that no values are tied."""
    runs = [
        run_record(arm, block, values[arm] * (1 + 1e-4 * ((7 * block + 3 * place) % 11)), place, attempt, **more)
        for place, arm in enumerate(order)
    ]
    close = {"type": "block", "phase": "measure", "block": block, "attempt": attempt, "ok": True, "why": None}
    return [*runs, close | {"order": order}]


def ab_records(count: int, control: float = 1.0, treatment: float = 0.8) -> list[dict]:
    blocks = (block_records(i, ["c", "t", "t", "c"], {"c": control, "t": treatment}) for i in range(count))
    return list(itertools.chain.from_iterable(blocks))


AB = {"control": "c", "treatment": "t", "looks": 1}


def test_a_comma_that_may_be_a_decimal_point_is_said_once() -> None:
    records = [record | {"thousands": {r"regex:ops (\d+)": 1234.0 + record["block"]}} for record in ab_records(12)]
    (text,) = ab.analyse(header("ab", ["c", "t"], **AB), records)["warnings"]
    assert text.startswith("ops: the program prints 1,234, read as 1234; if the comma is a decimal point")


def test_a_treatment_that_is_faster_is_go() -> None:
    result = ab.analyse(header("ab", ["c", "t"], **AB), ab_records(12))
    assert result["verdict"] == "GO"
    assert result["comparisons"][0]["estimate"] == pytest.approx(0.25, abs=0.01)


def test_every_comparison_of_an_ab_has_the_level_of_its_look() -> None:
    result = ab.analyse(header("ab", ["c", "t"], **AB | {"looks": 3}), ab_records(12))
    assert len({row["level"] for row in result["comparisons"]}) == 1


def test_of_a_server_and_its_client_the_server_is_the_arm() -> None:
    server = {"cpu_s": 0.5, "rss_peak_kib": 90_000, "rss_mean_kib": 80_000.0}
    blocks = (block_records(i, ["c", "t", "t", "c"], {"c": 1.0, "t": 0.8}, server=server) for i in range(12))
    records = list(itertools.chain.from_iterable(blocks))
    keys = AB | {"server": {"command": ["true"]}}
    result = ab.analyse(header("ab", ["c", "t"], **keys), records)
    assert [arm["rss_peak_kib"] for arm in result["arms"]] == [90_000, 90_000]
    assert {row["metric"] for row in result["comparisons"]} == {"wall", "mean of wall", "cpu", "rss", "rss-mean"}


def test_faults_are_not_a_metric_of_a_server() -> None:
    with pytest.raises(LabError, match="faults"):
        header("ab", ["c", "t"], **AB, metric="faults", server={"command": ["true"]})


def test_a_matrix_reads_nothing_from_too_few_blocks_and_nothing_on_an_unfit_machine() -> None:
    order = ["(none)", "A", "B", "A+B"]
    cells = {"(none)": 1.0, "A": 0.9, "B": 0.9, "A+B": 0.6}
    blocks = [block_records(i, order, cells) for i in range(12)]
    head = header("matrix", order, factors={"A": "X=1", "B": "Y=1"})
    some = matrix.analyse(head, list(itertools.chain.from_iterable(blocks[:8])))
    assert some["effects"] == []
    records = list(itertools.chain.from_iterable(blocks))
    full = matrix.analyse(head, records)
    assert [row["reading"] for row in full["effects"] if row["kind"] == "interaction"] == ["super-additive"]
    unfit = matrix.analyse(head, [*records, {"type": "event", "what": "fitness", "text": "too noisy"}])
    assert all(row["reading"] is None for row in unfit["effects"])
    assert "too noisy" in unfit["answer"]


CELLS = ["(none)", "A", "B", "A+B"]


def matrix_records(cells: dict[str, float], drift: float = 0.0, **measures: dict[str, object]) -> list[dict]:
    """Twelve blocks in rotating order. drift: by how much values grow from one place in a block to the next."""
    found = []
    for block in range(12):
        order = [CELLS[(place + block) % 4] for place in range(4)]
        values = {name: cells[name] * (1 + drift) ** place for place, name in enumerate(order)}
        records = block_records(block, order, values)
        found += [record | measures.get(record.get("arm"), {}) for record in records]
    return found


def test_a_matrix_leads_with_what_a_factor_does_at_each_level() -> None:
    """Either factor alone makes the program slower; both together do not. Averages over the levels would hide this."""
    head = header("matrix", CELLS, factors={"A": "X=1", "B": "Y=1"})
    result = matrix.analyse(head, matrix_records({"(none)": 1.0, "A": 1.5, "B": 1.5, "A+B": 1.0}))
    kinds = [row["kind"] for row in result["effects"]]
    assert kinds == ["simple"] * 4 + ["combined", "interaction"]
    sizes = {row["name"]: (row["estimate"], row["reading"]) for row in result["effects"]}
    assert sizes["A while B is off"] == (pytest.approx(-1 / 3, abs=0.01), "worse")
    assert sizes["A while B is on"] == (pytest.approx(0.5, abs=0.01), "better")
    assert sizes["A+B"] == (pytest.approx(0.0, abs=0.01), "the same within the margin")
    assert [row["name"] for row in result["hidden"]] == ["A", "B"]
    assert [t for t in result["warnings"] if "main effects of A and B are left out" in t and "(A×B: 2.2" in t]
    assert (
        result["answer"].startswith("The settings depend on each other. A while B is off: 50.")
        and "super-additive" in result["answer"]
    )


def test_a_matrix_without_an_interaction_shows_its_main_effects_last() -> None:
    head = header("matrix", CELLS, factors={"A": "X=1", "B": "Y=1"})
    result = matrix.analyse(head, matrix_records({"(none)": 1.0, "A": 0.8, "B": 1.0, "A+B": 0.8}))
    assert result["hidden"] == [] and result["warnings"] == []
    assert [row["kind"] for row in result["effects"]][-3:] == ["interaction", "main", "main"]


def test_a_drift_within_blocks_is_taken_out_of_a_matrix_and_said() -> None:
    head = header("matrix", CELLS, factors={"A": "X=1", "B": "Y=1"})
    cells = {"(none)": 1.0, "A": 0.8, "B": 1.0, "A+B": 0.8}
    still, drifting = (matrix.analyse(head, matrix_records(cells, drift)) for drift in (0.0, 0.02))
    for before, after in zip(still["effects"], drifting["effects"], strict=True):
        assert after["estimate"] == pytest.approx(before["estimate"], abs=2e-3)
    assert any("last run of a block was" in text and "worse than the first" in text for text in drifting["warnings"])


@pytest.mark.parametrize(("peak", "status"), [(5000, "held"), (5250, "held"), (6000, "failed")])
def test_guardrails_of_a_matrix_watch_every_cell(peak: int, status: str) -> None:
    head = header("matrix", CELLS, factors={"A": "X=1", "B": "Y=1"}, guardrails={"rss": "10%"})
    records = matrix_records(dict.fromkeys(CELLS, 1.0), **{"A+B": {"rss_peak_kib": peak}})
    found = {row["arm"]: row["status"] for row in matrix.analyse(head, records)["guardrails"]}
    assert found == {"A": "held", "B": "held", "A+B": status}


def phased(records: list[dict], phase: str) -> list[dict]:
    return [record | {"phase": phase} for record in records]


def test_a_sweep_has_one_median_an_arm_wherever_it_is_shown() -> None:
    """The machine becomes slower before the confirmation. A median over both phases would contradict both."""
    names = ["default", "slow", "fast"]
    head = header("sweep", names, default="d", candidates={"slow": "s", "fast": "f"}, looks=1, **{"select-blocks": 4})
    records = []
    for block in range(4):
        records += phased(block_records(block, names, {"default": 1.0, "slow": 1.2, "fast": 0.8}), "select")
    for block in range(12):
        order = ["default", "fast", "fast", "default"]
        records += phased(block_records(block, order, {"default": 2.0, "fast": 1.6}), "confirm")
    result = sweep.analyse(head, records)
    assert result["selection"]["chosen"] == "fast" and result["verdict"] == "GO"
    drawn = values_by_arm(LoadedRun.from_records([head | {"type": "header"}, *records], result))
    shown = {arm["name"]: (arm["n"], arm["median"]) for arm in result["arms"]}
    assert {name: (len(values), np.median(values)) for name, values in drawn.items()} == shown
    assert shown["fast"] == (4, pytest.approx(0.8, abs=0.01))


@pytest.mark.parametrize("kind", ["process", "server"])
def test_a_mean_is_never_shown_above_its_peak(kind: str) -> None:
    """The kernel's peak may lag behind and be lower than a sample."""
    used = {"rss_peak_kib": 2000, "rss_mean_kib": 2100.5}
    more = used if kind == "process" else {"server": used | {"cpu_s": 0.5}}
    blocks = (block_records(i, ["c", "t", "t", "c"], {"c": 1.0, "t": 0.8}, **more) for i in range(12))
    for arm in ab.analyse(header("ab", ["c", "t"], **AB), list(itertools.chain.from_iterable(blocks)))["arms"]:
        assert (arm["rss_mean_kib"], arm["rss_peak_kib"]) == (2100.5, 2101)


def test_a_median_of_some_runs_is_not_put_beside_those_of_all() -> None:
    """Only the longest runs were sampled, so the mean of these must not appear beside the peaks of all runs."""
    records = ab_records(12)
    for record in records:
        if record["type"] == "run" and record["block"] > 0:
            record["rss_mean_kib"] = None
    arm = ab.analyse(header("ab", ["c", "t"], **AB), records)["arms"][0]
    assert arm["rss_mean_kib"] is None and arm["rss_peak_kib"] == 5000


def test_a_block_of_which_a_run_cannot_be_read_does_not_count() -> None:
    whole, torn = (
        block_records(0, ["c", "t", "t", "c"], {"c": 1.0, "t": 0.8}),
        block_records(1, ["c", "t", "t", "c"], {"c": 1.0, "t": 0.8}),
    )
    del torn[2]
    assert len(finished_blocks([*whole, *torn], "measure")) == 1


def test_guardrails_are_refused_where_nothing_is_compared() -> None:
    with pytest.raises(LabError, match="an A/A has no guardrails"):
        specs.build(AaSpec, {"command": "true", "guardrails": {"rss": "5%"}}, "test")


WORSE = {"cpu_s": 1.8, "rss_peak_kib": 9000, "rss_mean_kib": 8000.0, "minor_faults": 70}


@pytest.mark.parametrize("metric", ["cpu", "rss", "rss-mean", "faults"])
def test_a_comparison_is_held_to_whatever_is_measured(metric: str) -> None:
    order = ["a", "b", "c"]
    records = []
    for block in range(12):
        found = block_records(block, order, {"a": 1.0, "b": 0.8, "c": 0.8})
        records += [record | (WORSE if record.get("arm") == "c" else {}) for record in found]
    head = header("compare", order, allocators=order, baseline="a", guardrails={metric: "10%"})
    result = compare.analyse(head, records)
    assert {row["arm"]: row["status"] for row in result["guardrails"]} == {"b": "held", "c": "failed"}
    primary = {row["treatment"]: row["verdict"] for row in result["comparisons"] if row["metric"] == "wall"}
    assert primary == {"b": "GO", "c": "NO-GO"}
    assert re.search(r"c 24.99 % faster than a \[.*\], but .* breaks the limit of 10 % higher", result["answer"])


def test_a_guardrail_whose_interval_holds_its_limit_is_open() -> None:
    order = ["a", "b"]
    records = []
    for block in range(12):
        found = block_records(block, ["a", "b", "b", "a"], {"a": 1.0, "b": 0.8})
        peak = 5000 * (1.0 if block % 3 else 1.3)
        records += [record | ({"rss_peak_kib": peak} if record.get("arm") == "b" else {}) for record in found]
    head = header("compare", order, allocators=order, baseline="a", guardrails={"rss": "10%"})
    result = compare.analyse(head, records)
    (rail,) = result["guardrails"]
    tolerated = 1 / 1.1 - 1
    assert rail["ci_low"] < tolerated < rail["ci_high"] and rail["status"] == "open"
    assert (
        result["verdict"] == "INCONCLUSIVE" and "Whether peak memory keeps the limit of 10 % higher" in result["answer"]
    )


def test_a_factor_is_a_setting() -> None:
    with pytest.raises(LabError, match="is no setting"):
        header("matrix", ["a", "b"], factors={"A": "X=1", "B": "Y"})


def test_no_result_holds_a_second_answer_beside_its_interval() -> None:
    """Results have no p-value: computed by another rule than the interval, it contradicted 39 of 179 GOs."""
    order = ["(none)", "A", "B", "A+B"]
    blocks = [block_records(i, order, {"(none)": 1.0, "A": 0.9, "B": 0.9, "A+B": 0.6}) for i in range(12)]
    records = list(itertools.chain.from_iterable(blocks))
    found = [ab.analyse(header("ab", ["c", "t"], **AB), ab_records(12)), compare.analyse(
        header("compare", order, allocators=order), records), matrix.analyse(
        header("matrix", order, factors={"A": "X=1", "B": "Y=1"}), records)]  # fmt: skip
    rows = [row for result in found for key in ("comparisons", "effects", "looks") for row in result.get(key) or []]
    assert len(rows) > 20 and not any("p" in row for row in (*rows, *map(formats.summary, found)))


def test_a_headline_names_what_gets_worse() -> None:
    names = ["c", "fast", "lean"]
    head = header("compare", names, allocators=names) | {"anytime": 0.35}
    records = []
    for i in range(12):
        records += block_records(i, names[i % 3 :] + names[: i % 3], {"c": 1.0, "fast": 0.8, "lean": 0.8})
    for record in records:
        if record.get("arm") == "fast":
            record["rss_peak_kib"] = 9150
    result = compare.analyse(head, records)
    assert "fast 25.01 % faster than c [24.95, 25.07], peak memory 83.0 % higher" in result["answer"]
    assert re.search(r"lean [^;]*\]$", result["headline"])


@pytest.mark.parametrize(("peak", "mean"), [(9000, 4000.0), (400_000, None)])
def test_the_figures_of_a_row_are_of_one_set_of_processes(peak: int, mean: float | None) -> None:
    """The peak is of a compiler with 400 MB, the mean of its driver with 4 MB: such a mean is left out."""
    records = ab_records(12)
    for record in records:
        if record["type"] == "run":
            record |= {"rss_peak_kib": peak, "rss_series": [(0, 3000), (500, 4200)]}
    result = ab.analyse(header("ab", ["c", "t"], **AB), records)
    assert [arm["rss_mean_kib"] for arm in result["arms"]] == [mean, mean]
    assert ("rss-mean" in {row["metric"] for row in result["comparisons"]}) == (mean is not None)
