"""The warm-up of a series and the teeth of a sawtooth, against their definitions."""

import warnings

import numpy as np
import pytest
from numpy.linalg import lstsq

from hakmem_lab.judge.statistics.drift import theil_sen
from hakmem_lab.judge.statistics.settling import curve, settled, settled_slope, settling_time, teeth

T = np.arange(600.0) * 2 + 7


def warm(tau=60.0, size=-50.0, slope=0.01, sd=1.0, seed=1, t=T):
    return 100 + slope * t + size * np.exp(-(t - t[0]) / tau) + np.random.default_rng(seed).normal(0, sd, t.size)


def fitted(t, y, tau):
    """The size of the exponential by an ordinary regression, and what is left of the series."""
    columns = np.column_stack([np.ones(t.size), t, np.exp(-(t - t[0]) / tau)])
    found = lstsq(columns, y, rcond=None)[0]
    return found[2], y - columns @ found


@pytest.mark.parametrize("tau", [15.0, 60.0, 150.0])
@pytest.mark.parametrize("size", [-50.0, 30.0])
def test_the_time_constant_is_that_of_the_least_squared_error(tau, size):
    y = warm(tau, size)
    found = settling_time(T, y)
    assert found == pytest.approx(tau, rel=0.1)
    errors = [float(np.square(fitted(T, y, found * factor)[1]).sum()) for factor in (0.995, 1.0, 1.005)]
    assert errors[1] < errors[0] and errors[1] < errors[2]


@pytest.mark.parametrize(
    "y",
    [
        warm(size=0.0),
        warm(size=-0.5),
        np.ones(600),
        0.5 * T,
        warm(tau=400.0),
        warm(tau=215.0, sd=0.01),
        warm(tau=3.0),
    ],
)
def test_noise_a_line_and_a_warm_up_of_another_length_have_none(y):
    assert settling_time(T, y) is None
    assert settled(T, y) == (0, None)


def test_too_few_values_have_none():
    t = np.arange(16.0) * 80
    assert settling_time(t, warm(100.0, t=t, sd=0.1)) is not None
    assert settling_time(t[:15], warm(100.0, t=t, sd=0.1)[:15]) is None


def test_a_constant_series_has_none_whatever_rounding_leaves():
    t = np.cumsum(np.random.default_rng(3).uniform(1, 3, 600))
    assert [settling_time(t, np.full(600, size / 7)) for size in range(1, 40)] == [None] * 39


def test_when_the_clock_began_does_not_matter():
    y = warm(60.0)
    found, later = settling_time(T, y), settling_time(T + 1e6, y)
    assert later == pytest.approx(found, rel=1e-3)
    assert curve(T + 1e6, y, found) == pytest.approx(curve(T, y, found))
    assert settled_slope(T + 1e6, y, found, 0.9).high == pytest.approx(settled_slope(T, y, found, 0.9).high)


@pytest.mark.parametrize("tau", [40.0, 140.0, 170.0])
def test_the_warm_up_is_over_after_four_time_constants_but_at_half_of_the_time(tau):
    start, found = settled(T, warm(tau))
    assert found == pytest.approx(tau, rel=0.2)
    assert T[start] - T[0] == pytest.approx(min(4 * tau, 599), rel=0.1)
    assert tau < 150 or start == np.searchsorted(T, (T[0] + T[-1]) / 2)


def test_what_begins_in_the_second_half_is_no_warm_up():
    half = T.size // 2
    y = warm(170.0) - np.where(np.arange(T.size) < half, 0, 50 * np.exp(-(T - T[half]) / 30))
    assert settling_time(T[half:], y[half:]) is not None
    assert settled(T, y)[0] == half


def test_a_second_slower_part_is_sought_behind_the_first():
    y = warm(20.0) + warm(120.0, -40.0, seed=2)
    start, found = settled(T, y)
    assert T[start] > T[0] + 350 and found > 60


@pytest.mark.parametrize("tau", [40.0, 140.0])
def test_the_curve_is_the_exponential_of_a_regression(tau):
    y = warm(tau)
    assert curve(T, y, tau) == pytest.approx(np.exp(-(T - T[0]) / tau) * fitted(T, y, tau)[0])


@pytest.mark.parametrize("tau", [40.0, 300.0])
def test_the_interval_is_wider_as_in_a_regression(tau):
    y = warm(tau)
    found, plain = settled_slope(T, y, tau, 0.9), theil_sen(T, y - curve(T, y, tau), 0.9)
    r = np.corrcoef(T, np.exp(-(T - T[0]) / tau))[0, 1]
    assert found.slope_per_s == plain.slope_per_s
    assert found.high - found.slope_per_s == pytest.approx((plain.high - plain.slope_per_s) / np.sqrt(1 - r**2))
    assert found.slope_per_s - found.low == pytest.approx((plain.slope_per_s - plain.low) / np.sqrt(1 - r**2))


def saw(count, rise=30, fall=1, depth=100.0):
    """count teeth of rise + fall values, and a rise after the last one."""
    tooth = [*np.linspace(0, depth, rise, endpoint=False), *np.linspace(depth, 0, fall, endpoint=False)]
    return np.array([*tooth * count, *tooth[:rise]])


@pytest.mark.parametrize("fall", [1, 5, 9, 10])
def test_a_sawtooth_has_a_minimum_after_each_fall(fall):
    found = teeth(saw(12, fall=fall))
    assert found.lowest.tolist() == [(30 + fall) * i for i in range(1, 13)]
    assert found.highest.tolist() == [(30 + fall) * i + 30 for i in range(12)]


@pytest.mark.parametrize(
    "y",
    [
        saw(7),
        saw(12, rise=15, fall=15),
        saw(12, rise=20, fall=10),
        np.random.default_rng(1).normal(0, 1, 900),
        np.cumsum(np.random.default_rng(2).normal(0, 1, 900)),
        np.ones(40),
        np.arange(40.0),
        np.array([0.0, 1.0]),
    ],
)
def test_few_teeth_waves_and_noise_are_no_sawtooth(y):
    assert teeth(y) is None
    assert teeth(saw(8)) is not None


@pytest.mark.parametrize("size", [0, 1, 7])
def test_no_values_have_no_teeth(size):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert teeth(np.zeros(size)) is None


@pytest.mark.parametrize(("depth", "count"), [(5.5, None), (6.5, 12), (20.0, 12)])
def test_a_tooth_is_deeper_than_six_standard_deviations_of_a_value(depth, count):
    """The values alternate by ±1. Half of their median difference is then 1, and a tooth is deeper by 2 than drawn."""
    deviation = 1.4826 * 2 / np.sqrt(2)
    y = saw(12, rise=200, depth=depth * deviation - 2)
    found = teeth(y + np.where(np.arange(y.size) % 2, 1.0, -1.0))
    assert (found and found.lowest.size) == count


def test_the_first_value_may_be_the_first_maximum():
    found = teeth(saw(12)[30:])
    assert (found.highest[0], found.lowest[0]) == (0, 1)


def test_one_slow_fall_does_not_hide_the_teeth():
    y = np.concatenate([saw(12, fall=9), np.linspace(100, 0, 600), saw(2, fall=9)])
    assert teeth(y).lowest.size == 15


def test_falls_are_not_noise():
    """A rise of nine values to 100: the median step is 11, and the mean one 20."""
    assert teeth(saw(12, rise=9)).lowest.size == 12
