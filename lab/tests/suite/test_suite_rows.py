"""From records to rows, bars and the headline."""

import math
import re

import pytest
from suite_factory import RATE, counts, header, runs, spec, workload

from hakmem_lab.judge.statistics.verdict import at_once, decide
from hakmem_lab.kinds.suite.result import analyse
from hakmem_lab.kinds.suite.run import block_spec
from hakmem_lab.kinds.suite.sheet import Figure, told
from hakmem_lab.kinds.suite.spec import Places, parse_amount
from hakmem_lab.kinds.syscalls.result import upper_bound
from hakmem_lab.show import figures

SPEEDS = {"hakmem": {RATE: 110.0}, "glibc": {RATE: 200.0}, "mimalloc": {RATE: 100.0}, "jemalloc": {RATE: 80.0}}
TIMES = {"hakmem": {"wall": 1.0}, "glibc": {"wall": 0.5}, "mimalloc": {"wall": 0.8}, "jemalloc": {"wall": 2.0}}


def rate(**keys) -> dict:
    return workload(metric=RATE, **{"higher-is-better": True} | keys)


def card(*workloads: dict, records: list[dict], **keys) -> dict:
    made = spec(*workloads, **keys)
    top = header(made)
    return analyse(top, [top, *records])


def rows(*workloads: dict, records: list[dict], **keys) -> list[dict]:
    return card(*workloads, records=records, **keys)["suite"]["rows"]


def test_a_ratio_above_one_means_that_the_subject_is_better_whatever_the_direction():
    (fast,) = rows(rate(), records=runs("mix", SPEEDS))
    (slow,) = rows(workload(), records=runs("mix", TIMES))
    assert fast["arms"]["mimalloc"]["ratio"] == pytest.approx(1.1, rel=0.02)
    assert slow["arms"]["jemalloc"]["ratio"] == pytest.approx(2.0, rel=0.02)
    assert slow["arms"]["mimalloc"]["ratio"] == pytest.approx(0.8, rel=0.02)
    for entry in (*fast["arms"].values(), *slow["arms"].values()):
        assert entry["ci_low"] < entry["ratio"] < entry["ci_high"]


def growing(*workloads: dict, **kib: float) -> dict:
    """The row of a workload whose sides need 20 MB for 10 s, and grow by so much. kib: of each arm, 9 by default."""
    grown = {arm: {"growth": kib.get(arm, 9.0), "rss": 20_000.0, "wall": 10.0} for arm in TIMES}
    (found,) = rows(workload(metric="growth", **(workloads[0] if workloads else {})), records=runs("mix", grown))
    return found


def test_growth_is_worded_as_memory():
    found = growing()
    assert found["metric"] == "growth" and found["words"] == ("leaner", "larger")
    assert found["unit"] == "KiB/h" and growing({"requests": 50_000})["unit"] == "KiB/1,000 requests"
    assert figures.is_memory(found)


def test_growth_is_compared_by_differences_since_a_side_may_hardly_grow():
    found = growing({"requests": 50_000}, hakmem=0.5, glibc=1.0, mimalloc=0.1, jemalloc=300.0)["arms"]
    assert (found["mimalloc"]["word"], found["glibc"]["word"]) == ("same", "same"), "5 times nothing is nothing"
    assert found["jemalloc"]["word"] == "leaner" and found["jemalloc"]["less"] == pytest.approx(299.5, rel=0.02)
    told = figures.standing(found["jemalloc"], True).told()
    assert re.fullmatch(r"[\d.]+ KiB/1,000 requests lower \[[\d.]+, [\d.]+\]", told)


