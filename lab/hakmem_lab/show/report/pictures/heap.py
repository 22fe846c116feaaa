"""A heap: whose the resident memory is, and how full its slabs are.

May import: svg, palette.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

from matplotlib.axes import Axes
from matplotlib.patches import Patch

from hakmem_lab.show.report.svg import SENTINELS, Picture, Table, canvas, element

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


def owners(result: Mapping, key: str) -> Picture:
    """A bar each owner, as long as what it has."""
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
    title = "Resident memory by owner"
    described = "; ".join(f"{row['owner']} {row['kib']:,} KiB" for row in rows) + "."
    return Picture("owners", title, described, element(figure, key, title, described), table)


def occupancy(result: Mapping, key: str) -> Picture | None:
    """The chunks in the order of their addresses, four a line, a cell each 64 KiB."""
    chunks = [row["cells"] for row in result["map"] for _ in range(min(row["chunks"], CHUNKS))][:CHUNKS]
    if not chunks:
        return None
    lines = ["".join(chunks[at : at + PER_ROW]) for at in range(0, len(chunks), PER_ROW)]
    figure, (axis,) = canvas(max(0.3, len(lines) * _height_in(len(lines))), left_in=0.1, bottom_in=2.2)
    for position, line in enumerate(lines):
        _line(axis, position, line)
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
    title = "The heap by occupancy"
    counts = {letter: sum(line.count(letter) for line in lines) for letter in (*FULLNESS, *KINDS)}
    rows = [[f"slabs, {10 * i} to {10 * i + 10} % live", str(counts[str(i)])] for i in range(10) if counts[str(i)]]
    rows += [[label, str(counts[letter])] for letter, (_, label) in KINDS.items() if counts[letter]]
    described = "; ".join(f"{what}: {count}" for what, count in rows) + ", in units of 64 KiB."
    more = sum(row["chunks"] for row in result["map"]) - len(chunks)
    notes = [f"The first {len(chunks) * 2:,} MiB are drawn, {more * 2:,} MiB more are not."] if more > 0 else []
    table = Table("The heap in units of 64 KiB", ["What", "Units"], rows)
    caption = "By address, 8 MiB a line. A pale slab holds few live blocks, and keeps its pages for them."
    return Picture("occupancy", title, described, element(figure, key, title, described), table, caption, notes)


def _height_in(lines: int) -> float:
    """Of a line: small heaps are drawn larger."""
    return max(LINE_IN, min(TALLEST_IN, PICTURE_IN / lines))


def _alpha(share: str) -> float:
    return 0.2 + 0.8 * int(share) / 9


def _line(axis: Axes, position: int, line: str) -> None:
    at = 0
    for letter, run in groupby(line):
        width = len(list(run))
        if letter in FULLNESS:
            colour, alpha = SENTINELS["arm-1"], _alpha(letter)
        elif letter in KINDS:
            colour, alpha = SENTINELS[KINDS[letter][0]], 1.0
        else:
            at += width
            continue
        axis.broken_barh([(at, width)], (position, 0.88), facecolor=colour, alpha=alpha, linewidth=0)
        at += width
