"""The other average: the ratio of the arithmetic means, which rare slow runs move, unlike the Hodges–Lehmann estimate.

Duty: the ratio of mean costs with an interval, the spread of the runs, and how many of them were far off. May import
NumPy, SciPy and `paired`.

Each end of the interval is the wider one of two methods: the percentile bootstrap over whole blocks, which follows
skewness, and Student's t on the linearised ratio, which is wide enough for few blocks. If a handful of rare runs
dominates the mean, it still covers less than its level (the tests say how much). So no verdict rests on this interval;
it can only hold one back.

The verdict decides when a run ends, so `lasting` is the interval to show: it is wide enough for any number of looks. A
mixture of normal densities as the alternative to a mean of 0 bounds |z| after n blocks by

    sqrt((1 + 1 / (n v)) log((1 + n v) / alpha^2))         v: variance of the mixture, in squared spreads of a block

at all times (Robbins 1970). The interval has the level of that z.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hakmem_lab.judge.statistics.paired import Interval
from hakmem_lab.judge.statistics.special import ndtr, stdtrit

LEAST_BLOCKS = 4
FAR_OFF = 2.0
_DRAWS = 2000
_SEED = 20
_MIXTURE = 1 / 8  # narrowest for some 60 blocks, and within a fifth of that from 10 blocks on


@dataclass(frozen=True)
class Means:
    """`ratio`: log of control's mean over the treatment's for a cost, positive = treatment better; `lasting`: the same,
    with an interval that holds whenever the run ends. For each arm: `runs`; `far`, how many of them were more than
    twice as bad as its median; `spreads`, standard deviation over mean."""

    ratio: Interval
    lasting: Interval
    runs: tuple[int, int]
    far: tuple[int, int]
    spreads: tuple[float, float]


def ratio_of_means(
    control: Sequence[Sequence[float]],
    treatment: Sequence[Sequence[float]],
    higher_is_better: bool = False,
    level: float = 0.95,
) -> Means | None:
    """Compare means over the runs of every block, values above 0; None with fewer than 4 blocks. The seed is fixed."""
    if len(control) != len(treatment):
        raise ValueError(f"both sides need the same blocks, got {len(control)} and {len(treatment)}")
    if len(control) < LEAST_BLOCKS:
        return None
    blocks = [np.array([np.mean(runs) for runs in arm]) for arm in (control, treatment)]
    sign = 1.0 if higher_is_better else -1.0
    estimate = sign * math.log(blocks[1].mean() / blocks[0].mean())
    n = len(control)
    levels = level, lasting_level(n, level)
    ends = _intervals(blocks[0], blocks[1], sign, estimate, levels)
    once, always = (Interval(estimate, *pair, each, n) for pair, each in zip(ends, levels, strict=True))
    flat = [np.concatenate([np.asarray(runs, dtype=float) for runs in arm]) for arm in (control, treatment)]
    return Means(
        ratio=once,
        lasting=replace(always, level=level),
        runs=(flat[0].size, flat[1].size),
        far=(_far(flat[0], higher_is_better), _far(flat[1], higher_is_better)),
        spreads=(float(flat[0].std(ddof=1) / flat[0].mean()), float(flat[1].std(ddof=1) / flat[1].mean())),
    )


def _far(values: np.ndarray, higher_is_better: bool) -> int:
    median = float(np.median(values))
    return int((values < median / FAR_OFF).sum() if higher_is_better else (values > median * FAR_OFF).sum())


@functools.lru_cache(maxsize=4)
def _weights(n: int) -> np.ndarray:
    """How often every resample takes each of n blocks: the same for all metrics and arms of a run."""
    generator = np.random.default_rng(_SEED)
    return generator.multinomial(n, np.full(n, 1 / n), _DRAWS).astype(float)


def lasting_level(n: int, level: float) -> float:
    """The level of a single look after n blocks, of an interval that holds at `level` after any number of them."""
    weight = 1 + n * _MIXTURE
    z = math.sqrt(weight / (weight - 1) * math.log(weight / (1 - level) ** 2))
    return 1 - 2 * float(ndtr(-z))


def _intervals(
    control: np.ndarray, treatment: np.ndarray, sign: float, estimate: float, levels: Sequence[float]
) -> list[tuple[float, float]]:
    """(low, high) at each level."""
    n, weights = control.size, _weights(control.size)
    drawn = sign * np.log((weights @ treatment) / (weights @ control))
    influence = treatment / treatment.mean() - control / control.mean()
    error, ends = float(influence.std(ddof=1)) / math.sqrt(n), []
    for tail in ((1 - level) / 2 for level in levels):
        low, high = np.quantile(drawn, (tail, 1 - tail))
        half = -float(stdtrit(n - 1, tail)) * error
        ends.append((min(float(low), estimate - half), max(float(high), estimate + half)))
    return ends
