"""What a comparison found, in words with a direction: "30 % more memory", "2.2 × as fast".

The terminal and the page both say it with these functions, so that they never disagree. An estimate is a ratio minus
one, positive = better; "x % faster" says that the other takes x % longer, "x % slower" that this one does; memory and
counts are said as amounts of the other's. May import: model, numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hakmem_lab.show.report import numbers
from hakmem_lab.show.report.model import metric_label
from hakmem_lab.show.report.numbers import JOIN, THIN, finite

MULTIPLE_FROM = 2.0
NOTHING = "no measurable change"


@dataclass(frozen=True)
class Style:
    """How changes of a metric are said. `speed`: as rates; otherwise as amounts. up, down: of the shown quantity."""

    family: str
    noun: str
    up: str
    down: str
    times: str
    verb: str = "is"
    speed: bool = False


_TIME = Style("time", "time", "faster", "slower", "as fast", speed=True)
_STYLES = {
    "wall": _TIME,
    "cpu": Style("cpu", "CPU time", "more", "less", "the", "uses"),
    "rss": Style("memory", "peak memory", "more", "less", "the", "needs"),
    "rss-mean": Style("memory", "mean memory", "more", "less", "the", "needs"),
    "pss": Style("memory", "proportional memory", "more", "less", "the", "needs"),
    "faults": Style("counts", "page faults", "more", "fewer", "the", "causes"),
    "instructions": Style("counts", "instructions", "more", "fewer", "the", "executes"),
    "syscalls": Style("counts", "system calls", "more", "fewer", "the", "makes"),
}


def style_of(metric: object, higher_is_better: bool = False) -> Style:
    """How a metric's changes are said; `server-` metrics as those of a program."""
    name = str(metric or "wall").removeprefix("server-")
    if name in _STYLES:
        return _STYLES[name]
    family = "rate" if higher_is_better else "latency" if is_percentile(name) else "other"
    return Style(family, metric_label(metric), "higher", "lower", "as high")


def is_percentile(name: str) -> bool:
    plain = name.removeprefix("service-")
    return plain == "max" or (plain[:1] == "p" and plain[1:].replace(".", "", 1).isdigit())


@dataclass(frozen=True)
class Change:
    """text: '30 % more memory'; short: without the noun; between: '26 to 34 % more', empty where there is no interval.

    sure: 1 better, -1 worse, 0 where the interval holds no change or is not there.
    """

    text: str
    short: str
    between: str
    sure: int
    style: Style

    def with_interval(self) -> str:
        """30 % more [26 to 34 % more]"""
        return f"{self.short} [{self.between}]" if self.between else self.short


def _quantity(estimate: float, how: Style, higher_is_better: bool) -> float:
    """What is shown, as a ratio: of speeds, or of amounts (treatment to control). Infinite ends stay infinite."""
    ratio = max(1 + estimate, 0.0)
    if how.speed or (higher_is_better and how.family == "rate"):
        return ratio
    return 1 / ratio if ratio > 0 else float("inf")


def _signed(ratio: float, how: Style) -> float:
    """The shown percentage with its sign: up or down of the quantity; slower is the longer time of this one."""
    if how.speed and ratio < 1:
        return -(1 / ratio - 1) * 100 if ratio > 0 else float("-inf")
    return (ratio - 1) * 100


def _percent(value: float, decimals: int | None) -> str:
    return numbers.percent(abs(value) / 100, signed=False, decimals=decimals)


def _end(value: float, how: Style, decimals: int | None) -> str:
    return f"{_percent(value, decimals)} {how.up if value > 0 else how.down}" if value else "no change"


def _unbounded(value: float) -> bool:
    return abs(value) > 1e9


def _between(low: float, high: float, how: Style, decimals: int | None) -> str:
    """The interval of signed percentages: '26 to 34 % more', '3 % less to 5 % more'; open ends said."""
    if low == high == 0:
        return ""
    open_low, open_high = _unbounded(low) or (low <= -100 and not how.speed), _unbounded(high)
    if open_low and open_high:
        return ""
    if open_low or open_high:
        return f"{'at most' if open_low else 'at least'} {_end(high if open_low else low, how, decimals)}"
    if low * high > 0:
        near, far = sorted((abs(low), abs(high)))
        if _percent(near, decimals) == _percent(far, decimals):
            return _end(low, how, decimals)
        start = _percent(near, decimals).removesuffix(f"{THIN}%")
        return f"{start} to {_end(far if high > 0 else -far, how, decimals)}"
    return f"{_end(low, how, decimals)} to {_end(high, how, decimals)}"


