"""Intervals that assume no distribution's shape: of a quantile, and of the rate of counted events.

Duty: the order statistics that enclose a quantile; the exact interval of a rate. May import NumPy and SciPy.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import bdtr, gammaincinv


def quantile_interval(values: Sequence[float], q: float, level: float = 0.95) -> tuple[float, float, float]:
    """(quantile, low, high) of values in their own unit, 0 < q < 1.

    The interval encloses the population's q-quantile with at least `level` for independent values of any distribution;
    an end is infinite where no order statistic reaches it. ValueError for empty or non-finite values.
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    if ordered.ndim != 1 or ordered.size == 0 or not np.isfinite(ordered).all():
        raise ValueError("expected a non-empty one-dimensional sequence of finite numbers")
    if not (0 < q < 1 and 0 < level < 1):
        raise ValueError(f"quantile and level must lie between 0 and 1, got {q} and {level}")
    n = ordered.size
    tail = (1 - level) / 2
    # The number of values below the quantile is binomial(n, q): the r-th value is above it with P(count <= r-1).
    cumulative = bdtr(np.arange(n), n, q)
    lower_rank = int(np.searchsorted(cumulative, tail, side="right"))
    upper_rank = int(np.searchsorted(cumulative, 1 - tail, side="left")) + 1
    low = float(ordered[lower_rank - 1]) if lower_rank else -math.inf
    high = float(ordered[upper_rank - 1]) if upper_rank <= n else math.inf
    return float(np.quantile(ordered, q)), low, high


@dataclass(frozen=True)
class Rate:
    """Events per unit of exposure with its interval."""

    estimate: float
    low: float
    high: float
    level: float


def rate_interval(count: int, exposure: float, level: float = 0.95) -> Rate:
    """Exact (Garwood) interval of a Poisson rate: `count` events, 0 or more, over `exposure` units, above 0."""
    if count < 0 or exposure <= 0 or not 0 < level < 1:
        raise ValueError(f"expected a count >= 0, an exposure > 0 and a level in 0…1, got {count}, {exposure}, {level}")
    tail = (1 - level) / 2
    low = float(gammaincinv(count, tail)) if count else 0.0
    high = float(gammaincinv(count + 1, 1 - tail))
    return Rate(count / exposure, low / exposure, high / exposure, level)
