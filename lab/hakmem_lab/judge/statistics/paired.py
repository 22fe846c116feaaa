"""Paired comparison: Hodges–Lehmann estimate and the interval that inverts the signed-rank test.

Duty: one number and its interval from per-block log-ratios; several arms against one baseline, with the family-wise
error controlled; the order statistics that enclose a quantile; the exact interval of a rate. May import NumPy and
SciPy.

The interval is a pair of order statistics of the Walsh averages (d_i + d_j) / 2, i <= j. Their ranks come from the
exact null distribution of the signed-rank statistic up to `EXACT_LIMIT` blocks and from its normal approximation above.
Up to `DIRECT_LIMIT` blocks the averages are sorted; above, each order statistic is selected exactly by bisection on a
count that needs O(n) memory.

Simultaneous intervals are Bonferroni's: k intervals, each at level 1 - (1 - level) / k. They are exact in small
samples, valid for any dependence between the arms, and need no random numbers. A sign-flip max-T would be a few percent
narrower for arms that share a baseline, but would assume symmetry of all arms jointly.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TypedDict

import numpy as np

from hakmem_lab.judge.statistics.special import bdtr, gammaincinv, ndtri, stdtrit


def quantile_interval(values: Sequence[float], q: float, level: float = 0.95) -> tuple[float, float, float]:
    """(quantile, low, high) of values in their own unit, 0 < q < 1.

    The interval encloses the population's q-quantile with at least `level` for independent values of any distribution;
    an end is infinite if no order statistic is far enough out. ValueError for empty or non-finite values.
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    if ordered.ndim != 1 or ordered.size == 0 or not np.isfinite(ordered).all():
        raise ValueError("expected a non-empty one-dimensional sequence of finite numbers")
    if not (0 < q < 1 and 0 < level < 1):
        raise ValueError(f"quantile and level must lie between 0 and 1, got {q} and {level}")
    n = ordered.size
    tail = (1 - level) / 2
    # The number of values below the quantile is binomial(n, q), so the r-th value is above it with P(count <= r-1).
    cumulative = bdtr(np.arange(n), n, q)
    lower_rank = int(np.searchsorted(cumulative, tail, side="right"))
    upper_rank = int(np.searchsorted(cumulative, 1 - tail, side="left")) + 1
    low = float(ordered[lower_rank - 1]) if lower_rank else -math.inf
    high = float(ordered[upper_rank - 1]) if upper_rank <= n else math.inf
    return float(np.quantile(ordered, q)), low, high


def rate_interval(count: float, exposure: float, level: float = 0.95) -> "Interval":
    """Exact (Garwood) interval of a Poisson rate: `count` events, 0 or more, over `exposure` units, above 0."""
    if count < 0 or exposure <= 0 or not 0 < level < 1:
        raise ValueError(f"expected a count >= 0, an exposure > 0 and a level in 0…1, got {count}, {exposure}, {level}")
    tail = (1 - level) / 2
    low = float(gammaincinv(count, tail)) if count else 0.0
    high = float(gammaincinv(count + 1, 1 - tail))
    return Interval(count / exposure, low / exposure, high / exposure, level, int(count))


Values = Sequence[float] | np.ndarray  # of one dimension
EXACT_LIMIT = 200
DIRECT_LIMIT = 500
ROUNDING = 1e-12  # relative; a sum of some thousand terms and a logarithm stay below it
_TAIL_TOLERANCE = 1 + 1e-9


Ends = TypedDict("Ends", {"estimate": float, "ci_low": float, "ci_high": float})  # noqa: UP013 (one line)


class Row(Ends):
    level: float


@dataclass(frozen=True)
class Interval:
    """An estimate with its confidence interval; `n` is the number of blocks, or of other units.

    `low` and `high` are infinite if `n` is too small for `level`.
    """

    estimate: float
    low: float
    high: float
    level: float
    n: int

    def ratio(self) -> "Interval":
        """The same interval as ratios minus one (an unbounded low end becomes -1)."""
        return replace(self, estimate=as_ratio(self.estimate), low=as_ratio(self.low), high=as_ratio(self.high))

    def ends(self) -> Ends:
        """The interval in a result's form, without its level: ratios minus one."""
        ratio = self.ratio()
        return {"estimate": ratio.estimate, "ci_low": ratio.low, "ci_high": ratio.high}

    def row(self) -> Row:
        """The interval in a result's form, with its level."""
        return {**self.ends(), "level": self.level}

    @classmethod
    def of_student(cls, estimate: float, error: float, freedom: int, level: float, n: int) -> "Interval":
        """Student's t interval around an estimate with this standard error."""
        half = -float(stdtrit(freedom, (1 - level) / 2)) * error
        return cls(estimate, estimate - half, estimate + half, level, n)

    def excludes_zero(self) -> bool:
        """Whether a difference is shown at this level."""
        return self.low > 0 or self.high < 0


