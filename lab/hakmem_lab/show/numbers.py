"""Numbers for readers: sensible digits, a true minus sign, units, and "unknown" for a missing value."""

import math
import re
from typing import Any

from hakmem_lab.judge.digits import BEYOND, finite, is_size, percent_places, places, readable, rounded
from hakmem_lab.judge.words import UNKNOWN

__all__ = ["UNKNOWN", "finite", "places", "rounded"]

MINUS = "−"
THIN = "\u202f"
JOIN = "\u00a0"
_SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def digits(value: float, significant: int = 3) -> str:
    """A decimal with `significant` digits but its whole integer part, thousands grouped. Very large and very small
    values have an exponent."""
    if value == 0:
        return "0"
    places = max(0, significant - 1 - math.floor(math.log10(abs(value))))
    if places > 5 or abs(value) >= 1e15:
        mantissa, exponent = f"{value:.{significant - 1}e}".split("e")
        return f"{plain(mantissa)}e{int(exponent)}".replace("-", MINUS)
    return f"{value:,.{places}f}".replace(",", THIN).replace("-", MINUS)


def plain(text: str) -> str:
    """A decimal without trailing zeros."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def typeset(text: str) -> str:
    """Text with no-break spaces before % and ×, so that no line breaks there."""
    return re.sub(r"(?<=\d) (?=×)", JOIN, re.sub(r"(?<=\d) (?=%)", THIN, text))


def number(value: Any, unit: str = "", significant: int = 3) -> str:
    """A number with up to `significant` digits and its unit; UNKNOWN when missing."""
    known = finite(value)
    if known is None:
        return UNKNOWN
    text = str(int(known)) if known == int(known) and abs(known) < 1000 else plain(digits(known, significant))
    return f"{text}{JOIN}{unit}" if unit else text


def percent(ratio: Any) -> str:
    """A share as a percentage: 2.1 %."""
    known = finite(ratio)
    if known is None or abs(known) > BEYOND:
        return UNKNOWN
    value = known * 100
    text = rounded(value, percent_places(abs(value)))
    if float(text) == 0:
        return f"0{THIN}%" if value == 0 else f"0.00{THIN}%"
    return f"{MINUS if value < 0 else ''}{text}{THIN}%"


def seconds(value: Any, significant: int = 3) -> str:
    """A duration: 12 µs, 65.1 ms, 2.40 s, 3 min 20 s, 2 h 5 min."""
    known = finite(value)
    if known is None:
        return UNKNOWN
    if abs(known) >= 3600:
        minutes = round(known / 60)
        return f"{minutes // 60}{JOIN}h {minutes % 60}{JOIN}min"
    if abs(known) >= 120:
        return f"{round(known) // 60}{JOIN}min {round(known) % 60}{JOIN}s"
    for factor, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if abs(known) >= factor:
            return f"{digits(known / factor, significant)}{JOIN}{unit}"
    return f"0{JOIN}s" if known == 0 else f"{digits(known * 1e9, significant)}{JOIN}ns"


def microseconds(value: Any) -> str:
    known = finite(value)
    return UNKNOWN if known is None else seconds(known * 1e-6)


def memory(value_kib: Any) -> str:
    """An amount of memory given in KiB, shown in KiB, MiB or GiB."""
    known = finite(value_kib)
    if known is None:
        return UNKNOWN
    factor, unit = _scale(known, "KiB")
    return number(known, unit) if factor == 1 else f"{digits(known / factor)}{JOIN}{unit}"


def _scale(value: float, unit: Any) -> tuple[float, str]:
    """(size of the shown unit, the shown unit): s as ms, KiB as MiB, large figures with a prefix."""
    size = abs(value)
    if unit in _SECONDS:
        factors = ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
        factor, name = next(((f, n) for f, n in factors if size * _SECONDS[unit] >= f), (1, "s"))
        return factor / _SECONDS[unit], name
    if is_size(unit):
        factor, name = readable(size, unit)
        return factor, name.replace(" ", JOIN)
    # Only large figures are shortened: a count of 12 345 is read as it is.
    factor, prefix = next((p for p in _PREFIXES if size >= p[0]), (1, "")) if size >= 1e5 else (1, "")
    return factor, f"{prefix}{unit or ''}"


def measure(value: Any, unit: Any) -> str:
    """A value of the primary metric with its unit, to four digits. Times and KiB change to a suitable unit; other large
    values get a prefix: 72.1 M."""
    if unit in _SECONDS:
        known = finite(value)
        return UNKNOWN if known is None else seconds(known * _SECONDS[unit], 4)
    if unit == "KiB":
        return memory(value)
    known = finite(value)
    if known is None or (abs(known) < 1e5 and not is_size(unit)):
        return number(value, str(unit or ""), 4)
    factor, name = _scale(known, unit)
    return f"{digits(known / factor, 4)}{JOIN}{name}"


def _grouped(text: str) -> str:
    whole, point, fraction = text.partition(".")
    return f"{int(whole):,}".replace(",", THIN) + point + fraction


def between(value: Any, low: Any, high: Any, unit: Any) -> str:
    """A measured value with its interval, to the digits that the interval supports: 112.3 ms [111.8, 112.9]. The value
    alone where the interval is open."""
    known, left, right = finite(value), finite(low), finite(high)
    if known is None or left is None or right is None:
        return measure(value, unit)
    factor, name = _scale(known, unit)
    decimals = places(left / factor, right / factor)
    if decimals is not None and factor == 1 and all(each == int(each) for each in (known, left, right)):
        decimals = min(decimals, 0)  # counts
    if decimals is None or decimals > 5:
        text = measure(value, unit)
        return f"{text} [{text}, {text}]" if left == right == known else text
    shown = (known / factor, left / factor, right / factor)
    point, *ends = ((MINUS if each < 0 else "") + _grouped(rounded(each, decimals)) for each in shown)
    return f"{point}{JOIN}{name}".removesuffix(JOIN) + f" [{', '.join(ends)}]"


def plain_measure(value: float, unit: Any) -> str:
    """Like `measure`, without trailing zeros, for the ticks of an axis."""
    head, joint, tail = measure(float(value), unit).partition(JOIN)
    return plain(head) + joint + tail
