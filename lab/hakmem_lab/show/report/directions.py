"""Axes that say a direction: positions are log-ratios, right or up is better, ticks are changes of the shown quantity.

May import: words, svg's style, numbers.
"""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.ticker import NullLocator

from hakmem_lab.judge.words import Style
from hakmem_lab.show.report import numbers
from hakmem_lab.show.report.svg import SENTINELS

_NICE = (
    0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.99,
    1.0, 2.0, 4.0, 9.0, 19.0, 49.0, 99.0, 999.0,
)  # fmt: skip
_APART = 0.17


def place(estimate: float) -> float:
    """Where a ratio minus one stands: its logarithm; what is out of all measure stands far out."""
    ratio = 1 + estimate
    return math.log(ratio) if 0 < ratio < math.inf else math.copysign(math.inf, ratio - 1)


def _at(change: float, how: Style) -> float | None:
    """Where a change of the shown quantity stands (+0.2: 20 % more, or faster)."""
    if how.speed:
        return math.copysign(math.log1p(abs(change)), change)
    if change <= -1:
        return None
    return math.log1p(change) * (1 if how.family == "rate" else -1)


def ticks(low: float, high: float, how: Style, apart: float = _APART) -> list[tuple[float, float]]:
    """(position, change of the quantity) of a few ticks, no change among them, far enough apart to be read."""
    room = apart * (high - low)
    found = [(0.0, 0.0)] if low <= 0 <= high else []
    for size in reversed(_NICE):
        for change in (size, -size):
            at = _at(change, how)
            if at is not None and low <= at <= high and all(abs(at - other) >= room for other, _ in found):
                found.append((at, change))
    return sorted(found)


def tick_text(change: float) -> str:
    """0, 20 %, 2 ×: the side of the axis says the direction."""
    if change == 0:
        return "0"
    return f"{1 + abs(change):g} ×" if abs(change) >= 1 else f"{abs(change) * 100:g} %"


def sides(how: Style) -> tuple[str, str]:
    """What left and right of no change mean: (worse, better)."""
    if how.speed or how.family == "rate":
        return how.down, how.up
    return how.up, how.down


def across(axis: Axes, low: float, high: float, how: Style) -> None:
    """A horizontal axis; what its two sides mean is written below it."""
    axis.set_xlim(low, high)
    chosen = ticks(low, high, how)
    axis.set_xticks([at for at, _ in chosen], [tick_text(change) for _, change in chosen])
    axis.xaxis.set_minor_locator(NullLocator())
    worse, better = sides(how)
    for x, side, text in ((0, "left", f"← {worse}"), (1, "right", f"{better} →")):
        axis.annotate(
            text, (x, 0), (0, -22), xycoords="axes fraction", textcoords="offset points", ha=side, va="top",
            color=SENTINELS["muted"],
        )  # fmt: skip


def upwards(axis: Axes, low: float, high: float, how: Style) -> None:
    """A vertical axis; each tick says its direction."""
    axis.set_ylim(low, high)
    chosen = ticks(low, high, how, 0.12)
    texts = []
    for _, change in chosen:
        word = "" if change == 0 else how.up if change > 0 else how.down
        if abs(change) >= 1:
            word = "as long" if how.speed and change < 0 else how.times.replace("the", "as much")
        texts.append(f"{tick_text(change)}{numbers.JOIN}{word}".removesuffix(numbers.JOIN))
    axis.set_yticks([at for at, _ in chosen], texts)
    axis.yaxis.set_minor_locator(NullLocator())
