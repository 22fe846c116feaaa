"""Order statistics around a quantile, compared with their definition by the binomial distribution."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from hakmem_lab.judge.statistics.paired import quantile_interval


def enumerated(n, q, level):
    """(low, high) among the ranks 1 … n: on each side, the closest rank that the quantile passes with a probability of
    at most (1 - level) / 2."""
    tail = (1 - level) / 2
    low = max((r for r in range(1, n + 1) if binom.cdf(r - 1, n, q) <= tail), default=-math.inf)
    high = min((r for r in range(1, n + 1) if binom.sf(r - 1, n, q) <= tail), default=math.inf)
    return low, high


@pytest.mark.parametrize("n", [1, 5, 9, 20, 101])
@pytest.mark.parametrize("q", [0.25, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99])
def test_the_ranks_are_those_of_the_binomial_distribution(n, q, level):
    values = np.arange(1.0, n + 1)
    estimate, *ends = quantile_interval(np.random.default_rng(1).permutation(values), q, level)
    assert tuple(ends) == enumerated(n, q, level)
    assert estimate == np.quantile(values, q)


def test_a_level_that_is_just_reached_is_reached():
    """The smallest and the largest of six values enclose the median, except in 2 of 64 cases."""
    assert quantile_interval(range(1, 7), 0.5, 1 - 2 / 64) == (3.5, 1.0, 6.0)
    assert quantile_interval(range(1, 7), 0.5, 1 - 1.99 / 64) == (3.5, -math.inf, math.inf)


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf], [[1.0, 2.0], [3.0, 4.0]]])
def test_values_that_have_no_order_are_refused(values):
    with pytest.raises(ValueError, match="one-dimensional sequence of finite numbers"):
        quantile_interval(values, 0.5)


@pytest.mark.parametrize(("q", "level"), [(0.0, 0.9), (1.0, 0.9), (1.5, 0.9), (0.5, 0.0), (0.5, 1.0), (0.5, 1.5)])
def test_what_is_no_probability_is_refused(q, level):
    with pytest.raises(ValueError, match="must lie between 0 and 1"):
        quantile_interval([1.0, 2.0, 3.0], q, level)


def test_95_percent_where_nothing_is_said():
    assert quantile_interval(range(60), 0.5) == quantile_interval(range(60), 0.5, 0.95)


def test_one_value_has_a_quantile():
    assert quantile_interval([7.0], 0.5, 0.95) == (7.0, -math.inf, math.inf)
