"""The speeds of one processor, from a probe that timed the same work again and again. Pure.

A sample is (when it ended, in microseconds from the start; the processor time that it took, in nanoseconds).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Samples = Sequence[tuple[int, int]]
LEAST_SAMPLES = 200
LEAST_RATIO, LEAST_SHARE, LEAST_GAP = 1.1, 0.03, 2.0  # of two speeds; the gap in spreads of the two
BIN_S = 0.03  # a speed that is kept for less is noise
RUN_S, SLICE_S, STEP_S = 0.5, 0.004, 0.05  # a run of the example, a turn of the scheduler, from block to block
PARTS = 8  # a block of four runs is at most half as long as the probe


@dataclass(frozen=True)
class Speeds:
    """ratio: of the slow speed's times to the fast one's, None if there is one speed; stay_s: how long one is kept;
    slow: share of the time; spread: relative spread of the samples. apart, together: spread of the log-ratio of a block
    of four runs of half a second, one after another and at once."""

    ratio: float | None
    stay_s: float
    slow: float
    spread: float
    apart: float
    together: float


def found(samples: Samples) -> Speeds:
    """Raises ValueError where there are too few samples."""
    if len(samples) < LEAST_SAMPLES:
        raise ValueError("the probe had too little processor time")
    at_s, took = np.array(samples, dtype=float).T
    at_s = at_s / 1e6
    logs = np.log(took / np.median(took))
    limit = _limit(logs)
    below, above = logs[logs <= limit], logs[logs > limit]
    apart = float(np.median(above) - np.median(below)) if above.size else 0.0
    states = _states(at_s, logs, float(np.median(below)) + apart / 2)
    slow = float(np.mean(states))
    clear = apart >= max(math.log(LEAST_RATIO), LEAST_GAP * (_spread(below) + _spread(above)))
    two = clear and LEAST_SHARE <= slow <= 1 - LEAST_SHARE
    stay_s = float(at_s[-1]) / (1 + int(np.count_nonzero(np.diff(states))))
    one_after_another, at_once = _blocks(at_s, took)
    ratio = math.exp(apart) if two else None
    return Speeds(ratio, stay_s, slow if two else 0.0, _spread(logs), one_after_another, at_once)


def _spread(values: np.ndarray) -> float:
    """The standard deviation of a normal distribution with the same middle half."""
    if values.size < 2:
        return 0.0
    low, high = np.quantile(values, (0.25, 0.75))
    return float(high - low) / 1.349


def _limit(logs: np.ndarray) -> float:
    """The limit that divides the values into two groups with the least variance inside of them."""
    ordered = np.sort(logs)
    count = np.arange(1, ordered.size)
    sums, squares = np.cumsum(ordered)[:-1], np.cumsum(ordered**2)[:-1]
    total, total_squares, size = ordered.sum(), (ordered**2).sum(), ordered.size
    inside = squares - sums**2 / count + total_squares - squares - (total - sums) ** 2 / (size - count)
    return float(ordered[int(np.argmin(inside))])


def _states(at_s: np.ndarray, logs: np.ndarray, limit: float) -> np.ndarray:
    """Whether the processor was slow, for each short time in which it ran the probe."""
    bins = np.floor(at_s / BIN_S).astype(int)
    return np.array([float(np.median(logs[bins == each])) > limit for each in np.unique(bins)])


def _blocks(at_s: np.ndarray, took: np.ndarray) -> tuple[float, float]:
    """The spread of a block of two equal sides: ABBA, and two rounds at once."""
    run_s = min(RUN_S, float(at_s[-1]) / PARTS)
    turn = np.floor(at_s / SLICE_S).astype(int) % 2 == 0
    apart, rounds = [], []
    for start in np.arange(0.0, float(at_s[-1]) - 4 * run_s, STEP_S):
        means = [_mean(took[_within(at_s, start + n * run_s, run_s)]) for n in range(4)]
        apart.append(math.log(means[0] * means[3] / (means[1] * means[2])) / 2 if all(means) else math.nan)
        inside = _within(at_s, start, 2 * run_s)
        pair = _mean(took[inside & turn]), _mean(took[inside & ~turn])
        rounds.append(math.log(pair[0] / pair[1]) if all(pair) else math.nan)
    return float(np.nanstd(apart)), float(np.nanstd(rounds)) / math.sqrt(2)


def _within(at_s: np.ndarray, start: float, length: float) -> np.ndarray:
    return (at_s >= start) & (at_s < start + length)


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if values.size else 0.0
