"""Effects in words: words, not signs, give the direction, and the number of digits follows from the interval."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hakmem_lab.judge.statistics.paired import as_ratio
from hakmem_lab.judge.words import (
    MULTIPLE_FROM,
    NOTHING,
    change,
    described,
    effect,
    metric_name,
    places,
    sentence,
    short_names,
    style_of,
    tolerated,
)
from hakmem_lab.plan.metrics import Metric, pattern_name

PHASES = r"regex:phases = ([0-9.]+)"
THROUGHPUT = r"regex:Throughput = (\d+)"


def own(label="", unit="", rate=False, name=PHASES):
    return {"name": name, "label": label, "unit": unit, "higher_is_better": rate}


COST, RATE = own("time per operation", "ns"), own("operations per second", rate=True)
BARE, UNIT, BARE_RATE = own(), own(unit="ns"), own(rate=True, name=THROUGHPUT)


def record(estimate, low=None, high=None):
    return {"estimate": estimate, "ci_low": low, "ci_high": high}


# Effects, as (estimate, low, high), from much worse to much better.
MUCH_WORSE, WORSE = (-0.6, -0.62, -0.58), (-0.2, -0.25, -0.15)
BETTER, MUCH_BETTER = (0.25, 0.2, 0.3), (1.5989, 1.15, 2.09)


@pytest.mark.parametrize(
    ("metric", "much_worse", "worse", "better", "much_better"),
    [
        ("wall", "2.50 × as long [2.38, 2.63]", "25 % slower [18, 33]", "25 % faster [20, 30]",
         "2.6 × as fast [2.2, 3.1]"),
        ("cpu", "2.50 × the CPU time [2.38, 2.63]", "25 % more CPU time [18, 33]", "20 % less CPU time [17, 23]",
         "62 % less CPU time [53, 68]"),
        ("rss", "2.50 × the peak memory [2.38, 2.63]", "25 % more peak memory [18, 33]",
         "20 % less peak memory [17, 23]", "62 % less peak memory [53, 68]"),
        ("server-rss-mean", "2.50 × the mean memory [2.38, 2.63]", "25 % more mean memory [18, 33]",
         "20 % less mean memory [17, 23]", "62 % less mean memory [53, 68]"),
        ("faults", "2.50 × the page faults [2.38, 2.63]", "25 % more page faults [18, 33]",
         "20 % fewer page faults [17, 23]", "62 % fewer page faults [53, 68]"),
        ("p99.9", "2.50 × the p99.9 [2.38, 2.63]", "25 % longer p99.9 [18, 33]", "20 % shorter p99.9 [17, 23]",
         "62 % shorter p99.9 [53, 68]"),
        (COST, "2.50 × the time per operation [2.38, 2.63]", "25 % more time per operation [18, 33]",
         "20 % less time per operation [17, 23]", "62 % less time per operation [53, 68]"),
        (RATE, "60 % fewer operations per second [58, 62]", "20 % fewer operations per second [15, 25]",
         "25 % more operations per second [20, 30]", "2.6 × the operations per second [2.2, 3.1]"),
        (UNIT, "2.50 × the ns (phases) [2.38, 2.63]", "25 % more ns (phases) [18, 33]",
         "20 % less ns (phases) [17, 23]", "62 % less ns (phases) [53, 68]"),
        (BARE, "2.50 × the phases [2.38, 2.63]", "25 % higher phases [18, 33]", "20 % lower phases [17, 23]",
         "62 % lower phases [53, 68]"),
        (BARE_RATE, "60 % lower Throughput [58, 62]", "20 % lower Throughput [15, 25]",
         "25 % higher Throughput [20, 30]", "2.6 × the Throughput [2.2, 3.1]"),
    ],
)  # fmt: skip
def test_an_effect_of_every_size_and_direction(metric, much_worse, worse, better, much_better):
    found = [effect(metric, *values) for values in (MUCH_WORSE, WORSE, BETTER, MUCH_BETTER)]
    assert found == [much_worse, worse, better, much_better]


@pytest.mark.parametrize(
    ("metric", "values", "wanted"),
    [
        ("wall", (0.031, 0.025, 0.037), "3.1 % faster [2.5, 3.7]"),
        ("rss", (0.43, 0.42, 0.44), "30.1 % less peak memory [29.6, 30.6]"),
        ("wall", (0.01, -0.02, 0.03), "no difference shown: 2 % slower to 3 % faster"),
        (COST, (0.01, -0.02, 0.03), "no difference shown: 3 % less to 2 % more"),
        (RATE, (0.01, -0.02, 0.03), "no difference shown: 2 % fewer to 3 % more"),
        ("wall", (1.2, -0.1, 4.0), "no difference shown: 11 % slower to 5.0 × as fast"),
        ("rss", (-0.6, -0.8, 0.1), "no difference shown: 9 % less to 5.0 × as much"),
        ("rss", (0.0, 0.0, 0.0), NOTHING),
        ("wall", (0.5, None, None), "about 50.0 % faster, too few blocks for an interval"),
        ("wall", (1.5, None, None), "about 2.5 × as fast, too few blocks for an interval"),
        ("wall", (0.05, -1.0, float("inf")), "about 5.0 % faster, too few blocks for an interval"),
        ("wall", (0.05, 0.01, None), "5.0 % faster [at least 1.0 % faster]"),
        ("wall", (None, None, None), "unknown"),
    ],
)
def test_what_is_open_or_not_shown_is_said(metric, values, wanted):
    assert effect(metric, *values) == wanted


@pytest.mark.parametrize(
    ("metric", "values", "between"),
    [
        ("wall", (0.0211, 0.014, 0.028), "1.4 to 2.8 % faster"),
        ("wall", MUCH_BETTER, "2.2 to 3.1 ×"),
        ("wall", (-0.2, -0.25, -0.1), "11 to 33 % slower"),
        ("rss", (-0.2308, -0.25, -0.2), "25 to 33 % more"),
        ("rss", (-0.6, -0.61, -0.59), "2.44 to 2.56 ×"),
        ("faults", BETTER, "17 to 23 % fewer"),
        ("wall", (0.05, None, 0.2), "at most 20.0 % faster"),
        ("wall", (0.05, -1.0, 0.2), "at most 20.0 % faster"),
        ("wall", (0.05, 0.01, None), "at least 1.0 % faster"),
        ("wall", (0.05, None, None), ""),
        ("wall", (-0.2, None, -0.1), "at least 11.1 % slower"),
        ("wall", (-0.05, -0.1, None), "at most 11.1 % slower"),
        ("rss", (-0.2, None, -0.1), "at least 11.1 % more"),
        ("rss", (-0.05, -0.1, None), "at most 11.1 % more"),
    ],
)
def test_an_interval_in_words(metric, values, between):
    assert change(record(*values), metric).between == between


@pytest.mark.parametrize(
    ("metric", "values", "wanted"),
    [
        ("wall", BETTER, "hakmem is 25 % faster than glibc"),
        ("wall", WORSE, "hakmem is 25 % slower than glibc"),
        ("wall", MUCH_BETTER, "hakmem is 2.6 × as fast as glibc"),
        ("wall", MUCH_WORSE, "hakmem takes 2.50 × as long as glibc"),
        ("rss", WORSE, "hakmem needs 25 % more peak memory than glibc"),
        ("rss", MUCH_WORSE, "hakmem needs 2.50 × the peak memory of glibc"),
        ("cpu", BETTER, "hakmem uses 20 % less CPU time than glibc"),
        ("faults", BETTER, "hakmem causes 20 % fewer page faults than glibc"),
        (COST, WORSE, "hakmem needs 25 % more time per operation than glibc"),
        (RATE, MUCH_BETTER, "hakmem gives 2.6 × the operations per second of glibc"),
        (UNIT, BETTER, "hakmem needs 20 % less ns (phases) than glibc"),
        (BARE, WORSE, "phases is 25 % higher with hakmem than with glibc"),
        (BARE, MUCH_WORSE, "phases is 2.50 × as high with hakmem as with glibc"),
        ("p99", BETTER, "p99 is 20 % shorter with hakmem than with glibc"),
        ("wall", (0.0, -0.01, 0.01), "hakmem does not measurably differ from glibc in time"),
    ],
)
def test_a_sentence(metric, values, wanted):
    found = change(record(*values), metric)
    if metric in (BARE, "p99") and "×" in found.short:
        assert found.short.endswith("as high" if metric == BARE else "as long")
    assert sentence("hakmem", "glibc", found) == wanted


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        (PHASES, "phases"),
        (THROUGHPUT, "Throughput"),
        (r"regex:^Throughput\s*=\s*(\d+)", "Throughput"),
        (r"regex:(\d+) requests in", "requests in"),
        (r"regex:ops/s: ([0-9.]+)", "ops/s"),
        (r"regex:(?P<latency>\d+) us", "latency"),
        (r"regex:mean \(us\): (\d+)", "mean (us)"),
        (r"regex:(?:wall|real) time (\S+)", "time"),
        (r"regex:(\d+)", "printed figure"),
        ("wall", "wall"),
    ],
)
def test_a_pattern_is_named_by_its_plain_text(name, wanted):
    assert pattern_name(name) == wanted
    assert Metric(name).label == wanted


def test_a_label_is_the_name_of_a_metric():
    named = Metric(PHASES, False, "time per operation", "ns")
    assert (named.label, named.unit) == ("time per operation", "ns")
    assert style_of(named.record()).noun == "time per operation"


def test_a_result_says_what_its_metrics_are():
    result = {"metric": COST, "watched": [RATE | {"name": THROUGHPUT}]}
    assert metric_name(result) == "time per operation"
    assert metric_name(result, PHASES) == "time per operation"
    assert metric_name(result, "mean of time per operation") == "mean of time per operation"
    assert metric_name(result, THROUGHPUT) == "operations per second"
    assert metric_name(result, "rss") == "peak memory"
    assert described(result, THROUGHPUT)["higher_is_better"]


@pytest.mark.parametrize(
    ("metric", "wanted"),
    [("wall", "5 % slower"), ("rss", "5 % more"), (COST, "5 % more"), (RATE, "4.76 % fewer"), ("p99", "5 % longer")],
)
def test_what_a_guardrail_tolerates(metric, wanted):
    assert tolerated(0.05, style_of(metric)) == wanted


@pytest.mark.parametrize(
    ("metric", "better", "worse"),
    [("wall", "over 1e9 × as fast", "over 1e9 × as long"), ("rss", "100 % less", "over 1e9 ×"),
     (RATE, "over 1e9 ×", "100 % fewer")],
)  # fmt: skip
@pytest.mark.parametrize("log_ratio", [40, 100, 1e4])
def test_a_ratio_of_any_size_has_its_words(metric, better, worse, log_ratio):
    for sign, wanted in ((1, better), (-1, worse)):
        values = [as_ratio(sign * log_ratio * step) for step in (1, 0.9, 1.1)]
        assert all(map(math.isfinite, values))
        told = change(record(values[0], *sorted(values[1:])), metric).with_interval()
        assert told.startswith(wanted) and "inf" not in told and " at most" not in told
    assert "inf" not in change(record(as_ratio(-log_ratio), -1.0, as_ratio(log_ratio)), metric).with_interval()


def test_both_directions_of_a_comparison_agree():
    """Swapping the arms swaps "faster" and "slower", and turns twice the memory into half of it."""
    there = change(record(0.25, 0.2, 0.3), "wall")
    back = change(record(1 / 1.25 - 1, 1 / 1.3 - 1, 1 / 1.2 - 1), "wall")
    assert there.short.replace("faster", "slower") == back.short
    assert effect("rss", -0.5, -0.51, -0.49).startswith("2.0")
    assert effect("rss", 1.0, 0.98, 1.02).startswith("50")


def test_names_lose_the_allocator_that_all_share():
    pair = ["hakmem,HAKMEM_PROFILE=lean", "hakmem,HAKMEM_PROFILE=speed"]
    assert list(short_names(pair).values()) == ["HAKMEM_PROFILE=lean", "HAKMEM_PROFILE=speed"]
    assert short_names(["hakmem", "hakmem,A=1"]) == {"hakmem": "hakmem", "hakmem,A=1": "hakmem,A=1"}


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [(115, 209, -1), (2.5, 3.7, 1), (1.15, 2.09, 1), (0.98, 1.02, 2), (0.004, 0.96, 3), (5, 5, None),
     (0, float("inf"), None)],
)  # fmt: skip
def test_digits_that_an_interval_supports(low, high, wanted):
    assert places(low, high) == wanted


ENDS = st.floats(-0.999, 1e6).map(lambda value: round(value, 6))
METRICS = st.sampled_from(["wall", "cpu", "rss", "p99", "faults", COST, RATE, UNIT, BARE, BARE_RATE])


@given(st.tuples(ENDS, ENDS, ENDS), METRICS)
def test_words_agree_in_sign_with_the_numbers(three, metric):
    low, middle, high = sorted(three)
    found = change(record(middle, low, high), metric)
    told = found.told()
    assert found.sure == (1 if low > 0 else -1 if high < 0 else 0)
    assert "nan" not in told and "inf" not in told
    how = found.style
    if not found.sure or NOTHING in told:
        assert not found.between or told == NOTHING or told.startswith(("no difference shown", "about"))
        return
    # `good` is the word for an improvement: "up" words for speeds and rates, "down" words otherwise.
    good, bad = (how.up, how.down) if how.speed or how.family == "rate" else (how.down, how.up)
    if "×" in found.short:
        better = found.short.endswith("as fast") or how.family == "rate"
        assert better == (found.sure > 0)
        assert float(found.short.split(" ×")[0]) >= MULTIPLE_FROM - 0.5
    else:
        assert found.short.split()[-1] == (good if found.sure > 0 else bad)
    if found.between and "×" not in found.between:
        assert found.between.split()[-1] == (good if found.sure > 0 else bad)
    assert math.isfinite(middle)
