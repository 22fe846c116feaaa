"""A test and an interval that hold whenever one looks: a bet on the sign of every block.

Duty: one-sided evidence that may be read after every block, and the confidence sequence that inverts it. May import
NumPy and `paired`. Other kinds use `shown_after` and `Bets` on their own per-block contrasts.

Where the true effect is c, the sign of d_i - c is a fair coin, whatever its size and whatever came before: under A/A by
the toss that orders the block, else by the symmetry that the signed-rank interval assumes as well. A capital of 1 that
is multiplied by 1 + b_i in every block, b_i odd in d_i - c and |b_i| < 1, is then a fair game, and exceeds 1 / tail
with a probability of at most `tail`, ever (Ville). Several stakes play side by side, and their capitals are added:

    b_i = most * tanh(slope * (d_i - c) / (s_i * most))         s_i: the spread of the blocks before the i-th

A bet grows with d_i - c, so that the capital falls as c rises: evidence against "at most c" is evidence against all
that is below, and the values of c that keep the capital small are an interval. It is bounded, so that a block which the
machine disturbed cannot ruin it.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from hakmem_lab.judge.statistics.paired import checked

# Slope at 0 (in spreads of a block), largest bet, share of the capital. Chosen by simulation for true effects of 0.2 to
# 3 spreads: those of 8 to some hundred blocks.
STAKES = ((0.2, 0.4, 0.1), (0.5, 0.8, 0.2), (1.1, 0.97, 0.7))
_FIRST_KNOWN, _QUARTILES_FROM = 2, 5
_QUARTILE_RANGE = 1.349
_REFRESH = 1.1
_BISECTIONS, _DOUBLINGS, _LEAST_STEP = 40, 12, 1e-9


def spreads_before(d: np.ndarray) -> np.ndarray:
    """For every block the spread of those before it, which does not depend on where they lie; NaN for the first two.

    Of blocks, or of rows of blocks. The sample standard deviation of a few, then what the quartiles imply; renewed
    whenever a tenth more are known.
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
    """The capital of both sides against any centre, after every block."""

    def __init__(self, d: Sequence[float]):
        self._d = checked(d)
        self._spreads = spreads_before(self._d)

    def log_capital(self, centre: float, above: bool = True) -> np.ndarray:
        """Natural log of the largest capital so far, after every block, of the bet that the effect is above `centre`
        (or below it)."""
        away = (self._d - centre) if above else (centre - self._d)
        return np.maximum.accumulate(log_capital(away, self._spreads))

    def bound(self, tail: float, above: bool = True) -> float:
        """The lower (or upper) end of the interval that leaves out the truth with probability `tail`, ever; infinite
        where there are too few blocks for one."""
        near, far = (self._d.min(), self._d.max()) if above else (self._d.max(), self._d.min())
        step = max(abs(far - near), _LEAST_STEP) * (-1 if above else 1)
        for doubling in range(_DOUBLINGS):
            end = near + step * 2**doubling
            if self._suffices(end, tail, above):
                return self._crossing(end, far, tail, above)
        return -math.inf if above else math.inf

    def _suffices(self, centre: float, tail: float, above: bool) -> bool:
        return bool(self.log_capital(centre, above)[-1] >= -math.log(tail))

    def _crossing(self, shown: float, open_: float, tail: float, above: bool) -> float:
        """Where the capital, which suffices at `shown`, no longer suffices on the way to `open_`."""
        for _ in range(_BISECTIONS):
            middle = (shown + open_) / 2
            if self._suffices(middle, tail, above):
                shown = middle
            else:
                open_ = middle
        return float(shown)


def log_capital(away: np.ndarray, spreads: np.ndarray) -> np.ndarray:
    """`away`: blocks, or rows of blocks, minus the centre; their last axis is time."""
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(np.isnan(spreads), np.sign(away), away / spreads)
    z = np.where(away == 0, 0.0, z)  # nothing over a spread of nothing
    parts = [
        np.log(share) + np.cumsum(np.log1p(most * np.tanh(slope * z / most)), axis=-1) for slope, most, share in STAKES
    ]
    return np.logaddexp.reduce(parts, axis=0)


def shown_after(d: Sequence[float], tail: float, centre: float = 0.0, above: bool = True) -> int | None:
    """After how many blocks the effect was shown to be above (or below) `centre`, in error with probability `tail` at
    most however often one looks; None where it is not shown yet."""
    enough = Bets(d).log_capital(centre, above) >= -math.log(tail)
    return int(enough.argmax()) + 1 if enough.any() else None


@lru_cache(maxsize=256)
def least_count(tail: float) -> int:
    """Fewest blocks after which a capital can reach 1 / tail: all of them equal, none on the other side."""
    count = 1
    while shown_after(np.ones(count), tail) is None:
        count += 1
    return count
