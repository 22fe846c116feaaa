"""Rises that last, compared with loops over the points of one series."""

import itertools

import numpy as np
import pytest

from hakmem_lab.judge.lasting import largest_fall, lasting_step, stays_risen, thinned


def points_of(y):
    """Means of a hundred parts; short series as they are."""
    count = min(100, len(y))
    ends = [int(part * len(y) / count) for part in range(count + 1)]
    return [float(np.mean(y[a:b])) for a, b in itertools.pairwise(ends)]


def step_of(y):
    """The largest rise over the two points before the last one, which the series then keeps."""
    points = points_of(y)
    rises = [min(points[i:]) - max(points[max(i - 3, 0)], points[max(i - 2, 0)]) for i in range(len(points))]
    sudden = [rise if rise > 2 * (rises[i - 3] if i >= 3 else 0.0) else 0.0 for i, rise in enumerate(rises)]
    step, rise = max(sudden[4:], default=0.0), points[-1] - points[3]
    return step if step > fall_of(points) and step >= 0.4 * rise else 0.0


def fall_of(points):
    return max(max(points[: i + 1]) - point for i, point in enumerate(points))


def course(seed, size=400):
    """Noise, a ramp, and a step or two somewhere."""
    rng = np.random.default_rng(seed)
    y = rng.normal(0, rng.choice([0.1, 2.0]), size) + np.linspace(0, rng.choice([0.0, 5.0, 30.0]), size)
    for _ in range(rng.integers(1, 3)):
        y[rng.integers(0, size) :] += rng.choice([-8.0, 3.0, 10.0, 20.0])
    return y


@pytest.mark.parametrize("size", [5, 99, 100, 101, 250, 400])
def test_points_are_means_of_equal_parts(size):
    y = np.random.default_rng(1).normal(size=(2, size))
    assert thinned(y) == pytest.approx(np.array([points_of(row) for row in y]))


def test_the_largest_step_is_that_of_the_loops():
    rows = np.array([course(seed) for seed in range(120)])
    expected = [step_of(row) for row in rows]
    assert lasting_step(rows) == pytest.approx(np.array(expected))
    assert 24 < np.count_nonzero(expected) < 96


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8])
def test_few_points_have_steps_only_behind_the_warm_up(size):
    y = 8.0 * (np.arange(size) >= size - 1)
    assert lasting_step(y) == (8.0 if size > 4 else 0.0)
    assert lasting_step(np.array([y] * 3)).tolist() == [8.0 if size > 4 else 0.0] * 3


def test_a_fall_as_large_as_the_step_hides_it():
    level = [10.0] * 40
    assert lasting_step(np.array([*level, *[0.0] * 20, *[9.0] * 40])) == 0
    assert lasting_step(np.array([*level, *[20.0] * 20, *[30.5] * 20, *[20.0] * 20])) == 0
    assert lasting_step(np.array([*level, *[25.0] * 20, *[20.0] * 40])) == pytest.approx(10.0)
    assert lasting_step(np.array([*level, *[20.0] * 20, *[10.0] * 40])) == 0


def test_the_largest_fall_is_from_any_earlier_value():
    rows = np.random.default_rng(2).normal(size=(20, 30))
    assert largest_fall(rows) == pytest.approx(np.array([fall_of(list(row)) for row in rows]))


