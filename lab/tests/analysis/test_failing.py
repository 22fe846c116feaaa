"""In every kind of run, an arm that failed more often is called neither better nor equal, if chance does not explain
it."""

import copy
import itertools
import math

import numpy as np
import pytest
from tests.analysis.test_results import AB, ab_records, block_records, header, run_record

from hakmem_lab.designs.cells import matrix
from hakmem_lab.designs.contrasts import ab, compare
from hakmem_lab.judge import explain, failing
from hakmem_lab.judge.statistics.paired import Interval
from hakmem_lab.judge.statistics.verdict import Decision, Verdict
from hakmem_lab.kinds.suite.result import sheet_rows, sheets_of
from hakmem_lab.kinds.suite.spec import SuiteSpec
from hakmem_lab.plan.model import build

PRAISE = ("better", "faster", "within")


def lost(arm: str, count: int, block: int = 3, **more: object) -> list[dict]:
    return [run_record(arm, block, 1.0, attempt=9 + i, ok=False, why=f"w{i}", **more) for i in range(count)]


@pytest.mark.parametrize(
    ("changed", "counts"),
    [
        ({}, True),
        ({"ok": True}, False),
        ({"type": "block"}, False),
        ({"phase": "confirm"}, True),
        ({"phase": "select"}, True),
        ({"phase": "warm-up"}, True),
        ({"phase": "calibrate"}, False),
        ({"arm": "c"}, False),
    ],
)
def test_which_failures_count(changed: dict, counts: bool) -> None:
    record = lost("t", 1)[0] | changed
    assert failing.failed_runs([record], "t") == ([record] if counts else [])


def test_who_failed_more_often_is_named_with_how_it_failed_last() -> None:
    records = [*lost("t", 3), *lost("c", 1)]
    assert failing.unequal(records, "c", "t", 0.05) == failing.Failing("t", "t failed 3 times (w2), c once", False)
    assert failing.unequal(records, "t", "c", 0.05) == failing.unequal(records, "c", "t", 0.05)
    assert failing.unequal([*lost("t", 1), *lost("c", 1)], "c", "t", 0.05) is None
    assert failing.unequal([], "c", "t", 0.05) is None


def fisher(failed: tuple[int, int], runs: tuple[int, int]) -> float:
    """The p-value by definition: of all ways to deal the failures to the runs, those that are as rare or rarer."""
    whole, both = sum(runs), sum(failed)
    ways = {
        k: math.comb(runs[0], k) * math.comb(runs[1], both - k)
        for k in range(max(0, both - runs[1]), min(runs[0], both) + 1)
    }
    return sum(each for each in ways.values() if each <= ways[failed[0]] * (1 + 1e-9)) / math.comb(whole, both)


@pytest.mark.parametrize("failed", [(0, 0), (1, 0), (0, 5), (6, 0), (1, 8), (2, 2), (3, 9)])
def test_rates_of_failures_differ_by_the_exact_test(failed: tuple[int, int]) -> None:
    runs, p = (40, 38), fisher(failed, (40, 38))
    assert failing.differ(failed, runs, p * 1.001) == (failed[0] != failed[1])
    assert not failing.differ(failed, runs, p * 0.999)
    assert not failing.differ((2, 2), (4, 400), 0.05)


RUNS = pytest.mark.parametrize("simulations", [600, pytest.param(3000, marks=pytest.mark.long)])


@RUNS
@pytest.mark.parametrize("rate", [0.02, 0.1, 0.3])
def test_sides_that_fail_equally_often_lose_no_verdict(rate: float, simulations: int) -> None:
    """80 runs a side. Counts alone would withhold GO in 25 % of runs, and NEUTRAL in 56 %."""
    pairs = np.random.default_rng(9).binomial(80, rate, (simulations, 2)).tolist()
    assert sum(failing.differ((a, b), (80, 80), 0.05) for a, b in pairs) <= 0.05 * simulations


@RUNS
def test_a_side_that_fails_in_an_eighth_of_its_runs_is_praised_by_nobody(simulations: int) -> None:
    failed = np.random.default_rng(10).binomial(80, 0.15, simulations).tolist()
    assert sum(failing.differ((0, count), (80, 80), 0.05) for count in failed) > 0.95 * simulations


def test_a_program_that_says_much_as_it_fails_does_not_fill_the_answer() -> None:
    found = failing.unequal([lost("t", 1)[0] | {"why": "exit status 1: " + "much to say " * 40}], "c", "t", 0.05)
    assert found is not None and len(found.text) < 120
    assert found.text.startswith("t failed once (exit status 1: much to say") and found.text.endswith(" …), c never")


