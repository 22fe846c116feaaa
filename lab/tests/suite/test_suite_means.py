"""Geometric means over a suite's workloads, guardrails, and the verdict that follows from these and from the bars."""

import math

import numpy as np
import pytest
from suite_factory import RATE, header, runs, spec, workload

from hakmem_lab.kinds.suite.result import analyse, sheet_rows, sheets_of, verdict_of

PAIR = ["hakmem", "glibc"]


def times(ratio: float, **more: float) -> dict:
    """hakmem takes 1 s, glibc `ratio` seconds; other metrics are equal."""
    return {"hakmem": {"wall": 1.0} | more, "glibc": {"wall": ratio} | more}


def suite(*workloads: dict, records: list[dict], **keys) -> dict:
    top = header(spec(*workloads, allocators=PAIR, **keys))
    return analyse(top, [top, *records])


def two(first: float, second: float, blocks: int = 10) -> list[dict]:
    return [*runs("a", times(first), blocks), *runs("b", times(second))]


def test_a_mean_is_that_of_the_ratios_with_an_interval_of_its_rounds():
    (mean,) = suite(workload("a"), workload("b"), records=two(2.0, 0.5))["suite"]["means"]
    assert (mean["group"], mean["what"], mean["workloads"], mean["rounds"]) == (None, "speed", 2, 10)
    glibc = mean["arms"]["glibc"]
    assert glibc["ratio"] == pytest.approx(1.0, rel=0.02)
    assert glibc["ci_low"] < 1 < glibc["ci_high"]
    assert glibc["word"] == "same"
    (fast,) = suite(workload("a"), workload("b"), records=two(2.0, 4.5))["suite"]["means"]
    assert fast["arms"]["glibc"]["ratio"] == pytest.approx(3.0, rel=0.02)
    assert fast["arms"]["glibc"]["word"] == "faster"


def test_every_group_has_its_mean_and_so_have_all():
    rows = [workload(key, group=group) for key, group in (("a", "x"), ("b", "x"), ("c", "y"), ("d", None))]
    records = [record for key, ratio in zip("abcd", (2.0, 2.0, 0.5, 1.0), strict=True)
               for record in runs(key, times(ratio))]  # fmt: skip
    means = suite(*rows, records=records)["suite"]["means"]
    assert [(mean["group"], mean["workloads"]) for mean in means] == [("x", 2), (None, 4)]
    assert means[0]["arms"]["glibc"]["ratio"] == pytest.approx(2.0, rel=0.02)
    assert means[1]["arms"]["glibc"]["ratio"] == pytest.approx(2.0**0.25, rel=0.02)


def test_memory_has_a_mean_of_its_own():
    rows = [workload(key, memory=True) for key in "ab"]
    records = [record for key in "ab" for record in runs(key, times(2.0, rss=100.0))]
    speed, memory = suite(*rows, records=records)["suite"]["means"]
    assert (speed["what"], memory["what"]) == ("speed", "memory")
    assert memory["arms"]["glibc"]["ratio"] == pytest.approx(1.0, rel=0.02)


def test_a_workload_with_too_few_blocks_for_an_interval_does_not_take_the_others_theirs():
    rows = [workload(key) for key in "abc"]
    records = [*two(2.0, 2.0), *runs("c", times(8.0), 2)]
    (mean,) = suite(*rows, records=records)["suite"]["means"]
    assert (mean["workloads"], mean["rounds"]) == (2, 10)
    assert mean["arms"]["glibc"]["ratio"] == pytest.approx(2.0, rel=0.02)


def test_where_all_have_too_few_the_interval_is_open():
    records = [*runs("a", times(2.0), 2), *runs("b", times(2.0), 2)]
    (mean,) = suite(workload("a"), workload("b"), records=records)["suite"]["means"]
    assert mean["arms"]["glibc"]["word"] == "open"
    assert not math.isfinite(mean["arms"]["glibc"]["ci_low"])


def test_one_workload_has_no_mean():
    assert suite(workload("a"), records=runs("a", times(2.0)))["suite"]["means"] == []


@pytest.mark.parametrize(
    ("limit", "verdict", "whole"), [("30%", "pass", "GO"), ("25%", "~", "INCONCLUSIVE"), ("20%", "miss", "NO-GO")]
)
def test_a_guardrail_holds_where_the_whole_interval_keeps_its_limit(limit, verdict, whole):
    """The subject takes 25 % longer than the reference."""
    found = suite(workload("a", guardrails={"wall": limit}), records=runs("a", times(0.8)))
    ratio, rail = found["suite"]["rows"]
    assert ratio["verdict"] is None
    assert rail["metric"] == "guardrail: wall"
    assert rail["verdict"].endswith("~") if verdict == "~" else rail["verdict"] == verdict
    assert found["verdict"] == whole


