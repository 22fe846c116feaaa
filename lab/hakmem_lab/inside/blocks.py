"""Which block is at an address: its class, whether it is live, and its neighbours.

For a sampled block also the stack that allocated it: the innermost function first, with names if a file has them.
"""

from bisect import bisect_right
from collections.abc import Mapping
from contextlib import nullcontext, suppress

import numpy as np

from hakmem_lab.inside import layout, regions
from hakmem_lab.inside.core import Core
from hakmem_lab.inside.heap import Reader
from hakmem_lab.inside.layout import Heap, Layout
from hakmem_lab.inside.memory import Memory, Process, Unreadable, doubted, word
from hakmem_lab.inside.profile.places import Place, copies, places_of, resolve, return_addresses, unloaded
from hakmem_lab.inside.ptrace import stopped

AROUND = 3  # neighbours on each side
MIXED_PAGE = 4096  # bytes of it, whatever the system's page size is
SHOWN = 64  # bytes of its beginning
SLICES = {
    layout.DIRTY: "free memory that waits for its decay",
    layout.CLEAN: "free memory, given back or never used",
    layout.MIXED: "a page of first blocks, which classes share, but none of them",
    layout.SAMPLED: "memory for sampled blocks, but no live one",
    layout.UNKNOWN: "memory that is being handed out or taken back",
    layout.ABSENT: "not memory of the heap",
}


def at(memory: Process | Core, layout: Layout, address: int, stop: bool) -> dict:
    held = stopped(memory.pid) if stop and isinstance(memory, Process) else nullcontext()
    with held, doubted(memory.name, "process" if isinstance(memory, Process) else "core"):
        return find(memory, Reader(memory, layout).read(), address)


def find(memory: Memory, heap: Heap, address: int) -> dict:
    found: dict = {"address": hex(address)}
    outside = _outside(heap)
    for base, sample in heap.samples.items():
        size = heap.layout.class_sizes[sample.cls] if sample.cls < heap.layout["HAK_RUN_FIRST"] else 0
        if base <= address < base + size:
            stack, state = of_site(memory, heap.layout, sample.site), f"live, {sample.asked} bytes asked"
            return found | _block(memory, address, "a sampled block", base, size, state, stack=stack)
    for i, (base, held) in enumerate(zip(heap.runs.base.tolist(), heap.runs.held.tolist(), strict=True)):
        if base <= address < base + held:
            return found | _run(memory, heap, i, base, outside, address)
    bases = heap.slabs.base.astype(np.int64)
    held = heap.slabs.slices.astype(np.int64) << heap.layout["HAK_SLICE_SHIFT"]
    at = np.flatnonzero((bases <= address) & (address < bases + held))
    if len(at):
        return found | _in_slab(memory, heap, int(at[0]), outside, address)
    if block := _in_mixed(memory, heap, outside, address):
        return found | block
    if (of_region := regions.block_at(memory, heap, address)) is not None:
        what, base, size, state = of_region
        stack = of_site(memory, heap.layout, heap.samples[base].site) if base in heap.samples else []
        return found | _block(memory, address, what, base, size, state, stack=stack)
    return found | {"what": _elsewhere(memory, heap, address)}


def _outside(heap: Heap) -> Mapping[int, str]:
    """Address -> the depot or the cache that holds the free block there."""
    found = {int(each): "free, in the depot" for blocks in heap.depot.values() for each in blocks}
    for cache in heap.caches:
        where = f"free, in the cache of thread {cache.thread}" + ("" if cache.busy else ", which ended")
        for blocks in cache.blocks.values():
            found |= {int(each): where for each in blocks}
    return found


def _run(memory: Memory, heap: Heap, i: int, base: int, outside: Mapping[int, str], address: int) -> dict:
    cls, usable = int(heap.runs.cls[i]), int(heap.runs.bytes[i])
    what = "a huge block" if cls >= len(heap.layout.class_sizes) else "a block of whole slices"
    stack = of_site(memory, heap.layout, heap.samples[base].site) if base in heap.samples else []
    return _block(memory, address, what, base, usable, outside.get(base, "live"), stack=stack)


