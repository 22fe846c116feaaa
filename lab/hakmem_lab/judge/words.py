"""The grammar of verdicts, in one place: `side number unit direction reference [interval]`.

    hakmem 12 % faster than glibc [8, 15]
    hakmem peak memory 3 % higher than glibc [2, 4]
    jemalloc undecided against glibc [-2, +5] %
    tcmalloc within 1 % of glibc [-0.3, +0.6] %

Terminal, page, formats and the pages of experiments use these functions. Pure. An estimate is a ratio minus one,
positive = better. "x % faster" means that the other side takes x % longer, "x % slower" that this one does. Memory,
counts and a program's own figures are given as a percentage of the other side's. From twice as much on, a multiple
replaces the percentage. A figure has as many digits as its interval supports.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hakmem_lab.judge.digits import MOST_PLACES, finite, percent_places, places, readable, rounded
from hakmem_lab.plan.metrics import GROWTH, LEAST, pattern_name
from hakmem_lab.store.results import Estimate, MetricRow, Result

TOO_FEW = "too few blocks for an interval"
UNDECIDED = "undecided"
OPEN = "open"  # an end of an interval that nothing bounds
LARGEST = 1e9  # larger multiples are shown as "over 1e9": they are no real measurement
MULTIPLE_FROM = 2.0  # from here on a multiple is easier to read than per cent
NOTHING = "unchanged"
BETTER, WORSE = ("faster", "leaner"), ("slower", "larger")  # in the cells of a suite: of speed, of memory
MEAN_OF = "mean of "
UNKNOWN = "–"
NAMED = 4
LEAVES = " is left out: "  # between a candidate and the reason
# Metrics that a headline on another one may mention.
BESIDE = ("wall", "cpu", "tree-cpu", "rss", "pss", "tree-memory", "after-load")

Described = str | MetricRow | None  # a metric's name, or its record in a result


def sure(row: Estimate) -> int:
    """1 if the interval shows better, -1 if it shows worse, else 0."""
    low, high = finite(row.get("ci_low")), finite(row.get("ci_high"))
    return 1 if low is not None and low > 0 else -1 if high is not None and high < 0 else 0


def listed(parts: Sequence[str]) -> str:
    """The first few parts as text: one, two, three, four and 2 more."""
    shown = list(parts[:NAMED]) + ([f"{len(parts) - NAMED} more"] if len(parts) > NAMED else [])
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


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


@dataclass(frozen=True)
class Style:
    """How changes of a metric are worded. noun: stands before the change, except for time; up, down: words for a larger
    and a smaller quantity; speed: worded as speed; family: metrics that can share an axis."""

    family: str
    noun: str
    up: str = "higher"
    down: str = "lower"
    speed: bool = False

    @property
    def rises(self) -> bool:
        """Whether a larger quantity is better."""
        return self.speed or self.family == "rate"

    def multiple(self, ratio: float) -> str:
        return ("as long" if ratio < 1 else "as fast") if self.speed else "as high"


_TIME = Style("time", "time", "faster", "slower", speed=True)
_STYLES = {
    "wall": _TIME,
    "cpu": Style("cpu", "CPU time"),
    "tree-cpu": Style("cpu", "CPU time of the whole tree"),
    "rss": Style("memory", "peak memory"),
    "rss-mean": Style("memory", "mean memory"),
    LEAST: Style("memory", "least memory"),
    "pss": Style("memory", "proportional memory"),
    "pss-mean": Style("memory", "mean proportional memory"),
    "tree-memory": Style("memory", "memory of the whole tree"),
    "after-load": Style("memory", "memory after load"),
    "allocated": Style("counts", "allocated bytes"),
    "calls": Style("counts", "calls of the allocator"),
    GROWTH: Style("memory", "memory growth"),
    "faults": Style("counts", "page faults"),
    "instructions": Style("counts", "instructions"),
    "cycles": Style("counts", "cycles"),
    "cache-misses": Style("counts", "cache misses"),
    "dtlb-misses": Style("counts", "address translation misses"),
    "syscalls": Style("counts", "system calls"),
}


def style_of(metric: Described, higher_is_better: bool = False) -> Style:
    """The wording of a metric's changes: `server-` metrics like those of a program; a program's own figure by its
    label, else by the plain text of its pattern."""
    record: MetricRow = {"name": metric or ""} if metric is None or isinstance(metric, str) else metric
    full = str(record.get("name") or "wall")
    name, label, unit = full.removeprefix("server-"), str(record.get("label") or ""), str(record.get("unit") or "")
    rate = bool(higher_is_better or record.get("higher_is_better"))
    if full.startswith(MEAN_OF):
        return style_of(record | {"name": full.removeprefix(MEAN_OF)}, higher_is_better)
    family = "rate" if rate else "other"
    if label or (unit and full.startswith("regex:")):
        return Style(family, label or f"{unit} ({pattern_name(full)})")
    if name in _STYLES:
        return _STYLES[name]
    return Style("latency", name) if of_latency(name) and not rate else Style(family, pattern_name(name))


def of_latency(name: str) -> bool:
    """Whether it is a percentile of requests' times, or their mean."""
    plain = name.removeprefix("service-")
    return plain in ("max", "mean") or (plain[:1] == "p" and plain[1:].replace(".", "", 1).isdigit())


