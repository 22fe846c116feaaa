"""The difference of two samples that were not taken in blocks, by inverting the Mann-Whitney test.

Duty: compare figures that other tools measured without pairs. May import NumPy, SciPy, `paired`, `aa`.

If neighbours within a sample are correlated, the interval is widened as for correspondingly fewer independent values.
It cannot account for other changes between the two samples, such as in the load of the machine.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from hakmem_lab.judge.statistics.aa import autocorrelation
from hakmem_lab.judge.statistics.paired import Interval, centred, checked
from hakmem_lab.judge.statistics.special import ndtri

EXACT_PAIRS = 2500
LEAST_FOR_NEIGHBOURS = 8
LEAST_FOR_CORRECTION = 4


@lru_cache
def _excluded(n: int, m: int, tail: float) -> int:
    """The number of differences at each end that the interval excludes: P(U < this) is at most `tail`."""
    if n * m > EXACT_PAIRS:
        spread = math.sqrt(n * m * (n + m + 1) / 12)
        return max(0, math.floor(n * m / 2 + float(ndtri(tail)) * spread))
    ways = np.zeros(n * m + 1)
    ways[0] = 1.0
    for i in range(1, min(n, m) + 1):  # Gauss's binomial coefficient: one factor up, one down
        top = max(n, m) + i
        ways[top:] -= ways[:-top].copy() if top <= n * m else 0
        for at in range(i, n * m + 1):
            ways[at] += ways[at - i]
    return int(np.searchsorted(np.cumsum(ways) / ways.sum(), tail * (1 + 1e-9), side="right"))


def neighbours(values: Sequence[float] | np.ndarray) -> float:
    """The lag-1 autocorrelation, limited to 0 to 0.95; 0 with too few values."""
    return min(0.95, max(0.0, autocorrelation(list(values)))) if len(values) >= LEAST_FOR_NEIGHBOURS else 0.0


def alike(control: Sequence[float] | np.ndarray, treatment: Sequence[float] | np.ndarray) -> float:
    """The lag-1 autocorrelation of both samples together, each around its own mean; 0 with too few values."""
    parts = [centred(np.asarray(values, dtype=float)) for values in (control, treatment)]
    size = sum(float(part @ part) for part in parts)
    return sum(float(part[:-1] @ part[1:]) for part in parts) / size if size > 0 else 0.0


def _corrected(control: np.ndarray, treatment: np.ndarray) -> float:
    """Like `alike`, corrected for the bias from the two estimated means; limited to 0 to 0.95."""
    n = (control.size + treatment.size) / 2
    return min(0.95, max(0.0, (n * alike(control, treatment) + 1) / (n - 3))) if n > LEAST_FOR_CORRECTION else 0.0


def shift(control: Sequence[float], treatment: Sequence[float], level: float) -> Interval:
    """How far the treatment's values lie above the control's: Hodges and Lehmann's estimate with its interval."""
    x, y = checked(control), checked(treatment)
    differences = np.sort((y[:, None] - x[None, :]).ravel())
    estimate, out = float(np.median(differences)), _excluded(x.size, y.size, (1 - level) / 2)
    if out == 0:
        return Interval(estimate, -math.inf, math.inf, level, min(x.size, y.size))
    r = max(neighbours(x), neighbours(y), _corrected(x, y))
    wider = math.sqrt((1 + r) / (1 - r))
    low, high = (estimate + wider * (float(differences[at]) - estimate) for at in (out - 1, -out))
    return Interval(estimate, low, high, level, min(x.size, y.size))


def shift_of_means(control: Sequence[float], treatment: Sequence[float], level: float) -> Interval:
    """Log of the ratio of the arithmetic means, treatment to control, of values above 0; Student's t, linearised."""
    x, y = checked(control), checked(treatment)
    largest = x.max(), y.max()  # scaled to at most 1, so that no sum overflows
    x, y, n = x / largest[0], y / largest[1], min(x.size, y.size)
    estimate = math.log(y.mean()) - math.log(x.mean()) + math.log(largest[1]) - math.log(largest[0])
    if n < 2:
        return Interval(estimate, -math.inf, math.inf, level, n)
    error = math.sqrt(sum((v.std(ddof=1) / v.mean()) ** 2 / v.size for v in (x, y)))
    return Interval.of_student(estimate, error, n - 1, level, n)