def test_a_guardrail_of_a_rate_is_read_in_its_own_direction():
    figures = {"hakmem": {"wall": 1.0, RATE: 80.0}, "glibc": {"wall": 1.0, RATE: 100.0}}
    for limit, verdict in (("10%", "miss"), ("40%", "pass")):
        rails = {RATE: {"limit": limit, "higher-is-better": True}}
        _, rail = suite(workload("a", guardrails=rails), records=runs("a", figures))["suite"]["rows"]
        assert (rail["metric"], rail["verdict"]) == ("guardrail: output", verdict)
    bar = {"metric": RATE, "higher-is-better": True, "against": "glibc", "at-least": 0.7}
    _, row = suite(workload("a", bars=[bar]), records=runs("a", figures))["suite"]["rows"]
    assert row["verdict"] == "pass"


def test_the_verdict_comes_with_the_last_block():
    bars = [{"against": "glibc", "at-least": 1.5}]
    found = suite(workload("a", bars=bars), records=runs("a", times(2.0), 9))
    assert (found["final"], found["verdict"]) == (False, None)
    assert suite(workload("a", bars=bars), records=runs("a", times(2.0)))["verdict"] == "GO"
    assert suite(workload("a"), records=runs("a", times(2.0)))["verdict"] is None


def test_bars_that_no_arm_of_this_run_is_for_leave_the_verdict_open():
    bars = [{"against": "mimalloc", "at-least": 1.5}]
    assert suite(workload("a", bars=bars), records=runs("a", times(2.0)))["verdict"] == "INCONCLUSIVE"


def test_the_subject_is_the_first_that_is_not_the_reference():
    def subject(*arms: str, **keys) -> str:
        return spec(workload(), allocators=list(arms), **keys).subject

    assert subject("glibc", "jemalloc", "mimalloc") == "jemalloc"
    assert subject("glibc", "jemalloc", "hakmem") == "hakmem"
    assert subject("jemalloc", "glibc", reference="jemalloc") == "glibc"


@pytest.mark.parametrize(("bars", "whole"), [(1, "NO-GO"), (10, "INCONCLUSIVE")])
def test_a_bar_missed_by_a_little_is_no_no_go_among_many(bars, whole):
    """Each of 8 blocks is a little below the bar: p = 2 / 2^8, which is below 5 % for one bar and above it for ten."""
    low = [{"against": "glibc", "at-least": 0.5}] * (bars - 1)
    rows = [workload("a", bars=[{"against": "glibc", "at-least": 1.02}, *low])]
    found = suite(*rows, records=runs("a", times(1.0), 8), **{"max-blocks": 8})
    assert [row["verdict"] for row in found["suite"]["rows"]] == ["miss", *["pass"] * (bars - 1)]
    assert found["verdict"] == whole
    assert ("chance may miss one of 10 bars" in found["answer"]) == (bars == 10)


@pytest.mark.parametrize("suites", [60, pytest.param(3000, marks=pytest.mark.long)])
def test_a_suite_whose_bars_are_all_exactly_reached_is_rarely_no_go(suites):
    """Ten workloads of 15 blocks, whose true ratio is the bar: with alpha for each, 22 % of the suites were NO-GO."""
    rng, wrong = np.random.default_rng(41), 0
    bars = [{"against": "glibc", "at-least": 1.0}]
    card = spec(*(workload(str(key), bars=bars) for key in range(10)), allocators=PAIR)
    for _ in range(suites):
        sheets = [_blocks(card, row, rng.lognormal(0, 0.03, (15, 2))) for row in card.chosen()]
        records = [record for own in sheets for record in own]
        rows = [row for sheet in sheets_of(card, records) for row in sheet_rows(sheet)]
        wrong += verdict_of(card, rows, records) == "NO-GO"
    assert wrong <= 0.025 * suites + 3.1 * math.sqrt(0.025 * suites)


def _blocks(card, row, figures) -> list[dict]:
    """Records of a workload from (hakmem's time, glibc's) in every block."""
    whole = runs(row.key, times(1.0), len(figures))
    own = iter(figures.ravel())
    for record in whole:
        if record["type"] == "run":
            record["metrics"] = {"wall": float(next(own))}
    return whole
