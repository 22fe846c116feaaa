"""Draws each table of results/measured as a chart, results/measured/NAME.svg, with losses first.

A dot is hakmem's time or peak memory as a multiple of the best other allocator in that row. A line is the interval.
"""

import csv
import sys
from pathlib import Path

from panels import Panels

from hakmem_lab.show.report import svg
from hakmem_lab.show.report.model import Table
from hakmem_lab.show.report.pictures.forms import Mark

FOLDER = Path(__file__).resolve().parents[1] / "results" / "measured"
TITLES = {
    "scorecard": "The scorecard on two processors, as multiples of the best of the others",
    "sixteen": "Sixteen threads on sixteen processors, as multiples of the best of the others",
}
PANELS = Panels(14.4, 245, 28, (0.22, 14), (0.3, 0.5, 0.7, 1, 1.4, 2, 3, 6, 12))


def read(name: str) -> list[dict[str, str]]:
    """Rows of a table, the largest loss of time first."""
    with open(FOLDER / f"{name}.csv", encoding="utf-8", newline="") as file:
        return sorted(csv.DictReader(file), key=lambda row: -float(row["time"]))


def memory(row: dict[str, str]) -> float:
    """Peak memory as a multiple of the lowest one of the other allocators."""
    return float(row["rss"]) if "rss" in row else float(row["rss_mib"]) / float(row["leanest_mib"])


def draw(name: str) -> str:
    """A standalone SVG in the colours of the reports."""
    rows = read(name)
    pen, titles = svg.Pen(PANELS.width), ("time, × the fastest (left is better)", "peak memory, × the leanest")
    time, space = PANELS.draw(pen, [svg.label(row["workload"], 40) for row in rows], titles)
    for line, row in enumerate(rows):
        ends = (float(row["time_low"]), float(row["time_high"])) if row.get("time_low") else (None, None)
        Mark(float(row["time"]), *ends, svg.arm_colour(0), width=1.6, size=6).draw(pen, time.axis, time.on(line))
        Mark(memory(row), colour=svg.arm_colour(0), size=6).draw(pen, space.axis, space.on(line))
    said = " ".join(f"{row['workload']}: time {row['time']} ×, memory {memory(row):.2f} ×." for row in rows)
    picture = svg.Picture(name, TITLES[name], said, pen, Table(TITLES[name], [], []))
    return svg.document(picture.inlined(name).svg)


def main() -> int:
    for name in TITLES:
        (FOLDER / f"{name}.svg").write_text(draw(name), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