def described(result: Result, name: object = None) -> MetricRow:
    """A result's record of the metric with this name in a comparison or guardrail; without a name, the primary one."""
    primary: MetricRow = result.get("metric") or {}
    wanted = str(name) if name is not None else primary.get("name")
    if wanted == primary.get("name"):
        return primary
    if str(wanted).startswith(MEAN_OF):
        return primary | {"name": MEAN_OF + str(primary.get("name") or "wall")}
    others = [*(result.get("watched") or []), *(result.get("also") or [])]
    known = next((each for each in others if each.get("name") == wanted), None)
    return known or {"name": str(wanted)}


def metric_name(result: Result, name: object = None) -> str:
    mean = MEAN_OF if str(name).startswith(MEAN_OF) else ""
    return mean + style_of(described(result, name)).noun


def quantity(ratio: float, how: Style) -> float:
    """The ratio of treatment to control that is shown: of speeds and rates, or of amounts. Infinity stays infinite."""
    ratio = max(ratio, 0.0)
    return ratio if how.rises else _inverse(ratio)


def _inverse(ratio: float) -> float:
    return 1 / ratio if ratio > 0 else math.inf


def signed(ratio: float, how: Style) -> float:
    """The shown percentage with its sign. For a slower side it is the increase of its time, not the loss of speed."""
    if how.speed and ratio < 1:
        return -(_inverse(ratio) - 1) * 100
    return (ratio - 1) * 100


def percent(value: float, decimals: int | None = None) -> str:
    text = rounded(value, percent_places(abs(value)) if decimals is None else decimals)
    if float(text) == 0:
        return "0.00 %" if value and decimals is None else "0 %"
    return f"{text} %"


def _figure(value: float, decimals: int | None, unit: str) -> str:
    """One end of an interval, without its unit."""
    if abs(value) > LARGEST:
        return "over 1e9"
    return rounded(value, decimals or 0) if unit == "×" else percent(value, decimals).removesuffix(" %")


def _is_multiple(ratio: float, how: Style) -> bool:
    """Whether to show a multiple instead of per cent. A saving is always in per cent, except in speed."""
    return ratio >= MULTIPLE_FROM or (how.speed and ratio <= 1 / MULTIPLE_FROM)


@dataclass(frozen=True)
class Change:
    """size: the estimate as '12 %' or '2.2 ×'; direction: 'faster', 'as high', empty without a change; ends: '8, 15',
    with signs where the interval contains no change, empty without an interval; unit: the unit of the ends.

    sure: 1 better, -1 worse, 0 if the interval contains no change or is missing; exact: a count without error, which
    has no interval.
    """

    size: str
    direction: str
    ends: str
    unit: str
    sure: int
    style: Style
    exact: bool = False

    @property
    def short(self) -> str:
        """The estimate alone: 12 % faster, 2.2 × as high."""
        return f"{self.size} {self.direction}" if self.direction else NOTHING

    @property
    def interval(self) -> str:
        """The interval with its unit: [8, 15] %."""
        return f"[{self.ends}] {self.unit}" if self.ends else ""

    @property
    def noun(self) -> str:
        return "" if self.style.speed else f"{self.style.noun} "

    def told(self, reference: str = "", within: str = "", of: str = "") -> str:
        """The change with its interval, without the noun. reference: the other side; within: the margin, if all of the
        change is inside it; of: what the interval is of, if it is not the estimate's."""
        ends = f"{of} [{self.ends}]" if of else f"[{self.ends}]"
        if within and (self.ends or self.exact):
            size = f"({self.told()})" if self.sure or self.exact else f"{ends} {self.unit}"
            return f"within {within}{reference and f' of {reference}'} {size}"
        if self.ends and not self.sure:
            return f"{UNDECIDED}{reference and f' against {reference}'} {ends} {self.unit}"
        if not self.direction:
            return f"{NOTHING}{reference and f' against {reference}'}"
        link = f" {'as' if self.size.endswith('×') else 'than'} {reference}" if reference else ""
        if self.ends or self.exact:
            return f"{self.short}{link} {ends if self.ends else ''}".rstrip()
        return f"{UNDECIDED} against {reference}, {TOO_FEW}" if reference else f"about {self.short}, {TOO_FEW}"

    def named(self, within: str = "") -> str:
        """With the noun: peak memory 30 % higher [26, 34]. A change is claimed only if the interval shows it."""
        return f"{self.noun}{self.told(within=within)}"