def test_what_counts_as_no_difference_in_growth_adds_up_to_the_margin_of_the_peak_in_one_run():
    one_run_kib_h = 20_000 * 3600 / 10
    words = {share: growing(hakmem=1.0, glibc=share * one_run_kib_h)["arms"]["glibc"]["word"] for share in (0.04, 0.06)}
    assert words == {0.04: "same", 0.06: "leaner"}
    assert growing(glibc=one_run_kib_h, hakmem=2 * one_run_kib_h)["arms"]["glibc"]["word"] == "larger"
    tree = {arm: {"growth": share * one_run_kib_h, "rss": 20_000.0, "pss": 100_000.0, "wall": 10.0}
            for arm, share in (("glibc", 0.2), ("hakmem", 1e-9))}  # fmt: skip
    (of_all,) = rows(workload(metric="growth"), records=runs("mix", tree), allocators=list(tree))
    assert of_all["arms"]["glibc"]["word"] == "same", "a share of what all processes hold"


def test_growth_is_compared_by_ratios_where_the_peak_is_not_known():
    grown = {arm: {"growth": 18.0 if arm == "hakmem" else 9.0} for arm in TIMES}
    (unknown,) = rows(workload(metric="growth"), records=runs("mix", grown))
    assert {each["word"] for each in unknown["arms"].values()} == {"larger"}
    assert unknown["arms"]["glibc"]["less"] == pytest.approx(-9.0, rel=0.05)


def test_growth_has_no_mean_of_ratios():
    grown = {arm: {"growth": 9.0, "rss": 20_000.0} for arm in TIMES}
    both = [workload(key, metric="growth") for key in ("one", "two")]
    found = card(*both, records=[*runs("one", grown), *runs("two", grown)])["suite"]
    assert found["means"] == [] and found["ratios"] == {}


def test_the_best_peer_is_by_the_median_and_never_the_reference_or_the_subject():
    (fast,) = rows(rate(), records=runs("mix", SPEEDS))
    (slow,) = rows(workload(), records=runs("mix", TIMES))
    assert (fast["best_peer"], slow["best_peer"]) == ("mimalloc", "mimalloc")
    (other,) = rows(rate(), records=runs("mix", SPEEDS), reference="mimalloc")
    assert other["best_peer"] == "glibc"


@pytest.mark.parametrize(
    ("bar", "target", "verdict"),
    [
        ({"against": "best", "at-least": 1.05}, 1.05, "pass"),
        ({"against": "best", "at-least": 1.1}, 1.1, "~"),
        ({"against": "best", "at-least": 1.2}, 1.2, "miss"),
        ({"against": "glibc", "at-least": "50%"}, 0.5, "pass"),
        ({"against": "jemalloc", "at-most": 0.8}, 1.25, "pass"),
        ({"against": "jemalloc", "at-most": 0.7}, 1 / 0.7, "miss"),
    ],
)
def test_a_bar_against_an_arm_is_a_multiple(bar, target, verdict):
    (row,) = rows(rate(bars=[bar]), records=runs("mix", SPEEDS))
    assert row["bar"] == pytest.approx(target)
    assert row["verdict"].endswith("~") if verdict == "~" else row["verdict"] == verdict
    assert row["arms"].keys() == {"glibc", "mimalloc", "jemalloc"}


def test_memory_is_a_row_of_its_own_and_its_bar_is_against_the_leanest():
    figures = {arm: values | {"rss": kib} for (arm, values), kib in
               zip(SPEEDS.items(), (1100, 900, 2000, 1000), strict=True)}  # fmt: skip
    bar = {"metric": "rss", "against": "leanest", "at-most": 1.2}
    speed, memory = rows(rate(memory=True, bars=[bar]), records=runs("mix", figures))
    assert (speed["verdict"], memory["verdict"]) == (None, "pass")
    assert (memory["metric"], memory["best_peer"], memory["unit"]) == ("peak RSS", "jemalloc", "KiB")
    assert memory["bar"] == pytest.approx(1 / 1.2)
    assert memory["medians"]["glibc"] == pytest.approx(900, rel=0.02)


