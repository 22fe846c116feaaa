"""The page of one reading of a heap.

May import: pictures, page, svg.
"""

from __future__ import annotations

from collections.abc import Mapping

from hakmem_lab.show.report.page import reading
from hakmem_lab.show.report.pictures.heap import occupancy, owners
from hakmem_lab.show.report.svg import Table, drawing


def render(result: Mapping) -> str:
    with drawing():
        pictures = [owners(result, "p1"), occupancy(result, "p2")]
    what = f"process {result['pid']}" if "pid" in result else f"core {result['core']}"
    differ = f"{result['counters']['difference_kib']:,} KiB"
    ran = f"; it ran meanwhile, and its counters before and after differ by {differ}"
    return reading(
        result,
        heading=f"Memory of {what}",
        headline=f"{result['rss_kib']:,} KiB resident, {result['sum_kib']:,} KiB by owner"
        f"{'' if result['stopped'] else ran}.",
        pictures=pictures,
        tables=[_wastes(result), _classes(result), _threads(result)],
        note="Every resident kilobyte has one owner; their sum is the RSS that the kernel tells.",
    )


def _wastes(result: Mapping) -> Table:
    rows = [[row["what"], f"{row['kib']:,}", row["remedy"]] for row in result["wastes"]]
    return Table("The largest wastes, and what to do", ["What", "KiB", "What to do"], rows)


def _classes(result: Mapping) -> Table:
    columns = ["Bytes", "Slabs", "Live", "Cached", "Free", "Mean asked", "Live KiB", "Rounding KiB", "Resident KiB"]
    rows = []
    for row in result["classes"]:
        size = f"{row['block_bytes']:,}" if row["block_bytes"] else "above 1 MiB"
        cached = row["cached_blocks"] + row["depot_blocks"]
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
