"""Steps of a soak in made-up courses without noise: which rises count as steps, their places, and their rate."""

import numpy as np
import pytest
from scipy.stats import chi2

from hakmem_lab.judge.steps import Steps, _least, _means, _runs, steps


def exact(count, hours):
    """The exact 95 % interval of a rate."""
    return chi2.ppf(0.025, 2 * count) / 2 / hours, count / hours, chi2.ppf(0.975, 2 * count + 2) / 2 / hours


def rate(at, sizes, hours=2.0):
    return Steps(np.array(at, dtype=float), np.array(sizes, dtype=float), hours).rate()


def test_steps_that_are_alike_are_counted_over_what_follows_the_warm_up():
    found = rate([0.2, 0.4, 0.6, 0.8], [100] * 4)
    assert (found.low, found.estimate, found.high) == pytest.approx([100 * each for each in exact(4, 1.92)])
    assert (found.level, found.n) == (0.95, 4)


def test_steps_of_different_sizes_count_as_fewer():
    found = rate([0.3, 0.7], [300, 100])
    assert (found.low, found.estimate, found.high) == pytest.approx([250 * each for each in exact(1.6, 1.92)])


def test_without_steps_or_time_there_is_no_rate():
    assert rate([], []) is None and rate([0.6], [100], 0) is None and rate([0.6], [100], -1) is None
    assert rate([0.6], [100], 1e-3) is not None


def test_steps_of_the_first_half_alone_are_a_warm_up():
    early = [0.1, 0.2, 0.3, 0.4, 0.5]
    assert rate(early, [100] * 5).n == 5  # once in 32
    assert rate([*early, 0.52], [100] * 6) is None  # once in 64
    assert rate([*early, 0.53], [100] * 6).n == 6
    few = rate([*early, 0.15, 0.25, 0.35, 0.53], [100] * 8 + [200])
    assert (few.n, few.estimate) == (1, pytest.approx(200 / 0.96))


def test_a_point_is_the_mean_of_its_samples():
    assert _means(np.arange(1200.0)).tolist() == (2 * np.arange(600) + 0.5).tolist()
    assert _means(np.array([3.0, 1.0])).tolist() == [3, 1]
    assert _means(np.arange(1500.0)).size == 600


def test_neighbours_are_one_rise():
    assert _runs(np.array([True, False, True, True, False, False, True])) == [(0, 1), (2, 4), (6, 7)]
    assert _runs(np.zeros(3, dtype=bool)) == []


def test_a_step_is_more_than_noise_and_than_a_ramp():
    assert _least(np.zeros(50), 0).tolist() == [64.0] * 50
    assert _least(np.zeros(50), 20).tolist() == [120.0] * 50
    assert _least(-40.0 * np.arange(100), 1)[50] == 6 * 3 * 40


def course(*rises, points=600, over=1, base=0.0):
    """A flat course with rises (at, KiB), each spread over `over` points."""
    y = np.full(points, base)
    for at, size in rises:
        y += np.interp(np.arange(points), [at - 1, at - 1 + over], [0, size])
    return y


def found_in(y, hours=1.0):
    found = steps(y, hours)
    return [(round(at * min(len(y), 600)), size) for at, size in zip(found.at, found.sizes, strict=True)]


@pytest.mark.parametrize("base", [0.0, 500.0])
def test_steps_are_where_they_come_and_as_large(base):
    assert found_in(course((200, 100), (300, 4096), base=base)) == [(200, 100), (300, 4096)]
    assert found_in(course((300, 64))) == [] and found_in(course((300, 65))) == [(300, 65)]
    assert found_in(course((599, 4096))) == []  # no later point shows that it stays
    assert steps(course((300, 4096)), 3.0).hours == 3.0 == steps(np.zeros(2), 3.0).hours


def test_what_falls_again_is_no_step():
    y = course((300, 4096))
    y[400:] -= 4096
    assert found_in(y) == []
    y[400:] += 1000  # 1,000 KiB of the step stay
    assert found_in(y) == [(300, 1000)]


def test_a_point_may_hold_a_part_of_a_step():
    assert found_in(course((300, 4096), over=2)) == [(300, 4096)]
    assert found_in(course((300, 4096), over=3)) == []  # a ramp


def test_the_warm_up_and_short_courses_have_none():
    assert found_in(course((22, 4096))) == [] and found_in(course((23, 4096))) == [(23, 4096)]
    assert found_in(course((20, 4096), points=40)) == []
    assert found_in(course((20, 4096), points=41)) == [(20, 4096)]


def test_six_deviations_of_noise_hide_a_step():
    noise = 100 * np.resize([1.0, 0.0, -1.0, 0.0], 600)  # 6 × 1.4826 × 100 / √2 = 629
    assert found_in(course((300, 600)) + noise) == []
    assert found_in(course((300, 660)) + noise) == [(300, 660)]


def test_a_large_step_is_no_noise_that_hides_a_small_one():
    place = np.arange(400)
    found = steps(50_000.0 + place % 2 + 100_000 * (place >= 100) + 100 * (place >= 300), 1.0)
    assert found.at.tolist() == [0.25, 0.75]
    assert found.sizes == pytest.approx([100_000, 100], abs=1)


def test_two_steps_with_one_point_between_them_are_two():
    place = np.arange(400)
    found = steps(50_000.0 + place % 2 + 4096.0 * (place >= 200) + 4096 * (place >= 203), 1.0)
    assert found.at.tolist() == [0.5, 0.5075]
    assert found.sizes == pytest.approx([4096, 4096], abs=1)


def test_the_point_before_a_step_may_hold_a_part_of_it():
    place = np.arange(400)
    found = steps(50_000.0 + 4096.0 * (place >= 200) + 50 * (place == 203) + 4096 * (place >= 204), 1.0)
    assert found.at.tolist() == [0.5, 0.51]
    assert found.sizes.tolist() == [4096, 4096]