def test_a_further_metric_is_a_row_of_its_own_with_the_ratios_to_all_arms():
    tail = r"regex:p99 (\d+)"
    figures = {arm: values | {tail: ms} for (arm, values), ms in zip(SPEEDS.items(), (4, 2, 8, 4), strict=True)}
    speed, tails = rows(rate(also={"p99": tail}), records=runs("mix", figures))
    assert (speed["metric"], tails["metric"]) == ("speed", "p99")
    assert tails["arms"]["glibc"]["word"] == "slower"
    assert tails["arms"]["mimalloc"]["ratio"] == pytest.approx(2, rel=0.02)
    assert tails["medians"]["jemalloc"] == pytest.approx(4, rel=0.02)


def test_a_bar_on_the_median_itself_and_one_on_a_difference():
    over_bars = {"mimalloc": 0.25, "glibc": "0.3s"}
    (ratio, own, over, short) = rows(
        workload(bars=[{"at-most": "1100ms"}, *({"over": arm, "at-most": s} for arm, s in over_bars.items())]),
        records=runs("mix", TIMES),
    )
    assert ratio["verdict"] is None
    assert (own["verdict"], own["to_reach"], own["bar"], own["arms"]) == ("pass", "<= 1100 ms", None, {})
    assert own["value"] == pytest.approx(1.0, abs=0.01)
    assert (over["verdict"], over["to_reach"]) == ("pass", "<= 250 ms over mimalloc")
    assert over["value"] == pytest.approx(0.2, abs=0.02)
    assert short["verdict"] == "miss"


def test_an_arm_of_one_workload_has_its_own_row_and_is_no_peer():
    figures = SPEEDS | {"limit": {RATE: 120.0}}
    bars = [{"against": "best", "at-least": 1.0}, {"against": "limit", "at-least": 0.8, "title": "limit"}]
    best, limit = rows(rate(arms={"limit": "glibc"}, bars=bars), records=runs("mix", figures))
    assert best["best_peer"] == "mimalloc"
    assert "limit" not in best["arms"]
    assert (limit["metric"], limit["verdict"], list(limit["arms"])) == ("limit", "pass", ["limit"])


def test_system_calls_are_the_difference_of_two_lengths():
    syscalls = {"command": ["/bin/true", "{ops}"], "ops": [1000, 2_001_000], "bars": [{"at-most": 1e-5}]}
    kept = counts("mix", {"hakmem": (500, 500), "glibc": (100, 4100)}, (1000, 2_001_000))
    (row,) = rows(workload(**syscalls), records=kept)
    assert (row["verdict"], row["value"], row["unit"]) == ("pass", 0, "per operation")
    assert row["medians"]["glibc"] == pytest.approx(4000 / 2e6)
    broken = counts("mix", {"hakmem": (500, 600)}, (1000, 2_001_000))
    assert rows(workload(**syscalls), records=broken)[0]["verdict"] == "miss"
    few = counts("mix", {"hakmem": (500, 515)}, (1000, 2_001_000))
    assert rows(workload(**syscalls), records=few)[0]["verdict"] == "pass ~"


@pytest.mark.parametrize("calls", [(500, 500), (500, 515), (520, 500)])
def test_a_rate_of_system_calls_is_estimated_as_hak_syscalls_does(calls):
    """The same counts give the same bound, and the estimate may be negative if the longer run has fewer calls."""
    lengths, events = (1000, 2_001_000), calls[1] - calls[0]
    syscalls = {"command": ["/bin/true", "{ops}"], "ops": list(lengths), "bars": [{"at-most": 1e-5}]}
    found = card(workload(**syscalls), records=counts("mix", {"hakmem": calls}, lengths))
    (row,) = found["suite"]["rows"]
    assert row["value"] == pytest.approx(events / 2e6)
    assert row["ci_high"] == pytest.approx(upper_bound(events, together=max(1, events)) / 2e6)
    assert row["ci_low"] <= row["value"]
    assert found["answer"].startswith("hakmem reaches")


