"""The page of one reading of a heap.

May import: pictures, page, svg, palette.
"""

from __future__ import annotations

from collections.abc import Mapping

from markupsafe import Markup

from hakmem_lab.show.report import palette
from hakmem_lab.show.report.page import embedded_json, templates
from hakmem_lab.show.report.pictures.heap import occupancy, owners
from hakmem_lab.show.report.svg import Table, drawing


def render(result: Mapping) -> str:
    with drawing():
        pictures = [owners(result, "p1"), occupancy(result, "p2")]
    what = f"process {result['pid']}" if "pid" in result else f"core {result['core']}"
    return (
        templates()
        .get_template("heap.html.j2")
        .render(
            what=what,
            result=result,
            pictures=[(picture, Markup(picture.svg)) for picture in pictures if picture],
            tables=[_wastes(result), _classes(result), _threads(result)],
            json=embedded_json(result),
            light=Markup(palette.variables(dark=False)),
            dark=Markup(palette.variables(dark=True)),
        )
    )


def _wastes(result: Mapping) -> Table:
    rows = [[row["what"], f"{row['kib']:,}", row["remedy"]] for row in result["wastes"]]
    return Table("The largest wastes, and what to do", ["What", "KiB", "What to do"], rows)


def _classes(result: Mapping) -> Table:
    columns = ["Bytes", "Slabs", "Live", "Cached", "Free", "Mean asked", "Live KiB", "Rounding KiB", "Resident KiB"]
    rows = []
    for row in result["classes"]:
        size = f"{row['block_bytes']:,}" if row["block_bytes"] else "above 1 MiB"
        cached = row["cached_blocks"] + row["transfer_blocks"]
        figures = (row["slabs"], row["live_blocks"], cached, row["free_blocks"])
        sizes = (row["live_kib"], row["rounding_kib"], row["resident_kib"])
        asked = f"{row['mean_asked']:,.0f}" if row["mean_asked"] else "–"
        rows.append([size, *(f"{n:,}" for n in figures), asked, *(f"{n:,}" for n in sizes)])
    return Table("Blocks by class", columns, rows)


def _threads(result: Mapping) -> Table:
    rows = [
        [str(r["thread"]), r["name"] or "–", f"{r['cached_kib']:,}", f"{r['cached_blocks']:,}"]
        for r in result["threads"]
    ]
    return Table("Caches by thread", ["Thread", "Name", "KiB", "Blocks"], rows)