def _in_slab(memory: Memory, heap: Heap, row: int, outside: Mapping[int, str], address: int) -> dict:
    slabs = heap.slabs
    base, cls = int(slabs.base[row]), int(slabs.cls[row])
    size, carved = heap.layout.class_sizes[cls], int(slabs.carved[row])
    index = (address - base) // size
    free = slabs.free(np.array([row]), int(slabs.blocks[row]))[0]

    def state(i: int) -> str:
        if i >= carved:
            return "never handed out"
        return "free, in its slab" if free[i] else outside.get(base + i * size, "live")

    blocks = int(slabs.blocks[row])
    if index >= blocks:
        return {"what": f"the end of a slab of blocks of {size} bytes, behind the last block"}
    near = [i for i in range(max(0, index - AROUND), min(blocks, index + AROUND + 1)) if i != index]
    neighbours = [{"block": hex(base + i * size), "bytes": size, "state": state(i)} for i in near]
    slab = {"base": hex(base), "blocks": blocks, "carved": carved, "free": int(free[:carved].sum())}
    begin, what = base + index * size, "a block of a slab"
    return _block(memory, address, what, begin, size, state(index), slab=slab, neighbours=neighbours)


def _in_mixed(memory: Memory, heap: Heap, outside: Mapping[int, str], address: int) -> dict:
    """Empty if the address is in no block of a mixed page: in a gap, or behind the last block."""
    mixed = heap.mixed
    rows = np.flatnonzero(mixed.address // np.uint64(MIXED_PAGE) == address // MIXED_PAGE)
    rows = rows[np.argsort(mixed.address[rows])]
    bases = mixed.address[rows].tolist()
    sizes = [heap.layout.class_sizes[cls] for cls in mixed.cls[rows].tolist()]
    states = ["free, in its page" if free else "" for free in mixed.free[rows].tolist()]
    states = [state or outside.get(base, "live") for state, base in zip(states, bases, strict=True)]
    index = bisect_right(bases, address) - 1
    if index < 0 or address >= bases[index] + sizes[index]:
        return {}
    near = [i for i in range(max(0, index - AROUND), min(len(bases), index + AROUND + 1)) if i != index]
    neighbours = [{"block": hex(bases[i]), "bytes": sizes[i], "state": states[i]} for i in near]
    what = "a block of a page that classes share"
    return _block(memory, address, what, bases[index], sizes[index], states[index], neighbours=neighbours)


def _block(memory: Memory, address: int, what: str, base: int, size: int, state: str, **more: object) -> dict:
    """more: facts that only this sort of block has."""
    begins = None
    with suppress(Unreadable):
        begins = memory.read(base, min(size, SHOWN)).hex()
    found = {"what": what, "block": hex(base), "offset": address - base, "bytes": size, "state": state}
    return found | more | {"begins": begins}


def _elsewhere(memory: Memory, heap: Heap, address: int) -> str:
    chunk = 1 << heap.layout["HAK_CHUNK_SHIFT"]
    for i, (base, count) in enumerate(zip(heap.chunks.base.tolist(), heap.chunks.count.tolist(), strict=True)):
        if base <= address < base + count * chunk:
            if heap.chunks.state[i] != heap.layout["HAK_CHUNK_SLICED"]:
                return SLICES[layout.DIRTY if heap.chunks.dirty[i] else layout.CLEAN]
            kind = int(heap.chunks.slices[i][(address - base) >> heap.layout["HAK_SLICE_SHIFT"]])
            return SLICES.get(kind, "memory of the heap")
    if any(start <= address < start + size for start, size in (*heap.pieces, *heap.leaves)):
        return "the allocator's own memory"
    for each in memory.maps():
        if each.start <= address < each.end:
            return f"not the heap: {each.path or 'anonymous memory'} ({each.permissions})"
    return "nothing is mapped there"


DEPTH_MAX = 1024


def of_site(memory: Memory, layout: Layout, site: int) -> list[str]:
    """The stack of a call site; empty if it is unknown."""
    if not site:
        return []
    try:
        pcs = _return_addresses(memory, layout, site)
        known = places_of(memory, pcs, unloaded(memory, layout))
    except (Unreadable, IndexError):
        return []
    names = resolve(known.values(), copies(memory))
    return [_text(name, known[pc]) for pc in pcs for name in names.of(known[pc])]


def _text(name, place: Place) -> str:
    where = f" ({name.file}:{name.line})" if name.file else f" ({place.path})" if place.path else ""
    return name.function + (where if name.function != str(place) else "")


def _return_addresses(memory: Memory, layout: Layout, site: int) -> list[int]:
    depth = min(word(memory, site + layout["hak_site_t.frame_count"], 4), DEPTH_MAX)
    numbers = np.frombuffer(memory.read(site + layout["hak_site_t.frame"], 4 * depth), "<u4")
    return return_addresses(memory, layout)[numbers].tolist()