def change(record: Mapping[str, Any], metric: object = None, higher_is_better: bool = False) -> Change | None:
    """The change that a record (estimate, ci_low, ci_high) of a metric tells; None without an estimate."""
    estimate = finite(record.get("estimate"))
    how = style_of(metric if metric is not None else record.get("metric"), higher_is_better)
    if estimate is None:
        return None
    low, high = finite(record.get("ci_low")), finite(record.get("ci_high"))
    bounds = (low if low is not None else float("-inf"), high if high is not None else float("inf"))
    sure = 1 if bounds[0] > 0 else -1 if bounds[1] < 0 else 0
    ratio = _quantity(estimate, how, higher_is_better)
    ends = sorted(_quantity(bound, how, higher_is_better) for bound in bounds)
    if ratio >= MULTIPLE_FROM or (how.speed and 0 < ratio <= 1 / MULTIPLE_FROM):
        return _multiple(ratio, ends, how, sure)
    signed = _signed(ratio, how)
    span = sorted(_signed(end, how) for end in ends)
    decimals = numbers.places(*span) if low is not None and high is not None else None
    size = _percent(signed, decimals)
    same = float(size.removesuffix(f"{THIN}%") or 0) == 0
    short = NOTHING if same else f"{size} {how.up if signed > 0 else how.down}"
    noun = "" if same or how.times != "the" else f" {how.noun}"
    return Change(short + noun, short, _between(*span, how, decimals), sure, how)


def tolerated(rail: Mapping[str, Any]) -> str:
    """What a guardrail allows, in the words of its change: 5 % more, 10 % slower."""
    limit, how = finite(rail.get("limit")), style_of(rail.get("metric"))
    if limit is None:
        return ""
    word = "worse" if how.family == "other" else how.down if how.speed else how.up
    return f"{limit * 100:g}{THIN}% {word}"


def _multiple(ratio: float, ends: list[float], how: Style, sure: int) -> Change:
    """2.2 × as fast, 2.2 × as long, 3.1 × the memory."""
    word, times = how.times, [ratio, *ends]
    if how.speed and ratio < 1:
        word, times = "as long", [1 / each if each > 0 else float("inf") for each in (ratio, *reversed(ends))]
    known = not (_unbounded(times[1]) or _unbounded(times[2]))
    decimals = (numbers.places(times[1], times[2]) if known else None) or (
        0 if known and times[2] - times[1] > 2 else 1
    )
    point, *limits = (f"{numbers.rounded(each, decimals)}" if not _unbounded(each) else "" for each in times)
    noun = f" {how.noun}" if word == "the" else ""
    between = f"{limits[0]} to {limits[1]}{JOIN}×" if known else f"at least {limits[0]}{JOIN}×" if limits[0] else ""
    short = f"{point}{JOIN}× {word}" if word != "the" else f"{point}{JOIN}×"
    return Change(f"{point}{JOIN}× {word}{noun}", short, between, sure, how)


def sentence(treatment: str, control: str, found: Change) -> str:
    """hakmem is 2.2 × as fast as glibc; needs 30 % more peak memory than glibc; has the p99 12 % lower than glibc."""
    how = found.style
    if found.short == NOTHING:
        return f"{treatment} does not measurably differ from {control} in {how.noun}"
    link = "as" if "×" in found.text else "than"
    if how.speed:
        verb = "takes" if found.short.endswith("as long") else "is"
        return f"{treatment} {verb} {found.text} {link} {control}"
    if how.verb != "is":
        times = "×" in found.text
        return f"{treatment} {how.verb} {found.text} {'of' if times else 'than'} {control}"
    return f"{how.noun} is {found.short} with {treatment} {link} with {control}"


def short_names(names: list[str]) -> dict[str, str]:
    """Arms without the allocator that all of them share: HAKMEM_PROFILE=lean instead of hakmem,HAKMEM_PROFILE=lean."""
    heads = {name.partition(",")[0] for name in names}
    rests = [name.partition(",")[2] for name in names]
    if len(names) > 1 and len(heads) == 1 and all(rests):
        return dict(zip(names, rests, strict=True))
    return {name: name for name in names}
