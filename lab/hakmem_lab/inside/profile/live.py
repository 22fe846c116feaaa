"""The profile of a process that runs: sampling is switched on where nobody has done it yet, and the table of call sites
is read from outside. One of its threads switches it on, since code without frame pointers can be followed only by what
a process has to load itself; where none can be asked, it is done through the memory of the process."""

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

import numpy as np

from hakmem_lab.errors import LabError
from hakmem_lab.inside import layout, owners
from hakmem_lab.inside.heap import Reader
from hakmem_lab.inside.layout import Layout
from hakmem_lab.inside.memory import Memory, Process, doubted, parse
from hakmem_lab.inside.objects import Heap
from hakmem_lab.inside.occupancy import CACHED, DEPOT, LIVE
from hakmem_lab.inside.owners import HEAP_OWNERS, Reading
from hakmem_lab.inside.profile import places
from hakmem_lab.inside.profile.model import ALLOC_SPACE, RESIDENT_SPACE, TYPES, UNKNOWN, HeapProfile, Stack

SITES_MAX, PIECES_MAX, DEPTH_MAX = 1 << 20, 1 << 20, 1 << 10
ROWS = {"[thread caches]": ("thread caches", "in the depot"), "[retained]": ("waiting for decay",),
        "[metadata]": ("metadata",), "[sampled blocks]": ("sampled blocks",)}  # fmt: skip
UNSEEN = "[not sampled]"
LIBGCC = 2  # of the option PROFILE_UNWIND


def take(pid: int, mean_bytes: int, seconds: float, start: Callable[[int, int], bool]) -> HeapProfile:
    """start: has a process sample by so many bytes; False: it cannot. Raises LabError where there is no such process,
    it is not for us, or it has no sampler."""
    with Process(pid) as memory:
        found = layout.find(memory)
        if "&hak_sites" not in found:
            raise LabError(f"{memory.name} has {found.path}, which has no heap profile: it is older than this hak")
        with doubted(memory.name, "process"), _sampling(memory, found, mean_bytes, start) as (mean, fresh, short):
            started = time.time_ns()
            if fresh:
                time.sleep(seconds)
            profile = _read(memory, found)
        if not profile.total(ALLOC_SPACE):
            since = f"in {seconds:g} s" if fresh else "yet"
            profile.missing = f"stacks are missing: it has allocated nothing that was sampled {since}"
        profile.period, profile.time_ns = mean, time.time_ns()
        profile.duration_ns = profile.time_ns - started if fresh else 0
        when = f"in {seconds:g} s" if fresh else "since the process began to sample"
        profile.comments = [f"hak profile {pid}: what was allocated {when}", *filter(None, [profile.missing, short])]
        profile.main = os.path.realpath(f"/proc/{pid}/exe")
        return profile


def snapshot(pid: int) -> HeapProfile | None:
    """Of one that samples, at this moment; None: it does not, or cannot be read."""
    with suppress(LabError, OSError), Process(pid) as memory:
        found = layout.find(memory)
        if "&hak_sites" in found and (mean := _request(memory, found)):
            with doubted(memory.name, "process"):
                profile = _read(memory, found)
            profile.period, profile.time_ns = mean, time.time_ns()
            profile.main = os.path.realpath(f"/proc/{pid}/exe")
            return profile
    return None


@contextmanager
def _sampling(
    memory: Process, found: Layout, mean_bytes: int, start: Callable[[int, int], bool]
) -> Iterator[tuple[int, bool, str]]:
    """(mean, whether it was switched on here, and is off again afterwards; why stacks may end early)."""
    before = _request(memory, found)
    if before:
        yield before, False, ""
        return
    short = ""
    try:
        with _unwinder(memory, found):
            started = start(memory.pid, mean_bytes)
    except LabError as error:
        started, short = False, f"stacks end where code has no frame pointers: {error}"
    if not started:
        _write(memory, found, mean_bytes)
    try:
        yield mean_bytes, True, short
    finally:
        if _request(memory, found) == mean_bytes:
            _write(memory, found, 0)


