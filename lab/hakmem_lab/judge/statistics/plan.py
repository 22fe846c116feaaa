"""A plan: when a run may be judged, and the interval that holds at all these times.

Duty: planned looks with their O'Brien–Fleming levels, the test after every block, and both joined into one interval.
May import NumPy, SciPy and `paired`. Other kinds use `shown_after` and `Bets` on their own per-block contrasts.

Looks. On the scale of a Brownian motion B(t), t the share of the planned blocks, the O'Brien–Fleming boundary is one
constant c: look k rejects when |B(t_k)| >= c, that is |z_k| >= c / sqrt(t_k). To find c, the density of the paths that
have not crossed yet is integrated from look to look.

Bets on the sign of every block: a test and an interval that hold at every time. If the true effect is c, the sign of
d_i - c is a fair coin, independent of its size and of earlier blocks. Under A/A that follows from the random order of
the block, else from the symmetry that the signed-rank interval assumes as well. A capital of 1 is multiplied by 1 + b_i
in every block, with b_i odd in d_i - c and |b_i| < 1. That is a fair game, so the probability that the capital ever
exceeds 1 / tail is at most `tail` (Ville). Several stakes are played side by side, and their capitals are added:

    b_i = most * tanh(slope * (d_i - c) / (s_i * most))         s_i: the spread of the blocks before the i-th

A bet grows with d_i - c, so the capital falls as c rises. Evidence against "at most c" is therefore evidence against
all smaller values, and the values of c with a small capital form an interval. Bets are bounded, so a disturbed block
cannot ruin the capital.

The plan. Alpha is divided: the looks get 1 - `share` of it, the bets the rest. The interval consists of the values that
neither the looks so far nor the bets exclude. So it only shrinks, a shown effect stays shown, and it holds after any
number of blocks, even after more than were planned.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from hakmem_lab.judge.statistics.paired import Interval, Values, checked, hodges_lehmann, least_count, paired_intervals
from hakmem_lab.judge.statistics.special import ndtr, ndtri

_NODES = 256
_FAR = -9.0


def planned_looks(max_blocks: int, looks: int = 3) -> list[int]:
    """Block counts at which to look: equal shares of `max_blocks`, distinct, increasing, the last one `max_blocks`."""
    if max_blocks < 1 or looks < 1:
        raise ValueError(f"at least one block and one look are needed, got {max_blocks} and {looks}")
    counts = {round(max_blocks * k / looks) for k in range(1, looks)} | {max_blocks}
    return sorted(count for count in counts if count > 0)


def obrien_fleming_levels(looks: int | Sequence[int], alpha: float, two_sided: bool = True) -> list[float]:
    """The nominal p-value that each look must reach.

    `looks` is a number of equally spaced looks, or the increasing block counts of each. Two-sided levels are compared
    with a two-sided p-value (interval level = 1 - value), one-sided ones with a one-sided p-value (interval level =
    1 - 2 * value). ValueError unless 0 < alpha < 0.5 and the counts increase from above 0.
    """
    counts = tuple(range(1, looks + 1)) if isinstance(looks, int) else tuple(looks)
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha must lie between 0 and 0.5, got {alpha}")
    if not counts or counts[0] <= 0 or any(b <= a for a, b in pairwise(counts)):
        raise ValueError(f"looks must be increasing block counts above 0, got {list(counts)}")
    return list(_levels(counts, alpha, two_sided))


@lru_cache(maxsize=1024)
def _levels(counts: tuple[int, ...], alpha: float, two_sided: bool) -> tuple[float, ...]:
    sides = 2 if two_sided else 1
    if len(counts) == 1:
        return (alpha,)
    from scipy.optimize import brentq  # slow to load, and not needed for a single look

    shares = [count / counts[-1] for count in counts]
    start = -float(ndtri(alpha / sides))
    constant = brentq(lambda c: _crossing(c, shares, two_sided) - alpha, start, 2 * start + 2, xtol=1e-10)
    return tuple(sides * float(ndtr(-constant / math.sqrt(share))) for share in shares)


@lru_cache(maxsize=1)
def _gauss_legendre() -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(_NODES)


def _crossing(constant: float, shares: Sequence[float], two_sided: bool) -> float:
    """P(the Brownian motion is beyond ±constant, or above it, at any look)."""
    floor = -constant if two_sided else _FAR
    nodes, weights = _gauss_legendre()
    nodes = (constant - floor) / 2 * nodes + (constant + floor) / 2
    weights = (constant - floor) / 2 * weights
    density = _normal_density(nodes, shares[0])
    for before, share in pairwise(shares):
        density = _normal_density(nodes[:, None] - nodes[None, :], share - before) @ (density * weights)
    return 1 - float(density @ weights)


def _normal_density(x: np.ndarray, variance: float) -> np.ndarray:
    return np.exp(-x * x / (2 * variance)) / math.sqrt(2 * math.pi * variance)


# Slope at 0 (per spread of a block), largest bet, share of the capital. Chosen by simulation for true effects of 0.2 to
# 3 spreads, which take 8 to some hundred blocks.
STAKES = ((0.2, 0.4, 0.1), (0.5, 0.8, 0.2), (1.1, 0.97, 0.7))
_SLOPES, _MOST, _SHARES = np.array(STAKES).T[:, :, None]
_FIRST_KNOWN, _QUARTILES_FROM = 2, 5
_QUARTILE_RANGE = 1.349
_REFRESH = 1.1
_DOUBLINGS, _LEAST_STEP = 12, 1e-9
_CLOSE = 1e-12  # share of the way to an end, to which it is found


def spreads_before(d: np.ndarray) -> np.ndarray:
    """For every block, the spread of the blocks before it; NaN for the first two. It does not depend on their location.

    `d`: blocks, or rows of blocks. The spread is the sample standard deviation of few blocks, later it follows from the
    quartiles. It is recomputed whenever the number of known blocks has grown by a tenth.
    """
    found = np.full(d.shape, np.nan)
    due = _FIRST_KNOWN
    while due < d.shape[-1]:
        found[..., due:] = _spread(d[..., :due])[..., None]
        due = math.ceil(due * _REFRESH)
    return found


def _spread(known: np.ndarray) -> np.ndarray:
    if known.shape[-1] < _QUARTILES_FROM:
        return known.std(axis=-1, ddof=1)
    ordered, quarter = np.sort(known, axis=-1), (known.shape[-1] - 1) // 4
    return (ordered[..., -1 - quarter] - ordered[..., quarter]) / _QUARTILE_RANGE


class Bets:
    """The capital of the bets on either side of any centre, after every block."""

    def __init__(self, d: Values):
        self._d = checked(d)
        self._spreads = spreads_before(self._d)

    def log_capital(self, centre: float, above: bool = True) -> np.ndarray:
        """Log of the largest capital so far, after each block, of the bet that the effect is above (below) `centre`."""
        away = (self._d - centre) if above else (centre - self._d)
        return np.maximum.accumulate(log_capital(away, self._spreads))

    def bound(self, tail: float, above: bool = True, known: float = math.nan) -> float:
        """One end of the interval; `tail` bounds the probability that it ever misses. Infinite with too few blocks.

        An end that is `known` is returned where this one is not nearer to the blocks.
        """
        near, far = (self._d.min(), self._d.max()) if above else (self._d.max(), self._d.min())
        if math.isfinite(known):
            return self._crossing(known, far, tail, above) if self._excess(known, tail, above) >= 0 else known
        step = max(abs(far - near), _LEAST_STEP) * (-1 if above else 1)
        for doubling in range(_DOUBLINGS):
            end = near + step * 2**doubling
            if self._excess(end, tail, above) >= 0:
                return self._crossing(end, far, tail, above)
        return -math.inf if above else math.inf

    def _excess(self, centre: float, tail: float, above: bool) -> float:
        """Log of the largest capital so far, as a multiple of the one that suffices."""
        return float(self.log_capital(centre, above)[-1]) + math.log(tail)

    def _crossing(self, shown: float, open_: float, tail: float, above: bool) -> float:
        """The last centre on the way from `shown` to `open_` at which the capital suffices."""
        from scipy.optimize import brentq  # slow to load

        return float(brentq(self._excess, shown, open_, (tail, above), xtol=_CLOSE * abs(open_ - shown)))


def log_capital(away: np.ndarray, spreads: np.ndarray) -> np.ndarray:
    """Log of the capital after each block. away: blocks, or rows of blocks, minus the centre; the last axis is time."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(np.isnan(spreads), np.sign(away), away / spreads)
    z = np.where(away == 0, 0.0, z)[..., None, :]  # 0 / 0
    won = np.log1p(_MOST * np.tanh(_SLOPES * z / _MOST))
    return np.logaddexp.reduce(np.log(_SHARES) + np.cumsum(won, axis=-1), axis=-2)


