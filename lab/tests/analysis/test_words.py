"""Effects in words: words, not signs, give the direction, and the number of digits follows from the interval."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hakmem_lab.judge.digits import places
from hakmem_lab.judge.statistics.paired import as_ratio
from hakmem_lab.judge.words import (
    MULTIPLE_FROM,
    NOTHING,
    change,
    described,
    effect,
    metric_name,
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
    ("metric", "noun"),
    [("cpu", "CPU time"), ("rss", "peak memory"), ("server-rss-mean", "mean memory"), ("faults", "page faults"),
     ("p99.9", "p99.9"), (COST, "time per operation"), (UNIT, "ns (phases)"), (BARE, "phases")],
)  # fmt: skip
def test_an_amount_of_every_size_and_direction(metric, noun):
    found = [effect(metric, *values) for values in (MUCH_WORSE, WORSE, BETTER, MUCH_BETTER)]
    said = ("2.50 × as high [2.38, 2.63]", "25 % higher [18, 33]", "20 % lower [17, 23]", "62 % lower [53, 68]")
    assert found == [f"{noun} {text}" for text in said]


@pytest.mark.parametrize(
    ("metric", "much_worse", "worse", "better", "much_better"),
    [
        ("wall", "2.50 × as long [2.38, 2.63]", "25 % slower [18, 33]", "25 % faster [20, 30]",
         "2.6 × as fast [2.2, 3.1]"),
        (RATE, "operations per second 60 % lower [58, 62]", "operations per second 20 % lower [15, 25]",
         "operations per second 25 % higher [20, 30]", "operations per second 2.6 × as high [2.2, 3.1]"),
        (BARE_RATE, "Throughput 60 % lower [58, 62]", "Throughput 20 % lower [15, 25]",
         "Throughput 25 % higher [20, 30]", "Throughput 2.6 × as high [2.2, 3.1]"),
    ],
)  # fmt: skip
def test_a_speed_of_every_size_and_direction(metric, much_worse, worse, better, much_better):
    found = [effect(metric, *values) for values in (MUCH_WORSE, WORSE, BETTER, MUCH_BETTER)]
    assert found == [much_worse, worse, better, much_better]


@pytest.mark.parametrize(
    ("metric", "values", "wanted"),
    [
        ("wall", (0.031, 0.025, 0.037), "3.1 % faster [2.5, 3.7]"),
        ("rss", (0.43, 0.42, 0.44), "peak memory 30.1 % lower [29.6, 30.6]"),
        ("wall", (0.01, -0.02, 0.03), "undecided [-2, +3] %"),
        (COST, (0.01, -0.02, 0.03), "time per operation undecided [-3, +2] %"),
        (RATE, (0.01, -0.02, 0.03), "operations per second undecided [-2, +3] %"),
        ("wall", (0.0, 0.0, 0.01), "undecided [0, +1.0] %"),
        ("wall", (1.2, -0.1, 4.0), "undecided [0.9, 5.0] ×"),
        ("wall", (-0.5, -0.6, 0.5), "undecided [0.4, 1.5] ×"),
        ("rss", (-0.6, -0.8, 0.1), "peak memory undecided [0.9, 5.0] ×"),
        ("rss", (0.0, 0.0, 0.0), f"peak memory {NOTHING}"),
        ("wall", (0.5, None, None), "about 50.0 % faster, too few blocks for an interval"),
        ("wall", (1.5, None, None), "about 2.5 × as fast, too few blocks for an interval"),
        ("wall", (0.05, -1.0, float("inf")), "about 5.0 % faster, too few blocks for an interval"),
        ("wall", (0.05, 0.01, None), "5.0 % faster [1.0, open]"),
        ("wall", (3.0, 1.5, None), "4.0 × as fast [2.5, open]"),
        ("wall", (-0.2, None, -0.1), "25.0 % slower [11.1, open]"),
        ("rss", (-0.2, None, -0.1), "peak memory 25.0 % higher [11.1, open]"),
        ("wall", (0.05, None, 0.2), "undecided [open, +20.0] %"),
        ("rss", (-0.05, -0.1, None), "peak memory undecided [open, +11.1] %"),
        ("wall", (None, None, None), "unknown"),
    ],
)
def test_what_is_open_or_undecided_is_said(metric, values, wanted):
    assert effect(metric, *values) == wanted


@pytest.mark.parametrize(
    ("metric", "values", "wanted"),
    [
        ("wall", BETTER, "hakmem 25 % faster than glibc [20, 30]"),
        ("wall", WORSE, "hakmem 25 % slower than glibc [18, 33]"),
        ("wall", MUCH_BETTER, "hakmem 2.6 × as fast as glibc [2.2, 3.1]"),
        ("wall", MUCH_WORSE, "hakmem 2.50 × as long as glibc [2.38, 2.63]"),
        ("rss", WORSE, "hakmem peak memory 25 % higher than glibc [18, 33]"),
        ("rss", MUCH_WORSE, "hakmem peak memory 2.50 × as high as glibc [2.38, 2.63]"),
        (RATE, MUCH_BETTER, "hakmem operations per second 2.6 × as high as glibc [2.2, 3.1]"),
        ("wall", (0.01, -0.02, 0.05), "hakmem undecided against glibc [-2, +5] %"),
        ("rss", (0.0, 0.0, 0.0), "hakmem peak memory unchanged against glibc"),
    ],
)
def test_a_sentence_has_side_number_direction_reference_and_interval(metric, values, wanted):
    assert sentence("hakmem", "glibc", change(record(*values), metric)) == wanted


@pytest.mark.parametrize(
    ("values", "wanted"),
    [((0.001, -0.002, 0.004), "t within 1 % of c [-0.2, +0.4] %"),
     ((0.004, 0.002, 0.006), "t within 1 % of c (0.4 % faster [0.2, 0.6])")],
)  # fmt: skip
def test_a_change_inside_the_margin(values, wanted):
    assert sentence("t", "c", change(record(*values), "wall"), "1 %") == wanted


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
    [("wall", "5 % slower"), ("rss", "5 % higher"), (RATE, "4.76 % lower"), ("p99", "5 % higher")],
)
def test_what_a_guardrail_tolerates(metric, wanted):
    assert tolerated(0.05, metric) == wanted


@pytest.mark.parametrize(
    ("metric", "better", "worse"),
    [("wall", "over 1e9 × as fast", "over 1e9 × as long"), ("rss", "100 % lower", "over 1e9 ×"),
     (RATE, "over 1e9 ×", "100 % lower")],
)  # fmt: skip
@pytest.mark.parametrize("log_ratio", [40, 100, 1e4])
def test_a_ratio_of_any_size_has_its_words(metric, better, worse, log_ratio):
    for sign, wanted in ((1, better), (-1, worse)):
        values = [as_ratio(sign * log_ratio * step) for step in (1, 0.9, 1.1)]
        assert all(map(math.isfinite, values))
        told = change(record(values[0], *sorted(values[1:])), metric).told()
        assert told.startswith(wanted) and "inf" not in told
    assert "inf" not in change(record(as_ratio(-log_ratio), -1.0, as_ratio(log_ratio)), metric).told()


def test_both_directions_of_a_comparison_agree():
    """Swapping the arms swaps "faster" and "slower", and turns twice the memory into half of it."""
    there = change(record(0.25, 0.2, 0.3), "wall")
    back = change(record(1 / 1.25 - 1, 1 / 1.3 - 1, 1 / 1.2 - 1), "wall")
    assert there.short.replace("faster", "slower") == back.short
    assert effect("rss", -0.5, -0.51, -0.49).startswith("peak memory 2.0")
    assert effect("rss", 1.0, 0.98, 1.02).startswith("peak memory 50")


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
        assert told.startswith(("undecided", "about", NOTHING))
        return
    # `good` is the word for an improvement: "up" words for speeds and rates, "down" words otherwise.
    good, bad = (how.up, how.down) if how.rises else (how.down, how.up)
    if "×" in found.short:
        assert (found.direction == "as fast" or how.family == "rate") == (found.sure > 0)
        assert float(found.size.removesuffix(" ×")) >= MULTIPLE_FROM - 0.5
    else:
        assert found.direction == (good if found.sure > 0 else bad)
    assert told == f"{found.short} [{found.ends}]"