@contextmanager
def _unwinder(memory: Process, found: Layout) -> Iterator[None]:
    """Meanwhile the option says the one that needs no frame pointers, unless the program was told another."""
    setting = next((n for n, option in enumerate(found.options) if option.name == "PROFILE_UNWIND"), None)
    if setting is None or memory.read(found.root("hak_option_given") + setting, 1) != b"\0":
        yield
        return
    place = found.root("hak_option_values") + 8 * setting
    before = memory.read(place, 8)
    memory.write(place, LIBGCC.to_bytes(8, "little"))
    try:
        yield
    finally:
        memory.write(place, before)


def _word(memory: Memory, found: Layout) -> tuple[int, bool, int]:
    """Of the request: (its number, whether blocks are guarded, the mean; 0: no sampling)."""
    bits = found["HAK_SAMPLE_MEAN_BITS"]
    word = int.from_bytes(memory.read(found.root("hak_sample_request"), 8), "little")
    return word >> bits, bool(word >> (bits - 1) & 1), word & ((1 << bits - 1) - 1)


def _request(memory: Memory, found: Layout) -> int:
    return _word(memory, found)[2]


def _write(memory: Process, found: Layout, mean_bytes: int) -> None:
    """The request; and before one that begins, requests lead nowhere, so that each thread asks at its next. Where
    blocks are guarded each thread passes by soon, and the table stays as it is: nobody would put it right again."""
    bits, place = found["HAK_SAMPLE_MEAN_BITS"], found.root("hak_sample_request")
    number, guarded, _ = _word(memory, found)
    word = (number + 1) << bits & ((1 << 64) - 1) | guarded << bits - 1 | mean_bytes
    if mean_bytes and not guarded:
        memory.write(found.root("hak_class_codes"), bytes([found["HAK_BINS_AT"]]) * found["HAK_SMALL_STEPS"])
    memory.write(place, word.to_bytes(8, "little"))


# What the library knows


def _read(memory: Process, found: Layout) -> HeapProfile:
    profile = HeapProfile()
    frames = places.return_addresses(memory, found).tolist()
    known, stacks = places.places(memory, frames), dict[int, Stack]()
    for address, numbers, values in _sites(memory, found, len(frames)):
        stack: Stack = tuple(known[frames[each]] for each in numbers) or (UNKNOWN,)
        stacks[address] = stack
        profile.add(stack, values)
    heap = Reader(memory, found).read()
    reading = owners.read(memory, heap, parse(memory.text("smaps")))
    if not profile.total(ALLOC_SPACE):
        _add_in_use(profile, heap, reading)
    _add_resident(profile, memory, found, stacks, heap, reading)
    profile.copies = places.copies(memory)
    return profile


def _sites(memory: Memory, found: Layout, frame_count: int) -> Iterator[tuple[int, list[int], list[float]]]:
    """(address, numbers of frames, values) of each."""
    names = ("older", "objects", "bytes", "freed_objects", "freed_bytes")
    at = {name: found[f"hak_site_t.{name}"] for name in (*names, "frame_count", "frame")}
    object_parts, byte_parts = found["HAK_SITE_OBJECT_PARTS"], found["HAK_SITE_BYTE_PARTS"]
    latest = found.root("hak_sites") + found["hak_sites_t.latest"]
    site, seen = int.from_bytes(memory.read(latest, 8), "little"), 0
    while site and seen < SITES_MAX:
        head = memory.read(site, at["frame"])
        older, objects, size, freed_objects, freed_size = (
            int.from_bytes(head[at[name] : at[name] + 8], "little") for name in names
        )
        depth = int.from_bytes(head[at["frame_count"] : at["frame_count"] + 4], "little")
        numbers = (
            np.frombuffer(memory.read(site + at["frame"], 4 * min(depth, DEPTH_MAX)), "<u4")
            if depth
            else np.zeros(0, "<u4")
        )
        if all(each < frame_count for each in numbers):
            in_use = max(objects - freed_objects, 0) / object_parts, max(size - freed_size, 0) / byte_parts
            yield site, [int(each) for each in numbers], [objects / object_parts, size / byte_parts, *in_use, 0.0]
        site, seen = older, seen + 1


