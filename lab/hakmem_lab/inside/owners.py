"""To whom every resident byte of a process belongs. The rows add up to the RSS that the kernel tells."""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from hakmem_lab.inside import objects
from hakmem_lab.inside.memory import Area, Mapping, Memory, total
from hakmem_lab.inside.objects import Cache, Heap
from hakmem_lab.inside.occupancy import CACHED, DEPOT, FREE, LIVE, NEW, Occupancy, Residency, joined, of_classes

OWNERS = (
    "live blocks",
    "rounding",
    "free in slabs",
    "thread caches",
    "in the depot",
    "waiting for decay",
    "metadata",
    "huge-page excess",
    "sampled blocks",
    "being changed",
    "stacks",
    "code",
    "files",
    "other anonymous memory",
    "changed meanwhile",
)
OPTIONAL = {"sampled blocks", "being changed", "changed meanwhile"}  # rows that are left out at 0
HEAP_OWNERS = OWNERS[:10]


@dataclass
class Reading:
    """bytes: owner -> resident bytes. others: what is anonymous and not the heap's, by name."""

    bytes: Counter = field(default_factory=Counter)
    rss: int = 0
    classes: dict[int, Occupancy] = field(default_factory=dict)
    runs: dict[int, tuple[int, int]] = field(default_factory=dict)  # class -> (live, cached) resident bytes
    run_blocks: dict[int, tuple[int, int]] = field(default_factory=dict)
    others: Counter = field(default_factory=Counter)
    unmatched: int = 0  # bytes by which the kernel's figures and ours differ where all is the heap's
    zones: dict[str, np.ndarray] = field(default_factory=dict)


def mean_asked(caches: Sequence[Cache], classes: int) -> np.ndarray:
    """The mean request of each class, as far as requests were looked at; 0: none was."""
    asked, count = np.zeros(classes), np.zeros(classes)
    for cache in caches:
        asked += cache.asked_bytes[:classes]
        count += cache.asked_count[:classes]
    return np.divide(asked, count, out=np.zeros(classes), where=count > 0)


class Snapshot:
    """What is asked of the memory itself, before a process that was stopped goes on."""

    def __init__(self, memory: Memory, heap: Heap):
        self.page = memory.page
        self.residency = Residency(memory, heap, 1 << heap.layout["HAK_CHUNK_SHIFT"])
        self.metadata = joined(sorted([*heap.pieces, *heap.leaves]))
        self.pages = [memory.resident(start, _whole(start, size, self.page)) for start, size in self.metadata]
        self.pointers, self.programs = memory.stack_pointers(), memory.programs()


def read(memory: Memory, heap: Heap, areas: Sequence[Area]) -> Reading:
    return attribute(heap, areas, Snapshot(memory, heap))


def attribute(heap: Heap, areas: Sequence[Area], snapshot: Snapshot) -> Reading:
    reading, residency = Reading(rss=total(areas)), snapshot.residency
    reading.classes = of_classes(heap, residency)
    for each in reading.classes.values():
        _add_slabs(reading.bytes, each)
    _add_runs(reading, heap, residency)
    _add_slices(reading.bytes, heap, residency)
    _add_rounding(reading, heap)
    reading.bytes["metadata"] += sum(int(np.count_nonzero(each)) for each in snapshot.pages) * snapshot.page
    known = [(start, found) for (start, _), found in zip(residency.ranges, residency.found, strict=True)]
    known += [(start, found) for (start, _), found in zip(snapshot.metadata, snapshot.pages, strict=True)]
    _add_areas(reading, areas, _present(heap, known, snapshot.page), snapshot)
    return reading


def _whole(start: int, size: int, page: int) -> int:
    return start + -(-size // page) * page


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
    objects.UNKNOWN: "being changed",
    objects.DIRTY: "waiting for decay",
    objects.CLEAN: "huge-page excess",
    objects.SAMPLED: "sampled blocks",
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
    """Of live blocks, what is beyond the sizes that were asked for: an estimate, from their mean."""
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
    """Without what the chunks do not have: where memory was short, others may have mapped there."""
    chunks, slice_ = heap.chunks, 1 << heap.layout["HAK_SLICE_SHIFT"]
    partial = (chunks.state == heap.layout["HAK_CHUNK_SLICED"]) & (chunks.slices == objects.ABSENT).any(axis=1)
    for i in np.flatnonzero(partial).tolist():
        base = int(chunks.base[i])
        start, pages = next((start, p) for start, p in known if start <= base < start + len(p) * page)
        for j in np.flatnonzero(chunks.slices[i] == objects.ABSENT).tolist():
            first = (base + j * slice_ - start) // page
            pages[first : first + slice_ // page] = False
    return known


def _add_areas(reading: Reading, areas: Sequence[Area], known: Known, snapshot: Snapshot) -> None:
    """What the mappings hold besides the heap."""
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
            owner = _owner(area.mapping, before, pointers, snapshot.programs)
            reading.bytes[owner] += rest
            if owner == "other anonymous memory":
                reading.others[area.mapping.path or "[anon]"] += rest
        before = area.mapping
    # What is left in a process that runs, and nothing in one that stands still: see Reading.unmatched.
    reading.bytes["changed meanwhile"] = reading.rss - reading.bytes.total()


def _owner(mapping: Mapping, before: Mapping | None, pointers: Sequence[int], programs: set[str]) -> str:
    """pointers: of the stacks, ascending."""
    at = bisect_left(pointers, mapping.start)
    if mapping.path == "[stack]" or (at < len(pointers) and pointers[at] < mapping.end):
        return "stacks"
    if mapping.path in programs or mapping.path in ("[vdso]", "[vvar]", "[vsyscall]", "[vvar_vclock]"):
        return "code"
    if mapping.is_file and not mapping.path.startswith("/dev/zero"):
        return "files"
    if not mapping.path and before is not None and before.end == mapping.start and before.path in programs:
        return "code"  # data of a program or library that begin as zeros
    return "other anonymous memory"