def test_failures_count_only_where_both_arms_took_part() -> None:
    """The baseline fails in blocks after the other arm has left. Such failures do not count against the baseline."""
    alone = [*lost("c", 1, 7), *block_records(7, ["c", "other"], {"c": 1.0, "other": 1.0}, attempt=9)]
    assert failing.unequal(alone, "c", "t", 0.05) is None
    assert failing.unequal(alone, "c", "other", 0.05) is not None


@pytest.mark.parametrize(
    ("treatment", "failed", "verdict"),
    [
        (0.8, {"t": 5}, "GO"),
        (0.8, {"t": 6}, "INCONCLUSIVE"),
        (0.8, {"t": 6, "c": 2}, "GO"),
        (0.8, {"t": 1, "c": 9}, "GO"),
        (1.0, {"t": 6}, "INCONCLUSIVE"),
        (1.0, {"c": 6}, "INCONCLUSIVE"),
        (1.0, {"c": 1, "t": 2}, "NEUTRAL"),
        (1.2, {"t": 9}, "NO-GO"),
        (1.2, {"c": 6}, "INCONCLUSIVE"),
    ],
)
def test_an_ab_praises_nobody_who_failed_more_often(treatment: float, failed: dict, verdict: str) -> None:
    records = ab_records(40, treatment=treatment)
    records[:0] = itertools.chain.from_iterable(lost(arm, count) for arm, count in failed.items())
    result = ab.analyse(header("ab", ["c", "t"], **AB | {"max-blocks": 40, "margin": 0.01}), records)
    assert result["verdict"] == result["comparisons"][0]["verdict"] == verdict
    if verdict == "INCONCLUSIVE":
        assert " failed " in result["headline"] and not any(w in result["headline"] for w in PRAISE)
    unequal = len({failed.get(arm, 0) for arm in "ct"}) > 1
    assert any("chance may explain it." in text for text in result["caveats"]) == (
        unequal and verdict != "INCONCLUSIVE" and max(failed.values()) < 9
    )


def test_what_is_withheld_is_withheld_from_another_result() -> None:
    """The caller's result is not changed, since other results may share its rows."""
    given = {"verdict": "GO", "alpha": 0.05, "comparisons": [{"verdict": "GO"}], "looks": [{"verdict": "GO"}]}
    before = copy.deepcopy(given)
    found = failing.withheld(given, [*lost("t", 9), *several(9, c=1.0, t=1.0)], "c", "t")
    assert given == before
    assert [row["verdict"] for row in (found, *found["comparisons"], *found["looks"])] == ["INCONCLUSIVE"] * 3
    assert found["failed"].keys() == {"t"} and found["withheld"].startswith("No verdict: t failed 9 times")


def several(count: int, **walls: float) -> list[dict]:
    names = list(walls)
    blocks = (block_records(i, names[i % len(names) :] + names[: i % len(names)], walls) for i in range(count))
    return list(itertools.chain.from_iterable(blocks))


COMPARED = header("compare", ["c", "crashes", "equal", "fast"], allocators=["c", "crashes", "equal", "fast"])
WALLS = {"c": 1.0, "crashes": 0.8, "equal": 1.0, "fast": 0.9}


def test_a_comparison_of_several_praises_nobody_who_failed_more_often() -> None:
    head = COMPARED | {"anytime": 0.35, "spec": COMPARED["spec"] | {"margin": 0.05, "max-blocks": 20}}
    result = compare.analyse(head, [*lost("crashes", 9), *lost("equal", 9), *lost("fast", 1), *several(20, **WALLS)])
    verdicts = {row["treatment"]: row["verdict"] for row in explain.primary(result)}
    assert verdicts == {"crashes": "INCONCLUSIVE", "equal": "INCONCLUSIVE", "fast": "GO"}
    assert result["answer"].startswith("fast 11")
    for said in (result["answer"], explain.explain(result).headline):
        assert "crashes failed 9 times (w8), c never" in said and "equal failed 9 times (w8), c never" in said
        assert "crashes (" not in said and "crashes 2" not in said and "within" not in said
    assert "fast failed once (w0), c never: chance may explain it." in result["caveats"]
    assert result["settled"] and result["final"]


