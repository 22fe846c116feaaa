"""Rises of memory that last: at once, or as a slope. Pure. The last axis of an array is time."""

import numpy as np

POINTS = 100
# A step within these first points may be the end of the warm-up. If a leak's step may come at any time, at most that
# share of leaks is missed.
WARM_UP_POINTS = 4
_BEFORE = 3  # points; the last of them may hold a part of the step
_SUDDEN = 2.0  # a step is more than this multiple of the rise just before it
_OF_THE_RISE = 0.4
_LEAST_TURNS = 12


def thinned(y: np.ndarray) -> np.ndarray:
    """Means of about POINTS equal parts."""
    ends = np.linspace(0, y.shape[-1], min(POINTS, y.shape[-1]) + 1).astype(int)
    return np.add.reduceat(y, ends[:-1], axis=-1) / np.diff(ends)


def lasting_step(y: np.ndarray) -> np.ndarray:
    """The largest lasting rise at one point after the warm-up: the series never falls below it again.

    0 if it is less than the share _OF_THE_RISE of the whole rise, as in a ramp; if the series rose as fast just before,
    as in a warm-up; or if it ever fell by as much, as a sawtooth does.
    """
    points = thinned(y)
    if points.shape[-1] <= WARM_UP_POINTS:
        return np.zeros(y.shape[:-1])
    after = np.minimum.accumulate(points[..., ::-1], axis=-1)[..., ::-1]
    padded = np.concatenate([points[..., :1]] * _BEFORE + [points], axis=-1)
    before = np.maximum.reduce([padded[..., i : i + points.shape[-1]] for i in range(_BEFORE - 1)])
    rises = after - before
    earlier = np.concatenate([np.zeros((*y.shape[:-1], _BEFORE)), rises[..., :-_BEFORE]], axis=-1)
    rises = np.where(rises > _SUDDEN * earlier, rises, 0.0)[..., WARM_UP_POINTS:]
    step, rise = rises.max(axis=-1), points[..., -1] - points[..., WARM_UP_POINTS - 1]
    return np.where((step > largest_fall(points)) & (step >= _OF_THE_RISE * rise), step, 0.0)


def largest_fall(points: np.ndarray) -> np.ndarray:
    """By how much the series was below an earlier value, at most."""
    return (np.maximum.accumulate(points, axis=-1) - points).max(axis=-1)


def stays_risen(y: np.ndarray, rise: np.ndarray, least: float) -> np.ndarray:
    """Whether a rise was kept. `rise`: the rise that the slope implies; the series must never fall by half of it.

    A series that falls often may instead have rising lowest and highest values, at a rate above `least` for this time.
    """
    points = thinned(y)[..., WARM_UP_POINTS:]
    size = points.shape[-1]
    away = points - np.asarray(rise)[..., None] * np.linspace(0, 1, size)
    above = away > np.median(away, axis=-1, keepdims=True)
    turns = (above[..., 1:] != above[..., :-1]).sum(axis=-1)
    third = max(1, y.shape[-1] // 3)
    first, last = y[..., :third], y[..., -third:]
    rose = np.minimum(last.min(axis=-1) - first.min(axis=-1), last.max(axis=-1) - first.max(axis=-1))
    return (largest_fall(points) < np.asarray(rise) / 2) | (
        (turns >= _LEAST_TURNS) & (rose > np.maximum(rise / 3, least * 2 / 3))
    )
