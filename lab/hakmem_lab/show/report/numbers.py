"""Numbers as a reader wants them: sensible digits, a true minus sign, units, "unknown" for what is not there.

May import: nothing of the package.
"""

from __future__ import annotations

import math
from typing import Any

UNKNOWN = "–"
MINUS = "−"
THIN = "\u202f"
JOIN = "\u00a0"
_SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
_BEYOND = 1e12  # a change that no measurement gives: shown as infinite
_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def finite(value: Any) -> float | None:
    """The value as a float, or None when it is missing, not a number or not finite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None


def digits(value: float, significant: int = 3) -> str:
    """A decimal with `significant` digits and its whole integer part, thousands apart; far out an exponent."""
    if value == 0:
        return "0"
    places = max(0, significant - 1 - math.floor(math.log10(abs(value))))
    if places > 5 or abs(value) >= 1e15:
        mantissa, exponent = f"{value:.{significant - 1}e}".split("e")
        return f"{plain(mantissa)}e{int(exponent)}".replace("-", MINUS)
    text = f"{value:,.{places}f}".replace(",", THIN).replace("-", MINUS)
    return text


def plain(text: str) -> str:
    """A decimal without the zeros at its end."""
    return text.rstrip("0").rstrip(".") if "." in text else text


def number(value: Any, unit: str = "", significant: int = 3) -> str:
    """A number with up to `significant` digits and its unit; UNKNOWN when missing."""
    known = finite(value)
    if known is None:
        return UNKNOWN
    text = str(int(known)) if known == int(known) and abs(known) < 1000 else plain(digits(known, significant))
    return f"{text}{JOIN}{unit}" if unit else text


def places(low: Any, high: Any) -> int | None:
    """Decimals that an interval supports: steps of at most half its half width, and no end that is not 0 shown as 0.

    Negative: tens, hundreds. None where the interval is open or a point.
    """
    left, right = finite(low), finite(high)
    if left is None or right is None or abs(right - left) > _BEYOND or right - left < 1e-9:
        return None
    found = -math.floor(math.log10((right - left) / 4) + 1e-9)
    while any(end and float(f"{round(end, found):.{max(found, 0)}f}") == 0 for end in (left, right)) and found < 6:
        found += 1
    return found


def rounded(value: float, decimals: int) -> str:
    """The value to that many decimals (negative: tens, hundreds), without a sign."""
    # 1.15 * 100 is a little less than 115: what was meant as a half goes up.
    return f"{round(abs(value) * (1 + 1e-12), decimals):.{max(decimals, 0)}f}"


def _percent_places(size: float) -> int:
    return 0 if size >= 99.5 else 1 if size >= 0.095 or size == 0 else 2


def percent(ratio: Any, signed: bool = True, decimals: int | None = None) -> str:
    """A ratio minus one as a percentage: +2.1 %. Infinite ends are written as such. `decimals`: as of `places`."""
    if isinstance(ratio, float) and abs(ratio) > _BEYOND:
        return f"+∞{THIN}%" if ratio > 0 else f"{MINUS}∞{THIN}%"
    known = finite(ratio)
    if known is None:
        return UNKNOWN
    value = known * 100
    text = rounded(value, _percent_places(abs(value)) if decimals is None else decimals)
    if float(text) == 0:
        return f"0{THIN}%" if value == 0 or decimals is not None else f"0.00{THIN}%"
    sign = MINUS if value < 0 else "+" if signed else ""
    return f"{sign}{text}{THIN}%"


def _ratio_places(low: Any, high: Any) -> int | None:
    left, right = finite(low), finite(high)
    return None if left is None or right is None else places(left * 100, right * 100)


def interval(low: Any, high: Any) -> str:
    """The interval of a ratio minus one: [+1.4 %, +2.8 %]; a missing end beside a known one is infinite.

    UNKNOWN when neither end is there: an infinite end is stored as a missing one.
    """
    if finite(low) is None and finite(high) is None:
        return UNKNOWN
    ends = -math.inf if finite(low) is None else low, math.inf if finite(high) is None else high
    decimals = _ratio_places(low, high)
    return f"[{percent(ends[0], decimals=decimals)}, {percent(ends[1], decimals=decimals)}]"


def estimate(record: dict[str, Any]) -> str:
    """Estimate and interval of a comparison, both to what the interval supports: +2.1 % [+1.4 %, +2.8 %]."""
    low, high = record.get("ci_low"), record.get("ci_high")
    point = percent(record.get("estimate"), decimals=_ratio_places(low, high))
    ends = interval(low, high)
    return point if ends == UNKNOWN else f"{point} {ends}"


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
    """A duration given in microseconds."""
    known = finite(value)
    return UNKNOWN if known is None else seconds(known * 1e-6)


def memory(value_kib: Any) -> str:
    """An amount of memory given in KiB, shown in KiB, MiB or GiB."""
    known = finite(value_kib)
    if known is None:
        return UNKNOWN
    for factor, unit in ((1 << 20, "GiB"), (1 << 10, "MiB")):
        if abs(known) >= factor:
            return f"{digits(known / factor)}{JOIN}{unit}"
    return number(known, "KiB")


def probability(value: Any) -> str:
    """A p-value or an error rate: .032, < .001."""
    known = finite(value)
    if known is None:
        return UNKNOWN
    return "< 0.001" if 0 <= known < 0.001 else f"{known:.3f}"


def _scale(value: float, unit: Any) -> tuple[float, str]:
    """(what one of the shown unit is, the shown unit): s as ms, KiB as MiB, large figures with a prefix."""
    size = abs(value)
    if unit in _SECONDS:
        factors = ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
        factor, name = next(((f, n) for f, n in factors if size * _SECONDS[unit] >= f), (1, "s"))
        return factor / _SECONDS[unit], name
    if str(unit).startswith("KiB"):
        factor, name = next(((f, n) for f, n in ((1 << 20, "GiB"), (1 << 10, "MiB")) if size >= f), (1, "KiB"))
        return factor, str(unit).replace("KiB", name).replace(" ", JOIN)
    # Only large figures are shortened: a count of 12 345 is read as it is.
    factor, prefix = next((p for p in _PREFIXES if size >= p[0]), (1, "")) if size >= 1e5 else (1, "")
    return factor, f"{prefix}{unit or ''}"


def measure(value: Any, unit: Any) -> str:
    """A value of the primary metric in its own unit (of time, KiB, else verbatim), to four digits, large as 72.1 M."""
    if unit in _SECONDS:
        known = finite(value)
        return UNKNOWN if known is None else seconds(known * _SECONDS[unit], 4)
    if unit == "KiB":
        return memory(value)
    known = finite(value)
    if known is None or (abs(known) < 1e5 and unit != "KiB s"):
        return number(value, str(unit or ""), 4)
    factor, name = _scale(known, unit)
    return f"{digits(known / factor, 4)}{JOIN}{name}"


def _grouped(text: str) -> str:
    whole, point, fraction = text.partition(".")
    return f"{int(whole):,}".replace(",", THIN) + point + fraction


def between(value: Any, low: Any, high: Any, unit: Any) -> str:
    """A measured value with its interval, to what that supports: 112.3 ms [111.8, 112.9]; alone where it is open."""
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
    """As `measure`, without trailing zeros: for the ticks of an axis."""
    head, joint, tail = measure(float(value), unit).partition(JOIN)
    return plain(head) + joint + tail
