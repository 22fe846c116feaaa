"""Effects in words: the direction is said, never left to a sign; digits as the interval supports."""

import pytest

from hakmem_lab.judge.words import effect, places


@pytest.mark.parametrize(
    ("metric", "values", "higher", "wanted"),
    [
        ("wall", (0.031, 0.025, 0.037), False, "3.1 % faster [2.5, 3.7]"),
        ("wall", (1.5989, 1.15, 2.09), False, "2.6 × as fast [2.1, 3.1]"),
        ("wall", (-0.2, -0.25, -0.15), False, "25 % slower [18, 33]"),
        ("wall", (-0.5, -0.52, -0.48), False, "2.00 × the time [1.92, 2.08]"),
        ("rss", (-0.3, -0.32, -0.28), False, "43 % more peak memory [39, 47]"),
        ("rss", (0.43, 0.42, 0.44), False, "30.1 % less peak memory [29.6, 30.6]"),
        ("server-rss-mean", (-0.7, -0.71, -0.69), False, "3.33 × the memory in the mean [3.23, 3.45]"),
        ("faults", (1.0, 0.9, 1.1), False, "50.0 % fewer page faults [47.4, 52.4]"),
        ("cpu", (-0.02, -0.04, -0.01), False, "2.0 % more CPU time [1.0, 4.2]"),
        ("regex:x", (-0.2, -0.3, -0.1), True, "20 % less output [10, 30]"),
        ("regex:x", (1.2, 0.9, 1.6), True, "2.2 × the output [1.9, 2.6]"),
        ("regex:x", (-0.2, -0.3, -0.1), False, "25 % more output [11, 43]"),
        ("wall", (0.001, -0.02, 0.03), False, "no difference shown: 2.0 % slower to 3.0 % faster"),
        ("rss", (0.0, 0.0, 0.0), False, "no difference"),
        ("wall", (0.5, None, None), False, "about 1.5 × as fast, too few blocks for an interval"),
        ("wall", (0.05, -1.0, float("inf")), False, "about 5 % faster, too few blocks for an interval"),
    ],
)
def test_an_effect(metric, values, higher, wanted):
    assert effect(metric, *values, higher) == wanted


def test_both_sides_of_a_cost_say_the_same_thing():
    """Twice the memory of the one is half the memory of the other."""
    assert effect("rss", -0.5, -0.5, -0.49).startswith("2.0")
    assert effect("rss", 1.0, 0.98, 1.0).startswith("50")


@pytest.mark.parametrize(
    ("low", "high", "wanted"),
    [
        (115, 209, 0),
        (2.5, 3.7, 1),
        (1.15, 2.09, 1),
        (0.98, 1.02, 2),
        (99.99, 100.01, 2),
        (5, 5, 1),
        (0, float("inf"), 1),
    ],
)
def test_digits_that_an_interval_supports(low, high, wanted):
    assert places(low, high) == wanted
