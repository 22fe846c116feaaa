"""Rows of estimates with their intervals, the label above each: forest plots of every kind, a panel for each axis.

Labels stand above the interval, so that the picture stays readable at the width of a phone; the line of no change and
the band of the margin run through the intervals only, never through a label.
May import: directions, words, svg, palette, numbers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hakmem_lab.judge.words import Style
from hakmem_lab.show.report import directions
from hakmem_lab.show.report.svg import SENTINELS, canvas, label

ROW_IN = 0.5
TITLE_IN = 0.3
LINE_IN = 0.19
LINE_CHARACTERS = 50
STRIP = 0.15


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


@dataclass
class Panel:
    """Rows with a common axis. `how`: of log-ratios whose directions it names; None: a plain axis."""

    rows: Sequence[Row]
    bounds: tuple[float, float]
    how: Style | None = None
    title: str = ""
    zero: float | None = 0.0
    margin: float = 0.0
    axis_label: str = ""
    axes: Axes = field(init=False)


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


def two_lines(pairs: Sequence[tuple[str, str]]) -> bool:
    """Whether name and figure need a line each."""
    return any(len(name) + len(figure) + 2 > LINE_CHARACTERS for name, figure in pairs)


def head(axis: Axes, above: float, texts: tuple[str, str], step: float, muted: bool = False) -> None:
    """The name of a row and its figure: on one line, or one below the other where `step` is above 0."""
    side = axis.get_yaxis_transform()
    colour = SENTINELS["muted" if muted else "ink"]
    axis.text(0, above, label(texts[0], 44), transform=side, va="center", color=colour)
    across, align = (0, "left") if step else (1, "right")
    axis.text(across, above + step, texts[1], transform=side, ha=align, va="center", color=SENTINELS["muted"])


def draw_panels(panels: Sequence[Panel]) -> Figure:
    """Draw the panels from top to bottom; an end of an interval outside the bounds, or open, becomes an arrow."""
    tall = {id(p): ROW_IN + LINE_IN * two_lines([(row.text, row.figure) for row in p.rows]) for p in panels}
    heights = [len(p.rows) * tall[id(p)] + (TITLE_IN if p.title else 0.06) for p in panels]
    figure, axes = canvas(*heights, left_in=0.2, bottom_in=0.56)
    for panel, axis in zip(panels, axes, strict=True):
        panel.axes = axis
        _draw_panel(axis, panel, tall[id(panel)])
    return figure


def _draw_panel(axis: Axes, panel: Panel, row_in: float) -> None:
    """The vertical axis is in inches from the top."""
    top = TITLE_IN if panel.title else 0.06
    axis.set_ylim(top + len(panel.rows) * row_in, 0)
    axis.spines["left"].set_visible(False)
    axis.set_yticks([])
    if panel.how is not None:
        directions.across(axis, *panel.bounds, panel.how)
    else:
        axis.set_xlim(*panel.bounds)
        axis.set_xlabel(panel.axis_label)
    if panel.title:
        axis.text(0, 0.08, panel.title, transform=axis.get_yaxis_transform(), va="center", fontweight="bold")
    for position, row in enumerate(panel.rows):
        above = top + position * row_in + 0.08
        step = LINE_IN if row_in > ROW_IN else 0.0
        head(axis, above, (row.text, row.figure), step)
        line = above + step + 0.23
        if panel.margin > 0:
            axis.fill_between(
                [-panel.margin, panel.margin], line - STRIP, line + STRIP, color=SENTINELS["band"], linewidth=0
            )
        if panel.zero is not None:
            axis.plot([panel.zero] * 2, [line - STRIP, line + STRIP], color=SENTINELS["muted"], linewidth=1)
        _draw_row(axis, line, row, panel.bounds)


def _draw_row(axis: Axes, line: float, row: Row, bounds: tuple[float, float]) -> None:
    left, right = bounds
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
