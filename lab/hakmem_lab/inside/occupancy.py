"""How the resident bytes of slabs divide among their blocks: live, free, in a thread's cache, in the depot.

Arrays of whole classes at a time; a page belongs to the blocks that lie in it by their bytes there.
"""

from dataclasses import dataclass

import numpy as np

from hakmem_lab.inside.memory import Memory
from hakmem_lab.inside.objects import Heap, Slabs

LIVE, FREE, CACHED, DEPOT, NEW = range(5)
NOTHING = 255
CELLS = 1 << 20  # blocks looked at together


@dataclass
class Occupancy:
    """Of one class. The arrays bytes[5] and blocks[5] are by state; the others have a row a slab."""

    cls: int
    slabs: np.ndarray  # their numbers
    blocks: np.ndarray
    bytes: np.ndarray  # resident
    untouched: int  # of the new ones' bytes, those in pages that nobody wrote to
    tail: int  # resident bytes behind the last block
    free_pages: int  # resident bytes of pages that hold none but free blocks
    live_in: np.ndarray  # blocks of each slab that are live
    resident_in: np.ndarray  # bytes of each slab


class Residency:
    """Which pages are resident, asked once for whole chunks."""

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
        """Of addresses within the heap's chunks: where their pages are in `_flat`."""
        index = np.searchsorted(self._starts, starts, side="right") - 1
        return self._first[index] + (starts - self._starts[index]) // self.page

    def of(self, start: int, size: int) -> np.ndarray:
        """Of whole pages within the heap's chunks."""
        first = int(self._places(np.array([start]))[0])
        return self._flat[first : first + size // self.page]

    def of_many(self, starts: np.ndarray, size: int) -> np.ndarray:
        """[start, page] of ranges of equal size."""
        places = self._places(starts.astype(np.int64))
        last = len(self._flat) - 1  # a range may be longer than what is left of the last chunk
        return self._flat[np.minimum(places[:, None] + np.arange(size // self.page), last)]

    def bytes(self, start: int, size: int) -> int:
        return int(np.count_nonzero(self.of(start, size))) * self.page


def joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Neighbours made one; ranges are (start, bytes), ascending."""
    found: list[tuple[int, int]] = []
    for start, size in ranges:
        if found and sum(found[-1]) == start:
            found[-1] = (found[-1][0], found[-1][1] + size)
        else:
            found.append((start, size))
    return found


def of_classes(heap: Heap, residency: Residency) -> dict[int, Occupancy]:
    """Of each class that has slabs."""
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
    return found


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
    """[slab, block]; NOTHING where there is none."""
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
        taken = states[row, column] == LIVE  # in a process that runs it may have come back since
        states[row[taken], column[taken]] = state
    return states


def _resident(slabs: Slabs, part: np.ndarray, residency: Residency, slice_bytes: int) -> np.ndarray:
    """[slab, page]; where a slab has fewer slices than another, the other pages are somebody else's."""
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
    # A page is in the blocks from its first byte's to its last byte's.
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
