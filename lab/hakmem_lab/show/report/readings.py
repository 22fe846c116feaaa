"""The pages for a reading of a heap, and for the allocations of a recorded program by stack."""

import html
from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.patches import Patch

from hakmem_lab.show.report.model import Table
from hakmem_lab.show.report.page import reading
from hakmem_lab.show.report.svg import SENTINELS, Picture, arm_colour, canvas, drawing, label
from hakmem_lab.show.terminal import process, traced
from hakmem_lab.trace.stacks import not_shown, tree, without_plumbing

ROW_IN = 0.3
CHUNKS, PER_ROW = 512, 4  # drawn; to a line
LINE_IN, TALLEST_IN, PICTURE_IN = 0.045, 0.16, 2.4
KIB_PER_MIB = 1024
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
    rows = [row for row in result["rows"] if row["kib"] > 0]
    figure, (axis,) = canvas(len(rows) * ROW_IN + 0.1, left_in=2.4)
    for position, row in enumerate(rows):
        axis.barh(position, row["kib"] / KIB_PER_MIB, height=0.62, color=SENTINELS["arm-1"])
    axis.set_ylim(len(rows) - 0.4, -0.6)
    axis.set_yticks(range(len(rows)), [row["owner"] for row in rows])
    axis.tick_params(axis="y", length=0)
    axis.set_xlim(0, max(row["kib"] for row in rows) / KIB_PER_MIB * 1.06)
    axis.set_xlabel("MiB resident")
    whole = max(result["rss_kib"], 1)
    table = Table(
        f"Resident memory by owner: {result['rss_kib']:,} KiB",
        ["Owner", "KiB", "%"],
        [[row["owner"], f"{row['kib']:,}", f"{100 * row['kib'] / whole:.1f}"] for row in result["rows"]],
    )
    described = "; ".join(f"{row['owner']} {row['kib']:,} KiB" for row in rows) + "."
    return Picture("owners", "Resident memory by owner", described, figure, table)


def occupancy(result: Mapping) -> Picture | None:
    """The chunks in the order of their addresses: four a line, each cell 64 KiB."""
    chunks = [row["cells"] for row in result["map"] for _ in range(min(row["chunks"], CHUNKS))][:CHUNKS]
    if not chunks:
        return None
    lines = ["".join(chunks[at : at + PER_ROW]) for at in range(0, len(chunks), PER_ROW)]
    line_in = max(LINE_IN, min(TALLEST_IN, PICTURE_IN / len(lines)))  # small heaps are drawn larger
    figure, (axis,) = canvas(max(0.3, len(lines) * line_in), left_in=0.1, bottom_in=2.2)
    _cells(axis, lines)
    axis.set_xlim(0, max(len(line) for line in lines))
    axis.set_ylim(len(lines), 0)
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_visible(False)
    handles = [
        Patch(color=SENTINELS["arm-1"], alpha=_alpha(each), label=f"slab, {10 * int(each)} % live or more")
        for each in SHARES
    ]
    handles += [Patch(color=SENTINELS[colour], label=label) for colour, label in KINDS.values()]
    axis.legend(handles=handles, loc="upper left", bbox_to_anchor=(0, -0.02), borderaxespad=0.0)
    counts = {letter: sum(line.count(letter) for line in lines) for letter in (*FULLNESS, *KINDS)}
    rows = [[f"slabs, {10 * i} to {10 * i + 10} % live", str(counts[str(i)])] for i in range(10) if counts[str(i)]]
    rows += [[label, str(counts[letter])] for letter, (_, label) in KINDS.items() if counts[letter]]
    described = "; ".join(f"{what}: {count}" for what, count in rows) + ", in units of 64 KiB."
    more = sum(row["chunks"] for row in result["map"]) - len(chunks)
    notes = [f"The first {len(chunks) * 2:,} MiB are drawn, {more * 2:,} MiB more are not."] if more > 0 else []
    table = Table("The heap in units of 64 KiB", ["What", "Units"], rows)
    caption = "By address, 8 MiB a line. A pale slab holds few live blocks, and keeps its pages for them."
    return Picture("occupancy", "The heap by occupancy", described, figure, table, caption, notes)


