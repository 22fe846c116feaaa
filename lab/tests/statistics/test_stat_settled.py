"""Sides whose blocks end when an interval is narrow: how often their intervals then miss.

A side is judged against nine others, as in a row of the gallery: the blocks end by the width of one of the nine
intervals, and a row is wrong where any of the nine does not include the true effect, 0.
"""

import math

import numpy as np
import pytest

from hakmem_lab.judge.statistics.paired import Interval
from hakmem_lab.judge.statistics.verdict import EVERY, FIRST, at_once, decide, narrow

ALPHA, WITHIN, SIDES, MOST = 0.05, 0.05, 10, 150


def _two_speeds(rng, shape):
    """A fifth of the runs at another speed."""
    return rng.normal(0, 0.25, shape) + 2.5 * (rng.random(shape) < 0.2)


# Runs with a spread of about 1.
NOISE = {
    "normal": lambda rng, shape: rng.normal(0, 1, shape),
    "heavy tails": lambda rng, shape: rng.standard_t(3, shape) / math.sqrt(3),
    "two speeds": _two_speeds,
    "skewed": lambda rng, shape: rng.exponential(1, shape),
}


def row(logs: np.ndarray) -> tuple[int, list[bool]]:
    """(the number of blocks, which intervals miss) of a row. logs: of each side in each block, the judged one first."""
    d = logs[1:] - logs[0]
    for count in range(FIRST, MOST + 1, EVERY):
        reference = at_once({"reference": d[0, :count]}, WITHIN, ALPHA / len(d))["reference"]
        if narrow([reference.interval], WITHIN):
            break
    found = at_once({str(place): each[:count] for place, each in enumerate(d)}, WITHIN, ALPHA).values()
    return count, [not each.interval.low <= 0 <= each.interval.high for each in found]


@pytest.mark.parametrize("rows", [150, pytest.param(4000, marks=pytest.mark.long)])
@pytest.mark.parametrize(("sides", "rate"), [(SIDES, ALPHA), (2, 0.06)])
@pytest.mark.parametrize("spread", [0.03, 0.05, 0.08])
@pytest.mark.parametrize("noise", NOISE)
def test_all_intervals_of_a_row_hold_at_once_although_a_width_ended_it(noise, spread, sides, rate, rows):
    rng, wrong = np.random.default_rng(12), 0
    for _ in range(rows):
        wrong += any(row(spread * NOISE[noise](rng, (sides, MOST)))[1])
    assert wrong <= rate * rows + 3.1 * math.sqrt(rate * rows)


def test_sides_that_are_judged_at_once_share_alpha():
    d = np.random.default_rng(1).normal(0.02, 0.03, (2, 20))
    found = at_once({"a": d[0], "b": d[1]}, 0.05, 0.1)
    assert found == {"a": decide(d[0], 0.05, 0.05), "b": decide(d[1], 0.05, 0.05)}
    assert at_once({}) == {}


def test_blocks_end_at_a_look_where_all_intervals_are_narrow():
    def interval(below: float, above: float, n: int = 15) -> Interval:
        return Interval(0.0, -below, above, 0.95, n)

    half = math.log1p(WITHIN)
    assert narrow([interval(half, half)], WITHIN) and narrow([interval(half, half, 18)], WITHIN)
    assert not any(narrow([interval(half, half, n)], WITHIN) for n in (12, 14, 16, 17))
    wide = (interval(half, 0.05), interval(0.05, half), interval(math.inf, math.inf))
    assert not any(narrow([interval(half, half), each], WITHIN) for each in wide)
    assert not narrow([], WITHIN)