def sentence(side: str, reference: str, found: Change, within: str = "", of: str = "") -> str:
    """The whole grammar: hakmem peak memory 3 % higher than glibc [2, 4]. Arguments: as of `Change.told`."""
    return f"{side} {found.noun}{found.told(reference, within, of)}"


def change(record: Estimate, metric: Described = None, higher_is_better: bool = False) -> Change | None:
    """The change in a metric's record (estimate, ci_low, ci_high); None without an estimate."""
    estimate = finite(record.get("estimate"))
    if estimate is None:
        return None
    how = style_of(metric if metric is not None else record.get("metric"), higher_is_better)
    low, high = finite(record.get("ci_low")), finite(record.get("ci_high"))
    if isinstance(metric, dict) and (base := metric.get("base")):
        return difference(base * estimate / (1 + estimate), _saved(base, low), _saved(base, high), metric["unit"])
    bounds = (low if low is not None else -math.inf, high if high is not None else math.inf)
    certain = 1 if bounds[0] > 0 else -1 if bounds[1] < 0 else 0
    ratio, ends = quantity(1 + estimate, how), sorted(quantity(1 + bound, how) for bound in bounds)
    if not certain:
        return replace(_undecided(ratio, ends, how), exact=bool(record.get("exact")))
    if _is_multiple(ratio, how):
        return _multiple(ratio, ends, how, certain)
    value, shown = signed(ratio, how), sorted((signed(end, how) for end in ends), key=abs)
    opened = [not _bounded(end) for end in ends]
    decimals = None if any(opened) else places(*sorted(shown))
    decimals = None if decimals is None else max(decimals, 0)  # tens would move an end of the interval too far
    size = _size(value, decimals)
    direction = "" if float(size.removesuffix(" %")) == 0 else how.up if value > 0 else how.down
    far = OPEN if any(opened) else _figure(shown[1], decimals, "%")
    return Change(size, direction, f"{_figure(shown[0], decimals, '%')}, {far}", "%", certain, how)


def _bounded(ratio: float) -> bool:
    """Whether a ratio is a bound of an interval: 0 and infinity are not."""
    return 0 < ratio <= LARGEST


def _size(value: float, decimals: int | None) -> str:
    """A percentage that is not 0, which is not shown as 0."""
    text, finer = percent(value, decimals), decimals
    while finer is not None and finer < MOST_PLACES and float(text.removesuffix(" %")) == 0:
        finer += 1
        text = percent(value, finer)
    return text


def _multiple(ratio: float, ends: Sequence[float], how: Style, certain: int) -> Change:
    """2.2 × as fast, 2.2 × as long, 3.1 × as high."""
    long = how.speed and ratio < 1
    point, low, high = [_inverse(each) for each in (ratio, *reversed(ends))] if long else [ratio, *ends]
    opened = not _bounded(high)
    decimals = (None if opened else places(low, high)) or (0 if not opened and high - low > 2 else 1)
    far = OPEN if opened and _bounded(low) else _figure(high, decimals, "×")
    text = f"{_figure(low, decimals, '×')}, {far}"
    return Change(f"{_figure(point, decimals, '×')} ×", how.multiple(ratio), text, "×", certain, how)


