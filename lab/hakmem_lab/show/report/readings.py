"""The pages for a reading of a heap, and for the allocations of a recorded program by stack."""

import html
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import numpy as np

from hakmem_lab.show.report.axis import Axis, of_memory
from hakmem_lab.show.report.model import Table
from hakmem_lab.show.report.page import reading
from hakmem_lab.show.report.pictures.forms import Chart, Mark, Panel, Row, Series, rows
from hakmem_lab.show.report.svg import RIGHT, Pen, Picture, arm_colour, corners, label
from hakmem_lab.show.terminal import process, traced
from hakmem_lab.trace.stacks import not_shown, tree, without_plumbing

CHUNKS, PER_ROW = 512, 4  # drawn; to a line
LINE, TALLEST, PICTURE = 3.2, 11.5, 173.0
KINDS = {
    "r": ("arm-3", "a block of whole slices, up to 1 MiB"),
    "h": ("arm-4", "a huge block"),
    "d": ("arm-2", "free, waits for its decay"),
    "-": ("band", "free, given back"),
    "s": ("arm-5", "samples"),
    "o": ("muted", "being changed"),
}
FULLNESS = "0123456789"
SHARES = ("0", "5", "9")  # in the legend


def owners(result: Mapping) -> Picture:
    """A bar for each owner, as long as its resident memory."""
    found = [row for row in result["rows"] if row["kib"] > 0]
    drawn = [
        Row(row["owner"], f"{row['kib']:,} KiB", [[Mark(row["kib"], 0.0, row["kib"], "arm-1", marker="", width=9)]])
        for row in found
    ]
    across = of_memory(max(row["kib"] for row in found) * 1.06, "resident memory")
    whole = max(result["rss_kib"], 1)
    table = Table(
        f"Resident memory by owner: {result['rss_kib']:,} KiB",
        ["Owner", "KiB", "%"],
        [[row["owner"], f"{row['kib']:,}", f"{100 * row['kib'] / whole:.1f}"] for row in result["rows"]],
    )
    described = "; ".join(f"{row['owner']} {row['kib']:,} KiB" for row in found) + "."
    drawing = rows([Panel(drawn, across, height=11)])
    return Picture("owners", "Resident memory by owner", described, drawing, table)


def occupancy(result: Mapping) -> Picture | None:
    """The chunks in the order of their addresses: four a line, each cell 64 KiB."""
    chunks = [row["cells"] for row in result["map"] for _ in range(min(row["chunks"], CHUNKS))][:CHUNKS]
    if not chunks:
        return None
    lines = ["".join(chunks[at : at + PER_ROW]) for at in range(0, len(chunks), PER_ROW)]
    pen, tall = Pen(), max(LINE, min(TALLEST, PICTURE / len(lines)))  # small heaps are drawn larger
    _cells(pen, lines, tall)
    top = 18 + len(lines) * tall
    legend = [("arm-1", _alpha(each), f"slab, {10 * int(each)} % live or more") for each in SHARES]
    legend += [(colour, 1.0, name) for colour, name in KINDS.values()]
    for place, (colour, alpha, name) in enumerate(legend):
        pen.rectangle(8, top + 17 * place - 4, 28, top + 17 * place + 4, colour, alpha)
        pen.text(34, top + 17 * place, name)
    pen.height = top + 17 * len(legend)
    counts = {letter: sum(line.count(letter) for line in lines) for letter in (*FULLNESS, *KINDS)}
    body = [[f"slabs, {10 * i} to {10 * i + 10} % live", str(counts[str(i)])] for i in range(10) if counts[str(i)]]
    body += [[name, str(counts[letter])] for letter, (_, name) in KINDS.items() if counts[letter]]
    described = "; ".join(f"{what}: {count}" for what, count in body) + ", in units of 64 KiB."
    more = sum(row["chunks"] for row in result["map"]) - len(chunks)
    notes = [f"The first {len(chunks) * 2:,} MiB are drawn, {more * 2:,} MiB more are not."] if more > 0 else []
    table = Table("The heap in units of 64 KiB", ["What", "Units"], body)
    caption = "By address, 8 MiB a line. A pale slab holds few live blocks, and keeps its pages for them."
    return Picture("occupancy", "The heap by occupancy", described, pen, table, caption, notes)


