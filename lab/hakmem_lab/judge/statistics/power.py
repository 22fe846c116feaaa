"""Planning: how many blocks, how small an effect.

Duty: predict verdicts from a spread. May import NumPy, SciPy, `paired`, `plan`.

The Hodges–Lehmann estimate of n blocks is treated as normal with variance (pi/3) sigma^2 / n, as for normal noise.
Effects and margins are ratios minus one; `sigma` is the standard deviation of one block's log-ratio.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hakmem_lab.judge.statistics.paired import Values, as_log, as_ratio, checked, least_count, paired_interval
from hakmem_lab.judge.statistics.plan import SHARE, Plan, obrien_fleming_levels, planned_looks
from hakmem_lab.judge.statistics.special import ndtr, ndtri, stdtrit

MOST_BLOCKS = 100_000
_EFFICIENCY = math.sqrt(math.pi / 3)
_SPREAD_LEVEL = 0.8
_LEAST_FOR_SPREAD = 6
_LEAST_SCATTER = 1e-300
_OF_LOOKS = 1.12  # by simulation: what early looks, and ranks of few blocks, cost beyond the normal approximation


@dataclass(frozen=True)
class VerdictOdds:
    """Probabilities of the four verdicts; they sum to 1."""

    go: float
    neutral: float
    no_go: float
    inconclusive: float


def spread(d: Values) -> float:
    """Robust standard deviation of one block's log-ratio, on the scale of a normal distribution; at least 2 blocks.

    It is derived from the width of the 80 % signed-rank interval, so it predicts widths of intervals even for heavy
    tails. With fewer than 6 blocks it is the sample standard deviation.
    """
    array = checked(d)
    if array.size < 2:
        raise ValueError("a spread needs at least 2 blocks")
    if array.size < _LEAST_FOR_SPREAD:
        return float(array.std(ddof=1))
    interval = paired_interval(array, _SPREAD_LEVEL)
    z = float(ndtri((1 + _SPREAD_LEVEL) / 2))
    return (interval.high - interval.low) / (2 * z) * math.sqrt(array.size) / _EFFICIENCY


def standard_error(sigma: float, blocks: int) -> float:
    """Standard error (log domain) of the Hodges–Lehmann estimate from this number of blocks."""
    return _EFFICIENCY * sigma / math.sqrt(blocks)


def predicted_verdicts(
    sigma: float, effect: float, blocks: int, margin: float = 0.01, alpha: float = 0.05
) -> VerdictOdds:
    """Odds of each verdict after one look at `blocks` blocks when the true effect is `effect` (ratio minus one)."""
    delta, centre = as_log(margin), as_log(effect)
    error = max(standard_error(sigma, blocks), _LEAST_SCATTER)

    def half_width(tail: float) -> float:
        return -float(stdtrit(max(1, blocks - 1), tail)) * error

    needed, allowed = max(delta, half_width(alpha / 2)), delta - half_width(alpha)
    go, no_go = float(ndtr((centre - needed) / error)), float(ndtr((-centre - needed) / error))
    neutral = 0.0
    if allowed > 0:
        neutral = float(ndtr((allowed - centre) / error) - ndtr((-allowed - centre) / error))
    return VerdictOdds(go, neutral, no_go, max(0.0, 1 - go - no_go - neutral))


def predicted_power(sigma: float, effect: float, blocks: int, margin: float = 0.01, alpha: float = 0.05) -> float:
    """Probability of the verdict that `effect` deserves: GO or NO-GO at or beyond the margin, NEUTRAL inside it."""
    odds = predicted_verdicts(sigma, effect, blocks, margin, alpha)
    if abs(as_log(effect)) < as_log(margin):
        return odds.neutral
    return odds.go if effect > 0 else odds.no_go


def blocks_for(
    d_or_sigma: float | Values, effect: float, margin: float = 0.01, alpha: float = 0.05, power: float = 0.8
) -> int | None:
    """Fewest blocks that give the verdict which `effect` deserves with probability `power`; None above 100,000.

    The first argument is a standard deviation (log domain) or a pilot's per-block log-ratios.
    """
    sigma = _sigma(d_or_sigma)
    least = least_blocks(alpha)
    return _first(lambda n: predicted_power(sigma, effect, n, margin, alpha) >= power, least, MOST_BLOCKS)


def _first(holds: Callable[[int], bool], start: int, most: int) -> int | None:
    """The smallest count from `start` to `most` for which `holds`; if it holds for a count, it does for all larger."""
    low = high = start
    while not holds(high):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def smallest_effect(d_or_sigma: float | Values, blocks: int, alpha: float = 0.05, power: float = 0.8) -> float:
    """Smallest true effect (ratio minus one) that `blocks` blocks show to differ from 0 with probability `power`."""
    quantiles = -float(ndtri(alpha / 2)) + float(ndtri(power))
    return as_ratio(quantiles * standard_error(_sigma(d_or_sigma), blocks))


def blocks_to_detect(d_or_sigma: float | Values, effect: float, alpha: float = 0.05, power: float = 0.8) -> int | None:
    """Fewest planned blocks that show the direction of this true effect with probability `power`; None above 100,000.

    `alpha` is the part for the planned looks; the test after every block ends most such runs sooner.
    """
    return blocks_for(_sigma(d_or_sigma), effect, abs(effect) / 2, alpha, power)


def planned_to_detect(
    d_or_sigma: float | Values, effect: float, alpha: float = 0.05, looks: int = 3, share: float = SHARE
) -> int | None:
    """Like blocks_to_detect, for a plan with several looks and a test after every block (`share` of alpha). The
    result is never less than the fewest blocks that a verdict takes."""
    found = blocks_to_detect(d_or_sigma, effect, alpha * (1 - share))
    if found is None:
        return None
    count = math.ceil(_OF_LOOKS * found)
    while Plan(tuple(planned_looks(count, looks)), share).least_blocks(alpha) > count:
        count += 1
    return count


def _sigma(d_or_sigma: float | Values) -> float:
    return float(d_or_sigma) if isinstance(d_or_sigma, float | int) else spread(d_or_sigma)


def aa_runs(alpha: float) -> int:
    """Fewest runs that an A/A is judged by."""
    return 4 * 2 * least_blocks(alpha)


def least_blocks(alpha: float = 0.05, looks: int | Sequence[int] = 1) -> int:
    """Fewest blocks with which every verdict is possible: below it GO and NO-GO cannot be reached by any data."""
    return least_count(obrien_fleming_levels(looks, alpha)[-1] / 2)
