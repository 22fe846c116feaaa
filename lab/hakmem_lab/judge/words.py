"""The change that a comparison found, in words with a direction: "30 % more peak memory", "2.2 × as fast".

Terminal, page, formats and the pages of experiments use these functions, so that they cannot disagree. Pure. An
estimate is a ratio minus one, positive = better. "x % faster" means that the other arm takes x % longer, "x % slower"
that this one does. Memory, counts and a program's own figures are given as a percentage of the other arm's.

A figure has as many digits as its interval supports.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hakmem_lab.plan.metrics import pattern_name

TOO_FEW = "too few blocks for an interval"
BEYOND = 1e12  # a change that no measurement gives: shown as infinite
_POINT = 1e-9  # narrower than this is no interval
MOST_PLACES = 6
MULTIPLE_FROM = 2.0  # from here on a multiple is easier to read than per cent
NOTHING = "no measurable change"
MEAN_OF = "mean of "
UNKNOWN = "–"
NAMED = 4
LEAVES = " is left out: "  # between a candidate and the reason
BESIDE = ("wall", "cpu", "tree-cpu", "rss", "pss", "tree-memory")  # metrics that a headline on another one may mention

Record = Mapping[str, Any]
Described = str | Record | None  # a metric's name, or its record in a result: name, label, unit, higher_is_better


def finite(value: Any) -> float | None:
    """The value as a float, or None when it is missing, not a number or not finite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None


def sure(row: Record) -> int:
    """1 if the interval shows better, -1 if it shows worse, else 0."""
    low, high = finite(row.get("ci_low")), finite(row.get("ci_high"))
    return 1 if low is not None and low > 0 else -1 if high is not None and high < 0 else 0


