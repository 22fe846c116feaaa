"""How many digits a figure has: those that its interval supports. Pure."""

from __future__ import annotations

import math
from typing import Any

BEYOND = 1e12  # a change that no measurement gives: shown as infinite
_POINT = 1e-9  # narrower than this is no interval
MOST_PLACES = 6


def finite(value: Any) -> float | None:
    """The value as a float, or None when it is missing, not a number or not finite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None


def places(low: Any, high: Any) -> int | None:
    """Decimals that an interval supports: steps of at most half its half width, and no end that is not 0 shown as 0.

    Negative: tens, hundreds. None where the interval is open or a point.
    """
    left, right = finite(low), finite(high)
    if left is None or right is None or abs(right - left) > BEYOND or right - left < _POINT:
        return None
    found = -math.floor(math.log10((right - left) / 4) + 1e-9)
    while found < MOST_PLACES and any(end and _is_zero(end, found) for end in (left, right)):
        found += 1
    return found


def _is_zero(value: float, decimals: int) -> bool:
    return float(f"{round(value, decimals):.{max(decimals, 0)}f}") == 0


def rounded(value: float, decimals: int) -> str:
    """The value to that many decimals (negative: tens, hundreds), without a sign."""
    # 1.15 * 100 is a little less than 115: what was meant as a half goes up.
    return f"{round(abs(value) * (1 + 1e-12), decimals):.{max(decimals, 0)}f}"


def percent_places(size: float) -> int:
    """Decimals of a percentage of this size for which no interval decides."""
    return 0 if size >= 99.5 else 1 if size >= 0.095 or size == 0 else 2
