"""What a slope does not see: memory that grows in steps, and memory that comes back. Pure.

A median of slopes is 0 where a leak comes in one step, and a search for the warm-up takes that step for its end; it is
above 0 where a process that gives its memory back every now and then is looked at between two such times. So a slope
within the budget is believed only where no step lasts, and one above it only where what grew did not come back.
All work on rows of samples at equal times, one series each, their last axis is time.
"""

import numpy as np

POINTS = 100
# A step that comes in this part of the time may be the end of the warm-up: of a leak whose steps may come at any time
# no more than that share is missed.
WARM_UP_POINTS = 4
_BEFORE = 3  # points; the last of them may hold a part of the step
_OF_THE_RISE = 0.4
_LEAST_TURNS = 12


def thinned(y: np.ndarray) -> np.ndarray:
    """Means of about POINTS equal parts."""
    ends = np.linspace(0, y.shape[-1], min(POINTS, y.shape[-1]) + 1).astype(int)
    return np.add.reduceat(y, ends[:-1], axis=-1) / np.diff(ends)


def lasting_step(y: np.ndarray) -> np.ndarray:
    """The greatest rise from one moment to the next below which the series never came again, once the warm-up may be
    over: what is most of all that it rose by. 0 where there is none, as in a ramp."""
    points = thinned(y)
    after = np.minimum.accumulate(points[..., ::-1], axis=-1)[..., ::-1]
    padded = np.concatenate([points[..., :1]] * _BEFORE + [points], axis=-1)
    before = np.maximum.reduce([padded[..., i : i + points.shape[-1]] for i in range(_BEFORE - 1)])
    rises = (after - before)[..., WARM_UP_POINTS:]
    if rises.shape[-1] == 0:
        return np.zeros(y.shape[:-1])
    step, rise = rises.max(axis=-1), points[..., -1] - points[..., WARM_UP_POINTS - 1]
    return np.where((step > 0) & (step >= _OF_THE_RISE * rise), step, 0.0)


def stays_risen(y: np.ndarray, rise: np.ndarray, least: float) -> np.ndarray:
    """Whether the series did not come back by as much as half of what its slope makes of it (`rise`); or, of one that
    comes back often, whether its lowest and its highest values rose, at the rate of more than `least` in this time."""
    points = thinned(y)[..., WARM_UP_POINTS:]
    size = points.shape[-1]
    back = (np.maximum.accumulate(points, axis=-1) - points).max(axis=-1)
    away = points - np.asarray(rise)[..., None] * np.linspace(0, 1, size)
    above = away > np.median(away, axis=-1, keepdims=True)
    turns = (above[..., 1:] != above[..., :-1]).sum(axis=-1)
    third = max(1, y.shape[-1] // 3)
    first, last = y[..., :third], y[..., -third:]
    rose = np.minimum(last.min(axis=-1) - first.min(axis=-1), last.max(axis=-1) - first.max(axis=-1))
    return (back < np.asarray(rise) / 2) | ((turns >= _LEAST_TURNS) & (rose > np.maximum(rise / 3, least * 2 / 3)))
