"""Slope, trend, level and warm-up of a series, compared with computations over all pairs and partitions."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import t as student

from hakmem_lab.judge.statistics import drift

INF = math.inf


def series(count, slope=0.0, seed=1, rho=0.0):
    noise = np.random.default_rng(seed).normal(0, 1, count)
    for i in range(1, count):
        noise[i] += rho * noise[i - 1]
    return np.cumsum(np.random.default_rng(seed).uniform(0.5, 1.5, count)), noise + slope * np.arange(count)


def batched(x):
    """Means of sixty equal batches. Leaves out extra samples at the start; short series stay as they are."""
    size = len(x) // 60
    return (
        np.array(x)
        if size < 2
        else np.array([np.mean(x[len(x) - 60 * size :][i * size : (i + 1) * size]) for i in range(60)])
    )


def effective(residuals):
    r = np.array(residuals) - np.mean(residuals)
    rho = sum(r[i] * r[i + 1] for i in range(len(r) - 1)) / sum(r * r)
    rho = min(0.999, max(0.0, rho + (2 + 4 * rho) / len(r)))
    return len(r) * (1 - rho) / (1 + rho)


@pytest.mark.parametrize("count", [8, 11, 30, 119, 120, 200])
@pytest.mark.parametrize("rho", [0.0, 0.6])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_the_slope_is_the_median_of_all_and_its_interval_that_of_independent_samples_widened(count, rho, level):
    time, y = series(count, 0.05, 2, rho)
    tb, yb = batched(time), batched(y)
    n = len(tb)
    slopes = sorted((yb[j] - yb[i]) / (tb[j] - tb[i]) for i, j in itertools.combinations(range(n), 2))
    middle = np.median(slopes)
    independent = effective(yb - middle * tb)
    found = drift.theil_sen(time, y, level)
    assert found.slope_per_s == pytest.approx(middle)
    assert drift._effective_samples(np.array(yb) - middle * np.array(tb)) == pytest.approx(independent)
    if independent < 4:
        assert (found.low, found.high) == (-INF, INF)
        return
    deviation = math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    lower = slopes[max(1, math.floor((len(slopes) - deviation) / 2)) - 1]
    upper = slopes[min(len(slopes), math.ceil((len(slopes) + deviation) / 2) + 1) - 1]
    wider = student.isf((1 - level) / 2, independent - 2) * math.sqrt(n / independent)
    assert found.low == pytest.approx(middle - (middle - lower) * wider)
    assert found.high == pytest.approx(middle + (upper - middle) * wider)


def test_at_95_percent_where_nothing_is_said():
    assert drift.theil_sen(*series(30)) == drift.theil_sen(*series(30), 0.95)


def test_a_series_too_short_for_its_memory_has_no_interval():
    walk = np.cumsum(np.random.default_rng(3).normal(0, 1, 12))
    found = drift.theil_sen(range(12), walk)
    assert (found.low, found.high) == (-INF, INF)
    # The corrected autocorrelation is above 1 and is limited to 0.999, so the effective samples are few but above 0.
    assert drift._effective_samples(np.abs(np.arange(10) - 4.5)) == pytest.approx(10 * 0.001 / 1.999)


def robust_variance(x):
    first, third = np.quantile(x, [0.25, 0.75])
    limit = 3 * (third - first) / 1.3489795
    return np.var(x) / len(x) if not limit else np.var([min(max(value, -limit), limit) for value in x])


def long_run_variance(x):
    if len(x) < 8:
        return np.var(x)
    one = robust_variance([b - a for a, b in itertools.pairwise(x)])
    two = robust_variance([x[i + 2] - x[i] for i in range(len(x) - 2)])
    if not one:
        return 0.0
    rho = min(0.9, max(0.0, two / one - 1))
    return one / (2 * (1 - rho)) * (1 + rho) / (1 - rho)


@pytest.mark.parametrize(
    "x", [series(7)[1], series(8)[1], series(60)[1], series(60, 0, 5, 0.7)[1], np.cumsum(series(60)[1] + 5), [1.0] * 20,
          [1.0] * 20 + [2.0] * 20, np.r_[series(30)[1], series(30)[1] + 50]]
)  # fmt: skip
def test_the_noise_is_taken_from_neighbours(x):
    assert drift._long_run_variance(np.array(x)) == pytest.approx(long_run_variance(x))


def cheapest(x, penalty, least):
    """The starts of levels in the cheapest partition; its cost is squared errors plus a penalty for each change."""
    x = np.array(x)

    def cost(a, b):
        return float(((x[a:b] - x[a:b].mean()) ** 2).sum())

    best = {0: (-penalty, [])}
    for end in range(least, len(x) + 1):
        ways = [
            (best[start][0] + penalty + cost(start, end), [*best[start][1], start])
            for start in best
            if end - start >= least
        ]
        best[end] = min(ways)
    return best[len(x)][1][1:]


def levels(*parts, scale=1.0, seed=6):
    return np.concatenate(
        [np.random.default_rng(seed + i).normal(level, scale, n) for i, (level, n) in enumerate(parts)]
    )


SERIES = [
    levels((0, 40)), levels((0, 20), (5, 20)), levels((0, 7), (3, 9), (0, 30)), levels((0, 30), (2, 5)),
    levels((5, 4), (0, 30)), levels((0, 25), (1.6, 25)), series(50, 0, 7, 0.5)[1],
]  # fmt: skip


@pytest.mark.parametrize("y", SERIES)
@pytest.mark.parametrize("least", [3, 5])
def test_the_levels_are_those_of_the_cheapest_partition(y, least):
    penalty = 5 * long_run_variance(y) * math.log(len(y))
    assert drift.change_points(y, least) == cheapest(y, penalty, least)
    assert drift.change_points(y, least, 4.0) == cheapest(y, 4.0, least)
    assert drift.change_points(y) == drift.change_points(y, 5)


def test_a_change_that_just_earns_its_penalty():
    """Raises the second half of 20 samples in small steps, until it counts as a change of level."""
    noise, found = levels((0, 20)), []
    for step in np.arange(2.2, 2.6, 0.01):
        y = noise + np.r_[np.zeros(10), np.full(10, step)]
        found.append(drift.change_points(y))
        assert found[-1] == cheapest(y, 5 * long_run_variance(y) * math.log(20), 5)
    assert found[0] == [] and found[-1] == [10]


def test_levels_far_from_0_are_those_of_the_same_series_around_it():
    y = levels((0, 25), (1.6, 25))
    assert (
        drift.change_points(y + 1e8)
        == drift.change_points(y)
        == cheapest(y, 5 * long_run_variance(y) * math.log(50), 5)
    )


def test_a_series_shorter_than_two_levels_has_one():
    y = [0.0] * 5 + [100.0] * 5
    assert drift.change_points(y, 5, 1.0) == [5]
    assert drift.change_points(y[1:], 5, 1.0) == []
    assert drift.change_points([2.0] * 50) == []


def test_above_two_thousand_samples_are_averaged_in_groups():
    y = levels((0, 1300), (3, 1300), scale=0.5)
    assert drift.change_points(y[:2000]) == [1300]
    odd = levels((0, 1001), (3, 1000), scale=0.5)
    assert drift.change_points(odd[:2000]) == [1001]
    assert drift.change_points(odd) in ([1000], [1002])
    pairs = y.reshape(-1, 2).mean(axis=1)
    assert drift.change_points(y) == [2 * place for place in drift.change_points(pairs)] == [1300]
    odd = np.r_[y, 0.0]
    assert drift.change_points(odd) == drift.change_points(y)
    third = levels((0, 2101), (3, 2100), scale=0.5)
    expected = [3 * place for place in drift.change_points(third[: 4201 // 3 * 3].reshape(-1, 3).mean(axis=1))]
    assert drift.change_points(third) == expected and expected


def warm(y, least=5):
    """The end of the warm-up: the start of the first level that is near that of the second half, or reaches into it."""
    half = len(y) // 2
    level, noise = np.median(y[half:]), math.sqrt(long_run_variance(y))
    start = 0
    for end in drift.change_points(y, least):
        segment = y[start:end]
        near = abs(np.mean(segment) - level) <= 4 * noise * math.sqrt(1 / len(segment) + 1 / (len(y) - half))
        if end > half or near:
            return start
        start = end
    return start


@pytest.mark.parametrize(
    ("y", "end"),
    [
        (levels((9, 10), (0, 30)), 10),
        (levels((9, 10), (5, 9), (0, 40)), 19),
        (levels((0, 10), (9, 9), (0, 40)), 0),
        (levels((9, 20), (0, 20)), 20),
        (levels((9, 21), (0, 20)), 0),
        (levels((0, 30), (9, 10)), 0),
        (levels((0, 40)), 0),
        (levels((-9, 8), (0, 40)), 8),
        (levels((9, 3), (0, 40)), 5),
        (levels((3.0, 12), (0, 30)), 12),
    ],
)
def test_where_the_warm_up_ends(y, end):
    assert drift.warmup_end(y) == warm(y) == end
    assert drift.warmup_end(y, 5) == drift.warmup_end(y)
    assert drift.warmup_end(y, 3) == warm(y, 3)


@pytest.mark.parametrize("scale", [0.3, 1.0])
@pytest.mark.parametrize(("share", "end"), [(0.97, 0), (1.03, 20)])
def test_how_near_a_first_level_may_be_to_be_no_warm_up(scale, share, end):
    """A dip separates the first level from the rest. The threshold is four standard errors of their difference."""
    noise = scale * levels((0, 60))
    for part in (slice(0, 10), slice(10, 20), slice(20, 60)):
        noise[part] -= noise[part].mean()
    y = 5.0 + noise + np.r_[np.zeros(10), np.full(10, -9 * scale), np.zeros(40)]
    place, near = np.median(y[30:]) - 5.0, 4 * math.sqrt(long_run_variance(y)) * math.sqrt(1 / 10 + 1 / 30)
    y[:10] += place + share * near
    assert drift.warmup_end(y) == warm(y) == end


def test_a_new_phase_of_the_second_half_does_not_make_a_warm_up():
    assert drift.warmup_end(levels((0, 10), (30, 9), (0, 30), (30, 9))) == 0


def test_a_short_first_level_is_seen_where_so_short_a_one_is_asked_for():
    assert drift.warmup_end(levels((9, 3), (0, 40)), 3) == 3


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([], "non-empty"),
        ([[1.0] * 9], "non-empty"),
        ([1.0] * 9 + [math.nan], "non-empty"),
        ([1.0] * 7, "at least 8 samples"),
    ],
)
def test_what_is_no_series_is_refused(y, message):
    with pytest.raises(ValueError, match=message):
        drift.theil_sen(range(np.size(y)), y)


@pytest.mark.parametrize(
    ("time", "message"), [(range(9), "a time each"), ([*range(9), 8], "increase"), ([*range(9), 7], "increase")]
)
def test_times_belong_to_samples_and_increase(time, message):
    with pytest.raises(ValueError, match=message):
        drift.theil_sen(time, [1.0] * 10)


def test_eight_samples_are_enough_and_a_straight_line_has_no_noise():
    found = drift.theil_sen(range(8), [2.0 * i for i in range(8)])
    assert (found.slope_per_s, found.low, found.high) == (2.0, 2.0, 2.0)
    assert drift._effective_samples(np.zeros(8)) == 8.0


@pytest.mark.parametrize("level", [0.0, 0.1, -3.3, 1234.1])
@pytest.mark.parametrize("slope", [0.0, 0.3, -0.3, 1e6])
@pytest.mark.parametrize("begin_s", [0.0, 1e5])
def test_a_line_without_noise_has_its_slope_as_interval(level, slope, begin_s):
    t = begin_s + 0.1 * np.arange(50)
    found = drift.theil_sen(t, level + slope * t)
    error = 1e-6 * max(abs(slope), abs(level))
    assert (found.low, found.high) == pytest.approx((slope, slope), abs=error)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(("begin_s", "slope", "level", "size"), [(0, 0.0, 1e9, 2e-7), (1e9, 1.1, -1.1e9, 2e-5)])
def test_what_rounding_leaves_of_large_numbers_is_no_memory(begin_s, slope, level, size, sign):
    """Long stays on two levels would leave too few effective samples; here they are smaller than what numbers of the
    level's size, or of the slope times the time, are rounded to after some thousand terms."""
    t = begin_s + np.arange(600.0)
    y = sign * (level + slope * t + size * (np.arange(600) // 150 % 2))
    found = drift.theil_sen(t, y)
    assert (found.low, found.high) == pytest.approx((sign * slope, sign * slope), abs=1e-6)
    assert drift.theil_sen(t, y + 1000 * (np.arange(600) // 150 % 2)).high == INF


def test_a_slope_in_another_unit():
    assert drift.Slope(2.0, 1.0, 5.0).times(60) == drift.Slope(120.0, 60.0, 300.0)
