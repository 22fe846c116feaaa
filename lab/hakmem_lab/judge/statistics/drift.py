"""Drift of one long run: slope, trend, changes of level.

Duty: say whether a series moves, by how much and since when. May import NumPy, SciPy, ruptures and `paired`.

Samples of one process depend on each other, so a long series is first averaged into `BATCHES` batches. The lag-1
autocorrelation rho that remains in the batches' residuals (corrected for its bias) gives the effective number of
samples n (1 - rho) / (1 + rho), which widens the interval. Below `LEAST_EFFECTIVE` effective samples the interval is
infinite: the series is too short for its autocorrelation.
"""

import math
from dataclasses import dataclass

import numpy as np

from hakmem_lab.judge.statistics.paired import Values, centred
from hakmem_lab.judge.statistics.special import stdtrit

BATCHES = 60
LEAST_EFFECTIVE = 4.0
LEAST_SAMPLES = 8
MOST_POINTS = 2000
_PENALTY_FACTOR = 5.0
_MOST_AUTOCORRELATION = 0.9
_NORMAL_QUARTILE_RANGE = 1.3489795
_WARMUP_TOLERANCE = 4.0


@dataclass(frozen=True)
class Slope:
    """A slope per second in the series' unit with its interval."""

    slope_per_s: float
    low: float
    high: float

    def times(self, factor: float) -> "Slope":
        """The slope in another unit; factor above 0."""
        return Slope(self.slope_per_s * factor, self.low * factor, self.high * factor)


def theil_sen(t_s: Values, y: Values, level: float = 0.95) -> Slope:
    """Median of pairwise slopes of y over t_s (seconds, increasing); its interval allows for autocorrelation.

    ValueError with fewer than 8 samples or times that do not increase.
    """
    t, values = _series(t_s, y)
    t, values = _batched(t), _batched(values)
    first, second = np.triu_indices(t.size, 1)
    slopes = np.sort((values[second] - values[first]) / (t[second] - t[first]))
    slope = float(np.median(slopes))
    largest = max(float(np.abs(values).max()), float(np.abs(slope * t).max()))
    effective = _effective_samples(values - slope * t, largest)
    if effective < LEAST_EFFECTIVE:
        return Slope(slope, -math.inf, math.inf)
    # Slopes at the ranks one standard deviation of Kendall's S from the middle: the standard error if samples were
    # independent.
    deviation = math.sqrt(t.size * (t.size - 1) * (2 * t.size + 5) / 18)
    lower = slopes[math.floor((slopes.size - deviation) / 2) - 1]
    upper = slopes[math.ceil((slopes.size + deviation) / 2)]
    widening = float(stdtrit(effective - 2, (1 + level) / 2)) * math.sqrt(t.size / effective)
    low, high = slope - (slope - float(lower)) * widening, slope + (float(upper) - slope) * widening
    return Slope(slope, low, high)


def change_points(y: Values, min_size: int = 5, penalty: float | None = None) -> list[int]:
    """Indices at which a new level of the mean begins (PELT, squared error), empty when there is none.

    `penalty` is the drop in squared error that a change must bring; by default 5 long-run noise variances times log n.
    The noise is estimated from differences between neighbours, so the changes themselves do not count as noise. Series
    above 2000 samples are averaged in groups first; indices are then multiples of the group size.
    """
    from ruptures import KernelCPD

    values = _finite(y)
    group = -(-values.size // MOST_POINTS)
    whole = values.size // group
    values = values[: whole * group].reshape(whole, group).mean(axis=1)
    if values.size < 2 * min_size or np.ptp(values) == 0:
        return []
    if penalty is None:
        penalty = change_penalty(values)
    # ruptures' linear kernel costs squared error; its C implementation is PELT when a penalty is given.
    scale = float(np.std(values))
    search = KernelCPD(kernel="linear", min_size=min_size).fit((values[:, None] - values.mean()) / scale)
    return [int(end) * group for end in search.predict(pen=penalty / scale**2)[:-1]]


def change_penalty(values: np.ndarray) -> float:
    """The drop in squared error that shows a change, rather than noise."""
    return _PENALTY_FACTOR * _long_run_variance(values) * math.log(values.size)


def warmup_end(y: Values, min_size: int = 5) -> int:
    """Index at which the steady state begins, by change point; 0 when the series is steady from the start.

    Leading segments whose level differs from that of the second half of the series are the warm-up. A change in the
    second half is a change of phase, not a warm-up.
    """
    values = _finite(y)
    half = values.size // 2
    steady = values[half:]
    level, noise = float(np.median(steady)), math.sqrt(_long_run_variance(values))
    start = 0
    for end in change_points(values, min_size):
        segment = values[start:end]
        close = _WARMUP_TOLERANCE * noise * math.sqrt(1 / segment.size + 1 / steady.size)
        if end > half or abs(float(segment.mean()) - level) <= close:
            break
        start = end
    return start


def _finite(y: Values) -> np.ndarray:
    values = np.asarray(y, dtype=float)
    if values.ndim != 1 or values.size == 0 or not np.isfinite(values).all():
        raise ValueError("expected a non-empty one-dimensional sequence of finite numbers")
    return values


def _series(t_s: Values, y: Values) -> tuple[np.ndarray, np.ndarray]:
    t, values = _finite(t_s), _finite(y)
    if t.size != values.size or t.size < LEAST_SAMPLES:
        raise ValueError(f"expected at least {LEAST_SAMPLES} samples with a time each, got {t.size} and {values.size}")
    if not (np.diff(t) > 0).all():
        raise ValueError("times must increase")
    return t, values


def _batched(values: np.ndarray) -> np.ndarray:
    """Means of equal batches, the remainder dropped at the start; the values themselves when they are few."""
    size = values.size // BATCHES
    return values if size < 2 else values[-BATCHES * size :].reshape(BATCHES, size).mean(axis=1)


def _effective_samples(residuals: np.ndarray, largest: float | None = None) -> float:
    """largest: as in `centred`."""
    residuals = centred(residuals, largest)
    power = float(residuals @ residuals)
    if power == 0:
        return float(residuals.size)
    rho = float(residuals[1:] @ residuals[:-1]) / power
    # Removing a line from n samples biases the estimate downwards by (2 + 4 rho) / n.
    rho = min(0.999, max(0.0, rho + (2 + 4 * rho) / residuals.size))
    return residuals.size * (1 - rho) / (1 + rho)


def _robust_variance(differences: np.ndarray) -> float:
    """Variance, with values clipped at 3 robust standard deviations; the few differences across a change exceed it."""
    quartiles = np.quantile(differences, [0.25, 0.75])
    limit = 3 * float(quartiles[1] - quartiles[0]) / _NORMAL_QUARTILE_RANGE
    if limit == 0:
        return float(np.var(differences)) / differences.size
    return float(np.var(np.clip(differences, -limit, limit)))


def _long_run_variance(values: np.ndarray) -> float:
    """Variance of the noise times its autocorrelation time, from differences at lags 1 and 2 (AR(1) model)."""
    if values.size < LEAST_SAMPLES:
        return float(np.var(values))
    one, two = _robust_variance(np.diff(values)), _robust_variance(values[2:] - values[:-2])
    if one == 0:
        return 0.0
    rho = min(_MOST_AUTOCORRELATION, max(0.0, two / one - 1))
    return one / (2 * (1 - rho)) * (1 + rho) / (1 - rho)
