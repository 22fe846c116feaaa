"""The axes of pictures. An axis with a direction has log-ratios as positions, of which right or up is better; its ticks
are changes of the shown quantity.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hakmem_lab.judge.words import Style
from hakmem_lab.show import numbers
from hakmem_lab.show.report.svg import Pen

_NICE = (
    0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.99,
    1.0, 2.0, 4.0, 9.0, 19.0, 49.0, 99.0, 999.0,
)  # fmt: skip
_APART = 0.17


def place(estimate: float) -> float:
    """The position of a ratio minus one: its logarithm, infinite where there is none."""
    ratio = 1 + estimate
    return math.log(ratio) if 0 < ratio < math.inf else math.copysign(math.inf, ratio - 1)


def _at(change: float, how: Style) -> float | None:
    """The position of a change of the shown quantity (+0.2: 20 % more, or faster)."""
    if how.speed:
        return math.copysign(math.log1p(abs(change)), change)
    if change <= -1:
        return None
    return math.log1p(change) * (1 if how.family == "rate" else -1)


def ticks(low: float, high: float, how: Style, apart: float = _APART) -> list[tuple[float, float]]:
    """A few ticks as (position, change of the quantity), including no change, far enough apart to be read."""
    room = apart * (high - low)
    found = [(0.0, 0.0)] if low <= 0 <= high else []
    for size in reversed(_NICE):
        for change in (size, -size):
            at = _at(change, how)
            if at is not None and low <= at <= high and all(abs(at - other) >= room for other, _ in found):
                found.append((at, change))
    return sorted(found)


def tick_text(change: float) -> str:
    """A tick's label without a sign: 0, 20 %, 2 ×. The side of the axis gives the direction."""
    if change == 0:
        return "0"
    return f"{1 + abs(change):g} ×" if abs(change) >= 1 else f"{abs(change) * 100:g} %"


def sides(how: Style) -> tuple[str, str]:
    """The meanings of left and right of no change: (worse, better)."""
    return (how.down, how.up) if how.rises else (how.up, how.down)


def spread(low: float, high: float, count: int, whole: bool = False) -> list[float]:
    """Round values from low to high, about `count` of them."""
    if not high > low:
        return [low]
    step = (high - low) / count
    size = 10.0 ** math.floor(math.log10(step))
    step = next(size * each for each in (1, 2, 2.5, 5, 10) if size * each >= step * (1 - 1e-9))
    step = max(1.0, math.ceil(step)) if whole else step
    first = math.ceil(low / step - 1e-9)
    return [step * place for place in range(first, math.floor(high / step + 1e-9) + 1)]


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten from low to high, at most seven; finer steps if there are fewer than three."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    if last - first >= 2:
        return [10.0**power for power in range(first, last + 1, max(1, (last - first + 6) // 7))]
    return [each * 10.0**power for power in range(first - 1, last + 1) for each in (1, 2, 5)
            if low <= each * 10.0**power <= high]  # fmt: skip


def measured(unit: object, factor: float = 1.0) -> Callable[[float], str]:
    """Writes values in this unit, times the factor."""
    return lambda value: numbers.plain_measure(value * factor, unit)


@dataclass
class Axis:
    """A direction of a picture. written: the text of a tick's value. ticks: (value, text) in place of round values.
    ends: the meanings of its two ends; count: about so many ticks, at multiples of `unit`; whole: whole ones."""

    low: float
    high: float
    label: str = ""
    written: Callable[[float], str] = numbers.number
    log: bool = False
    ticks: Sequence[tuple[float, str]] | None = None
    ends: tuple[str, str] = ("", "")
    count: int = 5
    whole: bool = False
    unit: float = 1.0

    @classmethod
    def around(
        cls, values: Iterable[float], label: str = "", written: Callable[[float], str] = numbers.number
    ) -> "Axis":
        """An axis that holds these values, with some space; logarithmic where they span more than a factor of 30."""
        known = [*values]
        low, high = min(known), max(known)
        if log := low > 0 and high / low > 30:
            air = (high / low) ** 0.04
            return cls(low / air, high * air, label, written, log)
        air = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
        return cls(low - air, high + air, label, written)

    def share(self, value: float) -> float:
        """Where a value is: 0 at the low end, 1 at the high one. Values beyond the axis are at its end; all of an axis
        without length are at its start."""
        low, high = self.low, self.high
        if self.log:
            low, high, value = math.log(low), math.log(high), math.log(value) if value > 0 else -math.inf
        return min(max((value - low) / ((high - low) or 1.0), 0.0), 1.0)

    def marked(self) -> list[tuple[float, str]]:
        """Its ticks."""
        if self.ticks is not None:
            return [*self.ticks]
        if self.log:
            return [(value, self.written(value)) for value in _decades(self.low, self.high)]
        found = spread(self.low / self.unit, self.high / self.unit, self.count, self.whole)
        return [(value * self.unit, self.written(value * self.unit)) for value in found]

    def across(self, pen: Pen, left: float, right: float, y: float) -> None:
        """Draws it as a horizontal axis at this height, with its label below."""
        pen.line(((left, y), (right, y)), "muted", 0.8)
        for value, text in self.marked():
            x = left + self.share(value) * (right - left)
            pen.line(((x, y), (x, y + 3.5)), "muted", 0.8)
            pen.text(x, y + 11, text, "middle", "muted")
        for x, anchor, text in ((left, "start", self.ends[0]), (right, "end", self.ends[1])):
            if text:
                pen.text(x, y + 28, text, anchor, "muted")
        if self.label:
            pen.text((left + right) / 2, y + 28, self.label, "middle", "muted")

    def upwards(self, pen: Pen, x: float, top: float, bottom: float) -> None:
        """Draws it as a vertical axis, with its label turned beside it."""
        pen.line(((x, top), (x, bottom)), "muted", 0.8)
        for value, text in self.marked():
            y = bottom - self.share(value) * (bottom - top)
            pen.line(((x - 3.5, y), (x, y)), "muted", 0.8)
            pen.text(x - 6, y, text, "end", "muted")
        if self.label:
            pen.text(8, (top + bottom) / 2, self.label, "middle", "muted", turned=True)


def of_memory(most_kib: float, label: str) -> Axis:
    return Axis(0, most_kib, label, measured("KiB"), unit=1024.0 if most_kib >= 2048 else 1.0)


def directed(low: float, high: float, how: Style) -> Axis:
    """A horizontal axis of log-ratios, with the meanings of its two sides below it."""
    chosen = [(at, tick_text(change)) for at, change in ticks(low, high, how)]
    worse, better = sides(how)
    return Axis(low, high, ticks=chosen, ends=(f"← {worse}", f"{better} →"))


def upwards(low: float, high: float, how: Style) -> Axis:
    """A vertical axis of log-ratios; each tick's label gives its direction."""
    texts = []
    for at, change in ticks(low, high, how, 0.12):
        word = "" if change == 0 else how.up if change > 0 else how.down
        if abs(change) >= 1:
            word = how.multiple(-1 if how.speed and change < 0 else change)
        texts.append((at, f"{tick_text(change)}{numbers.JOIN}{word}".removesuffix(numbers.JOIN)))
    return Axis(low, high, ticks=texts)
