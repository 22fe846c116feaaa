"""Estimate and interval of paired blocks: exactness, coverage, symmetry."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import lfilter
from scipy.stats import binom, wilcoxon

from hakmem_lab.judge.statistics import paired
from hakmem_lab.judge.statistics.paired import (
    WalshAverages,
    as_log,
    as_ratio,
    block_log_ratio,
    hodges_lehmann,
    median_interval,
    paired_interval,
    quantile_interval,
)

SIMULATIONS = 2000
ABBA = np.array([-0.5, 0.5, 0.5, -0.5])
small_floats = st.floats(-10, 10, allow_nan=False)
tied = st.lists(st.sampled_from([-0.02, -0.01, 0.0, 0.01, 0.02, 0.03]), min_size=1, max_size=30)
values = st.lists(small_floats, min_size=1, max_size=40) | tied
positive = st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=6)


def brute_force_walsh(d):
    return sorted((d[i] + d[j]) / 2 for i in range(len(d)) for j in range(i, len(d)))


def autoregressive_blocks(rng, simulations, blocks, rho):
    """Runs of one machine whose noise drifts (AR(1)), in randomised ABBA/BAAB blocks."""
    runs = lfilter([1], [1, -rho], rng.normal(size=(simulations, 4 * blocks + 100)))[:, 100:]
    return runs.reshape(simulations, blocks, 4) @ ABBA * rng.choice((-1.0, 1.0), (simulations, blocks))


def symmetrised_lognormal(rng, simulations, blocks):
    """Differences of two skewed times; such a difference is symmetric."""
    first, second = rng.lognormal(0, 1, (2, simulations, blocks))
    return first - second


NOISE = {
    "normal": lambda rng, s, n: rng.normal(size=(s, n)),
    "t3": lambda rng, s, n: rng.standard_t(3, size=(s, n)),
    "skewed": symmetrised_lognormal,
    "autoregressive 0.41": lambda rng, s, n: autoregressive_blocks(rng, s, n, 0.41),
    "autoregressive 0.9": lambda rng, s, n: autoregressive_blocks(rng, s, n, 0.9),
}


@pytest.mark.parametrize("noise", NOISE)
@pytest.mark.parametrize("blocks", [8, 30])
def test_coverage_is_at_least_93_percent(noise, blocks):
    rng = np.random.default_rng(11)
    true_effect = 0.7
    data = NOISE[noise](rng, SIMULATIONS, blocks) + true_effect
    intervals = [paired_interval(row) for row in data]
    covered = sum(interval.low <= true_effect <= interval.high for interval in intervals)
    assert covered / SIMULATIONS >= 0.93
    assert covered >= binom.ppf(0.001, SIMULATIONS, 0.95)


def test_coverage_with_the_normal_approximation():
    rng = np.random.default_rng(12)
    blocks = paired.EXACT_LIMIT + 20
    intervals = [paired_interval(row) for row in rng.standard_t(3, size=(600, blocks))]
    covered = sum(interval.low <= 0 <= interval.high for interval in intervals)
    assert binom.ppf(0.001, 600, 0.95) <= covered <= binom.ppf(0.999, 600, 0.95)


@given(values)
@settings(deadline=None, derandomize=True)
def test_estimate_is_the_median_of_the_walsh_averages(d):
    assert hodges_lehmann(d) == pytest.approx(np.median(brute_force_walsh(d)), abs=1e-12)


@given(values, st.sampled_from([0.8, 0.9, 0.95, 0.99]))
@settings(deadline=None, derandomize=True)
def test_interval_inverts_the_test(d, level):
    interval = paired_interval(d, level)
    assert interval.low <= interval.estimate <= interval.high
    if len(set(map(abs, d))) == len(d) and 0 not in d:
        p = wilcoxon(d, method="exact").pvalue
        assert interval.excludes_zero() == (p <= (1 - level) * (1 + 1e-9))


@given(values)
@settings(deadline=None, derandomize=True)
def test_negated_data_mirrors_the_interval(d):
    there, back = paired_interval(d), paired_interval([-x for x in d])
    assert (back.low, back.high) == (-there.high, -there.low)
    assert back.estimate == pytest.approx(-there.estimate, abs=1e-12)


def test_exact_and_normal_ranks_meet_at_the_limit():
    n = paired.EXACT_LIMIT
    mean, deviation = paired._normal_moments(n)
    approximate = math.floor(mean - 0.5 - 1.959964 * deviation) + 1
    assert abs(paired._rank_for(n, 0.95) - approximate) <= 3


@pytest.mark.parametrize("grid", [8, 2**40])
def test_selection_without_all_averages_is_exact(monkeypatch, grid):
    """The values are on a binary grid, so that sums of two are exact: a coarse grid with ties, a fine one without."""
    d = np.round(np.random.default_rng(4).normal(0, 1, 301) * grid) / grid
    direct = WalshAverages(d)
    monkeypatch.setattr(paired, "DIRECT_LIMIT", 10)
    selecting = WalshAverages(d)
    assert selecting._all is None and direct._all is not None
    ranks = [1, 2, 100, direct.size // 2, direct.size - 1, direct.size]
    assert [selecting.order_statistic(rank) for rank in ranks] == [direct.order_statistic(rank) for rank in ranks]
    for value in (-0.5, 0.0, 0.3125):
        assert selecting.count_at_most(value) == direct.count_at_most(value)


def test_interval_inverts_the_test_without_all_averages(monkeypatch):
    monkeypatch.setattr(paired, "DIRECT_LIMIT", 10)
    rng = np.random.default_rng(6)
    excluded = 0
    for _ in range(300):
        interval = paired_interval(rng.choice([-0.02, -0.01, 0.0, 0.01, 0.02, 0.03], 60))
        excluded += interval.excludes_zero()
    assert 30 < excluded < 290


def test_ten_thousand_blocks():
    d = np.random.default_rng(5).normal(0.01, 0.03, 10_000)
    interval = paired_interval(d)
    expected = 1.96 * 0.03 * math.sqrt(math.pi / 3 / d.size)
    assert (interval.high - interval.low) / 2 == pytest.approx(expected, rel=0.05)
    assert interval.n == 10_000


@pytest.mark.parametrize("n", [1, 2, 5])
def test_too_few_blocks_give_no_finite_interval(n):
    interval = paired_interval([0.02] * n)
    assert (interval.low, interval.high) == (-math.inf, math.inf)


@pytest.mark.parametrize("n", [6, 40, 300, 700])
def test_identical_blocks(n):
    same = paired_interval([0.02] * n)
    assert (same.low, same.estimate, same.high) == (0.02, 0.02, 0.02)
    none = paired_interval([0.0] * n)
    assert (none.low, none.high) == (0.0, 0.0)


def test_many_equal_blocks_are_not_called_a_difference():
    interval = paired_interval([0.0] * 30 + [0.01] * 4)
    assert interval.low <= 0


@pytest.mark.parametrize("bad", [[], [math.nan, 1.0], [math.inf], [[1.0, 2.0]]])
def test_bad_data_is_refused(bad):
    with pytest.raises(ValueError):
        paired_interval(bad)


def test_ratio_and_log_are_inverse():
    assert as_ratio(as_log(0.02)) == pytest.approx(0.02)
    interval = paired_interval([0.02] * 3).ratio()
    assert interval.estimate == pytest.approx(math.expm1(0.02))
    assert (interval.low, interval.high) == (-1.0, math.inf)


@given(positive, positive, st.booleans())
@settings(deadline=None, derandomize=True)
def test_swapping_the_arms_negates_the_ratio(control, treatment, higher):
    there = block_log_ratio(control, treatment, higher)
    assert block_log_ratio(treatment, control, higher) == pytest.approx(-there, abs=1e-9)


@given(positive, positive, st.floats(1e-3, 1e3), st.booleans())
@settings(deadline=None, derandomize=True)
def test_scaling_both_arms_changes_nothing(control, treatment, factor, higher):
    scaled = block_log_ratio([factor * x for x in control], [factor * x for x in treatment], higher)
    assert scaled == pytest.approx(block_log_ratio(control, treatment, higher), abs=1e-9)


@given(positive, positive)
@settings(deadline=None, derandomize=True)
def test_lower_is_better_is_higher_is_better_of_the_reciprocals(control, treatment):
    lower = block_log_ratio(control, treatment, higher_is_better=False)
    reciprocal = block_log_ratio([1 / x for x in control], [1 / x for x in treatment], higher_is_better=True)
    assert lower == pytest.approx(reciprocal, abs=1e-9)


def test_sign_means_treatment_better():
    assert block_log_ratio([100, 100], [110, 110], higher_is_better=True) == pytest.approx(math.log(1.1))
    assert block_log_ratio([100, 100], [110, 110], higher_is_better=False) == pytest.approx(-math.log(1.1))


@pytest.mark.parametrize(
    ("control", "treatment", "arm"), [([0.0], [1.0], "control"), ([1.0], [2.0, -1.0], "treatment")]
)
def test_values_that_have_no_logarithm_are_refused_by_name(control, treatment, arm):
    with pytest.raises(ValueError, match=f"{arm}: a ratio needs values above 0"):
        block_log_ratio(control, treatment, higher_is_better=True)


@pytest.mark.parametrize(("q", "n"), [(0.5, 9), (0.5, 40), (0.9, 60), (0.99, 600)])
def test_quantile_interval_covers(q, n):
    rng = np.random.default_rng(8)
    truth = -math.log1p(-q)
    covered = 0
    for sample in rng.exponential(size=(1000, n)):
        _, low, high = quantile_interval(sample, q)
        covered += low <= truth <= high
    assert covered / 1000 >= 0.935


def test_quantile_interval_is_honest_about_small_samples():
    median, low, high = median_interval([3.0, 1.0, 2.0])
    assert (median, low, high) == (2.0, -math.inf, math.inf)
    _, low, high = quantile_interval(np.arange(100.0), 0.9999)
    assert high == math.inf and low <= 99
    assert median_interval(np.arange(1.0, 7.0))[1:] == (1.0, 6.0)


@pytest.mark.parametrize(
    ("values", "largest", "constant"),
    [
        ([0.1] * 10, None, True),
        ([5.3] * 30, None, True),
        ([1.0, 1.0 + 5e-13], None, True),
        ([1.0, 1.0 + 2e-12], None, False),
        ([-1.0, -1.0 + 5e-13], None, True),
        ([-1.0, -1.0 + 2e-12], None, False),
        ([1.0, 1.0 + 2e-12], 10.0, True),
        ([1e-13, 3e-13], None, False),
        ([1e-13, 3e-13], 1.0, True),
        ([0.0, paired.ROUNDING], 1.0, True),
        ([10.0, 8.0, 10.0], None, False),
    ],
)
def test_values_that_only_rounding_sets_apart_are_constant(values, largest, constant):
    found = paired.centred(np.array(values), largest)
    assert found == pytest.approx(np.zeros(len(values)) if constant else np.array(values) - np.mean(values), abs=0)
