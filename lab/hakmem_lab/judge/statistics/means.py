"""The other average: the ratio of the arithmetic means, which rare slow runs move, unlike the Hodges–Lehmann estimate.

Duty: the ratio of mean costs with an interval, the spread of the runs, and how many of them were far off. May import
NumPy, SciPy and `paired`.

Each end of the interval is the wider one of two methods: the percentile bootstrap over whole blocks, which follows
skewness, and Student's t on the linearised ratio, which is wide enough for few blocks. If a handful of rare runs
dominates the mean, it still covers less than its level (the tests say how much). So no verdict rests on this interval;
it can only hold one back.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hakmem_lab.judge.statistics.paired import Interval
from hakmem_lab.judge.statistics.special import stdtrit

LEAST_BLOCKS = 4
FAR_OFF = 2.0
_DRAWS = 2000
_SEED = 20


@dataclass(frozen=True)
class Means:
    """`ratio`: log of control's mean over the treatment's for a cost, positive = treatment better. For each arm:
    `runs`; `far`, how many of them were more than twice as bad as its median; `spreads`, standard deviation over
    mean."""

    ratio: Interval
    runs: tuple[int, int]
    far: tuple[int, int]
    spreads: tuple[float, float]
    words: tuple[str, str]


def ratio_of_means(
    control: Sequence[Sequence[float]],
    treatment: Sequence[Sequence[float]],
    higher_is_better: bool = False,
    level: float = 0.95,
    words: tuple[str, str] = ("better", "worse"),
) -> Means | None:
    """Compare means over the runs of every block, values above 0; None with fewer than 4 blocks. `words` are used in
    sentences, such as faster and slower. The seed is fixed."""
    if len(control) != len(treatment):
        raise ValueError(f"both sides need the same blocks, got {len(control)} and {len(treatment)}")
    if len(control) < LEAST_BLOCKS:
        return None
    blocks = [np.array([np.mean(runs) for runs in arm]) for arm in (control, treatment)]
    sign = 1.0 if higher_is_better else -1.0
    estimate = sign * math.log(blocks[1].mean() / blocks[0].mean())
    low, high = _interval(blocks[0], blocks[1], sign, estimate, level)
    flat = [np.concatenate([np.asarray(runs, dtype=float) for runs in arm]) for arm in (control, treatment)]
    return Means(
        ratio=Interval(estimate, low, high, level, len(control)),
        runs=(flat[0].size, flat[1].size),
        far=(_far(flat[0], higher_is_better), _far(flat[1], higher_is_better)),
        spreads=(float(flat[0].std(ddof=1) / flat[0].mean()), float(flat[1].std(ddof=1) / flat[1].mean())),
        words=words,
    )


def _far(values: np.ndarray, higher_is_better: bool) -> int:
    median = float(np.median(values))
    return int((values < median / FAR_OFF).sum() if higher_is_better else (values > median * FAR_OFF).sum())


@functools.lru_cache(maxsize=4)
def _weights(n: int) -> np.ndarray:
    """How often every resample takes each of n blocks: the same for all metrics and arms of a run."""
    generator = np.random.default_rng(_SEED)
    return generator.multinomial(n, np.full(n, 1 / n), _DRAWS).astype(float)


def _interval(
    control: np.ndarray, treatment: np.ndarray, sign: float, estimate: float, level: float
) -> tuple[float, float]:
    n, tail = control.size, (1 - level) / 2
    weights = _weights(n)
    drawn = sign * np.log((weights @ treatment) / (weights @ control))
    low, high = np.quantile(drawn, (tail, 1 - tail))
    influence = treatment / treatment.mean() - control / control.mean()
    half = -float(stdtrit(n - 1, tail)) * float(influence.std(ddof=1)) / math.sqrt(n)
    return min(float(low), estimate - half), max(float(high), estimate + half)
