"""How a series settles, and the minima of a sawtooth.

Duty: the time constant of a warm-up, the slope behind it, and the minima and maxima of teeth. May import NumPy, SciPy
and `drift`.

A warm-up is modelled as level + slope * t + size * exp(-t / tau), and fitted by least squares. The exponential must
lower the squared error by as much as a change of level must. Only the time behind the warm-up is
judged. There the size is fitted once more, together with the slope: what is left of a warm-up of another form is then
not taken for growth, nor growth for a warm-up.
"""

import math
from dataclasses import dataclass

import numpy as np

from hakmem_lab.judge.statistics.drift import LEAST_SAMPLES, Slope, change_penalty, theil_sen
from hakmem_lab.judge.statistics.paired import Values

# tau as shares of the time, and the number of values to begin with. A slower warm-up is not over in time.
_FASTEST, _SLOWEST, _TAUS = 1 / 100, 1 / 6, 25
BEHIND = 4.0  # time constants after which a warm-up is over
LATEST = 0.5  # share of the time at which it is taken to be over


def _without_line(t: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The residuals of y around a straight line over t."""
    away, centred = t - t.mean(), y - y.mean()
    return centred - float(centred @ away) / float(away @ away) * away


def _shape(t_s: np.ndarray, tau_s: float) -> np.ndarray:
    """The exponential, of size 1."""
    return np.exp(-(t_s - t_s[0]) / tau_s)


def _fit(tau_s: float, t_s: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """(the size of an exponential beside a straight line, by least squares; what both leave of y)."""
    bent, straight = _without_line(t_s, _shape(t_s, tau_s)), _without_line(t_s, y)
    size = float(bent @ straight) / float(bent @ bent)
    return size, straight - size * bent


def settling_time(t_s: np.ndarray, y: np.ndarray) -> float | None:
    """tau of the series' warm-up in seconds; None if there is none, or if it is not over in time."""
    from scipy.optimize import minimize_scalar  # slow to load

    if y.size < 2 * LEAST_SAMPLES:
        return None

    def error(tau_s: float) -> float:
        return float(np.square(_fit(tau_s, t_s, y)[1]).sum())

    taus = np.ptp(t_s) * np.geomspace(_FASTEST, _SLOWEST, _TAUS)
    errors = [error(tau_s) for tau_s in taus]
    best = int(np.argmin(errors))
    if best in (0, _TAUS - 1):
        return None
    found = minimize_scalar(error, bounds=(taus[best - 1], taus[best + 1]), method="bounded")
    line, rest = _without_line(t_s, y), _fit(found.x, t_s, y)[1]
    return float(found.x) if float(line @ line) - found.fun > change_penalty(rest) else None


def settled(t_s: np.ndarray, y: np.ndarray) -> tuple[int, float | None]:
    """(index of the first value behind the warm-up, its tau). A warm-up may have several exponentials: each is sought
    in the values behind the one before it. (0, None) without one."""
    start, tau_s = 0, None
    latest = int(np.searchsorted(t_s, t_s[0] + LATEST * (t_s[-1] - t_s[0])))
    while (found := settling_time(t_s[start:], y[start:])) is not None:
        tau_s = found
        over = min(latest, int(np.searchsorted(t_s, t_s[start] + BEHIND * found)))
        if over == start:
            break
        start = over
    return start, tau_s


def curve(t_s: np.ndarray, y: np.ndarray, tau_s: float) -> np.ndarray:
    """The exponential part of the series."""
    return _shape(t_s, tau_s) * _fit(tau_s, t_s, y)[0]


def settled_slope(t_s: np.ndarray, y: np.ndarray, tau_s: float, level: float) -> Slope:
    """The slope of the series without its exponential part. The interval is wider by as much as the exponential
    resembles a straight line, as in a regression on both."""
    shape = _shape(t_s, tau_s)
    bent, away = _without_line(t_s, shape), shape - shape.mean()
    unexplained = float(bent @ bent) / float(away @ away)
    found = theil_sen(t_s, y - curve(t_s, y, tau_s), level)
    wider = 1 / math.sqrt(unexplained)
    below, above = (found.slope_per_s - found.low) * wider, (found.high - found.slope_per_s) * wider
    return Slope(found.slope_per_s, found.slope_per_s - below, found.slope_per_s + above)


_NOISES = 6.0  # a tooth is deeper than so many standard deviations of a value
_STEEP = 0.25  # most of a tooth's time that its fall may take


@dataclass(frozen=True)
class Teeth:
    """Indices of the minima between teeth, and of the maximum before each of them."""

    lowest: np.ndarray
    highest: np.ndarray


def teeth(y: Values) -> Teeth | None:
    """The teeth of a sawtooth, which rises slowly and falls at once; None with too few of them for a slope."""
    from scipy.signal import find_peaks  # slow to load

    values = np.asarray(y, dtype=float)
    if values.size < LEAST_SAMPLES:
        return None
    noise = 1.4826 * float(np.median(np.abs(np.diff(values)))) / math.sqrt(2)
    lowest, _ = find_peaks(-values, prominence=max(_NOISES * noise, np.finfo(float).tiny))
    if lowest.size < LEAST_SAMPLES:
        return None
    begins = [0, *lowest[:-1].tolist()]
    highest = np.array([a + int(values[a:b].argmax()) for a, b in zip(begins, lowest.tolist(), strict=True)])
    falls = (lowest - highest)[1:] / np.diff(lowest)
    return Teeth(lowest, highest) if float(np.median(falls)) <= _STEEP else None
