"""docs/measured/NAME.svg: a chart of each table of docs/measured, losses first: experiments/scorecard_chart.py.

A dot is hakmem's time, or its peak memory, as a multiple of the best of the other allocators in the row; a line is the
interval.
"""

import csv
import sys
from pathlib import Path

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator

from hakmem_lab.show.report import svg
from hakmem_lab.show.report.model import Table

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "measured"
TITLES = {
    "scorecard": "The scorecard on two processors, as multiples of the best of the others",
    "sixteen": "Sixteen threads on sixteen processors, as multiples of the best of the others",
}
TICKS = (0.3, 0.5, 0.7, 1, 1.4, 2, 3)
WIDTH_IN, ROW_IN, LEFT_IN, GAP_IN, TOP_IN, BOTTOM_IN = 9.6, 0.2, 3.1, 0.25, 0.4, 0.4


def read(name: str) -> list[dict[str, str]]:
    """Rows of a table, the largest loss of time first."""
    with open(FOLDER / f"{name}.csv", encoding="utf-8", newline="") as file:
        return sorted(csv.DictReader(file), key=lambda row: -float(row["time"]))


def memory(row: dict[str, str]) -> float:
    """Peak memory as a multiple of the leanest."""
    return float(row["rss"]) if "rss" in row else float(row["rss_mib"]) / float(row["leanest_mib"])


def draw(name: str) -> str:
    """A standalone SVG in the colours of the reports."""
    rows = read(name)
    with svg.drawing():
        height = TOP_IN + BOTTOM_IN + ROW_IN * len(rows)
        figure = Figure(figsize=(WIDTH_IN, height))
        FigureCanvasSVG(figure)
        each = (WIDTH_IN - LEFT_IN - 2 * GAP_IN) / 2
        for column, what in enumerate(("time, × the fastest (left is better)", "peak memory, × the leanest")):
            left = (LEFT_IN + column * (each + GAP_IN)) / WIDTH_IN
            axis = figure.add_axes((left, BOTTOM_IN / height, each / WIDTH_IN, 1 - (TOP_IN + BOTTOM_IN) / height))
            axis.set(xscale="log", xlim=(0.22, 14), ylim=(len(rows) - 0.5, -0.5))
            axis.xaxis.set_major_locator(FixedLocator((*TICKS, 6, 12)))
            axis.xaxis.set_minor_locator(NullLocator())
            axis.set_xticklabels([f"{tick:g}" for tick in (*TICKS, 6, 12)])
            axis.set_yticks(range(len(rows)), [svg.label(row["workload"], 40) for row in rows] if not column else [])
            axis.tick_params(axis="y", length=0)
            axis.grid(axis="x")
            axis.axvline(1, color=svg.SENTINELS["ink"], linewidth=1)
            axis.set_title(what, fontsize=svg.FONT_PT, loc="left")
            values = [memory(row) if column else float(row["time"]) for row in rows]
            axis.plot(values, range(len(rows)), "o", color=svg.arm_colour(0), markersize=6)
            for line, row in enumerate(rows):
                if not column and row.get("time_low"):
                    ends = (float(row["time_low"]), float(row["time_high"]))
                    axis.plot(ends, (line, line), color=svg.arm_colour(0))
        said = " ".join(f"{row['workload']}: time {row['time']} ×, memory {memory(row):.2f} ×." for row in rows)
        picture = svg.Picture(name, TITLES[name], said, figure, Table(TITLES[name], [], []))
        return svg.document(picture.inlined(name).svg)


def main() -> int:
    for name in TITLES:
        (FOLDER / f"{name}.svg").write_text(draw(name), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