# What is resident


def _add_in_use(profile: HeapProfile, heap: Heap, reading: Reading) -> None:
    """What is live, by the size of its blocks, where no stack is known of any."""
    sizes = heap.layout.class_sizes
    rows = {cls: int(each.blocks[LIVE]) for cls, each in reading.classes.items()}
    rows |= {cls: blocks for cls, (blocks, _) in reading.run_blocks.items() if cls < len(sizes)}
    for cls, blocks in sorted(rows.items()):
        if blocks:
            profile.add((f"[blocks of {sizes[cls]:,} bytes]",), [0, 0, blocks, blocks * sizes[cls], 0])
    huge = heap.runs.cls >= len(sizes)
    if huge.any():
        row = [0, 0, int(huge.sum()), int(heap.runs.bytes[huge].sum()), 0]
        profile.add((f"[blocks above {sizes[-1]:,} bytes]",), row)


def _add_resident(
    profile: HeapProfile, memory: Process, found: Layout, stacks: Mapping[int, Stack], heap: Heap, reading: Reading
) -> None:
    """Each site's part of what is resident of the classes of its samples; the rest, and what is older than they are, in
    rows of their own, so that the sum is what is resident of the heap."""
    samples = _samples(memory, found)
    weights, left = samples["weight_bytes"], float(sum(reading.bytes[each] for each in HEAP_OWNERS))
    for cls in set(samples["cls"].tolist()):
        mine = samples["cls"] == cls
        resident, live = _held(cls, heap, reading)
        own = int(samples["bytes"][mine].sum()) if cls in reading.classes else 0  # which do not lie in the slabs
        share = resident / max(float(weights[mine].sum()), float(live + own), 1.0)
        for site, weight in zip(samples["site"][mine].tolist(), weights[mine].tolist(), strict=True):
            if site in stacks:
                profile.values[stacks[site]][RESIDENT_SPACE] += share * weight
                left -= share * weight
    rows = {name: float(sum(reading.bytes[each] for each in sources)) for name, sources in ROWS.items()}
    rows[UNSEEN] = max(left - sum(rows.values()), 0.0)
    for name, value in rows.items():
        profile.add((name,), [0.0] * (len(TYPES) - 1) + [value])


def _held(cls: int, heap: Heap, reading: Reading) -> tuple[int, int]:
    """Of a class: (bytes resident, but those that threads cache; bytes of its live blocks)."""
    if (each := reading.classes.get(cls)) is not None:
        resident = int(each.resident_in.sum() - each.bytes[CACHED] - each.bytes[DEPOT])
        return resident, int(each.blocks[LIVE]) * heap.layout.class_sizes[cls]
    resident, blocks = reading.runs.get(cls, (0, 0))[0], reading.run_blocks.get(cls, (0, 0))[0]
    huge = cls >= len(heap.layout.class_sizes)
    return resident, int(heap.runs.bytes[heap.runs.cls == cls].sum()) if huge else blocks * heap.layout.class_sizes[cls]


def _samples(memory: Memory, found: Layout) -> np.ndarray:
    """The records of live samples."""
    formats = {"bytes": "<u8", "weight_bytes": "<f8", "cls": "<u4", "site": "<u8", "live": "<u4"}
    dtype = np.dtype(
        {
            "names": list(formats),
            "formats": list(formats.values()),
            "offsets": [found[f"hak_sample_t.{name}"] for name in formats],
            "itemsize": found["size.hak_sample_t"],
        }
    )
    parts, count = [np.zeros(0, dtype)], found["HAK_RECORDS"]
    piece = int.from_bytes(memory.read(found.root("hak_records"), 8), "little")
    while piece and len(parts) < PIECES_MAX:
        data = memory.read(piece + found["hak_records_t.sample"], count * dtype.itemsize)
        parts.append(np.frombuffer(data, dtype))
        piece = int.from_bytes(memory.read(piece + found["hak_records_t.next"], 8), "little")
    rows = np.concatenate(parts)
    return rows[rows["live"] != 0]
