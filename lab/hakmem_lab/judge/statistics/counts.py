"""Rates of counted events, such as system calls per operation.

Duty: an exact interval for a rate. May import SciPy.
"""

from dataclasses import dataclass

from scipy.special import gammaincinv


@dataclass(frozen=True)
class Rate:
    """Events per unit of exposure with its interval."""

    estimate: float
    low: float
    high: float
    level: float


def rate_interval(count: int, exposure: float, level: float = 0.95) -> Rate:
    """Exact (Garwood) interval of a Poisson rate: `count` events, 0 or more, over `exposure` units, above 0."""
    if count < 0 or exposure <= 0 or not 0 < level < 1:
        raise ValueError(f"expected a count >= 0, an exposure > 0 and a level in 0…1, got {count}, {exposure}, {level}")
    tail = (1 - level) / 2
    low = float(gammaincinv(count, tail)) if count else 0.0
    high = float(gammaincinv(count + 1, 1 - tail))
    return Rate(count / exposure, low / exposure, high / exposure, level)