def test_every_arm_against_the_reference():
    (row,) = rows(workload(), records=runs("mix", TIMES), table="reference")
    assert row["arms"].keys() == {"hakmem", "mimalloc", "jemalloc"}
    assert row["arms"]["hakmem"]["ratio"] == pytest.approx(0.5, rel=0.02)
    assert row["arms"]["jemalloc"]["ratio"] == pytest.approx(0.25, rel=0.02)


def test_intervals_are_simultaneous():
    (two,) = rows(workload(), records=runs("mix", {k: TIMES[k] for k in ("hakmem", "glibc")}),
                  allocators=["hakmem", "glibc"])  # fmt: skip
    (four,) = rows(workload(), records=runs("mix", TIMES))
    width = [entry["ci_high"] - entry["ci_low"] for entry in (two["arms"]["glibc"], four["arms"]["glibc"])]
    assert width[0] < width[1]


def test_too_few_blocks_leave_the_interval_open_and_the_verdict_doubtful():
    found = card(rate(bars=[{"against": "best", "at-least": 0.5}]), records=runs("mix", SPEEDS, blocks=3))
    (row,) = found["suite"]["rows"]
    assert row["verdict"] == "pass ~"
    assert not math.isfinite(row["ci_low"])
    assert "open" in row["measured"]
    assert any("too few blocks" in text for text in found["warnings"])


def test_a_block_that_did_not_end_well_does_not_count():
    found = card(rate(), records=runs("mix", SPEEDS, ok=False))
    assert (found["blocks"], found["final"], found["answer"]) == (0, False, "No block was finished.")


def test_what_lies_inside_the_interval_is_open_and_not_reached():
    bars = [{"against": "best", "at-least": 1.1}, {"against": "glibc", "at-least": "50%", "title": "glibc"}]
    found = card(rate(bars=bars), records=runs("mix", SPEEDS))
    assert [row["verdict"][-2:] for row in found["suite"]["rows"]] == [" ~", "ss"]
    assert found["headline"] == "hakmem reaches 1 of 2 bars, 1 undecided"


def test_an_open_interval_reaches_nothing():
    bar = {"against": "best", "at-least": 0.5}
    found = card(rate(bars=[bar]), records=runs("mix", SPEEDS, blocks=3))
    assert found["answer"].startswith("hakmem reaches 0 of 1 bars, 1 undecided")


def unfit(**more) -> dict:
    return {"type": "event", "what": "fitness", "text": "it errs", **more}


def test_an_unfit_machine_reaches_and_misses_nothing():
    bars = [{"against": "best", "at-least": 1.0}, {"against": "glibc", "at-least": 1.0, "title": "glibc"}]
    found = card(rate(bars=bars), records=[unfit(), *runs("mix", SPEEDS)])
    assert [row["verdict"] for row in found["suite"]["rows"]] == ["open", "open"]
    assert found["answer"] == "No verdict on this machine: it errs."
    assert found["warnings"] == ["it errs"]
    assert found["suite"]["rows"][0]["arms"]["mimalloc"]["ratio"] == pytest.approx(1.1, rel=0.02)


def test_a_machine_that_is_unfit_for_one_program_judges_the_others():
    bar = {"against": "best", "at-least": 1.0}
    records = [unfit(workload="mix"), *runs("mix", SPEEDS), *runs("other", SPEEDS)]
    found = card(rate(bars=[bar]), rate(key="other", bars=[bar]), records=records)
    assert [row["verdict"] for row in found["suite"]["rows"]] == ["open", "pass"]
    assert found["answer"].startswith("hakmem reaches 1 of 2 bars, 1 undecided")


def test_a_bar_against_an_allocator_that_was_left_out_is_not_judged():
    (row,) = rows(rate(bars=[{"against": "tcmalloc", "at-least": 1.0}]), records=runs("mix", SPEEDS))
    assert row["verdict"] is None


def test_without_bars_the_headline_says_how_often_the_subject_is_better_than_the_reference():
    found = card(workload(), records=runs("mix", TIMES))
    assert found["answer"].startswith("Measures on which hakmem is better and worse: glibc 0 and 1 of ")


