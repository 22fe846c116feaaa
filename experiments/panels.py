"""Draws the empty panels of the cost charts: side by side, with one row for each name."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hakmem_lab.show.report.axis import Axis
from hakmem_lab.show.report.svg import Pen

GAP = 18.0


@dataclass(frozen=True)
class Panel:
    """One of the panels."""

    axis: Axis
    left: float
    right: float
    top: float
    row: float

    def on(self, line: int) -> Callable[[float], tuple[float, float]]:
        """The positions of values in this row."""
        y = self.top + (line + 0.5) * self.row
        return lambda value: (self.left + self.axis.share(value) * (self.right - self.left), y)


@dataclass(frozen=True)
class Panels:
    """Lengths are in points; limits and ticks are costs as multiples; unit: text behind each tick."""

    row: float
    left: float
    top: float
    limits: tuple[float, float]
    ticks: Sequence[float]
    unit: str = ""
    width: float = 690.0

    def draw(self, pen: Pen, names: Sequence[str], titles: Sequence[str]) -> list[Panel]:
        bottom = self.top + self.row * len(names)
        pen.height = bottom + 30
        each = (self.width - self.left - len(titles) * GAP) / len(titles)
        axis = Axis(*self.limits, log=True, ticks=[(tick, f"{tick:g}{self.unit}") for tick in self.ticks])
        found = []
        for column, title in enumerate(titles):
            left = self.left + column * (each + GAP)
            panel = Panel(axis, left, left + each, self.top, self.row)
            for tick in (*self.ticks, 1):
                x, _ = panel.on(0)(tick)
                pen.line(((x, self.top), (x, bottom)), "ink" if tick == 1 else "line", 0.8)
            axis.across(pen, left, left + each, bottom)
            pen.text(left, self.top - 10, title)
            found.append(panel)
        for line, name in enumerate(names):
            pen.text(self.left - 6, found[0].on(line)(1)[1], name, "end", "muted")
        return found
