"""The two forms of a picture: rows of estimates with their intervals, and a chart of series over a common axis.

In rows, names stand above their marks, so that the picture stays readable at the width of a phone. The line of no
change and the margin's band run through the marks only, never through a name.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from hakmem_lab.show.report.axis import Axis
from hakmem_lab.show.report.svg import RIGHT, Pen, corners, label

HEAD, LINE = 14.0, 21.6  # height of a line of text, and of a line of marks
LEFT, TITLE, BELOW, GAP = 14.0, 20.0, 40.0, 7.0
LINE_CHARACTERS = 50
Values = Sequence[float] | NDArray[Any]
Ends = Sequence[float | None] | NDArray[Any] | None


@dataclass
class Mark:
    """An estimate with its interval. A missing end is the value; one beyond the axis becomes an arrow."""

    value: float | None
    low: float | None = None
    high: float | None = None
    colour: str = "ink"
    marker: str = "o"
    hollow: bool = False
    width: float = 2.4
    size: float = 8

    def draw(self, pen: Pen, axis: Axis, at: Callable[[float], tuple[float, float]]) -> None:
        """at: the position of a value of the axis."""
        if self.value is None or not math.isfinite(self.value):
            return
        low = self.value if self.low is None else self.low
        high = self.value if self.high is None else self.high
        if low < high:
            pen.line((at(low), at(high)), self.colour, self.width)
        for past, edge, shape in ((low < axis.low, axis.low, "<"), (high > axis.high, axis.high, ">")):
            pen.marks([at(edge)] if past else [], shape, self.colour, 7)
        if self.marker:
            pen.marks([at(self.value)], self.marker, self.colour, self.size, self.hollow)


@dataclass
class Dots:
    """Single values, spread over the height of a line, and a box from the first to the third quartile."""

    values: Values
    quartiles: Values
    colour: str
    marker: str

    def draw(self, pen: Pen, _axis: Axis, at: Callable[[float], tuple[float, float]]) -> None:
        # The golden ratio spreads the dots evenly, and identically in every drawing.
        places = [(x, y + (i * 0.618034 % 1 - 0.5) * 14) for i, (x, y) in enumerate(map(at, self.values))]
        pen.marks(places, self.marker, self.colour, 4, alpha=0.8 if len(places) < 60 else 0.4)
        (low, y), (middle, _), (high, _) = map(at, self.quartiles)
        pen.line([*corners(low, y - 9, high, y + 9), (low, y - 9)], "ink", 1.2)
        pen.line(((middle, y - 9), (middle, y + 9)), "ink", 2.6)


@dataclass
class Row:
    """A name with its figure, and below them lines of marks. target: a stroke across all lines."""

    text: str
    figure: str
    lines: Sequence[Sequence[Mark | Dots]]
    target: float | None = None


@dataclass
class Panel:
    """Rows with a common axis. zero: the value of no change; margin: half the width of the band around it. bound: a
    broken line through all rows. height: of a line of marks."""

    rows: Sequence[Row]
    axis: Axis
    title: str = ""
    zero: float | None = None
    margin: float = 0.0
    bound: float | None = None
    height: float = LINE

    def at(self, value: float) -> float:
        return LEFT + self.axis.share(value) * (RIGHT - LEFT)

    def _on(self, y: float) -> Callable[[float], tuple[float, float]]:
        return lambda value: (self.at(value), y)

    def draw(self, pen: Pen, top: float) -> float:
        """Returns its lower edge."""
        first = y = top + (TITLE if self.title else 4)
        if self.title:
            pen.text(LEFT, top + 6, self.title, bold=True)
        two_lines = any(len(row.text) + len(row.figure) + 2 > LINE_CHARACTERS for row in self.rows)
        for row in self.rows:
            y = self._row(pen, y, row, two_lines)
        if self.bound is not None:
            pen.line([(self.at(self.bound), end) for end in (first, y)], "ink", 1.2, "5 3")
        self.axis.across(pen, LEFT, RIGHT, y)
        return y + BELOW

    def _row(self, pen: Pen, y: float, row: Row, two_lines: bool) -> float:
        pen.text(LEFT, y + 5, label(row.text, 44))
        y += HEAD if two_lines else 0
        if row.figure:
            pen.text(LEFT if two_lines else RIGHT, y + 5, row.figure, "start" if two_lines else "end", "muted")
        y, end = y + HEAD, y + HEAD + self.height * len(row.lines)
        if self.margin > 0:
            low, high = (self.at(side * self.margin) for side in (-1, 1))
            pen.rectangle(low, y, high, end, "band")
        for at, colour, width in ((self.zero, "muted", 1.0), (row.target, "ink", 2.4)):
            if at is not None:
                pen.line(((self.at(at), y), (self.at(at), end)), colour, width)
        for place, line in enumerate(row.lines):
            for mark in line:
                mark.draw(pen, self.axis, self._on(y + self.height * (place + 0.5)))
        return end + (GAP if self.height < LINE else 0)


def rows(panels: Sequence[Panel], legend: Sequence[tuple[str, str, str]] = (), columns: int = 1) -> Pen:
    """Panels from top to bottom. legend: names with colour and shape."""
    pen = Pen()
    y = pen.legend(legend, columns) + 4 if legend else 6.0
    for panel in panels:
        y = panel.draw(pen, y)
    pen.height = y
    return pen


@dataclass
class Series:
    """A line over the horizontal axis, in the order of its places. name: in the legend. marked: the places with a
    marker, by default all. width: 0 draws no line. low, high: ends of an interval at each place, as strokes, or with
    `shade` as an area of this opacity."""

    xs: Values
    ys: Values
    colour: str = "ink"
    name: str = ""
    marker: str = ""
    marked: Iterable[int] | None = None
    width: float = 1.6
    size: float = 5
    dash: str = ""
    low: Ends = None
    high: Ends = None
    shade: float = 0.0
    alpha: float = 1.0

    def draw(self, pen: Pen, at: Callable[[float, float], tuple[float, float]]) -> None:
        points = [at(x, y) for x, y in zip(self.xs, self.ys, strict=True)]
        if self.low is not None and self.high is not None:
            ends = [(x, low, high) for x, low, high in zip(self.xs, self.low, self.high, strict=True)
                    if low is not None and high is not None]  # fmt: skip
            if self.shade:
                edge = [at(x, low) for x, low, _ in ends] + [at(x, high) for x, _, high in reversed(ends)]
                pen.areas([edge], self.colour, self.shade)
            for x, low, high in ends if not self.shade else []:
                pen.line((at(x, low), at(x, high)), self.colour, 2.4)
        if self.width:
            pen.line(points, self.colour, self.width, self.dash)
        if self.marker:
            there = range(len(points)) if self.marked is None else self.marked
            pen.marks([points[i] for i in there], self.marker, self.colour, self.size, alpha=self.alpha)


@dataclass
class Chart:
    """Series with a common axis each way. level: a horizontal line; band: a shaded height. rules: vertical lines, as
    (place, colour, dash). texts: above the chart, as (place, text). left: room for the ticks of the vertical axis."""

    x: Axis
    y: Axis
    series: Sequence[Series]
    height: float = 165.0
    level: float | None = None
    band: tuple[float, float] | None = None
    rules: Sequence[tuple[float, str, str]] = ()
    texts: Sequence[tuple[float, str]] = ()
    left: float = 58.0
    columns: int = 1
    top: float = field(init=False)

    def at(self, x: float, y: float) -> tuple[float, float]:
        return self.left + self.x.share(x) * (RIGHT - self.left), self.top + (1 - self.y.share(y)) * self.height

    def draw(self) -> Pen:
        pen = Pen()
        named = [(each.name, each.colour, each.marker) for each in self.series if each.name]
        self.top = (pen.legend(named, self.columns) if named else 0.0) + (28 if self.texts else 12)
        bottom = self.top + self.height
        if self.band is not None:
            low, high = (self.at(0, end)[1] for end in self.band)
            pen.rectangle(self.left, high, RIGHT, low, "band")
        if self.level is not None:
            pen.line([(x, self.at(0, self.level)[1]) for x in (self.left, RIGHT)], "muted", 1.0)
        for place, colour, dash in self.rules:
            pen.line([(self.at(place, 0)[0], y) for y in (self.top, bottom)], colour, 1.2, dash)
        for place, text in self.texts:
            pen.text(self.at(place, 0)[0] + 2, self.top - 8, text, colour="muted")
        self.x.across(pen, self.left, RIGHT, bottom)
        self.y.upwards(pen, self.left, self.top, bottom)
        for each in self.series:
            each.draw(pen, self.at)
        pen.height = bottom + BELOW
        return pen