def difference(first: Interval, second: Interval) -> Interval:
    """How much larger the second effect is, from the intervals of two independent measurements at the same level.

    Each end of an interval tells the variance on its side; the variances add (Zou and Donner 2008).
    """
    estimate = second.estimate - first.estimate
    below = math.hypot(second.estimate - second.low, first.high - first.estimate)
    above = math.hypot(second.high - second.estimate, first.estimate - first.low)
    return Interval(estimate, estimate - below, estimate + above, first.level, min(first.n, second.n))


def as_ratio(log_ratio: float) -> float:
    """Natural-log ratio to ratio minus one (0.0198 -> 0.02). A result too large for a float is the largest float."""
    return _raised(math.expm1, log_ratio)


def as_multiple(log_ratio: float) -> float:
    """Natural-log ratio to the ratio itself, as above."""
    return _raised(math.exp, log_ratio)


def _raised(power: Callable[[float], float], log_ratio: float) -> float:
    try:
        return power(log_ratio)
    except OverflowError:
        return float(np.finfo(float).max)


def as_log(ratio_minus_one: float) -> float:
    """Ratio minus one (above -1) to natural-log ratio."""
    return math.log1p(ratio_minus_one)


def checked(values: Values) -> np.ndarray:
    """The values as a one-dimensional float array; ValueError when empty, nested or not finite."""
    array = np.asarray(values, dtype=float)
    if array.ndim != 1 or array.size == 0:
        raise ValueError("expected a non-empty one-dimensional sequence of numbers")
    if not np.isfinite(array).all():
        raise ValueError("values must be finite numbers")
    return array


def centred(values: np.ndarray, largest: float | None = None) -> np.ndarray:
    """The values minus their mean; 0 throughout if only rounding sets them apart.

    `largest`: the size of the numbers from which the values were computed, if it is not their own.
    """
    size = float(np.abs(values).max()) if largest is None else largest
    return values - values.mean() if float(np.ptp(values)) > ROUNDING * size else np.zeros_like(values)