def _alpha(share: str) -> float:
    return 0.2 + 0.8 * int(share) / 9


def _cells(axis: Axes, lines: list[str]) -> None:
    """Draws adjacent equal cells as one box, and all boxes of a kind as one collection: adding an object costs time in
    proportion to the objects already in the figure."""
    boxes: dict[str, list[list[tuple[float, float]]]] = {letter: [] for letter in (*FULLNESS, *KINDS)}
    for top, line in enumerate(lines):
        left = 0
        for letter, run in groupby(line):
            right, bottom = left + len(list(run)), top + 0.88
            boxes.get(letter, []).append([(left, top), (right, top), (right, bottom), (left, bottom)])
            left = right
    for letter, drawn in boxes.items():
        colour, alpha = (KINDS[letter][0], 1.0) if letter in KINDS else ("arm-1", _alpha(letter))
        if drawn:
            axis.add_collection(PolyCollection(drawn, facecolor=SENTINELS[colour], alpha=alpha, linewidth=0))


def heap(result: Mapping) -> str:
    with drawing():
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
    with drawing():
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
    times = np.arange(1, len(rest) + 1) * result["stretch_ns"] / 1e9
    figure, (axis,) = canvas(2.4, bottom_in=0.7 + 0.22 * len(parts))
    colours = [SENTINELS["muted"] if name == "all others" else arm_colour(i) for i, (name, _) in enumerate(parts)]
    values = [series / 2**20 for _, series in parts]
    axis.stackplot(times, *values, colors=colours, labels=[label(name, 60) for name, _ in parts], linewidth=0)
    axis.set_xlim(times[0], max(times[-1], times[0] * 1.01))
    axis.set_ylim(bottom=0)
    axis.set_xlabel("time, s")
    axis.set_ylabel("MiB live")
    axis.legend(loc="upper left", bbox_to_anchor=(-0.1, -0.24), borderaxespad=0.0)
    rows = [[name, *(f"{series[at]:,.0f}" for at in (len(series) // 2, -1)), f"{series.max():,.0f}"]
            for name, series in parts]  # fmt: skip
    table = Table("Bytes live over time", ["Stack", "In the middle", "At the end", "Most"], rows)
    described = "; ".join(f"{row[0]}: {row[3]} bytes at most, {row[2]} at the end" for row in rows) + "."
    return Picture("growth", "Live bytes over time, by stack", described, figure, table)


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
    scale, parts = WIDTH / root["value"], []
    for function, left, amount, depth in frames:
        text = label(function, max(int(amount * scale / LETTER), 1)) if amount * scale > 4 * LETTER else ""
        says = f"{label(function, 300)}: {written(amount)}, {100 * amount / root['value']:.1f} %"
        colour = f"var(--arm-{sum(function.encode()) % 8 + 1})"
        parts.append(
            f'<g><title>{html.escape(says)}</title><rect x="{left * scale:.1f}" y="{depth * ROW}" '
            f'width="{max(amount * scale - 0.5, 0.5):.1f}" height="{ROW - 1}" fill="{colour}" fill-opacity="0.3"/>'
            f'<text x="{left * scale + 2:.1f}" y="{depth * ROW + 11}" font-size="10" fill="var(--ink)">'
            f"{html.escape(text)}</text></g>"
        )
    height = (max((depth for *_, depth in frames), default=0) + 1) * ROW
    rows = [[label(function, 80), written(amount), f"{100 * amount / root['value']:.1f}"]
            for function, _, amount, _ in sorted(frames, key=lambda frame: -frame[2])[:TABLE_ROWS]]  # fmt: skip
    described = "; ".join(f"{function} {share} %" for function, _, share in rows[:12]) + "."
    svg = f'<svg viewBox="0 0 {WIDTH} {height}">{"".join(parts)}</svg>'
    return Picture(value, title, described, svg, Table(title, ["Function", "Value", "%"], rows))
