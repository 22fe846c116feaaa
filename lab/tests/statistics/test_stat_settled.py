"""A workload that ends when its interval is narrow: how often the interval then misses."""

import math

import numpy as np
import pytest

from hakmem_lab.judge.statistics.paired import simultaneous_intervals
from hakmem_lab.kinds.suite.settle import EVERY, FIRST

TRIALS, MOST = 400, 90
EXCESS = 1.3  # times the misses of an interval after a fixed number of blocks


def missed(draw, comparisons: int) -> int:
    """Of trials without a difference, those whose interval at the end does not include 0."""
    count = 0
    for _ in range(TRIALS):
        d = draw(MOST)
        for blocks in range(FIRST, MOST + 1, EVERY):
            arms = {str(arm): d[:blocks] for arm in range(comparisons)}
            found = simultaneous_intervals(arms, 0.95)["0"]
            half = max(found.high - found.estimate, found.estimate - found.low)
            if math.isfinite(half) and half <= math.log(1.05):
                break
        count += not found.low <= 0 <= found.high
    return count


def allowed(comparisons: int) -> float:
    """So many misses, or fewer, are seen in all but one of a thousand simulations."""
    expected = TRIALS * EXCESS * 0.05 / comparisons
    return expected + 3.1 * math.sqrt(expected)


@pytest.mark.parametrize(("spread", "comparisons"), [(0.06, 1), (0.12, 1), (0.15, 1), (0.1, 9)])
def test_an_early_end_by_width_adds_few_misses(spread, comparisons):
    random = np.random.default_rng(12)
    assert missed(lambda n: random.normal(0, spread, n), comparisons) <= allowed(comparisons)


def test_heavy_tails_add_no_more():
    random = np.random.default_rng(13)
    assert missed(lambda n: 0.06 * random.standard_t(3, n), 1) <= allowed(1)
