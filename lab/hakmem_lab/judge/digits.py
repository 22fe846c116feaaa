"""Digits and units for readers: as many digits as an interval supports, and a unit that fits the size. Pure."""

import math
import re
from typing import Any

BEYOND = 1e12  # a change that no measurement gives: shown as infinite
_POINT = 1e-9  # narrower than this is no interval
MOST_PLACES = 6
SIZES = ("B", "KiB", "MiB", "GiB", "TiB")
STEP = 1024.0


def is_size(unit: object) -> bool:
    """Whether it is an amount of memory, or an amount per something: KiB/h, KiB s."""
    return _amount(str(unit or "")) in SIZES


def readable(size: float, unit: str) -> tuple[float, str]:
    """(size of the shown unit, the shown unit) for a value of this size: (1024, MiB/h) for 5,000 KiB/h. Never a smaller
    unit; other units stay."""
    first, factor = _amount(unit), 1.0
    if first not in SIZES:
        return 1.0, unit
    place = SIZES.index(first)
    while abs(size) / factor >= STEP and place + 1 < len(SIZES):
        factor, place = factor * STEP, place + 1
    return factor, SIZES[place] + unit.removeprefix(first)


def _amount(unit: str) -> str:
    return re.split("[ /]", unit)[0]


def finite(value: Any) -> float | None:
    """The value as a float, or None when it is missing, not a number or not finite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None


def places(low: Any, high: Any) -> int | None:
    """Decimals that an interval supports: steps of at most half its half width, and no nonzero end is shown as 0.

    Negative: tens, hundreds. None if the interval is open or a point.
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
    # 1.15 * 100 is a little less than 115, so values are raised slightly for halves to round up.
    return f"{round(abs(value) * (1 + 1e-12), decimals):.{max(decimals, 0)}f}"


def percent_places(size: float) -> int:
    """Number of decimals for a percentage of this size, if no interval decides it."""
    return 0 if size >= 99.5 else 1 if size >= 0.095 or size == 0 else 2