def listed(parts: Sequence[str]) -> str:
    """The first few parts as text: one, two, three, four and 2 more."""
    shown = list(parts[:NAMED]) + ([f"{len(parts) - NAMED} more"] if len(parts) > NAMED else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def but(text: str, besides: Sequence[str], how: str = "") -> str:
    return f"{text}, but {how}{' and '.join(besides)}" if besides else text


def at_level(level: Any) -> str:
    known = finite(level)
    return f", {confidence(known)}" if known is not None else ""


def left_out(texts: Sequence[str]) -> list[str]:
    """One line for all candidates that are left out for the same reason."""
    names: dict[str, list[str]] = {}
    for text in texts:
        name, _, why = text.partition(LEAVES)
        names.setdefault(why or text, []).append(name)
    return [
        found[0] if why == found[0] else f"{listed(found)} {'is' if len(found) == 1 else 'are'} left out: {why}"
        for why, found in names.items()
    ]


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


@dataclass(frozen=True)
class Style:
    """How changes of a metric are worded. up, down: words for a larger or smaller quantity, before `noun` or instead of
    it; verb: as in "the arm needs 3 % more"; speed: worded as speed; family: metrics that can share an axis."""

    family: str
    noun: str
    up: str
    down: str
    times: str = "the"
    verb: str = "needs"
    speed: bool = False


_TIME = Style("time", "time", "faster", "slower", "as fast", "is", speed=True)
_STYLES = {
    "wall": _TIME,
    "cpu": Style("cpu", "CPU time", "more", "less", verb="uses"),
    "tree-cpu": Style("cpu", "CPU time of the whole tree", "more", "less", verb="uses"),
    "rss": Style("memory", "peak memory", "more", "less"),
    "rss-mean": Style("memory", "mean memory", "more", "less"),
    "pss": Style("memory", "proportional memory", "more", "less"),
    "pss-mean": Style("memory", "mean proportional memory", "more", "less"),
    "tree-memory": Style("memory", "memory of the whole tree", "more", "less"),
    "faults": Style("counts", "page faults", "more", "fewer", verb="causes"),
    "instructions": Style("counts", "instructions", "more", "fewer", verb="executes"),
    "cycles": Style("counts", "cycles", "more", "fewer", verb="takes"),
    "cache-misses": Style("counts", "cache misses", "more", "fewer", verb="causes"),
    "dtlb-misses": Style("counts", "address translation misses", "more", "fewer", verb="causes"),
    "syscalls": Style("counts", "system calls", "more", "fewer", verb="makes"),
}


def style_of(metric: Described, higher_is_better: bool = False) -> Style:
    """The wording of a metric's changes: `server-` metrics like those of a program; a program's own figure by its
    label, else by the plain text of its pattern."""
    record = metric if isinstance(metric, Mapping) else {"name": metric}
    full = str(record.get("name") or "wall")
    name, label, unit = full.removeprefix("server-"), str(record.get("label") or ""), str(record.get("unit") or "")
    rate = bool(higher_is_better or record.get("higher_is_better"))
    if full.startswith(MEAN_OF):
        return style_of(dict(record) | {"name": full.removeprefix(MEAN_OF)}, higher_is_better)
    if label or (unit and full.startswith("regex:")):
        noun = label or f"{unit} ({pattern_name(full)})"
        return Style("rate" if rate else "other", noun, "more", _less(noun), verb="gives" if rate else "needs")
    if name in _STYLES:
        return _STYLES[name]
    if of_latency(name) and not rate:
        return Style("latency", name, "longer", "shorter", "as long", "is")
    return Style("rate" if rate else "other", pattern_name(name), "higher", "lower", "as high", "is")


def _less(noun: str) -> str:
    """The word for a decrease: "fewer" for operations per second, but "less" for time per operation, and for ns."""
    first = noun.split(maxsplit=1)[0].partition("/")[0] if noun.split() else ""
    return "fewer" if len(first) > 3 and first.endswith("s") and not first.endswith("ss") else "less"


def of_latency(name: str) -> bool:
    """Whether it is a percentile of requests' times, or their mean."""
    plain = name.removeprefix("service-")
    return plain in ("max", "mean") or (plain[:1] == "p" and plain[1:].replace(".", "", 1).isdigit())


def described(result: Record, name: object = None) -> dict[str, Any]:
    """A result's record of the metric with this name in a comparison or guardrail; without a name, the primary one."""
    primary = dict(result.get("metric") or {})
    wanted = str(name) if name is not None else primary.get("name")
    if wanted == primary.get("name"):
        return primary
    if str(wanted).startswith(MEAN_OF):
        return primary | {"name": MEAN_OF + str(primary.get("name") or "wall")}
    known = next((each for each in result.get("watched") or [] if each.get("name") == wanted), None)
    return dict(known) if known else {"name": wanted}


def metric_name(result: Record, name: object = None) -> str:
    mean = MEAN_OF if str(name).startswith(MEAN_OF) else ""
    return mean + style_of(described(result, name)).noun


@dataclass(frozen=True)
class Change:
    """text: '30 % more peak memory'; short: without the noun; between: '26 to 34 % more', empty without an interval;
    brackets: the same as '26, 34', empty if the ends need other words than the estimate.

    sure: 1 better, -1 worse, 0 if the interval contains no change or is missing.
    """

    text: str
    short: str
    between: str
    brackets: str
    sure: int
    style: Style

    def with_interval(self) -> str:
        """30 % more [26 to 34 % more]"""
        return f"{self.short} [{self.between}]" if self.between else self.short

    def told(self) -> str:
        """With the interval: 30 % more peak memory [26, 34]. A change is claimed only if the interval shows it."""
        if not self.between:
            return f"about {self.text}, {TOO_FEW}" if self.short != NOTHING else self.text
        if not self.sure:
            return f"no difference shown: {self.between}"
        if self.short == NOTHING:
            return self.text
        return f"{self.text} [{self.brackets or self.between}]"


def _quantity(estimate: float, how: Style) -> float:
    """The shown ratio of treatment to control: of speeds and rates, or of amounts. Infinity stays infinite."""
    ratio = max(1 + estimate, 0.0)
    return ratio if how.speed or how.family == "rate" else _inverse(ratio)


def _inverse(ratio: float) -> float:
    return 1 / ratio if ratio > 0 else math.inf


def _signed(ratio: float, how: Style) -> float:
    """The shown percentage with its sign. For a slower arm it is the increase of its time, not the loss of speed."""
    if how.speed and ratio < 1:
        return -(_inverse(ratio) - 1) * 100
    return (ratio - 1) * 100


def confidence(level: float) -> str:
    return f"with {level * 100:.3g} % confidence"


def percent(value: float, decimals: int | None = None) -> str:
    text = rounded(value, percent_places(abs(value)) if decimals is None else decimals)
    if float(text) == 0:
        return "0.00 %" if value and decimals is None else "0 %"
    return f"{text} %"


def _size(value: float, decimals: int | None, sure: bool) -> str:
    """A percentage; one that is surely not 0 is not shown as 0."""
    text = percent(value, decimals)
    finer = decimals
    while sure and finer is not None and finer < MOST_PLACES and float(text.removesuffix(" %")) == 0:
        finer += 1
        text = percent(value, finer)
    return text


LARGEST = 1e9  # larger multiples are shown as "over 1e9": they are no real measurement


def _unbounded(value: float) -> bool:
    return abs(value) > LARGEST


def _times(multiple: float, decimals: int) -> str:
    """A multiple of any size, also of an infinite one."""
    return "over 1e9" if _unbounded(multiple) else rounded(multiple, decimals)


def _is_multiple(ratio: float, how: Style) -> bool:
    """Whether to show a multiple instead of per cent. A saving is always in per cent, except in speed."""
    return ratio >= MULTIPLE_FROM or (how.speed and ratio <= 1 / MULTIPLE_FROM)


def _end(ratio: float, how: Style, decimals: int | None) -> str:
    """One end of an interval, by itself: 3 % faster, 2.2 × as long."""
    if _is_multiple(ratio, how):
        long = how.speed and ratio < 1
        word = "as long" if long else how.times if how.times != "the" else "as much"
        return f"{_times(_inverse(ratio) if long else ratio, 1)} × {word}"
    value = _signed(ratio, how)
    return f"{percent(value, decimals)} {how.up if value > 0 else how.down}" if value else "no change"


def _between(ends: Sequence[float], how: Style, decimals: int | None) -> str:
    """The interval of ratios in percentages: '26 to 34 % more', '3 % less to 5 % more'; it says which ends are open."""
    low, high = ends
    if low == high == 1:
        return ""
    open_low, open_high = low <= 0, _unbounded(high)
    if open_low and open_high:
        return ""
    if open_low or open_high:
        bound = high if open_low else low
        text = _end(bound, how, decimals)
        away = bound < 1 if open_low else bound > 1  # values beyond the known end are larger changes
        return text if text.startswith("over") else f"{'at least' if away else 'at most'} {text}"
    if (low - 1) * (high - 1) <= 0 or _is_multiple(low, how) or _is_multiple(high, how):
        return f"{_end(low, how, decimals)} to {_end(high, how, decimals)}"
    near, far = sorted((low, high), key=lambda end: abs(_signed(end, how)))
    first, last = percent(_signed(near, how), decimals), _end(far, how, decimals)
    return last if last.startswith(first) else f"{first.removesuffix(' %')} to {last}"


def _brackets(ends: Sequence[float], how: Style, decimals: int | None) -> str:
    """Both ends of an interval on one side of no change, the smaller change first: '26, 34'."""
    low, high = ends
    if low <= 0 or _unbounded(high) or (low - 1) * (high - 1) <= 0:
        return ""
    shown = sorted((_signed(low, how), _signed(high, how)), key=abs)
    return ", ".join(percent(end, decimals).removesuffix(" %") for end in shown)


def change(record: Record, metric: Described = None, higher_is_better: bool = False) -> Change | None:
    """The change in a metric's record (estimate, ci_low, ci_high); None without an estimate."""
    estimate = finite(record.get("estimate"))
    if estimate is None:
        return None
    how = style_of(metric if metric is not None else record.get("metric"), higher_is_better)
    low, high = finite(record.get("ci_low")), finite(record.get("ci_high"))
    bounds = (low if low is not None else -math.inf, high if high is not None else math.inf)
    sure = 1 if bounds[0] > 0 else -1 if bounds[1] < 0 else 0
    ratio = _quantity(estimate, how)
    ends = sorted(_quantity(bound, how) for bound in bounds)
    if _is_multiple(ratio, how):
        return _multiple(ratio, ends, how, sure)
    signed = _signed(ratio, how)
    known = low is not None and high is not None
    decimals = places(*(_signed(end, how) for end in ends)) if known else None
    decimals = None if decimals is None else max(decimals, 0)  # tens would move an end of the interval too far
    size = _size(signed, decimals, sure != 0)
    same = float(size.removesuffix(" %")) == 0
    short = NOTHING if same else f"{size} {how.up if signed > 0 else how.down}"
    noun = "" if same or how.speed else f" {how.noun}"
    brackets = _brackets(ends, how, decimals)
    return Change(short + noun, short, _between(ends, how, decimals), brackets, sure, how)


def _multiple(ratio: float, ends: Sequence[float], how: Style, sure: int) -> Change:
    """2.2 × as fast, 2.2 × as long, 3.1 × the memory."""
    long = how.speed and ratio < 1
    times = [_inverse(each) for each in (ratio, *reversed(ends))] if long else [ratio, *ends]
    known = not (_unbounded(times[1]) or _unbounded(times[2]))
    decimals = (places(times[1], times[2]) if known else None) or (0 if known and times[2] - times[1] > 2 else 1)
    point, *limits = (_times(each, decimals) for each in times)
    word = "as long" if long else how.times if how.speed else f"the {how.noun}"
    short = f"{point} ×" if how.times == "the" else f"{point} × {'as long' if long else how.times}"
    if not sure:
        return Change(f"{point} × {word}", short, _between(ends, how, 0 if known else None), "", sure, how)
    open_ = f"{limits[0]} ×" if _unbounded(times[1]) else f"at least {limits[0]} ×"
    between = f"{limits[0]} to {limits[1]} ×" if known else open_
    return Change(f"{point} × {word}", short, between, ", ".join(limits) if known else "", sure, how)


def builds(result: Record) -> str:
    """The range of the estimates of single builds; empty if there are none."""
    found = result.get("builds") or {}
    if not found.get("pairs"):
        return ""
    ends = [each.text for end in ("least", "most") if (each := change({"estimate": found[end]}, described(result)))]
    return f"{len(found['pairs'])} builds, {found['blocks_each']} blocks each: from {' to '.join(ends)}"


def effect(metric: Described, estimate: float, low: float | None, high: float | None) -> str:
    """An estimate with its interval; all three are ratios minus one, None or infinite where nothing bounds them."""
    found = change({"estimate": estimate, "ci_low": low, "ci_high": high}, metric)
    return found.told() if found else "unknown"


def tolerated(limit: float, how: Style) -> str:
    """The change that a guardrail tolerates: 5 % more, 10 % slower."""
    rate = how.speed or how.family == "rate"
    shown = limit if how.speed or not rate else 1 - 1 / (1 + limit)
    return f"{100 * shown:.3g} % {how.down if rate else how.up}"


def sentence(treatment: str, control: str, found: Change) -> str:
    """hakmem is 2.2 × as fast as glibc, needs 30 % more peak memory than glibc; p99 is 12 % shorter with …"""
    how = found.style
    if found.short == NOTHING:
        return f"{treatment} does not measurably differ from {control} in {how.noun}"
    times = "×" in found.short
    link = "as" if times else "than"
    if how.speed:
        verb = "takes" if found.short.endswith("as long") else "is"
        return f"{treatment} {verb} {found.text} {link} {control}"
    if how.verb != "is":
        return f"{treatment} {how.verb} {found.text} {'of' if times else 'than'} {control}"
    return f"{how.noun} is {found.short} with {treatment} {link} with {control}"


def short_names(names: list[str]) -> dict[str, str]:
    """Names of arms without an allocator that all share: HAKMEM_PROFILE=lean instead of hakmem,HAKMEM_PROFILE=lean."""
    heads = {name.partition(",")[0] for name in names}
    rests = [name.partition(",")[2] for name in names]
    if len(names) > 1 and len(heads) == 1 and all(rests):
        return dict(zip(names, rests, strict=True))
    return {name: name for name in names}