def _alpha(share: str) -> float:
    return 0.2 + 0.8 * int(share) / 9


def _cells(pen: Pen, lines: list[str], tall: float) -> None:
    """Draws adjacent equal cells as one box, and all boxes of a kind as one element."""
    wide = (RIGHT - 8) / max(len(line) for line in lines)
    boxes: dict[str, list[list[tuple[float, float]]]] = {letter: [] for letter in (*FULLNESS, *KINDS)}
    for number, line in enumerate(lines):
        left, top = 8.0, 8 + number * tall
        for letter, run in groupby(line):
            right = left + wide * len(list(run))
            boxes.get(letter, []).append(corners(left, top, right, top + 0.88 * tall))
            left = right
    for letter, drawn in boxes.items():
        colour, alpha = (KINDS[letter][0], 1.0) if letter in KINDS else ("arm-1", _alpha(letter))
        pen.areas(drawn, colour, alpha)


def heap(result: Mapping) -> str:
    drawn = filter(None, (owners(result), occupancy(result)))
    pictures = [picture.inlined(f"p{position}") for position, picture in enumerate(drawn, 1)]
    what, _, headline = process.headline(result).partition(": ")
    return reading(
        result,
        heading=f"Memory of {what}",
        headline=f"{headline}.",
        pictures=pictures,
        tables=[_wastes(result), _classes(result), _threads(result)],
        note="Every resident kilobyte has one owner; their sum is the RSS that the kernel tells.",
    )


def _wastes(result: Mapping) -> Table:
    rows = [[row["what"], f"{row['kib']:,}", row["remedy"]] for row in result["wastes"]]
    return Table("The largest wastes, and what to do", ["What", "KiB", "What to do"], rows)


def _classes(result: Mapping) -> Table:
    columns = ["Bytes", "Slabs", "Live", "Cached", "Free", "Mean asked", "Live KiB", "Rounding KiB", "Resident KiB"]
    return Table("Blocks by class", columns, [process.class_cells(row) for row in result["classes"]])


def _threads(result: Mapping) -> Table:
    columns = ["Thread", "Name", "KiB", "Blocks"]
    return Table("Caches by thread", columns, [process.thread_cells(row) for row in result["threads"]])


DRAWN, BANDS, TABLE_ROWS = 0.002, 7, 100  # DRAWN: a visible frame's least share of the whole
DEEPEST, WIDTH, ROW, LETTER = 48, 480, 15, 6.2


def stacks(result: Mapping[str, Any]) -> str:
    pictures = [_timeline(result).inlined("p1")]
    for position, (question, key, _) in enumerate(traced.QUESTIONS[:4], 2):
        if any(row[key] >= 1 for row in result["stacks"]):
            pictures.append(_flames(result, key, f"By stack: {question}").inlined(f"p{position}"))
    return reading(
        result,
        heading=f"What {traced.name(result)} allocates, by stack",
        headline=f"{traced.sampled(result)}.",
        pictures=pictures,
        tables=[_table(result)],
        note=" ".join(
            [
                "A frame is as wide as its share; hold the pointer over it for its figures. Callers are above.",
                *(f"{line[:1].upper()}{line[1:]}." for line in not_shown(result)),
            ]
        ),
    )


def _table(result: Mapping[str, Any]) -> Table:
    rows = sorted(without_plumbing(result["stacks"]), key=lambda row: -row["bytes"])
    keys = ("calls", "temporaries", "kept", "samples")
    return Table(
        f"The {min(len(rows), TABLE_ROWS)} stacks that allocate most, of {len(rows):,}",
        ["Where", "Allocated", "At the peak", "Never freed", "Calls", "Freed at once", "Kept blocks", "Samples"],
        [[traced.called(row["frames"]), *(traced.size(row[key]) for key in ("bytes", "peak_bytes", "kept_bytes")),
          *(f"{row[key]:,.0f}" for key in keys)] for row in rows[:TABLE_ROWS]],
    )  # fmt: skip


