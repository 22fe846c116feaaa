"""Quantiles over all requests of an arm, with intervals from resampled blocks.

Duty: compare two arms by a quantile (or the mean) of all requests that their runs recorded; each run is a histogram.
May import NumPy, SciPy and `paired`.

A percentile of a median run misses events that only a few runs have. So the histograms of an arm are added up first,
and whole blocks are resampled, both arms of a block together. The bootstrap's percentile interval is expanded for few
blocks: its tails are those of Student's t times sqrt(n / (n - 1)).

An exact test is added. If the arms are equal, either arm of a block is equally likely to have the larger share of
requests above the common quantile (requests equal to it count half). So the signs of the differences may be flipped. An
interval excludes 0 only if that test agrees. Both hold for a single look; an interval that is read more often is
`widened` by one that holds at any time.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from hakmem_lab.judge.statistics.paired import Interval, as_multiple
from hakmem_lab.judge.statistics.special import ndtr, stdtrit

RESAMPLES = 2000
EXACT_FLIPS_LIMIT = 12
SEED = 20_260_101
CHUNK = 256
MEAN = "mean"
ROUNDING = 1e-9


@dataclass(frozen=True)
class Pool:
    """The histograms of one arm: counts[block, bin] of values that ascend, all above 0."""

    values: np.ndarray
    counts: np.ndarray

    def __post_init__(self) -> None:
        if self.counts.ndim != 2 or self.counts.shape[1] != self.values.size or not self.counts.shape[0]:
            raise ValueError(f"expected a row of {self.values.size} counts a block, got {self.counts.shape}")
        if (self.counts.sum(axis=1) <= 0).any():
            raise ValueError("every block needs at least one request")

    @property
    def blocks(self) -> int:
        return self.counts.shape[0]

    def at(self, what: float | str) -> float:
        """The quantile (0 < q <= 1) or the MEAN of all requests."""
        return float(_statistics(self.values, self.counts.sum(axis=0, keepdims=True), [what])[0, 0])


def pool(blocks: Sequence[Mapping[float, int]]) -> Pool:
    """Build it from a map value -> count for every block."""
    values = np.array(sorted({value for block in blocks for value in block}), dtype=float)
    counts = np.zeros((len(blocks), values.size))
    for row, block in zip(counts, blocks, strict=True):
        row[np.searchsorted(values, list(block))] = list(block.values())
    return Pool(values, counts)


def _statistics(values: np.ndarray, counts: np.ndarray, whats: Sequence[float | str]) -> np.ndarray:
    """found[what, row of counts]. A quantile is the smallest value that at least that share does not exceed."""
    below = np.cumsum(counts, axis=1)
    found = []
    for what in whats:
        if what == MEAN:
            found.append(counts @ values / below[:, -1])
            continue
        wanted = np.maximum(1.0, np.ceil(float(what) * below[:, -1] - ROUNDING))
        found.append(values[(below < wanted[:, None]).sum(axis=1)])
    return np.array(found)


@lru_cache(maxsize=8)
def _weights(blocks: int) -> np.ndarray:
    """How often each block is in each resample."""
    generator = np.random.default_rng([SEED, blocks])
    return generator.multinomial(blocks, np.full(blocks, 1 / blocks), RESAMPLES).astype(float)


@dataclass(frozen=True)
class Sampled:
    """An arm with its statistics, each as it is and in every resample, as natural logarithms."""

    pool: Pool
    whats: tuple[float | str, ...]
    estimates: np.ndarray
    replicates: np.ndarray

    @classmethod
    def of(cls, arm: Pool, whats: Sequence[float | str]) -> "Sampled":
        """Resample an arm. All arms with the same number of blocks get the same draws."""
        weights = _weights(arm.blocks)
        parts = [
            _statistics(arm.values, weights[start : start + CHUNK] @ arm.counts, whats)
            for start in range(0, RESAMPLES, CHUNK)
        ]
        whole = _statistics(arm.values, arm.counts.sum(axis=0, keepdims=True), whats)[:, 0]
        return cls(arm, tuple(whats), np.log(whole), np.log(np.concatenate(parts, axis=1)))

    def interval(self, what: float | str, level: float = 0.95) -> tuple[float, float, float]:
        """(value, low, high) in the unit of the values."""
        place = self.whats.index(what)
        low, high = _ends(self.replicates[place], self.pool.blocks, level)
        return as_multiple(self.estimates[place]), as_multiple(low), as_multiple(high)


def _ends(replicates: np.ndarray, blocks: int, level: float) -> tuple[float, float]:
    """The expanded percentile interval; infinite for a single block, whose spread is unknown."""
    if blocks < 2:
        return -math.inf, math.inf
    tail = float(ndtr(math.sqrt(blocks / (blocks - 1)) * stdtrit(blocks - 1, (1 - level) / 2)))
    low, high = np.quantile(replicates, [tail, 1 - tail])
    return float(low), float(high)


@lru_cache(maxsize=4)
def _flips(blocks: int) -> np.ndarray:
    """Rows of signs: all combinations for few blocks, else a row of +1 and a fixed random choice."""
    if blocks <= EXACT_FLIPS_LIMIT:
        bits = np.arange(2**blocks)[:, None] >> np.arange(blocks) & 1
        return 1.0 - 2.0 * bits
    generator = np.random.default_rng([SEED, blocks, 1])
    return np.vstack([np.ones(blocks), 1.0 - 2.0 * generator.integers(0, 2, (RESAMPLES - 1, blocks))])


def flip_p(control: Pool, treatment: Pool, what: float | str) -> float:
    """Two-sided p-value of the difference, if chance had assigned the two sides of every block."""
    if what == MEAN:
        means = [_statistics(arm.values, arm.counts, [MEAN])[0] for arm in (control, treatment)]
        differences = means[0] - means[1]
    else:
        both = pool([dict(zip(arm.values, arm.counts.sum(axis=0), strict=True)) for arm in (control, treatment)])
        border = both.at(what)
        shares = [
            arm.counts @ ((arm.values > border) + (arm.values == border) / 2) / arm.counts.sum(axis=1)
            for arm in (control, treatment)
        ]
        differences = shares[0] - shares[1]
    return float(flip_p_of(differences[None])[0])


def flip_p_of(differences: np.ndarray) -> np.ndarray:
    """p-value of each row's sum of differences under random signs."""
    sums = np.abs(differences @ _flips(differences.shape[1]).T)
    return (sums >= np.abs(differences.sum(axis=1, keepdims=True)) * (1 - ROUNDING)).mean(axis=1)


