"""Quantiles with distribution-free intervals.

Duty: a quantile and the order statistics that enclose it. May import NumPy and SciPy.
"""

import math
from collections.abc import Sequence

import numpy as np
from scipy.special import bdtr


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
