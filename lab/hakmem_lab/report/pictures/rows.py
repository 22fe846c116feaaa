"""Rows of estimates with their intervals, the label above each: forest plots of every kind.

Labels stand above the interval, so that the picture stays readable at the width of a phone.
May import: svg, palette, numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from hakmem_lab.report import numbers
from hakmem_lab.report.palette import SENTINELS
from hakmem_lab.report.svg import canvas, label

ROW_IN = 0.54


@dataclass
class Row:
    """One estimate; all values in the unit of the axis. A missing end of the interval is open."""

    text: str
    figure: str
    value: float | None
    low: float | None = None
    high: float | None = None
    colour: str = SENTINELS["ink"]
    marker: str = "o"
    hollow: bool = False


VERDICT_MARKERS = {"GO": "^", "NO-GO": "v", "NEUTRAL": "s", "INCONCLUSIVE": "D"}
VERDICT_COLOURS = {
    "GO": SENTINELS["go"],
    "NO-GO": SENTINELS["no-go"],
    "NEUTRAL": SENTINELS["neutral"],
    "INCONCLUSIVE": SENTINELS["inconclusive"],
}


def limits(values: Sequence[float | None], margin: float = 0.0) -> tuple[float, float]:
    """An axis that holds the finite values, zero and the band of ±`margin`, with some air."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    low, high = min([0.0, -1.6 * margin, *known]), max([0.0, 1.6 * margin, *known])
    if low == high:
        low, high = -0.01, 0.01
    air = 0.06 * (high - low)
    return low - air, high + air


def percent_axis(axis: Axes, which: str = "x") -> None:
    """Ticks of a ratio minus one, as signed percentages."""
    target = axis.xaxis if which == "x" else axis.yaxis
    target.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]))

    def text(value: float, _: int | None = None) -> str:
        if abs(value) < 1e-12:
            return "0"
        return f"{value * 100:+.4g} %".replace("-", numbers.MINUS)

    target.set_major_formatter(FuncFormatter(text))


def draw_rows(
    rows: Sequence[Row],
    *,
    axis_label: str,
    bounds: tuple[float, float],
    zero: float | None = 0.0,
    margin: float = 0.0,
    log: bool = False,
    ticks: Callable[[Axes], None] | None = None,
) -> Figure:
    """Draw the rows from top to bottom; an end of an interval outside the bounds, or open, becomes an arrow."""
    figure, (axis,) = canvas(max(1, len(rows)) * ROW_IN + 0.1, left_in=0.2)
    if log:
        axis.set_xscale("log")
    axis.set_xlim(*bounds)
    axis.set_ylim(len(rows) - 0.4, -0.62)
    axis.spines["left"].set_visible(False)
    axis.set_yticks([])
    axis.set_xlabel(axis_label)
    if margin > 0:
        axis.axvspan(-margin, margin, color=SENTINELS["band"], linewidth=0)
    if zero is not None:
        axis.axvline(zero, color=SENTINELS["muted"], linewidth=1)
    if ticks is not None:
        ticks(axis)
    for position, row in enumerate(rows):
        _draw_row(axis, position, row, bounds)
    return figure


def _draw_row(axis: Axes, position: int, row: Row, bounds: tuple[float, float]) -> None:
    left, right = bounds
    above, line = position - 0.32, position + 0.1
    side = axis.get_yaxis_transform()
    axis.text(0, above, label(row.text, 38), transform=side, ha="left", va="center")
    axis.text(1, above, row.figure, transform=side, ha="right", va="center", color=SENTINELS["muted"])
    if row.value is None or not math.isfinite(row.value):
        return
    low = row.low if row.low is not None else row.value
    high = row.high if row.high is not None else row.value
    axis.plot([max(low, left), min(high, right)], [line, line], color=row.colour, linewidth=2.4)
    for end, edge, shape in ((low, left, "<"), (high, right, ">")):
        if (end < left) if shape == "<" else (end > right):
            axis.plot([edge], [line], shape, color=row.colour, markersize=7, clip_on=False)
    axis.plot(
        [min(max(row.value, left), right)],
        [line],
        row.marker,
        color=row.colour,
        markersize=8,
        markerfacecolor=SENTINELS["paper"] if row.hollow else row.colour,
        markeredgewidth=1.6,
    )