@pytest.mark.parametrize(
    ("effect", "spread", "word"),
    [
        (0.1, 0.05, "faster"),
        (-0.1, 0.05, "slower"),
        (0.0, 0.05, "same"),
        (0.03, 0.02, "same"),
        (0.04, 0.05, "faster"),  # surely not 0, and perhaps beyond the margin
        (0.0, 0.18, "same"),  # by the narrower interval
        (0.1, 0.5, "open"),
    ],
)
def test_a_cell_says_what_is_certain(effect, spread, word):
    d = [effect + spread * place / 10 for place in range(-10, 11)]
    (decision,) = at_once({"arm": d}, margin=0.05).values()
    assert decision == decide(d, margin=0.05)
    cell = told(decision, ("faster", "slower"), unfit=False)
    assert cell["word"] == word
    assert told(decision, ("faster", "slower"), unfit=True)["word"] == "open"
    if word == "same":
        assert 1 / 1.05 < min(cell["ratio"], cell["equivalence_low"]) <= cell["equivalence_high"] < 1.05


@pytest.mark.parametrize(
    ("figure", "verdict"),
    [
        (Figure(1.1, 1.05, 1.2), "pass"),
        (Figure(1.1, 0.9, 1.2), "pass ~"),
        (Figure(0.95, 0.9, 1.2), "miss ~"),
        (Figure(0.9, 0.8, 0.99), "miss"),
        (Figure(1.1, -math.inf, math.inf), "pass ~"),
    ],
)
def test_the_tilde_says_that_the_bar_lies_inside_the_interval(figure, verdict):
    assert figure.reaches(1.0, at_least=True) == verdict


@pytest.mark.parametrize(("text", "value"), [("0.3ms", 3e-4), ("1 MiB", 1024), ("50%", 0.5), (2, 2), ("1e-8", 1e-8)])
def test_amounts_are_in_the_unit_of_the_metric(text, value):
    assert parse_amount(text) == pytest.approx(value)


@pytest.mark.parametrize(
    ("figure", "unit", "wanted"),
    [
        ((1.2, 1.1, 1.3, "faster"), "s", "20 % faster\n[10, 30] %"),
        ((0.8, 0.75, 0.85, "slower"), "op/s", "25 % slower\n[18, 33] %"),
        ((1.25, 1.2, 1.3, "leaner"), "KiB", "20 % lower\n[17, 23] %"),
        ((0.5, 0.4, 0.6, "larger"), "KiB", "2.0 × as high\n[1.7, 2.5] ×"),
        ((1.02, 0.97, 1.08, "open"), "s", "undecided\n[-3, +8] %"),
        ((1.01, 0.99, 1.02, "same"), "s", "same\n[-1.0, +2.0] %"),
        ((1.0, 1.0, 1.0, "same"), "KiB", "same"),
        ((1.2, None, None, "open"), "s", "about 20.0 % faster\nno interval yet"),
    ],
)
def test_a_cell_of_the_terminal_says_it_in_the_words_of_all_kinds(figure, unit, wanted):
    from hakmem_lab.show.kinds.suite import _cell

    record = dict(zip(("ratio", "ci_low", "ci_high", "word"), figure, strict=True))
    assert _cell(record, {"unit": unit}) == wanted
    assert _cell(None, {"unit": unit}) == "-"


def test_the_commands_of_a_row_may_lie_beside_the_suite(tmp_path):
    for name in ("program", "check", "server"):
        (tmp_path / name).touch()
    line = "./program " + 300 * "x"  # a script for a shell, too long for the name of a file
    row = workload(command=["./program", "-c", line], check=["./check", "-q"], server={"command": ["./server"]})
    found = block_spec(spec(row), spec(row).workload[0], Places.of(str(tmp_path / "suite.toml")))
    assert found.command == [str(tmp_path / "program"), "-c", line]
    assert found.check == [str(tmp_path / "check"), "-q"]
    assert found.server.command == [str(tmp_path / "server")]
