"""Memory that grows in lasting steps: the rate of growth is the number of steps in an hour times their size. Pure.

The times of the steps are assumed to be random, so their rate has an exact interval, however few they are. If all steps
came in the first half, they are a warm-up.
"""

from dataclasses import dataclass

import numpy as np

from hakmem_lab.judge.statistics.paired import Interval, rate_interval
from hakmem_lab.judge.statistics.special import bdtr

POINTS = 600
WARM_UP = 0.04  # share of the time
WIDEST = 3  # most points that a step may take; a longer rise is a ramp
RAMPS, NEARBY = 6.0, 41  # a step exceeds this multiple of the ramp, estimated from so many points around it
NOISES = 6.0  # a step exceeds this multiple of a point's standard deviation
LEAST_KIB = 64.0
LEVEL = 0.95
UNEVEN = 0.05


@dataclass(frozen=True)
class Steps:
    """sizes in KiB; at: times of the steps, as shares of the whole time; hours: the whole time."""

    at: np.ndarray
    sizes: np.ndarray
    hours: float

    def rate(self) -> Interval | None:
        """KiB per hour; None without steps. Steps of different sizes count as fewer steps of equal size. The high end
        does not allow for larger steps in the future."""
        at, sizes, hours = self.at, self.sizes, self.hours * (1 - WARM_UP)
        late = at > (1 + WARM_UP) / 2
        if bdtr(int(late.sum()), sizes.size, 0.5) < UNEVEN / 2:
            sizes, hours = sizes[late], hours / 2
        if not sizes.size or hours <= 0:
            return None
        alike = float(np.square(sizes).sum() / sizes.sum())
        each = rate_interval(float(sizes.sum()) / alike, hours, LEVEL)
        return Interval(each.estimate * alike, each.low * alike, each.high * alike, LEVEL, int(sizes.size))


def _means(y: np.ndarray) -> np.ndarray:
    ends = np.linspace(0, y.size, min(POINTS, y.size) + 1).astype(int)
    return np.add.reduceat(y, ends[:-1]) / np.diff(ends)


def _runs(found: np.ndarray) -> list[tuple[int, int]]:
    """(first, one past the last) index of each run of true values."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], found.astype(int), [0]])))
    return [(int(a), int(b)) for a, b in edges.reshape(-1, 2)]


def _least(points: np.ndarray, noise: float) -> np.ndarray:
    """The smallest rise that counts as a step at each point: more than noise, and more than a ramp would give."""
    from scipy.ndimage import median_filter  # slow to load

    over = np.concatenate([np.zeros(WIDEST), points[WIDEST:] - points[:-WIDEST]])
    return np.maximum(max(LEAST_KIB, NOISES * noise), RAMPS * np.abs(median_filter(over, NEARBY, mode="nearest")))


def steps(y: np.ndarray, hours: float) -> Steps:
    """Find the steps in a series of resident memory in KiB."""
    points = _means(np.asarray(y, dtype=float))
    if points.size < NEARBY:
        return Steps(np.empty(0), np.empty(0), hours)
    noise = 1.4826 * float(np.median(np.abs(np.diff(points)))) / np.sqrt(2)
    least = _least(points, noise)
    # The rise across a step's most points: from the highest value just before it to the lowest that ever came after.
    after = np.minimum.accumulate(points[::-1])[::-1]
    rises = np.zeros(points.size)
    rises[3:] = after[3:] - np.maximum(points[1:-2], points[:-3])  # a point may hold a part of the step
    runs, first = _runs(rises > least - 3 * noise), WARM_UP * points.size
    found = [(a, b) for a, b in runs if b - a <= WIDEST and first < b < points.size]
    ends = [0, *(b for _, b in found)]
    begins = [*(a - 1 for a, _ in found), points.size]
    levels = [float(np.median(points[a : max(b, a + 1)])) for a, b in zip(ends, begins, strict=True)]
    sizes, at = np.diff(levels), np.array([a for a, _ in found], dtype=int)
    kept = sizes > least[at]
    return Steps(at[kept] / points.size, sizes[kept], hours)
