"""A change in words: a direction instead of a sign, digits that the interval supports, nothing that misleads."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hakmem_lab.show.report import numbers, words


def record(estimate: float | None, low: float | None, high: float | None) -> dict:
    return {"estimate": estimate, "ci_low": low, "ci_high": high}


def spaced(text: str) -> str:
    return text.replace(numbers.THIN, " ").replace(numbers.JOIN, " ")


@pytest.mark.parametrize(
    ("metric", "numbers_of", "text", "between", "sure"),
    [
        ("wall", (0.0211, 0.014, 0.028), "2.1 % faster", "1.4 to 2.8 % faster", 1),
        ("wall", (1.5989, 1.15, 2.09), "2.6 × as fast", "2.2 to 3.1 ×", 1),
        ("wall", (-0.6, -0.7, -0.5), "2.5 × as long", "2.0 to 3.3 ×", -1),
        ("wall", (-0.2, -0.25, -0.1), "25 % slower", "11 to 33 % slower", -1),
        ("wall", (0.01, -0.02, 0.03), "1 % faster", "2 % slower to 3 % faster", 0),
        ("rss", (-0.2308, -0.25, -0.2), "30 % more peak memory", "25 to 33 % more", -1),
        ("rss", (0.3, 0.25, 0.33), "23 % less peak memory", "20 to 25 % less", 1),
        ("rss", (-0.6, -0.61, -0.59), "2.50 × the peak memory", "2.44 to 2.56 ×", -1),
        ("server-rss-mean", (-0.5, -0.52, -0.48), "2.00 × the mean memory", "1.92 to 2.08 ×", -1),
        ("cpu", (-0.1, -0.12, -0.08), "11 % more CPU time", "9 to 14 % more", -1),
        ("faults", (0.25, 0.2, 0.3), "20 % fewer page faults", "17 to 23 % fewer", 1),
        ("p99.9", (0.5, 0.4, 0.6), "33 % lower", "29 to 38 % lower", 1),
    ],
)
def test_a_change_has_a_direction_and_a_noun(
    metric: str, numbers_of: tuple, text: str, between: str, sure: int
) -> None:
    found = words.change(record(*numbers_of), metric)
    assert (spaced(found.text), spaced(found.between), found.sure) == (text, between, sure)


def test_a_rate_that_is_higher_is_better_is_said_as_higher() -> None:
    found = words.change(record(0.1, 0.05, 0.15), r"regex:Throughput = (\d+)", higher_is_better=True)
    assert spaced(words.sentence("hakmem", "glibc", found)) == "Throughput is 10 % higher with hakmem than with glibc"


def test_more_memory_is_never_said_with_a_minus_sign() -> None:
    found = words.change(record(-0.3, -0.35, -0.25), "rss")
    assert spaced(found.with_interval()) == "43 % more [33 to 54 % more]"
    assert numbers.MINUS not in found.with_interval()


def test_open_ends_are_said() -> None:
    assert spaced(words.change(record(0.05, None, 0.2), "wall").between) == "at most 20.0 % faster"
    assert spaced(words.change(record(0.05, -1.0, 0.2), "wall").between) == "at most 20.0 % faster"
    assert spaced(words.change(record(0.05, 0.01, None), "wall").between) == "at least 1.0 % faster"
    assert words.change(record(0.05, None, None), "wall").between == ""
    assert words.change(record(None, None, None), "wall") is None


def test_digits_are_those_that_the_interval_supports() -> None:
    assert spaced(numbers.estimate(record(1.5989, 1.15, 2.09))) == "+160 % [+120 %, +210 %]"
    assert spaced(numbers.estimate(record(0.0437, 0.0414, 0.0471))) == "+4.4 % [+4.1 %, +4.7 %]"
    assert spaced(numbers.between(11450.4, 11440, 11461, "")) == "11 450 [11 440, 11 461]"
    assert spaced(numbers.between(0.1123, 0.1118, 0.1129, "s")) == "112.3 ms [111.8, 112.9]"
    assert spaced(numbers.between(11450, 11450, 11450, "")) == "11 450 [11 450, 11 450]"
    assert spaced(numbers.between(41000, None, 41100, "KiB")) == "40.0 MiB"


def test_an_end_that_is_not_zero_is_not_shown_as_zero() -> None:
    """An interval that leaves out no change must be seen to leave it out."""
    assert spaced(numbers.interval(0.00004, 0.0096)) == "[+0.004 %, +0.960 %]"


def test_both_directions_of_a_comparison_agree() -> None:
    """What one arm is faster the other is slower by."""
    there = words.change(record(0.25, 0.2, 0.3), "wall")
    back = words.change(record(1 / 1.25 - 1, 1 / 1.3 - 1, 1 / 1.2 - 1), "wall")
    assert there.short.replace("faster", "slower") == back.short


def test_names_lose_the_allocator_that_all_share() -> None:
    pair = ["hakmem,HAKMEM_PROFILE=lean", "hakmem,HAKMEM_PROFILE=speed"]
    assert list(words.short_names(pair).values()) == ["HAKMEM_PROFILE=lean", "HAKMEM_PROFILE=speed"]
    assert words.short_names(["hakmem", "hakmem,A=1"]) == {"hakmem": "hakmem", "hakmem,A=1": "hakmem,A=1"}


ENDS = st.floats(-0.999, 1e6)


@given(st.tuples(ENDS, ENDS, ENDS), st.sampled_from(["wall", "rss", "p99", "faults", "regex:x (.)"]), st.booleans())
def test_words_never_contradict_the_interval(three: tuple, metric: str, higher: bool) -> None:
    low, middle, high = sorted(three)
    found = words.change(record(middle, low, high), metric, higher)
    assert found.sure == (1 if low > 0 else -1 if high < 0 else 0)
    assert "nan" not in found.with_interval()
    assert "inf" not in found.with_interval()
    if metric == "rss" and found.sure and words.NOTHING not in found.text:
        more = "more" in found.text or "×" in found.text
        assert more == (found.sure < 0)
    assert math.isfinite(middle)