def _timeline(result: Mapping[str, Any]) -> Picture:
    """Live bytes over time: the stacks with the most live bytes each, and all others together."""
    ordered = sorted(without_plumbing(result["stacks"]), key=lambda row: -max(row["live"]))
    parts = [(traced.called(row["frames"][:2]), np.array(row["live"])) for row in ordered[:BANDS]]
    rest = sum((np.array(row["live"]) for row in ordered[BANDS:]), np.zeros(len(ordered[0]["live"])))
    parts += [("all others", rest)] if len(ordered) > BANDS else []
    times = (np.arange(len(rest)) + 1) * result["stretch_ns"] / 1e9
    whole, series = np.zeros(len(rest)), []
    for place, (name, live) in enumerate(parts):
        colour = "muted" if name == "all others" else arm_colour(place)
        series.append(Series(times, whole, colour, name, "box", (), 0, low=whole, high=whole + live / 1024, shade=1.0))
        whole = whole + live / 1024
    y = of_memory(max(float(whole.max()), 1.0) * 1.05, "live")
    drawing = Chart(Axis(times[0], max(times[-1], times[0] * 1.01), "time, s"), y, series, left=72).draw()
    body = [[name, *(f"{live[at]:,.0f}" for at in (len(live) // 2, -1)), f"{live.max():,.0f}"] for name, live in parts]
    table = Table("Bytes live over time", ["Stack", "In the middle", "At the end", "Most"], body)
    described = "; ".join(f"{row[0]}: {row[3]} bytes at most, {row[2]} at the end" for row in body) + "."
    return Picture("growth", "Live bytes over time, by stack", described, drawing, table)


def _frames(node: Mapping[str, Any], left: float, depth: int, whole: float) -> Iterator[tuple[str, float, float, int]]:
    """(function, its left edge, its value, its depth) of the visible frames."""
    for function, child in sorted(node["below"].items(), key=lambda item: -item[1]["value"]):
        if child["value"] >= DRAWN * whole and depth < DEEPEST:
            yield function, left, child["value"], depth
            yield from _frames(child, left, depth + 1, whole)
            left += child["value"]


def _flames(result: Mapping[str, Any], value: str, title: str) -> Picture:
    root = tree(result["stacks"], value)
    frames = [*_frames(root, 0.0, 0, root["value"])]
    written = (lambda number: f"{number:,.0f}") if value == "temporaries" else traced.size
    scale, pen = WIDTH / root["value"], Pen(WIDTH)
    for function, left, amount, depth in frames:
        text = label(function, max(int(amount * scale / LETTER), 1)) if amount * scale > 4 * LETTER else ""
        says = f"{label(function, 300)}: {written(amount)}, {100 * amount / root['value']:.1f} %"
        x, y, colour = left * scale, depth * ROW, f"arm-{sum(function.encode()) % 8 + 1}"
        pen.parts.append(f"<g><title>{html.escape(says)}</title>")
        pen.rectangle(x, y, x + max(amount * scale - 0.5, 0.5), y + ROW - 1, colour, 0.3)
        pen.text(x + 2, y + ROW / 2, text)
        pen.parts.append("</g>")
    pen.height = (max((depth for *_, depth in frames), default=0) + 1) * ROW
    body = [[label(function, 80), written(amount), f"{100 * amount / root['value']:.1f}"]
            for function, _, amount, _ in sorted(frames, key=lambda frame: -frame[2])[:TABLE_ROWS]]  # fmt: skip
    described = "; ".join(f"{function} {share} %" for function, _, share in body[:12]) + "."
    return Picture(value, title, described, pen, Table(title, ["Function", "Value", "%"], body))