def _undecided(ratio: float, ends: Sequence[float], how: Style) -> Change:
    """A change whose interval contains no change, or that has none: both ends with signs, or as multiples."""
    opened = [not _bounded(end) for end in ends]
    multiple = any(_bounded(end) and _is_multiple(end, how) for end in ends)
    unit, shown = ("×", list(ends)) if multiple else ("%", [signed(end, how) for end in ends])
    decimals = None if any(opened) else places(*shown)
    decimals = max(decimals or 0, 1) if multiple else decimals and max(decimals, 0)
    signs = ["" if multiple or value == 0 else "-" if value < 0 else "+" for value in shown]
    figures = [OPEN if end else s + _figure(v, decimals, unit) for v, s, end in zip(shown, signs, opened, strict=True)]
    text = "" if all(opened) or ends[0] == ends[1] == 1 else ", ".join(figures)
    if _is_multiple(ratio, how):
        long = how.speed and ratio < 1
        size = f"{_figure(_inverse(ratio) if long else ratio, 1, '×')} ×"
        return Change(size, how.multiple(ratio), text, unit, 0, how)
    value = signed(ratio, how)
    size = percent(value, None if multiple else decimals)
    direction = "" if float(size.removesuffix(" %")) == 0 else how.up if value > 0 else how.down
    return Change(size, direction, text, unit, 0, how)


def _saved(base: float, gain: float | None) -> float | None:
    """By how much less than `base` the other side has, from their ratio minus one; None where nothing bounds it."""
    return None if gain is None or gain <= -1 else base * gain / (1 + gain)


def difference(less: float, low: float | None, high: float | None, unit: str) -> Change:
    """The change in an amount of memory that may be near 0: 12 KiB/h lower [10, 14]. less: by how much it is lower."""
    how = _STYLES[GROWTH]
    certain = 1 if low is not None and low > 0 else -1 if high is not None and high < 0 else 0
    known = [abs(end) for end in (low, high) if end is not None]
    factor, unit = readable(less if certain else max(known, default=less), unit)
    less, both = less / factor, [None if end is None else round(-end / factor, MOST_PLACES) for end in (high, low)]
    decimals = places(*both)
    decimals = None if decimals is None else max(decimals, 0)

    def written(end: float | None) -> str:
        sign = "" if certain or not end else "-" if end < 0 else "+"
        return OPEN if end is None else sign + rounded(end, decimals or 0)

    ends = [written(end) for end in (both[::-1] if certain > 0 else both)] if known else []
    text = rounded(less, percent_places(abs(less)) if decimals is None else decimals)
    direction = "" if float(text) == 0 else how.down if less > 0 else how.up
    return Change(f"{text} {unit}", direction, ", ".join(ends), unit, certain, how)


def builds(result: Result) -> str:
    """The range of the estimates of single builds; empty if there are none."""
    found = result.get("builds") or {}
    if not found.get("pairs"):
        return ""
    metric = described(result)
    ends = [each for end in ("least", "most") if (each := change({"estimate": found[end]}, metric))]
    return (
        f"{len(found['pairs'])} builds, {found['blocks_each']} blocks each: {ends[0].noun}from "
        f"{' to '.join(each.short for each in ends)}"
    )


def effect(metric: Described, estimate: float, low: float | None, high: float | None) -> str:
    """An estimate with its interval; all three are ratios minus one, None or infinite where nothing bounds them."""
    found = change({"estimate": estimate, "ci_low": low, "ci_high": high}, metric)
    return found.named() if found else "unknown"


def amount(value: float, unit: str) -> str:
    """To four digits: 12.5 MiB/h."""
    factor, unit = readable(value, unit)
    return f"{value / factor:.4g} {unit}"


def tolerated(limit: float, metric: Described) -> str:
    """The change that a guardrail tolerates: 5 % higher, 10 % slower, 3 MiB/h higher."""
    how = style_of(metric)
    if isinstance(metric, dict) and (base := metric.get("base")):
        return f"{amount(limit * base, metric['unit'])} {how.up}"
    shown = limit if how.speed or not how.rises else 1 - 1 / (1 + limit)
    return f"{100 * shown:.3g} % {how.down if how.rises else how.up}"


def short_names(names: list[str]) -> dict[str, str]:
    """Names of arms without an allocator that all share: HAKMEM_PROFILE=lean instead of hakmem,HAKMEM_PROFILE=lean."""
    heads = {name.partition(",")[0] for name in names}
    rests = [name.partition(",")[2] for name in names]
    if len(names) > 1 and len(heads) == 1 and all(rests):
        return dict(zip(names, rests, strict=True))
    return {name: name for name in names}