def widened(pooled: Interval, always: Interval) -> Interval:
    """The pooled interval, extended by `always`, an interval that holds after any number of blocks.

    It excludes an effect only if both do. So with any number of looks it is wrong no more often than `always`, and it
    still includes events that only a few blocks have.
    """
    return replace(pooled, low=min(pooled.low, always.low), high=max(pooled.high, always.high))


def spread(control: Sampled, treatment: Sampled, what: float | str) -> float:
    """Standard deviation of one block's log-ratio, from that of the resampled log-ratios of all requests."""
    differences = control.replicates[control.whats.index(what)] - treatment.replicates[treatment.whats.index(what)]
    blocks = control.pool.blocks
    return float(differences.std()) * blocks / math.sqrt(blocks - 1) if blocks > 1 else math.inf


def compared(control: Sampled, treatment: Sampled, what: float | str, levels: Sequence[float]) -> list[Interval]:
    """Intervals of the log-ratio, one for each level; positive if the treatment's statistic is lower.

    Both arms were run in the same blocks, in the same order.
    """
    blocks = control.pool.blocks
    if blocks != treatment.pool.blocks:
        raise ValueError(f"{blocks} and {treatment.pool.blocks} blocks cannot be paired")
    place, other = control.whats.index(what), treatment.whats.index(what)
    estimate = float(control.estimates[place] - treatment.estimates[other])
    p = flip_p(control.pool, treatment.pool, what)
    found = []
    for level in levels:
        low, high = _ends(control.replicates[place] - treatment.replicates[other], blocks, level)
        if p > 1 - level:
            low, high = min(low, 0.0), max(high, 0.0)
        found.append(Interval(estimate, min(low, estimate), max(high, estimate), level, blocks))
    return found
