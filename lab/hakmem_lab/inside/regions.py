"""The regions of a heap: what each holds, which slices are its own, and the block at an address in one.

Regions of one name whose parents have one name form a row, as in the statistics of the library.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np

from hakmem_lab.inside.layout import REGION, STEP, UNKNOWN, Chunks, Heap, Layout, Piece, Region
from hakmem_lab.inside.memory import Memory, Unreadable

WORD, ROWS_MAX = 8, 256
NO_LIMIT = (1 << 64) - 1
SUMS = ("used", "peak", "live_bytes", "live_blocks", "allocated", "freed")


class Source(Protocol):
    """What the reader of a heap offers."""

    memory: Memory
    layout: Layout

    def word(self, address: int) -> int: ...

    def record(self, type_: str, names: Sequence[tuple[str, str | np.dtype]]) -> np.dtype: ...

    def linked(self, at: int, next_at: int, size: int) -> Iterator[tuple[int, bytes]]: ...


def read(source: Source) -> list[Region]:
    """The regions that have not ended, the newest first; and the blocks of released ones, if there are any."""
    layout = source.layout
    if "&hak_regions_made" not in layout:  # an older library
        return []
    size = layout["size.hak_region_t"]
    listed = source.linked(source.word(layout.root("hak_regions_made")), layout["hak_region_t.made"], size)
    data = dict(listed)
    found = [_region(source, each, data) for each in data.values() if _state(layout, each)]
    released = _region(source, source.memory.read(layout.root("hak_regions_released"), size), data)
    return [*found, released] if released.live_blocks else found


def _value(layout: Layout, data: bytes, name: str, size: int = WORD) -> int:
    at = layout[f"hak_region_t.{name}"]
    return int.from_bytes(data[at : at + size], "little")


def _state(layout: Layout, data: bytes) -> str:
    states = {layout["HAK_REGION_LIVE"]: "live", layout["HAK_REGION_RETIRED"]: "retired"}
    return states.get(_value(layout, data, "state", 1), "")


def _name(layout: Layout, data: bytes) -> str:
    at = layout["hak_region_t.name"]
    return data[at : at + layout["HAK_REGION_NAME"]].partition(b"\0")[0].decode(errors="replace")


def _region(source: Source, data: bytes, others: dict[int, bytes]) -> Region:
    layout = source.layout
    parent = others.get(_value(layout, data, "parent"))
    soft, hard = (_value(layout, data, name) for name in ("soft", "hard"))
    sums = {name: _value(layout, data, name) for name in SUMS}
    limits = {"soft": 0 if soft == NO_LIMIT else soft, "hard": 0 if hard == NO_LIMIT else hard}
    pieces = [*_pieces(source, _value(layout, data, "pieces"))]
    name = _name(layout, data)
    return Region(name, _name(layout, parent) if parent else "", _state(layout, data), **limits, **sums, pieces=pieces)


def _pieces(source: Source, first: int) -> Iterator[Piece]:
    words = [(name, "<u8") for name in ("base", "charged", "bits")]
    halves = [(name, "<u4") for name in ("slices", "chunks", "first", "at", "end")]
    dtype = source.record("hak_piece_t", [*words, *halves, ("is_span", "u1")])
    for _, data in source.linked(first, source.layout["hak_piece_t.next"], dtype.itemsize):
        (row,) = np.frombuffer(data, dtype)
        yield Piece(is_span=bool(row["is_span"]), **{name: int(row[name]) for name, _ in (*words, *halves)})


def mark(layout: Layout, chunks: Chunks, regions: Iterable[Region]) -> None:
    """Write the slices of regions into chunks.slices."""
    chunk, slice_ = 1 << layout["HAK_CHUNK_SHIFT"], 1 << layout["HAK_SLICE_SHIFT"]
    place = {base: i for i, base in enumerate(chunks.base.tolist())}
    for piece in (each for region in regions for each in region.pieces if each.slices):
        if (i := place.get(piece.base - piece.base % chunk)) is not None:
            j = piece.base % chunk // slice_
            row = chunks.slices[i, j : j + piece.slices]
            row[row == UNKNOWN] = REGION


def holders(heap: Heap) -> Iterator[tuple[Region, int, int]]:
    """(region, start, bytes) of the heap's memory in each piece, as far as the page map agrees."""
    layout, chunks = heap.layout, heap.chunks
    chunk, slice_ = 1 << layout["HAK_CHUNK_SHIFT"], 1 << layout["HAK_SLICE_SHIFT"]
    place = {base: i for i, base in enumerate(chunks.base.tolist())}
    for region in heap.regions:
        for piece in region.pieces:
            i, j = place.get(piece.base - piece.base % chunk), piece.base % chunk // slice_
            if i is None:
                continue
            if piece.slices and (chunks.slices[i, j : j + piece.slices] == REGION).all():
                yield region, piece.base, piece.slices * slice_
            elif piece.chunks and chunks.state[i] == layout["HAK_CHUNK_HUGE"] and not chunks.codes[i, 0]:
                yield region, piece.base, int(chunks.count[i]) * chunk