def stays(y, rise, least):
    """A rise was kept if no fall behind the warm-up is half as large, or if a series that turns twelve times about
    its line has a higher lowest and a higher highest value in its last third than in its first."""
    points = points_of(y)[4:]
    if fall_of(points) < rise / 2:
        return True
    away = [point - rise * i / (len(points) - 1) for i, point in enumerate(points)]
    middle = np.median(away)
    above = [value > middle for value in away]
    turns = sum(a != b for a, b in itertools.pairwise(above))
    third = max(1, len(y) // 3)
    rose = min(min(y[-third:]) - min(y[:third]), max(y[-third:]) - max(y[:third]))
    return turns >= 12 and rose > max(rise / 3, least * 2 / 3)


@pytest.mark.parametrize("least", [0.0, 4.0, 9.0])
def test_a_rise_was_kept_as_the_loops_say(least):
    rng = np.random.default_rng(3)
    rise = rng.choice([0.5, 3.0, 10.0, 25.0], 120)
    waves = rng.choice([0.0, 6.0], 120)[:, None] * np.sin(
        np.arange(300) * rng.choice([0.05, 0.12, 0.15, 0.4], 120)[:, None]
    )
    rows = (
        np.linspace(0, 1, 300) * (rise * rng.choice([0.3, 1.0], 120))[:, None] + waves + rng.normal(0, 0.3, (120, 300))
    )
    expected = [stays(row, each, least) for row, each in zip(rows, rise, strict=True)]
    assert stays_risen(rows, rise, least).tolist() == expected
    assert 12 < sum(expected) < 108


@pytest.mark.parametrize(("fall", "kept"), [(0.49, True), (0.5, False)])
def test_a_rise_is_lost_by_a_fall_of_half_of_it(fall, kept):
    y = np.array([*np.linspace(0, 2, 60), *[2.0 - fall] * 60])
    assert bool(stays_risen(y[None, :100], np.array([1.0]), 9.0)[0]) is kept


def test_a_fall_within_the_warm_up_does_not_count():
    y = np.array([50.0, 50.0, 50.0, 50.0, *np.linspace(0, 8, 96)])
    assert stays_risen(y[None], np.array([8.0]), 0.0)[0]


@pytest.mark.parametrize(("second", "step"), [(9.0, 9.0), (7.0, 0.0)])
def test_a_step_is_more_than_twice_the_rise_just_before_it(second, step):
    """The first rise, by 4, is less than 0.4 of both together."""
    assert lasting_step(np.array([*[0.0] * 40, *[4.0] * 3, *[4 + second] * 57])) == step


@pytest.mark.parametrize(("turns", "kept"), [(12, True), (11, False)])
def test_a_sawtooth_turns_at_least_twelve_times(turns, kept):
    """A point each; each tooth is 35 deep, and half of the points are above the line."""
    low, high = turns // 2 + 1, (turns + 1) // 2
    sides = [[48 // count + (i < 48 % count) for i in range(count)] for count in (low, high)]
    teeth = [np.full(sides[i % 2][i // 2], 35.0 * (i % 2)) for i in range(turns + 1)]
    y = np.concatenate([np.zeros(4), *teeth]) + np.concatenate([np.zeros(4), np.linspace(0, 60, 96)])
    assert bool(stays_risen(y, np.float64(60.0), 0.0)) is kept
    assert stays_risen(np.array([y, y]), np.array([60.0, 60.0]), 0.0).tolist() == [kept, kept]


def test_a_peak_does_not_hide_the_turns_of_a_sawtooth():
    y = np.concatenate([np.zeros(4), np.tile(np.repeat([0.0, 10.0], 4), 12)]) + np.linspace(0, 6, 100)
    y[-1] = 5000
    assert stays_risen(y, np.float64(6.0), 0.0)


def test_points_on_the_line_are_not_above_it():
    """The lowest values, more than half of all, lie on the line; in the last third they are higher."""
    y = np.concatenate([np.zeros(4), np.tile([*[0.0] * 5, 10.0], 10), np.tile([1.0, 12.0], 18)])
    assert stays_risen(y, np.float64(0.0), 0.0)


def test_the_whole_rise_begins_with_the_last_point_of_the_warm_up():
    """A ramp of 0.1 a point from there on, and a jump that the two points before it make 0.2 larger."""
    place = np.arange(100)
    ramp, jump = 0.1 * np.maximum(0, place - 3), place >= 50
    assert lasting_step(ramp + 6.05 * jump) == 0
    assert lasting_step(ramp + 6.1 * jump) == pytest.approx(6.3)
