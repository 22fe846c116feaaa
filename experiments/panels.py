"""Draws the empty panels of the cost charts: side by side, with one row for each name."""

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from hakmem_lab.show.report import svg

GAP_IN = 0.25


@dataclass(frozen=True)
class Panels:
    """Lengths are in inches; limits and ticks are costs as multiples; unit: text behind each tick."""

    row_in: float
    left_in: float
    top_in: float
    bottom_in: float
    limits: tuple[float, float]
    ticks: Sequence[float]
    unit: str = ""
    width_in: float = 9.6

    def draw(self, names: Sequence[str], titles: Sequence[str]) -> tuple[Figure, list[Axes]]:
        height = self.top_in + self.bottom_in + self.row_in * len(names)
        figure = Figure(figsize=(self.width_in, height))
        FigureCanvasSVG(figure)
        each = (self.width_in - self.left_in - len(titles) * GAP_IN) / len(titles)
        axes = []
        for column, title in enumerate(titles):
            left = (self.left_in + column * (each + GAP_IN)) / self.width_in
            inner = 1 - (self.top_in + self.bottom_in) / height
            axis = figure.add_axes((left, self.bottom_in / height, each / self.width_in, inner))
            axis.set(xscale="log", xlim=self.limits, ylim=(len(names) - 0.5, -0.5))
            axis.xaxis.set_major_locator(FixedLocator(self.ticks))
            axis.xaxis.set_minor_locator(NullLocator())
            axis.set_xticklabels([f"{tick:g}{self.unit}" for tick in self.ticks])
            axis.set_yticks(range(len(names)), names if not column else [])
            axis.tick_params(axis="y", length=0)
            axis.grid(axis="x")
            axis.axvline(1, color=svg.SENTINELS["ink"], linewidth=1)
            axis.set_title(title, fontsize=svg.FONT_PT, loc="left")
            axes.append(axis)
        return figure, axes
