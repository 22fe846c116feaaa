"""Ranks, tails and planned looks, compared with enumeration, the normal distribution and SciPy."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import multivariate_normal, norm
from scipy.stats import t as student

from hakmem_lab.judge.statistics import paired
from hakmem_lab.judge.statistics.paired import (
    Interval,
    WalshAverages,
    paired_interval,
    paired_intervals,
    quantile_interval,
)
from hakmem_lab.judge.statistics.plan import obrien_fleming_levels, planned_looks

INF = math.inf


def blocks(n, seed=1, centre=0.2):
    return np.random.default_rng(seed).normal(centre, 1, n)


def averages(d):
    return sorted((a + b) / 2 for a, b in itertools.combinations_with_replacement(d, 2))


def enumerated(n):
    """The signed-rank statistic for every combination of n signs."""
    return np.array(list(itertools.product((0, 1), repeat=n))) @ np.arange(1, n + 1)


@pytest.mark.parametrize("n", [1, 4, 6, 9, 11])
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95, 0.99])
def test_the_ends_are_the_averages_that_enumeration_gives(n, level):
    d, sums = blocks(n), enumerated(n)
    rank = max((k for k in range(1, n * (n + 1) // 2) if (sums <= k - 1).mean() <= (1 - level) / 2), default=0)
    found, walsh = paired_interval(d, level), averages(d)
    assert (found.low, found.high) == pytest.approx((walsh[rank - 1], walsh[-rank]) if rank else (-INF, INF))
    assert (found.estimate, found.level, found.n) == pytest.approx((np.median(walsh), level, n))


@pytest.mark.parametrize("n", [1, 2, 7, 12])
def test_the_distribution_of_the_statistic_is_that_of_all_signs(n):
    sums, size = enumerated(n), n * (n + 1) // 2 + 1
    exact = [(sums <= w).mean() for w in range(size)]
    assert paired._exact_cdf(n)[:size] == pytest.approx(exact)


def test_an_interval_in_a_results_form_has_ratios():
    found = Interval(math.log(1.5), math.log(1.25), math.log(2.0), 0.9, 7)
    ends = {"estimate": 0.5, "ci_low": 0.25, "ci_high": 1.0}
    assert found.ends() == pytest.approx(ends)
    assert found.row() == pytest.approx(ends | {"level": 0.9})
    assert (found.ratio().level, found.ratio().n) == (0.9, 7)


@pytest.mark.parametrize(("freedom", "level"), [(3, 0.95), (40, 0.8)])
def test_an_interval_of_student_is_that_of_scipy(freedom, level):
    found = Interval.of_student(0.5, 0.1, freedom, level, 9)
    assert (found.low, found.high) == pytest.approx(student.interval(level, freedom, 0.5, 0.1))
    assert (found.estimate, found.level, found.n) == (0.5, level, 9)


def test_a_ratio_too_large_for_a_float_is_the_largest_one():
    assert paired.as_ratio(1e4) == paired.as_multiple(1e4) == np.finfo(float).max
    assert (paired.as_multiple(0.0), paired.as_multiple(math.log(3))) == pytest.approx((1.0, 3.0))


def test_a_level_that_is_just_reached_is_reached():
    """Six blocks of one sign are two of 64 cases; rounding of the level as a float must not matter."""
    d = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    for level in (1 - 2 / 64, np.nextafter(1 - 2 / 64, 1)):
        assert (paired_interval(d, level).low, paired_interval(d, level).high) == (1.0, 6.0)
    assert paired_interval(d, 1 - 1.99 / 64).low == -INF
    assert paired_interval(d).level == 0.95


@pytest.mark.parametrize(
    ("tail", "count"), [(0.9, 1), (0.5, 1), (0.49, 2), (1 / 32, 5), (0.999 / 32, 6), (0.025, 6), (1 / 1024, 10)]
)
def test_the_fewest_blocks_of_a_tail(tail, count):
    assert paired.least_count(tail) == count
    assert paired.least_count(np.nextafter(tail, 0)) == count


@pytest.mark.parametrize("n", [199, 200])
def test_up_to_two_hundred_blocks_the_tail_is_exact(n):
    d = blocks(n)
    shares = np.ones(1)
    for rank in range(1, n + 1):
        shares = (np.r_[shares, np.zeros(rank)] + np.r_[np.zeros(rank), shares]) / 2
    rank, walsh = (np.cumsum(shares) <= 0.005).sum(), averages(d)
    assert (paired_interval(d, 0.99).low, paired_interval(d, 0.99).high) == (walsh[rank - 1], walsh[-rank])


@pytest.mark.parametrize("n", [201, 350])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.999])
def test_above_the_tail_is_that_of_the_normal_distribution(n, level):
    d = blocks(n, centre=0.1)
    walsh, size = np.array(averages(d)), n * (n + 1) // 2
    statistic = norm(size / 2, math.sqrt(n * (n + 1) * (2 * n + 1) / 24))
    found = paired_interval(d, level)
    rank = (statistic.cdf(np.arange(1, size // 2) - 0.5) <= (1 - level) / 2).sum()
    assert (found.low, found.high) == pytest.approx((walsh[rank - 1], walsh[-rank]))


def test_no_end_where_not_even_the_outermost_average_is_far_enough(monkeypatch):
    monkeypatch.setattr(paired, "EXACT_LIMIT", 0)
    found = paired_interval([1.0] * 3, 0.999)
    assert (found.low, found.high) == (-INF, INF)


@pytest.mark.parametrize(
    ("low", "high", "excluded"), [(0.0, 1.0, False), (1e-12, 1.0, True), (-1.0, 0.0, False), (-1.0, -1e-12, True)]
)
def test_an_interval_that_ends_at_0_does_not_exclude_it(low, high, excluded):
    assert Interval(0.5, low, high, 0.95, 9).excludes_zero() is excluded


@pytest.mark.parametrize("bad", [[], 1.0, [[1.0]], [1.0, math.nan], [-INF]])
def test_what_is_no_row_of_numbers_is_refused(bad):
    with pytest.raises(ValueError, match=r"one-dimensional sequence of numbers|finite numbers"):
        paired.checked(bad)


@pytest.mark.parametrize("levels", [[0.0], [1.0], [0.95, 1.5], [-0.1, 0.9]])
def test_levels_lie_between_0_and_1(levels):
    with pytest.raises(ValueError, match="confidence levels must lie between 0 and 1"):
        paired_intervals([1.0] * 9, levels)


def test_every_level_has_its_interval():
    assert paired_intervals(blocks(20), [0.8, 0.95]) == [paired_interval(blocks(20), level) for level in (0.8, 0.95)]


def test_a_median_is_a_quantile():
    assert paired.median_interval(range(30)) == quantile_interval(range(30), 0.5, 0.95)
    assert paired.median_interval(range(30), 0.8) == quantile_interval(range(30), 0.5, 0.8)


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("n", [2, 3, 16, 17])
def test_selection_without_all_averages_finds_every_rank_and_counts_ties(monkeypatch, n, seed):
    d = np.random.default_rng(seed).integers(-4, 5, n) / 8
    walsh = averages(d)
    monkeypatch.setattr(paired, "DIRECT_LIMIT", 1)
    found = WalshAverages(d)
    assert [found.order_statistic(rank) for rank in range(1, len(walsh) + 1)] == walsh
    for value in (-0.6, -0.25, 0.0, 0.0625, 0.5, 0.7):
        assert found.count_at_most(value) == sum(x <= value for x in walsh)
    assert found.median() == np.median(walsh)


@pytest.mark.parametrize("value", [0.0, -2.0, 2.0])
def test_a_ratio_needs_values_above_0_and_says_which_is_not(value):
    if value > 0:
        assert paired.block_log_ratio([1.0, value], [1.0], True) == pytest.approx(-math.log(2) / 2)
        return
    with pytest.raises(ValueError, match=f"control: a ratio needs values above 0, got {value:g}"):
        paired.block_log_ratio([1.0, value, -7.0], [1.0], True)


@pytest.mark.parametrize("counts", [(10, 20), (7, 30), (5, 6, 40), (20, 40, 60)])
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.4])
@pytest.mark.parametrize("two_sided", [True, False])
def test_the_levels_of_all_looks_together_are_alpha(counts, alpha, two_sided):
    """Integrates the normal distribution of the sums at all looks; on this scale, all looks have one boundary."""
    levels = obrien_fleming_levels(counts, alpha, two_sided)
    sides = 2 if two_sided else 1
    ends = [norm.isf(level / sides) * math.sqrt(count) for level, count in zip(levels, counts, strict=True)]
    assert ends == pytest.approx([ends[0]] * len(ends))
    paths = multivariate_normal(cov=np.minimum.outer(counts, counts))
    lower = [-end for end in ends] if two_sided else [-INF] * len(ends)
    assert paths.cdf(ends, lower_limit=lower, rng=1) == pytest.approx(1 - alpha, abs=1e-5)


def test_looks_by_number_are_equally_spaced_and_two_sided():
    assert obrien_fleming_levels(3, 0.05) == obrien_fleming_levels([1, 2, 3], 0.05, True)
    assert obrien_fleming_levels([20, 40, 60], 0.05) == pytest.approx(obrien_fleming_levels(3, 0.05))
    assert obrien_fleming_levels([9], 0.05, False) == [0.05]


@pytest.mark.parametrize("alpha", [0.0, 0.5])
def test_alpha_lies_below_a_half(alpha):
    with pytest.raises(ValueError, match="alpha must lie between 0 and"):
        obrien_fleming_levels(3, alpha)
    assert obrien_fleming_levels(1, 0.49) == [0.49]


@pytest.mark.parametrize("counts", [[], [0], [0, 5], [5, 5], [5, 9, 9], [9, 4], [1, 5, 3], 0])
def test_looks_increase_from_above_0(counts):
    with pytest.raises(ValueError, match="increasing block counts above 0"):
        obrien_fleming_levels(counts, 0.05)


def test_three_looks_where_nothing_is_said_and_none_at_0():
    assert planned_looks(60) == [20, 40, 60]
    assert planned_looks(1, 1) == [1] and planned_looks(1, 4) == [1]
    for wrong in ((0, 3), (5, 0)):
        with pytest.raises(ValueError, match="at least one block and one look"):
            planned_looks(*wrong)
