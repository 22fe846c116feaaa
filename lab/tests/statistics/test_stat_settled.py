"""A workload that ends when its interval is narrow: the interval covers as often as one of a fixed number of blocks."""

import math

import numpy as np
import pytest

from hakmem_lab.judge.statistics.paired import simultaneous_intervals
from hakmem_lab.kinds.suite.settle import EVERY

TRIALS, MOST = 300, 90


def missed(draw, comparisons: int) -> int:
    """Of trials without a difference, those whose interval at the end does not include 0."""
    count = 0
    for _ in range(TRIALS):
        d = draw(MOST)
        for blocks in range(EVERY, MOST + 1, EVERY):
            arms = {str(arm): d[:blocks] for arm in range(comparisons)}
            found = simultaneous_intervals(arms, 0.95)["0"]
            half = max(found.high - found.estimate, found.estimate - found.low)
            if math.isfinite(half) and half <= math.log(1.05):
                break
        count += not found.low <= 0 <= found.high
    return count


@pytest.mark.parametrize(("spread", "comparisons"), [(0.06, 1), (0.12, 1), (0.15, 1), (0.1, 9)])
def test_an_early_end_by_width_misses_as_seldom_as_a_fixed_number_of_blocks(spread, comparisons):
    random = np.random.default_rng(12)
    count = missed(lambda n: random.normal(0, spread, n), comparisons)
    expected = 0.05 / comparisons
    assert count <= TRIALS * expected + 3.3 * math.sqrt(TRIALS * expected) + 1, count


def test_heavy_tails_do_not_change_that():
    random = np.random.default_rng(13)
    count = missed(lambda n: 0.06 * random.standard_t(3, n), 1)
    assert count <= TRIALS * 0.05 + 3.3 * math.sqrt(TRIALS * 0.05), count