def shown_after(d: Values, tail: float, centre: float = 0.0, above: bool = True) -> int | None:
    """The number of blocks after which the effect was shown to be above (or below) `centre`; None if it is not shown.

    With any number of looks, this is wrong with a probability of at most `tail`.
    """
    enough = Bets(d).log_capital(centre, above) >= -math.log(tail)
    return int(enough.argmax()) + 1 if enough.any() else None


@lru_cache(maxsize=256)
def least_bets(tail: float) -> int:
    """Fewest blocks after which a capital can reach 1 / tail: that takes equal blocks, all on one side."""
    count = 1
    while shown_after(np.ones(count), tail) is None:
        count += 1
    return count


# Share of alpha for the test after every block, chosen by simulation. A share of one half would save one block in
# sixteen at an effect of one spread, but cost a third of the NEUTRAL verdicts that the planned blocks just reach.
SHARE = 0.35


@dataclass(frozen=True)
class Judged:
    """`interval`: at level 1 - alpha; `equivalence`: with an error of alpha on each side; `consistent`: some effect
    explains all blocks (else both intervals are unlimited)."""

    interval: Interval
    equivalence: Interval
    consistent: bool


@dataclass(frozen=True)
class Plan:
    """`looks`: block counts of the planned looks; `share`: of alpha, for the test after every block (0: none)."""

    looks: tuple[int, ...]
    share: float = SHARE

    def __post_init__(self):
        if not 0 <= self.share < 1:
            raise ValueError(f"the share of alpha must lie between 0 and 1, got {self.share}")
        obrien_fleming_levels(self.looks, 0.05)

    def judged(self, d: Values, alpha: float) -> Judged:
        """The intervals that these blocks give, whatever their number."""
        ends = [[-math.inf, math.inf], [-math.inf, math.inf]]
        tails = (alpha * self.share / 2, alpha * self.share)
        for count, *levels in self.levels(alpha):
            if count <= len(d):
                for joined, found in zip(ends, paired_intervals(d[:count], levels), strict=True):
                    joined[:] = max(joined[0], found.low), min(joined[1], found.high)
        if self.share:
            bets = Bets(d)
            for joined, tail in zip(ends, tails, strict=True):
                joined[:] = bets.bound(tail, known=joined[0]), bets.bound(tail, above=False, known=joined[1])
        consistent = all(low <= high for low, high in ends)
        if not consistent:
            ends = [[-math.inf, math.inf]] * 2
        estimate = min(max(hodges_lehmann(d), ends[1][0]), ends[1][1])
        interval, equivalence = (
            Interval(estimate, low, high, level, len(d))
            for (low, high), level in zip(ends, (1 - alpha, 1 - 2 * alpha), strict=True)
        )
        return Judged(interval, equivalence, consistent)

    def shown(self, d: Values, alpha: float, delta: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(above 0, below 0, inside ±delta), after every block: as by `judged`, at a fraction of its cost."""
        sides = {"above": (0.0, True, 2), "below": (0.0, False, 2)}
        sides |= {"more": (-delta, True, 1), "less": (delta, False, 1)}
        shown = {name: np.zeros(len(d), dtype=bool) for name in sides}
        if self.share:
            bets = Bets(d)
            for name, (centre, above, halves) in sides.items():
                shown[name] = bets.log_capital(centre, above) >= -math.log(alpha * self.share / halves)
        for count, difference, equivalence in self.levels(alpha):
            if count <= len(d):
                two_sided, one_sided = paired_intervals(d[:count], [difference, equivalence])
                for name, (centre, above, halves) in sides.items():
                    look = two_sided if halves == 2 else one_sided
                    shown[name][count - 1 :] |= look.low > centre if above else look.high < centre
        return shown["above"], shown["below"], shown["more"] & shown["less"]

    def levels(self, alpha: float) -> list[tuple[int, float, float]]:
        """For every look: its number of blocks, and the levels of its two-sided and its equivalence interval."""
        two_sided, one_sided = (
            obrien_fleming_levels(self.looks, alpha * (1 - self.share), sides) for sides in (True, False)
        )
        found = zip(self.looks, two_sided, one_sided, strict=True)
        return [(count, 1 - two, 1 - 2 * one) for count, two, one in found]

    def least_blocks(self, alpha: float) -> int:
        """Fewest blocks, as a plan's last look or after any block, with which a direction can be shown."""
        by_looks = least_count(obrien_fleming_levels(self.looks, alpha * (1 - self.share))[-1] / 2)
        if not self.share:
            return by_looks
        return min(by_looks, least_bets(alpha * self.share / 2))
