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


def percent(ratio: Any, signed: bool = True) -> str:
    """A ratio minus one as a percentage: +2.1 %. Infinite ends are written as such."""
    if isinstance(ratio, float) and abs(ratio) > _BEYOND:
        return f"+∞{THIN}%" if ratio > 0 else f"{MINUS}∞{THIN}%"
    known = finite(ratio)
    if known is None:
        return UNKNOWN
    value = known * 100
    size = abs(value)
    places = 0 if size >= 99.5 else 1 if size >= 0.095 or size == 0 else 2
    text = f"{size:.{places}f}"
    if float(text) == 0:
        return f"0{THIN}%" if size == 0 else f"0.00{THIN}%"
    sign = MINUS if value < 0 else "+" if signed else ""
    return f"{sign}{text}{THIN}%"


def interval(low: Any, high: Any) -> str:
    """The interval of a ratio minus one: [+1.4 %, +2.8 %]; a missing end beside a known one is infinite.

    UNKNOWN when neither end is there: an infinite end is stored as a missing one.
    """
    if finite(low) is None and finite(high) is None:
        return UNKNOWN
    return (
        f"[{percent(-math.inf if finite(low) is None else low)}, {percent(math.inf if finite(high) is None else high)}]"
    )


def estimate(record: dict[str, Any]) -> str:
    """Estimate and interval of a comparison: +2.1 % [+1.4 %, +2.8 %]."""
    point = percent(record.get("estimate"))
    ends = interval(record.get("ci_low"), record.get("ci_high"))
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


def measure(value: Any, unit: Any) -> str:
    """A value of the primary metric in its own unit (of time, KiB, else verbatim), to four digits, large as 72.1 M."""
    if unit in _SECONDS:
        known = finite(value)
        return UNKNOWN if known is None else seconds(known * _SECONDS[unit], 4)
    if unit == "KiB":
        return memory(value)
    known = finite(value)
    if known is None or abs(known) < 1e5:
        return number(value, str(unit or ""), 4)
    # Only large figures are shortened: a count of 12 345 is read as it is.
    factor, prefix = next((f, p) for f, p in _PREFIXES if abs(known) >= f)
    return f"{digits(known / factor, 4)}{JOIN}{prefix}{unit or ''}"


def plain_measure(value: float, unit: Any) -> str:
    """As `measure`, without trailing zeros: for the ticks of an axis."""
    head, joint, tail = measure(float(value), unit).partition(JOIN)
    return plain(head) + joint + tail