class WalshAverages:
    """The n(n+1)/2 averages of pairs (each value with itself too), by rank and by count."""

    def __init__(self, d: Values):
        self._sorted = np.sort(checked(d))
        self.n = self._sorted.size
        self.size = self.n * (self.n + 1) // 2
        self._all: np.ndarray | None = None
        if self.n <= DIRECT_LIMIT:
            bits = (self.n - 1).bit_length()
            first, second = (indices[: self.size] for indices in _pair_indices(1 << bits))
            self._all = np.sort((self._sorted[first] + self._sorted[second]) / 2)

    def count_at_most(self, value: float) -> int:
        """How many averages are <= value."""
        if self._all is not None:
            return int(np.searchsorted(self._all, value, side="right"))
        ordered_pairs = int(np.searchsorted(self._sorted, 2 * value - self._sorted, side="right").sum())
        return (ordered_pairs + int(np.searchsorted(self._sorted, value, side="right"))) // 2

    def order_statistic(self, rank: int) -> float:
        """The rank-th smallest average, rank from 1."""
        if self._all is not None:
            return float(self._all[rank - 1])
        x = self._sorted
        low, high = float(np.nextafter(x[0], -np.inf)), float(x[-1])
        while low < (middle := (low + high) / 2) < high:
            if self.count_at_most(middle) >= rank:
                high = middle
            else:
                low = middle
        return self._smallest_above(low)

    def _smallest_above(self, value: float) -> float:
        x = self._sorted
        partner = np.searchsorted(x, 2 * value - x, side="right")
        found = partner < self.n
        return float(((x[found] + x[partner[found]]) / 2).min())

    def median(self) -> float:
        return (self.order_statistic((self.size + 1) // 2) + self.order_statistic(self.size // 2 + 1)) / 2


@lru_cache(maxsize=8)
def _pair_indices(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Index pairs, ordered by the greater index, so that one array serves every smaller n."""
    return np.tril_indices(n)


@lru_cache(maxsize=EXACT_LIMIT)
def _exact_cdf(n: int) -> np.ndarray:
    """P(W <= w) of the signed-rank statistic for w = 0 … n(n+1)/2 under symmetry about 0."""
    density = np.zeros(n * (n + 1) // 2 + 1)
    density[0] = 1.0
    for rank in range(1, n + 1):
        shifted = np.zeros_like(density)
        shifted[rank:] = density[:-rank]
        density = (density + shifted) / 2
    return np.cumsum(density)


def _normal_moments(n: int) -> tuple[float, float]:
    return n * (n + 1) / 4, math.sqrt(n * (n + 1) * (2 * n + 1) / 24)


def _rank_for(n: int, level: float) -> int:
    """The largest k with P(W <= k-1) <= (1-level)/2; 0 where none exists."""
    tail = (1 - level) / 2
    if n <= EXACT_LIMIT:
        return int(np.searchsorted(_exact_cdf(n), tail * _TAIL_TOLERANCE, side="right"))
    mean, deviation = _normal_moments(n)
    return max(0, math.floor(mean - 0.5 + float(ndtri(tail)) * deviation) + 1)


def least_count(tail: float) -> int:
    """Fewest blocks for which a one-sided signed-rank probability can be as small as `tail` (2^-n <= tail)."""
    return math.ceil(-math.log2(tail * _TAIL_TOLERANCE))


def hodges_lehmann(d: Values) -> float:
    """The median of the Walsh averages: robust, and unbiased for symmetric data. ValueError when empty."""
    return WalshAverages(d).median()


def paired_intervals(d: Values, levels: Sequence[float]) -> list[Interval]:
    """One interval per level from the same blocks; see `paired_interval`."""
    if any(not 0 < level < 1 for level in levels):
        raise ValueError(f"confidence levels must lie between 0 and 1, got {list(levels)}")
    walsh = WalshAverages(d)
    estimate = walsh.median()
    intervals = []
    for level in levels:
        rank = _rank_for(walsh.n, level)
        low = walsh.order_statistic(rank) if rank else -math.inf
        high = walsh.order_statistic(walsh.size + 1 - rank) if rank else math.inf
        intervals.append(Interval(estimate, low, high, level, walsh.n))
    return intervals


def paired_interval(d: Values, level: float = 0.95) -> Interval:
    """Hodges–Lehmann estimate of the per-block log-ratios with its signed-rank interval.

    The interval is closed and excludes 0 exactly if the signed-rank test does; ties and zeros only make it wider. Its
    ends are infinite if n is too small for the level. ValueError for empty or non-finite data.
    """
    return paired_intervals(d, [level])[0]


def block_log_ratio(
    control_values: Sequence[float], treatment_values: Sequence[float], higher_is_better: bool
) -> float:
    """One block's log-ratio of geometric means, positive = treatment better.

    Values are in any unit, above 0; ValueError names the arm with an invalid value.
    """
    means = []
    for arm, values in (("control", control_values), ("treatment", treatment_values)):
        array = checked(values)
        if (array <= 0).any():
            raise ValueError(f"{arm}: a ratio needs values above 0, got {array[array <= 0][0]:g}")
        means.append(float(np.log(array).mean()))
    ratio = means[1] - means[0]
    return ratio if higher_is_better else -ratio


def median_interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float, float]:
    """(median, low, high) of raw values in their own unit, by order statistics; infinite ends where n is too small."""
    return quantile_interval(values, 0.5, level)


def simultaneous_intervals(columns: Mapping[str, Values], level: float = 0.95) -> dict[str, Interval]:
    """An interval per named column of per-block log-ratios; with probability `level` all of them hold at once."""
    if not columns:
        return {}
    each = 1 - (1 - level) / len(columns)
    return {name: paired_interval(d, each) for name, d in columns.items()}


def select_best(columns: Mapping[str, Values]) -> str:
    """The name of the column with the highest estimate (the first of equals); ValueError when there is none.

    Selection biases the winner's own estimate upwards: only a fresh run against the default may be quoted.
    """
    if not columns:
        raise ValueError("there are no sides to select from")
    return max(columns, key=lambda name: hodges_lehmann(columns[name]))
