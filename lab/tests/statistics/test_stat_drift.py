"""Drift: slopes, trends and changes of level in autocorrelated series."""

import math

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import binom

from hakmem_lab.judge.statistics.drift import change_points, theil_sen, warmup_end


def autoregressive(rng, n, rho, heavy=False):
    shocks = rng.standard_t(3, size=n + 500) if heavy else rng.normal(size=n + 500)
    return lfilter([1], [1, -rho], shocks)[500:]


def sawtooth(rng, n):
    """A series like memory with a purge that empties a cache at regular times."""
    period = rng.uniform(5, n / 6)
    return (np.arange(n) / period + rng.random()) % 1 * 5 + rng.normal(0, 0.1, n)


@pytest.mark.parametrize(("rho", "heavy"), [(0.0, False), (0.5, False), (0.8, True), (0.9, False), (0.95, False)])
@pytest.mark.parametrize("n", [300, 1200])
def test_slope_coverage_under_autocorrelation(rho, heavy, n):
    rng, simulations, slope = np.random.default_rng(81), 500, 0.01
    t = np.arange(n, dtype=float)
    covered = 0
    for _ in range(simulations):
        found = theil_sen(t, autoregressive(rng, n, rho, heavy) + slope * t)
        covered += found.low <= slope <= found.high
    assert covered / simulations >= 0.93


def test_slope_coverage_of_a_sawtooth_and_a_random_walk():
    rng, t = np.random.default_rng(82), np.arange(600.0)
    saws = [theil_sen(t, sawtooth(rng, 600)) for _ in range(200)]
    walks = [theil_sen(t, np.cumsum(rng.normal(size=600))) for _ in range(200)]
    assert np.mean([slope.low <= 0 <= slope.high for slope in saws]) >= 0.93
    # A random walk has no slope to estimate. Most intervals must be infinite: the series is too short.
    assert np.mean([slope.low <= 0 <= slope.high for slope in walks]) >= 0.88
    assert np.mean([math.isinf(slope.low) for slope in walks]) > 0.5


def test_a_leak_is_seen_and_its_rate_is_right():
    rng = np.random.default_rng(83)
    t = np.arange(3600.0)
    rss_mib = 33 + t / 3600 + 0.1 * autoregressive(rng, 3600, 0.8)
    found = theil_sen(t, rss_mib)
    assert found.low > 0
    assert found.slope_per_s * 3600 == pytest.approx(1.0, abs=0.1)


def test_slope_is_per_second_and_indifferent_to_the_clock_s_origin():
    rng = np.random.default_rng(84)
    y = autoregressive(rng, 400, 0.3)
    one, half = theil_sen(np.arange(400.0), y), theil_sen(1e6 + 0.5 * np.arange(400.0), y)
    assert half.slope_per_s == pytest.approx(2 * one.slope_per_s, rel=1e-6)
    assert half.high == pytest.approx(2 * one.high, rel=1e-6)


def test_constant_series():
    found = theil_sen(np.arange(100.0), np.full(100, 33.0))
    assert (found.low, found.slope_per_s, found.high) == (0.0, 0.0, 0.0)
    assert change_points(np.full(100, 33.0)) == []
    assert warmup_end(np.full(100, 33.0)) == 0


@pytest.mark.parametrize(("rho", "n"), [(0.0, 60), (0.8, 60), (0.0, 300), (0.5, 300), (0.8, 1200), (0.5, 3600)])
def test_steady_series_have_no_change_point(rho, n):
    rng = np.random.default_rng(86)
    found = sum(bool(change_points(autoregressive(rng, n, rho))) for _ in range(100))
    assert found <= binom.ppf(0.999, 100, 0.05)


@pytest.mark.parametrize(("rho", "n"), [(0.0, 60), (0.5, 300), (0.5, 3600)])
def test_a_change_of_level_is_found_where_it_is(rho, n):
    rng, at, right = np.random.default_rng(87), n // 3, 0
    for _ in range(50):
        series = autoregressive(rng, n, rho)
        series[at:] += 6
        found = change_points(series)
        assert any(abs(index - at) <= 4 for index in found)
        right += len(found) == 1
    assert right >= 45


def test_several_changes_and_a_given_penalty():
    rng = np.random.default_rng(88)
    series = np.repeat([0.0, 5.0, 2.0], 50) + rng.normal(0, 0.5, 150)
    assert change_points(series) == [50, 100]
    assert change_points(series, penalty=1e9) == []
    assert change_points(np.repeat([1.0, 2.0], 40)) == [40]
    assert change_points([1.0, 2.0, 3.0]) == []


def test_a_long_series_is_grouped():
    series = np.repeat([0.0, 3.0], [12_000, 24_000]) + np.random.default_rng(89).normal(0, 1, 36_000)
    (found,) = change_points(series)
    assert abs(found - 12_000) <= 36


def test_warmup_ends_where_the_level_settles():
    rng = np.random.default_rng(90)
    for _ in range(20):
        series = rng.normal(0, 0.5, 300)
        series[:40] += 8
        assert abs(warmup_end(series) - 40) <= 2


def test_gradual_warmup_is_cut_off():
    rng = np.random.default_rng(91)
    series = 20 * np.exp(-np.arange(300) / 15) + rng.normal(0, 1, 300)
    end = warmup_end(series)
    assert 20 <= end <= 90
    assert abs(series[end:].mean()) < 0.3


def test_a_later_change_of_phase_is_no_warmup():
    series = np.repeat([0.0, 5.0], [200, 100]) + np.random.default_rng(92).normal(0, 0.5, 300)
    assert change_points(series) == [200]
    assert warmup_end(series) == 0


def test_steady_from_the_start():
    rng = np.random.default_rng(93)
    wrong = sum(warmup_end(autoregressive(rng, 300, 0.4)) > 0 for _ in range(100))
    assert wrong <= binom.ppf(0.999, 100, 0.05)


@pytest.mark.parametrize(
    ("t", "y"), [([0, 1, 2], [1, 2, 3]), (range(10), range(9)), ([0] * 10, range(10)), (range(10), [math.nan] * 10)]
)
def test_bad_series_are_refused(t, y):
    with pytest.raises(ValueError):
        theil_sen(t, y)
