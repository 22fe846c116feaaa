"""Attributes every resident byte of a process to an owner. The rows add up to the RSS that the kernel reports.

The bytes of slabs are divided among their blocks: live, free, in a thread's cache, in the depot. A page is divided
among its blocks by their bytes in it. Whole classes are computed at once, as arrays.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hakmem_lab.inside import layout, regions
from hakmem_lab.inside.layout import Cache, Heap, Slabs
from hakmem_lab.inside.memory import Area, Mapping, Memory, joined, total

LIVE, FREE, CACHED, DEPOT, NEW = range(5)
NOTHING = 255
CELLS = 1 << 20  # blocks that are processed at once


@dataclass
class Occupancy:
    """Memory of one class. The arrays bytes[5] and blocks[5] are by state; the others have a row for each slab."""

    cls: int
    slabs: np.ndarray  # their numbers
    blocks: np.ndarray
    bytes: np.ndarray  # resident
    untouched: int  # bytes of NEW blocks in pages that were never written
    tail: int  # resident bytes behind the last block
    free_pages: int  # resident bytes of pages with only free blocks
    live_in: np.ndarray  # live blocks of each slab
    resident_in: np.ndarray  # resident bytes of each slab


class Residency:
    """Which pages are resident. The kernel is asked once, for whole chunks."""

    def __init__(self, memory: Memory, heap: Heap, chunk: int):
        self.memory, self.page, self.chunk = memory, memory.page, chunk
        order = np.argsort(heap.chunks.base)
        ranges = [(int(heap.chunks.base[i]), int(heap.chunks.count[i]) * chunk) for i in order]
        self.ranges = [*joined(ranges)]
        self.found = [memory.resident(start, start + size) for start, size in self.ranges]
        self._starts = np.array([start for start, _ in self.ranges], np.int64)
        self._flat = np.concatenate([np.zeros(0, bool), *self.found])
        self._first = np.cumsum([0, *(len(each) for each in self.found)])

    def _places(self, starts: np.ndarray) -> np.ndarray:
        """Indices in `_flat` of the pages at these addresses, which lie within the heap's chunks."""
        index = np.searchsorted(self._starts, starts, side="right") - 1
        return self._first[index] + (starts - self._starts[index]) // self.page

    def of(self, start: int, size: int) -> np.ndarray:
        """Resident flags of whole pages within the heap's chunks."""
        first = int(self._places(np.array([start]))[0])
        return self._flat[first : first + size // self.page]

    def of_many(self, starts: np.ndarray, size: int) -> np.ndarray:
        """[start, page] of ranges of equal size."""
        places = self._places(starts.astype(np.int64))
        last = len(self._flat) - 1  # a range may be longer than what is left of the last chunk
        return self._flat[np.minimum(places[:, None] + np.arange(size // self.page), last)]

    def bytes(self, start: int, size: int) -> int:
        return int(np.count_nonzero(self.of(start, size))) * self.page


def of_classes(heap: Heap, residency: Residency) -> dict[int, Occupancy]:
    slabs, layout = heap.slabs, heap.layout
    cached: dict[int, list[np.ndarray]] = {}
    for cache in heap.caches:
        for cls, addresses in cache.blocks.items():
            cached.setdefault(cls, []).append(addresses)
    found = {}
    for cls in np.flatnonzero(np.bincount(slabs.cls)).tolist():
        numbers = np.flatnonzero(slabs.cls == cls)
        size = layout.class_sizes[cls]
        outside = [(CACHED, np.concatenate(cached[cls]))] if cls in cached else []
        outside += [(DEPOT, heap.depot[cls])] if cls in heap.depot else []
        found[cls] = _of_class(cls, size, numbers, slabs, outside, residency, 1 << layout["HAK_SLICE_SHIFT"])
    _add_mixed(found, heap, cached, residency)
    return found


def _add_mixed(
    found: dict[int, Occupancy], heap: Heap, cached: dict[int, list[np.ndarray]], residency: Residency
) -> None:
    """A block of a mixed slab lies in one page."""
    mixed, page = heap.mixed, residency.page
    for cls in np.unique(mixed.cls).tolist():
        mine = mixed.cls == cls
        address, size = mixed.address[mine], heap.layout.class_sizes[cls]
        states = np.where(mixed.free[mine], FREE, LIVE)
        outside = [(CACHED, each) for each in cached.get(cls, [])]
        outside += [(DEPOT, heap.depot[cls])] if cls in heap.depot else []
        for state, addresses in outside:
            states[(states == LIVE) & np.isin(address, addresses)] = state
        resident = residency.of_many(address // np.uint64(page) * np.uint64(page), page)[:, 0]
        none = np.zeros(0, int)
        each = found.setdefault(
            cls, Occupancy(cls, none, np.zeros(5, np.int64), np.zeros(5, np.int64), 0, 0, 0, none, none)
        )
        each.blocks += np.bincount(states, minlength=5)[:5]
        each.bytes += np.bincount(states[resident], minlength=5)[:5] * size


def _of_class(
    cls: int, size: int, numbers: np.ndarray, slabs: Slabs, outside, residency: Residency, slice_bytes: int
) -> Occupancy:
    blocks = int(slabs.blocks[numbers].max())
    order = numbers[np.argsort(slabs.base[numbers])]
    result = Occupancy(
        cls, order, np.zeros(5, np.int64), np.zeros(5, np.int64), 0, 0, 0, np.zeros(len(order), int),
        np.zeros(len(order), np.int64),
    )  # fmt: skip
    step = max(1, CELLS // blocks)
    for first in range(0, len(order), step):
        part = order[first : first + step]
        states = _states(slabs, part, blocks, size, outside)
        pages = _resident(slabs, part, residency, slice_bytes)
        _add(result, first, states, size, pages, slabs.zeroed[part], residency.page)
    return result


def _states(slabs: Slabs, part: np.ndarray, blocks: int, size: int, outside) -> np.ndarray:
    """The state of each block, as [slab, block]; NOTHING behind a slab's last block."""
    index = np.arange(blocks)
    states = slabs.free(part, blocks)  # FREE is 1, LIVE is 0
    states[index >= slabs.carved[part][:, None]] = NEW
    states[index >= slabs.blocks[part][:, None]] = NOTHING
    base = slabs.base[part]
    for state, addresses in outside:
        row = np.searchsorted(base, addresses, side="right") - 1
        offset = addresses.astype(np.int64) - base[np.maximum(row, 0)].astype(np.int64)
        column = offset // size
        fits = (row >= 0) & (offset >= 0) & (offset % size == 0) & (column < blocks)
        row, column = row[fits], column[fits]
        taken = states[row, column] == LIVE  # in a live process a block may be back in its slab by now
        states[row[taken], column[taken]] = state
    return states


def _resident(slabs: Slabs, part: np.ndarray, residency: Residency, slice_bytes: int) -> np.ndarray:
    """Residency, as [slab, page]; False for pages behind a slab's own slices, which have other owners."""
    slices = slabs.slices[part].astype(np.int64)
    found = residency.of_many(slabs.base[part], int(slices.max()) * slice_bytes)
    pages = slices * slice_bytes // residency.page
    return found & (np.arange(found.shape[1]) < np.maximum(pages, 1)[:, None])


def _add(
    result: Occupancy, first: int, states: np.ndarray, size: int, pages: np.ndarray, zeroed: np.ndarray, page: int
) -> None:
    rows, blocks = states.shape
    count = pages.shape[1]
    before = np.zeros((rows, count + 1), np.int32)
    np.cumsum(pages * np.int32(page), axis=1, out=before[:, 1:])
    edges = np.arange(blocks + 1, dtype=np.int32) * np.int32(size)
    at, rest = np.minimum(edges // page, count), edges % page
    inside = np.concatenate([pages, np.zeros((rows, 1), bool)], axis=1)
    held = np.diff(before[:, at] + inside[:, at] * rest, axis=1)  # resident bytes of each block
    weights = np.bincount(states.ravel(), held.ravel(), 256)
    numbers = np.bincount(states.ravel(), minlength=256)
    for state in range(5):
        result.blocks[state] += int(numbers[state])
        result.bytes[state] += int(weights[state])
    # A page overlaps the blocks from `low` to before `high`.
    low = np.arange(count) * page // size
    high = np.minimum(-(-(np.arange(count) + 1) * page // size), blocks)
    low = np.minimum(low, high)

    def any_in(mine: np.ndarray) -> np.ndarray:
        sums = np.zeros((rows, blocks + 1), np.int32)
        np.cumsum(mine, axis=1, out=sums[:, 1:])
        return sums[:, high] > sums[:, low]

    out = any_in((states == LIVE) | (states == CACHED) | (states == DEPOT))
    carved = any_in(states <= DEPOT)
    new = pages & ~carved & (any_in(states == NEW))
    untouched = new & zeroed[:, None]
    result.untouched += int(np.count_nonzero(untouched)) * page
    result.free_pages += int(np.count_nonzero(pages & ~out & ~untouched)) * page
    result.tail += int(before[:, -1].sum() - weights[:NOTHING].sum())
    result.live_in[first : first + rows] = (states == LIVE).sum(axis=1)
    result.resident_in[first : first + rows] = before[:, -1]


ANONYMOUS = "other anonymous memory"
OWNERS = (
    "live blocks",
    "regions",
    "rounding",
    "free in slabs",
    "thread caches",
    "in the depot",
    "waiting for decay",
    "metadata",
    "huge-page excess",
    "sampled blocks",
    "first blocks",
    "being changed",
    "stacks",
    "code",
    "files",
    ANONYMOUS,
    "changed meanwhile",
)
# Rows that are left out at 0.
OPTIONAL = {"regions", "sampled blocks", "first blocks", "being changed", "changed meanwhile"}
HEAP_OWNERS = OWNERS[:12]


@dataclass
class Reading:
    """bytes: owner -> resident bytes. others: anonymous memory outside the heap, by name."""

    bytes: Counter = field(default_factory=Counter)
    rss: int = 0
    classes: dict[int, Occupancy] = field(default_factory=dict)
    runs: dict[int, tuple[int, int]] = field(default_factory=dict)  # class -> (live, cached) resident bytes
    run_blocks: dict[int, tuple[int, int]] = field(default_factory=dict)
    regions: Counter = field(default_factory=Counter)  # id of a region -> resident bytes
    others: Counter = field(default_factory=Counter)
    unmatched: int = 0  # difference in bytes to the kernel's figures, in mappings that only the heap uses


def mean_asked(caches: Sequence[Cache], classes: int) -> np.ndarray:
    """The mean request of each class, from the requests that were recorded; 0 if there are none."""
    asked, count = np.zeros(classes), np.zeros(classes)
    for cache in caches:
        asked += cache.asked_bytes[:classes]
        count += cache.asked_count[:classes]
    return np.divide(asked, count, out=np.zeros(classes), where=count > 0)


class Snapshot:
    """Everything that has to be read while the process is stopped."""

    def __init__(self, memory: Memory, heap: Heap):
        self.page = memory.page
        self.residency = Residency(memory, heap, 1 << heap.layout["HAK_CHUNK_SHIFT"])
        self.metadata = joined(sorted([*heap.pieces, *heap.leaves]))
        whole = ((start, -(-size // self.page) * self.page) for start, size in self.metadata)
        self.pages = [memory.resident(start, start + size) for start, size in whole]
        self.pointers, self.programs = memory.stack_pointers(), memory.programs()


def read(memory: Memory, heap: Heap, areas: Sequence[Area]) -> Reading:
    return attribute(heap, areas, Snapshot(memory, heap))


def attribute(heap: Heap, areas: Sequence[Area], snapshot: Snapshot) -> Reading:
    reading, residency = Reading(rss=total(areas)), snapshot.residency
    reading.classes = of_classes(heap, residency)
    for each in reading.classes.values():
        _add_slabs(reading.bytes, each)
    resident = residency.of_many(heap.mixed.address // np.uint64(residency.page) * np.uint64(residency.page),
                                 residency.page)[:, 0]  # fmt: skip
    sizes = np.array(heap.layout.class_sizes, np.int64)[heap.mixed.cls]
    reading.bytes["first blocks"] -= int(sizes[resident].sum())
    _add_runs(reading, heap, residency)
    _add_slices(reading.bytes, heap, residency)
    for region, start, size in regions.holders(heap):
        reading.regions[id(region)] += residency.bytes(start, size)
    reading.bytes["regions"] = reading.regions.total()
    _add_rounding(reading, heap)
    reading.bytes["metadata"] += sum(int(np.count_nonzero(each)) for each in snapshot.pages) * snapshot.page
    known = [(start, found) for (start, _), found in zip(residency.ranges, residency.found, strict=True)]
    known += [(start, found) for (start, _), found in zip(snapshot.metadata, snapshot.pages, strict=True)]
    _add_areas(reading, areas, _present(heap, known, snapshot.page), snapshot)
    return reading


def _add_slabs(rows: Counter, each: Occupancy) -> None:
    rows["live blocks"] += int(each.bytes[LIVE])
    rows["free in slabs"] += int(each.bytes[FREE] + each.bytes[NEW]) - each.untouched
    rows["thread caches"] += int(each.bytes[CACHED])
    rows["in the depot"] += int(each.bytes[DEPOT])
    rows["huge-page excess"] += each.untouched
    rows["rounding"] += each.tail


def _add_runs(reading: Reading, heap: Heap, residency: Residency) -> None:
    layout, runs = heap.layout, heap.runs
    first = layout["HAK_RUN_FIRST"]
    cached = {int(a) for cache in heap.caches for cls, found in cache.blocks.items() if cls >= first for a in found}
    for base, cls, usable, held in zip(
        *(each.tolist() for each in (runs.base, runs.cls, runs.bytes, runs.held)), strict=True
    ):
        pages = residency.of(base, held)
        used = int(np.count_nonzero(pages[: -(-usable // residency.page)])) * residency.page
        beyond = int(np.count_nonzero(pages)) * residency.page - used
        kept = base in cached
        reading.bytes["thread caches" if kept else "live blocks"] += used
        reading.bytes["huge-page excess"] += beyond
        sums, counts = reading.runs.get(cls, (0, 0)), reading.run_blocks.get(cls, (0, 0))
        reading.runs[cls] = (sums[0] + used * (not kept), sums[1] + used * kept)
        reading.run_blocks[cls] = (counts[0] + (not kept), counts[1] + kept)


SLICE_OWNERS = {
    layout.UNKNOWN: "being changed",
    layout.DIRTY: "waiting for decay",
    layout.CLEAN: "huge-page excess",
    layout.SAMPLED: "sampled blocks",
    layout.MIXED: "first blocks",
}


def _add_slices(rows: Counter, heap: Heap, residency: Residency) -> None:
    chunks, layout = heap.chunks, heap.layout
    sliced, free = layout["HAK_CHUNK_SLICED"], layout["HAK_CHUNK_FREE"]
    per_slice = (1 << layout["HAK_SLICE_SHIFT"]) // residency.page
    for i, (base, state) in enumerate(zip(chunks.base.tolist(), chunks.state.tolist(), strict=True)):
        size = int(chunks.count[i]) * residency.chunk
        if state == free:
            rows["waiting for decay" if chunks.dirty[i] else "huge-page excess"] += residency.bytes(base, size)
        elif state == sliced:
            pages = residency.of(base, size)
            each = pages.reshape(-1, per_slice).sum(axis=1) if per_slice else pages
            for kind, owner in SLICE_OWNERS.items():
                if (mine := chunks.slices[i] == kind).any():
                    rows[owner] += int(each[mine].sum()) * residency.page


def _add_rounding(reading: Reading, heap: Heap) -> None:
    """Add the bytes of live blocks beyond the requested sizes: an estimate from the mean request."""
    means = mean_asked(heap.caches, len(heap.layout.class_sizes))
    live = {cls: int(each.bytes[LIVE]) for cls, each in reading.classes.items()}
    live |= {cls: found[0] for cls, found in reading.runs.items() if cls < len(means)}
    for cls, resident in live.items():
        size = heap.layout.class_sizes[cls]
        if means[cls] > 0:
            beyond = int(resident * max(0.0, 1 - means[cls] / size))
            reading.bytes["rounding"] += beyond
            reading.bytes["live blocks"] -= beyond


Known = list[tuple[int, np.ndarray]]


def _present(heap: Heap, known: Known, page: int) -> Known:
    """Clear the pages of slices that a chunk lacks: if memory was short, others may have mapped memory there."""
    chunks, slice_ = heap.chunks, 1 << heap.layout["HAK_SLICE_SHIFT"]
    partial = (chunks.state == heap.layout["HAK_CHUNK_SLICED"]) & (chunks.slices == layout.ABSENT).any(axis=1)
    for i in np.flatnonzero(partial).tolist():
        base = int(chunks.base[i])
        start, pages = next((start, p) for start, p in known if start <= base < start + len(p) * page)
        for j in np.flatnonzero(chunks.slices[i] == layout.ABSENT).tolist():
            first = (base + j * slice_ - start) // page
            pages[first : first + slice_ // page] = False
    return known


def _add_areas(reading: Reading, areas: Sequence[Area], known: Known, snapshot: Snapshot) -> None:
    """Add the resident memory of the mappings that is not the heap's."""
    before: Mapping | None = None
    known = sorted(known, key=lambda each: each[0])  # which do not overlap
    ends = [first + len(pages) * snapshot.page for first, pages in known]
    pointers = sorted(snapshot.pointers)
    for area in areas:
        start, end = area.mapping.start, area.mapping.end
        ours = covered = 0
        for i in range(bisect_right(ends, start), len(known)):
            first, pages = known[i]
            if first >= end:
                break
            low, high = max(start, first), min(end, first + len(pages) * snapshot.page)
            part = pages[(low - first) // snapshot.page : (high - first) // snapshot.page]
            ours += int(np.count_nonzero(part)) * snapshot.page
            covered += high - low
        rest = area.rss - ours
        if covered == end - start or rest < 0:
            reading.unmatched += abs(rest)
        elif rest > 0:
            name = owner(area.mapping, before, pointers, snapshot.programs)
            reading.bytes[name] += rest
            if name == ANONYMOUS:
                reading.others[area.mapping.path or "[anon]"] += rest
        before = area.mapping
    # Not 0 only if the process ran during the reading; see Reading.unmatched.
    reading.bytes["changed meanwhile"] = reading.rss - reading.bytes.total()


def owner(mapping: Mapping, before: Mapping | None, pointers: Sequence[int], programs: set[str]) -> str:
    """The owner of a mapping outside the heap. pointers: the threads' stack pointers, ascending."""
    at = bisect_left(pointers, mapping.start)
    if mapping.path == "[stack]" or (at < len(pointers) and pointers[at] < mapping.end):
        return "stacks"
    if mapping.path in programs or mapping.path in ("[vdso]", "[vvar]", "[vsyscall]", "[vvar_vclock]"):
        return "code"
    if mapping.is_file and not mapping.path.startswith("/dev/zero"):
        return "files"
    if not mapping.path and before is not None and before.end == mapping.start and before.path in programs:
        return "code"  # zero-initialised data of a program or library
    return ANONYMOUS