def rows(regions: Sequence[Region], resident: dict[int, int]) -> tuple[list[dict], int]:
    """(a row for each pair of names, the one that uses most first; regions in no row). resident: id of a region ->
    resident bytes."""
    groups: dict[tuple[str, str], list[Region]] = {}
    for region in regions:
        groups.setdefault((region.name, region.parent), []).append(region)
    found = [_row(group, resident) for group in groups.values()]
    found.sort(key=lambda row: -row["used_bytes"])
    return found[:ROWS_MAX], sum(row["regions"] for row in found[ROWS_MAX:])


def _row(group: Sequence[Region], resident: dict[int, int]) -> dict:
    live = any(region.state == "live" for region in group)
    row: dict = {"name": group[0].name, "parent": group[0].parent, "regions": len(group)}
    row |= {"state": "live" if live else "retired"}
    for name in ("soft", "hard"):
        limits = [getattr(region, name) for region in group]
        row[f"{name}_limit"] = sum(limits) if all(limits) else 0
    for name in SUMS:
        key = name if name.startswith("live") else f"{name}_bytes"
        row[key] = sum(getattr(region, name) for region in group)
    return row | {"resident_kib": sum(resident.get(id(region), 0) for region in group) // 1024}


def block_at(memory: Memory, heap: Heap, address: int) -> tuple[str, int, int, str] | None:
    """(what it is, its start, bytes, state) of the block around an address; None: no region has it."""
    for region in heap.regions:
        for piece in region.pieces:
            if piece.base <= address < piece.base + piece.bytes:
                what = f'a block of the region "{region.name}"'
                if not piece.is_span:
                    return what, piece.base, piece.charged, "live"
                return _in_span(memory, heap.layout, piece, what, address)
    return None


def _in_span(memory: Memory, layout: Layout, piece: Piece, what: str, address: int) -> tuple[str, int, int, str]:
    words, names = -(-piece.end // 64), ("start", "used")
    offsets = [layout[f"hak_span_bits_t.{name}"] for name in names]
    dtype = np.dtype({"names": names, "formats": ["8u1", "8u1"], "offsets": offsets,
                      "itemsize": layout["size.hak_span_bits_t"]})  # fmt: skip
    try:
        bits = np.frombuffer(memory.read(piece.bits, words * dtype.itemsize), dtype)
    except Unreadable:
        return what, piece.base, piece.bytes, "unknown"
    start, used = (np.unpackbits(np.ravel(bits[name]), bitorder="little") for name in names)
    steps = np.flatnonzero(start[: piece.at]).tolist()
    step = (address - piece.base) // STEP
    i = bisect_right(steps, step) - 1
    if i < 0 or step >= piece.at:
        first = piece.at if step >= piece.at else 0
        end = piece.end if step >= piece.at else piece.first
        return what, piece.base + first * STEP, (end - first) * STEP, "never handed out"
    after = steps[i + 1] if i + 1 < len(steps) else piece.at
    state = "live" if used[steps[i]] else "free, in its region"
    return what, piece.base + steps[i] * STEP, (after - steps[i]) * STEP, state