def test_an_arm_that_is_gone_is_no_open_question() -> None:
    """The arm has left with too few blocks for a verdict, so waiting for more blocks would be in vain."""
    head = COMPARED | {"anytime": 0.35, "spec": COMPARED["spec"] | {"margin": 0.05, "max-blocks": 20}}
    rest = {name: wall for name, wall in WALLS.items() if name != "crashes"}
    left = {"type": "event", "what": "gone", "arm": "crashes", "block": 2, "text": "crashes takes no further part"}
    records = [*several(2, **WALLS), *lost("crashes", 3, 2), left]
    records += [r | {"block": r["block"] + 2} for r in several(18, **rest)]
    result = compare.analyse(head, records)
    assert result["settled"] and result["final"]
    assert "crashes failed 3 times (w2), c never" in result["answer"]
    assert {row["treatment"] for row in explain.primary(result) if row["verdict"] != "INCONCLUSIVE"} == {
        "equal",
        "fast",
    }


def test_an_arm_that_never_finished_a_block_is_said_to_have_failed() -> None:
    head = COMPARED | {"anytime": 0.35, "spec": COMPARED["spec"] | {"margin": 0.05, "max-blocks": 20}}
    rest = {name: wall for name, wall in WALLS.items() if name != "crashes"}
    result = compare.analyse(head, [*lost("crashes", 3, 0), *several(20, **rest)])
    assert "crashes failed 3 times (w2), c never" in result["answer"]
    assert len(explain.primary(result)) == 2


FACTORS = {"base": "glibc", "factors": {"a": "A=1", "b": "B=1"}}
CELLS = ["(none)", "a", "b", "a+b"]


@pytest.mark.parametrize(("a", "reading"), [(0.8, "better"), (1.0, "the same within the margin"), (1.2, "worse")])
def test_a_matrix_reads_no_praise_from_cells_that_failed_more_often(a: float, reading: str) -> None:
    head = header("matrix", CELLS, **FACTORS) | {"anytime": 0.35}
    head["spec"] |= {"margin": 0.05, "max-blocks": 60}
    walls = {"(none)": 1.0, "a": a, "b": 1.0, "a+b": a}
    records = several(60, **walls)
    calm = {row["name"]: row for row in matrix.analyse(head, records)["effects"]}
    result = matrix.analyse(head, [*lost("a", 16), *records])
    found = {row["name"]: row for row in result["effects"]}
    assert calm["a while b is off"]["reading"] == reading and calm["a while b is on"]["reading"] == reading
    assert found["a while b is on"]["reading"] == reading
    if reading == "worse":
        assert found["a while b is off"]["reading"] == "worse"
    else:
        assert found["a while b is off"]["reading"] == "not read, failed more often with it"
        assert "a while b is off: not read, failed more often with it" in result["answer"]
    assert found["a×b"]["reading"] == "not read, its cells failed unequally often"


SUITE = {
    "kind": "suite", "allocators": ["t", "c"], "subject": "t", "reference": "c", "max-blocks": 12,
    "workload": [{"key": "w", "command": ["true"], "memory": False, "bars": [{"against": "c", "at-least": 1.0}]}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("treatment", "failed", "word", "bar"),
    [
        (0.8, {}, "faster", "pass"),
        (0.8, {"t": 1}, "faster", "pass"),
        (0.8, {"t": 7}, "failed", "open"),
        (0.8, {"c": 7}, "faster", "pass"),
        (1.0, {"c": 7}, "failed", None),
        (1.2, {"t": 7}, "slower", "miss"),
        (1.2, {"c": 7}, "failed", "miss"),
    ],
)
def test_a_suite_praises_nobody_who_failed_more_often(treatment: float, failed: dict, word: str, bar: str) -> None:
    records = ab_records(12, treatment=treatment)
    records += itertools.chain.from_iterable(lost(arm, count) for arm, count in failed.items())
    (row,) = sheet_rows(*sheets_of(build(SuiteSpec, SUITE, "test"), [r | {"workload": "w"} for r in records]))
    assert row["arms"]["c"]["word"] == word and ("ratio" in row["arms"]["c"]) == (word != "failed")
    assert bar is None or row["verdict"] == bar
    assert bar != "open" or "t failed 7 times (w6), c never" in row["measured"]


def test_decisions_without_a_failure_stay_as_they_are() -> None:
    made = Decision(Verdict.GO, *2 * (Interval(0.1, 0.05, 0.15, 0.95, 9),), True, "", (), 0.01, (), 0.1, None,
                    False, False, True)  # fmt: skip
    found = {"t": made}
    assert failing.withheld_of(found, [], "c", ["t"], 0.05) == (found, {}) and found == {"t": made}
