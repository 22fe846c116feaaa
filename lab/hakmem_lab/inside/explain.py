"""`hak heap explain`: one reading of a process or a core file, as an object that JSON can hold. A number names a
process; a file is a core, or an earlier reading.

A reading contains the heap as cells of 64 KiB (the size of a slab), with their owner and how full they are; the changes
since another reading; and the ten largest wastes, with a remedy for each.
"""

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from hakmem_lab.errors import LabError, decoded, refused
from hakmem_lab.inside import blocks, layout, owners, regions, unserved
from hakmem_lab.inside.core import Core
from hakmem_lab.inside.heap import Reader
from hakmem_lab.inside.layout import Heap, Layout
from hakmem_lab.inside.memory import Area, Process, doubted, parse
from hakmem_lab.inside.owners import CACHED, DEPOT, FREE, LIVE, NEW, OWNERS, Reading, mean_asked
from hakmem_lab.inside.ptrace import stopped

CHUNKS_MAX = 4096  # 8 GiB; the rest of a larger heap is not shown
# Letters of the cells. '0' to '9': slabs, by the live share of the blocks that were ever handed out. The others:
NOBODY, RUN, HUGE, DIRTY, CLEAN, SAMPLED, OTHER, REGION = ".rhd-sog"
LETTERS = {layout.RUN: RUN, layout.HUGE: HUGE, layout.DIRTY: DIRTY, layout.CLEAN: CLEAN}
LETTERS |= {layout.SAMPLED: SAMPLED, layout.UNKNOWN: OTHER, layout.REGION: REGION}


def cells(heap: Heap, reading: Reading) -> list[dict]:
    """One row for each chunk: its address, and a letter for each 64 KiB."""
    layout, chunks = heap.layout, heap.chunks
    per_chunk = 1 << layout["HAK_CHUNK_SHIFT"] - layout["HAK_SLAB_SHIFT"]
    shares: dict[int, int] = {}
    for each in reading.classes.values():
        bases, carved = heap.slabs.base[each.slabs].tolist(), np.maximum(heap.slabs.carved[each.slabs], 1)
        shares |= dict(zip(bases, np.minimum(each.live_in * 10 // carved, 9).tolist(), strict=True))
    found = []
    order = np.argsort(chunks.base)[:CHUNKS_MAX]
    for i in order.tolist():
        base = int(chunks.base[i])
        if chunks.state[i] == layout["HAK_CHUNK_SLICED"]:
            kinds = chunks.slices[i].reshape(per_chunk, -1).max(axis=1).tolist()
            each_base = (base + (j << layout["HAK_SLAB_SHIFT"]) for j in range(per_chunk))
            row = "".join(
                str(shares[at]) if at in shares else LETTERS.get(kind, NOBODY)
                for at, kind in zip(each_base, kinds, strict=True)
            )
            found.append({"base": hex(base), "chunks": 1, "cells": row})
        else:
            huge = chunks.state[i] == layout["HAK_CHUNK_HUGE"]
            letter = HUGE if huge else DIRTY if chunks.dirty[i] else CLEAN
            found.append({"base": hex(base), "chunks": int(chunks.count[i]), "cells": letter * per_chunk})
    return found


SCHEMA = "hakmem-explain 3"
KIB = 1024
COUNTED = ("used_slices", "dirty_slices", "mapped_slices")
PAIRS = ("ghosts", "most_used")  # counters with two values: of this window, and of the one before


def process(pid: int, stop: bool = False) -> dict:
    """Read a process. If another allocator serves it, only its mappings are known, and there are no counters.
    Raises LabError if it does not exist, or may not be read."""
    with Process(pid) as memory:
        try:
            found = layout.find(memory)
        except layout.NotServed:
            return {"schema": SCHEMA, "time": _now()} | unserved.reading(memory)
        started = time.monotonic()
        # After this block the process runs again; the rest is computed from what was read.
        with stopped(pid) if stop else nullcontext(), doubted(memory.name, "process"):
            reader = Reader(memory, found)
            before = reader.counters()
            mappings = memory.text("smaps")
            heap = reader.read()
            snapshot = owners.Snapshot(memory, heap)
            after, names = reader.counters(), memory.threads()
        held = time.monotonic() - started
        with doubted(memory.name, "process"):
            reading = owners.attribute(heap, parse(mappings), snapshot)
        result = _result(heap, reading, names)
        result |= {"pid": pid, "stopped": stop, "counters": _compared(found, before, after)}
        result |= {"seconds": round(time.monotonic() - started, 3), "held_seconds": round(held, 3)}
        return result


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def core(file: Core) -> dict:
    """Read a core file; its pages of zeros count as not resident."""
    found = layout.find(file)
    with doubted(file.name, "core"):
        heap = Reader(file, found).read()
        pages = ((each, int(np.count_nonzero(file.resident(each.start, each.end)))) for each in file.maps())
        areas = [Area(each, count * file.page) for each, count in pages]
        reading = owners.read(file, heap, areas)
    return _result(heap, reading, {}) | {"core": file.name, "stopped": True}


def _compared(found: Layout, before: Mapping[str, int], after: Mapping[str, int]) -> dict:
    """The counters in KiB, and how much they changed during the reading."""
    slice_kib = (1 << found["HAK_SLICE_SHIFT"]) // KIB
    kib = {name.replace("_slices", "_kib"): after[name] * slice_kib for name in COUNTED}
    kib |= {f"{name}_kib": slices * slice_kib for name, slices in _retention(after).items()}
    differences = {name: (after[name] - before[name]) * slice_kib for name in COUNTED}
    return kib | {"difference_kib": max(abs(each) for each in differences.values())}


def _retention(counters: Mapping[str, int]) -> dict[str, int]:
    """The counters that decide how much free memory stays resident, in slices; src/pages/retain.c explains them."""
    pairs = {name: (counters[f"retention.{name}[0]"], counters[f"retention.{name}[1]"]) for name in PAIRS}
    balance = counters["retention.balance"]
    return {
        "balance": balance - (1 << 64) if balance >> 63 else balance,
        "idle": counters["retention.idle"],
        "ghosts": sum(pairs["ghosts"]),
        "peak": max(pairs["most_used"]),
    }


def _result(heap: Heap, reading: Reading, names: Mapping[int, str]) -> dict:
    rows = _rows(reading)
    classes = _classes(heap, reading)
    threads = _threads(heap, names)
    named, left_out = regions.rows(heap.regions, reading.regions)
    result = {
        "schema": SCHEMA,
        "time": _now(),
        "library": {"path": heap.layout.path, "version": heap.layout.version},
        "rss_kib": reading.rss // KIB,
        "sum_kib": sum(row["kib"] for row in rows),
        "rows": rows,
        "classes": classes,
        "class_sizes": [*heap.layout.class_sizes[1:]],
        "threads": threads,
        "regions": named,
        "regions_left_out": left_out,
        "others": [{"name": name, "kib": size // KIB} for name, size in reading.others.most_common(20) if size >= KIB],
        "unmatched_kib": reading.unmatched // KIB,
        "broken": heap.broken,
        "map": cells(heap, reading),
    }
    result["wastes"] = largest(result)
    return result


def _rows(reading: Reading) -> list[dict]:
    """Whole KiB that add up to the sum of the bytes: the owners with the largest remainders are rounded up."""
    sizes = {name: reading.bytes[name] for name in owners.OWNERS}
    whole = {name: size // KIB for name, size in sizes.items()}
    missing = sum(sizes.values()) // KIB - sum(whole.values())
    for name in sorted(sizes, key=lambda name: -(sizes[name] % KIB))[:missing]:
        whole[name] += 1
    kept = [name for name in owners.OWNERS if whole[name] or name not in owners.OPTIONAL]
    return [{"owner": name, "kib": whole[name]} for name in kept]


def _classes(heap: Heap, reading: Reading) -> list[dict]:
    means = mean_asked(heap.caches, len(heap.layout.class_sizes))
    sampled = Counter(sample.cls for sample in heap.samples.values() if 0 < sample.cls < heap.layout["HAK_RUN_FIRST"])
    found = []
    for cls in sorted({*reading.classes, *reading.runs, *sampled}):
        huge = cls >= len(heap.layout.class_sizes)
        each = reading.classes.get(cls)
        row: dict = {"block_bytes": None if huge else heap.layout.class_sizes[cls]}
        if each is not None:
            states, sizes = each.blocks.tolist(), each.bytes.tolist()
            row |= {
                "slabs": len(each.slabs),
                "live_blocks": states[LIVE] + sampled[cls],
                "cached_blocks": states[CACHED],
                "depot_blocks": states[DEPOT],
                "free_blocks": states[FREE],
                "new_blocks": states[NEW],
                "live_kib": sizes[LIVE] // KIB,
                "free_kib": (sizes[FREE] + sizes[NEW] - each.untouched) // KIB,
                "free_pages_kib": each.free_pages // KIB,
                "resident_kib": int(each.resident_in.sum()) // KIB,
            }
        else:
            live, cached = reading.run_blocks.get(cls, (sampled[cls], 0))
            sizes = reading.runs.get(cls, (0, 0))
            row |= {"slabs": 0, "live_blocks": live, "cached_blocks": cached, "depot_blocks": 0, "free_blocks": 0}
            row |= {"new_blocks": 0, "live_kib": sizes[0] // KIB, "free_kib": 0, "free_pages_kib": 0}
            row |= {"resident_kib": sum(sizes) // KIB}
        usable = int(heap.runs.bytes[heap.runs.cls == cls].sum()) if huge else row["live_blocks"] * row["block_bytes"]
        row["live_bytes"] = usable
        mean = 0.0 if huge else float(means[cls])
        size = row["block_bytes"] or 0
        asked = row["live_kib"] * min(1.0, mean / size) if mean and size else float(row["live_kib"])
        found.append(row | {"mean_asked": round(mean, 1) or None, "rounding_kib": row["live_kib"] - round(asked)})
    return found


def _threads(heap: Heap, names: Mapping[int, str]) -> list[dict]:
    found, sizes = [], heap.layout.class_sizes
    for cache in (each for each in heap.caches if each.busy or each.blocks):
        kept = sum(len(blocks) * sizes[cls] for cls, blocks in cache.blocks.items())
        name = names.get(cache.thread) if cache.busy else "ended"
        row: dict = {"thread": cache.thread, "name": name, "cached_kib": kept // KIB}
        row |= {"cached_blocks": sum(map(len, cache.blocks.values())), "events": cache.events}
        found.append(row)
    return sorted(found, key=lambda row: -row["cached_kib"])


def between(before: Mapping, after: Mapping) -> dict:
    """The change of each row and class between two readings."""
    earlier = Counter({row["owner"]: row["kib"] for row in before["rows"]})
    later = Counter({row["owner"]: row["kib"] for row in after["rows"]})
    names = [name for name in OWNERS if name in earlier or name in later]
    rows = [{"owner": n, "before_kib": earlier[n], "kib": later[n], "change_kib": later[n] - earlier[n]} for n in names]
    return {
        "since": before["time"],
        "rss_change_kib": after["rss_kib"] - before["rss_kib"],
        "rows": rows,
        "classes": _changed_classes(before["classes"], after["classes"]),
    }


def _changed_classes(before: Sequence[Mapping], after: Sequence[Mapping]) -> list[dict]:
    was = {row["block_bytes"]: row for row in before}
    now = {row["block_bytes"]: row for row in after}
    found = []
    for size in sorted({*was, *now}, key=lambda size: size or 1 << 62):
        change = {"block_bytes": size}
        for name in ("live_blocks", "live_kib", "free_kib", "resident_kib"):
            change[name] = now.get(size, {}).get(name, 0) - was.get(size, {}).get(name, 0)
        if any(change[name] for name in change if name != "block_bytes"):
            found.append(change)
    return sorted(found, key=lambda row: -abs(row["resident_kib"]))


Waste = tuple[str, int, str]  # what it is, KiB, what to do about it
MOST = 10
LEAST_KIB = 4
LARGE_PART = 0.05  # share of the RSS above which metadata is reported as a waste
# Remedies for wastes of classes, of threads, and outside the heap. OF_OWNERS: owner -> (description, remedy).
WHOLE_PAGES = "hak_trim(0), or HAKMEM_PROFILE=lean, gives pages inside nearly empty slabs back"
BESIDE_LIVE = (
    "hak heap profile shows whose blocks are live; blocks of one lifetime, allocated together, leave whole pages free"
)
CACHED_BLOCKS = "hak_thread_flush() before the thread idles; HAKMEM_CACHE_CLASS_MAX limits what a thread keeps"
OF_REGION = "hak_region_destroy gives all back; hak_region_reset keeps the pages of small blocks for the next ones"
NOT_THE_HEAP = "mapped by the program itself, or by another allocator in it: hak doctor says which"
OF_OWNERS = {
    "waiting for decay": ("free memory that waits for its decay", "hak_trim(0) returns it now; HAKMEM_DECAY_MS, "
                          "HAKMEM_RETAIN and HAKMEM_RETAIN_MAX keep less"),
    "huge-page excess": ("pages that nobody wrote to, resident as parts of huge pages",
                         "HAKMEM_HUGE_PAGES=off, or echo madvise >/sys/kernel/mm/transparent_hugepage/enabled"),
    "in the depot": ("blocks in the depot, on their way from thread to thread",
                     "hak_trim(0); what nobody takes goes back after HAKMEM_DECAY_MS"),
    "metadata": ("metadata", "metadata grows with the maximum ever in use, and stays; a restart frees it"),
}  # fmt: skip


def largest(result: Mapping) -> list[dict]:
    found = [*_of_classes(result), *_of_threads(result), *_of_regions(result), *_of_rows(result), *_outside(result)]
    kept: list[dict] = [{"what": what, "kib": kib, "remedy": remedy} for what, kib, remedy in found if kib >= LEAST_KIB]
    return sorted(kept, key=lambda row: -row["kib"])[:MOST]


def _of_classes(result: Mapping) -> Iterator[Waste]:
    for row in result["classes"]:
        size, pages = row["block_bytes"], row["free_pages_kib"]
        if size is None:
            continue
        all_blocks = row["live_blocks"] + row["cached_blocks"] + row["free_blocks"]
        share = 100 * row["live_blocks"] // max(all_blocks, 1)
        yield f"blocks of {size} bytes: whole pages of free blocks", pages, WHOLE_PAGES
        yield f"blocks of {size} bytes: free beside live ones ({share} % live)", row["free_kib"] - pages, BESIDE_LIVE
        if row["rounding_kib"] > 0:
            asked = f"requests of {row['mean_asked']:.0f} bytes on average"
            remedy = f"ask for what the class below holds, or use all {size} bytes"
            yield f"blocks of {size} bytes: rounding of {asked}", row["rounding_kib"], remedy


def _of_threads(result: Mapping) -> Iterator[Waste]:
    for row in result["threads"]:
        name = f" ({row['name']})" if row["name"] else ""
        yield f"thread {row['thread']}{name}: {row['cached_blocks']} cached blocks", row["cached_kib"], CACHED_BLOCKS


def _of_regions(result: Mapping) -> Iterator[Waste]:
    for row in result["regions"]:
        free = row["resident_kib"] - row["live_bytes"] // KIB
        yield f"region {row['name'] or 'without a name'}: free beside live blocks", free, OF_REGION


def _of_rows(result: Mapping) -> Iterator[Waste]:
    rows = {row["owner"]: row["kib"] for row in result["rows"]}
    for owner, (what, remedy) in OF_OWNERS.items():
        if owner != "metadata" or rows[owner] > LARGE_PART * result["rss_kib"]:
            yield what, rows[owner], remedy


def _outside(result: Mapping) -> Iterator[Waste]:
    stacks = next(row["kib"] for row in result["rows"] if row["owner"] == "stacks")
    threads = max(len(result["threads"]), 1)
    if stacks // threads > 512:
        yield (f"stacks, {stacks // threads} KiB a thread", stacks, "fewer threads, or less on their stacks")
    for row in result["others"][:3]:
        yield f"not the heap: {row['name']}", row["kib"], NOT_THE_HEAP


def name_allocators(result: dict, found: Mapping[str, str]) -> None:
    """Adds what the memory outside of the heap most likely is. found: library -> the allocator inside it."""
    if not found:
        return
    result["allocators"] = [{"library": library, "allocator": name} for library, name in found.items()]
    kib = next(row["kib"] for row in result["rows"] if row["owner"] == owners.ANONYMOUS)
    named = " and ".join(f"{name} in {library}" for library, name in found.items())
    share = f"{100 * kib / max(result['rss_kib'], 1):.0f} % of what is resident"
    result["inside"] = f"{named}: {kib // KIB:,} MiB at most, {share}"
    for row in result["wastes"]:
        if row["remedy"] == NOT_THE_HEAP:
            row["remedy"] = f"most likely of {named}, which no preloaded allocator serves"


FIRST_BYTES = 64


def take(subject: str, stop: bool = False) -> dict:
    if subject.isdecimal():
        return process(int(subject), stop)
    path = _file(subject, stop)
    with refused(f"{path} cannot be read"), open(path, "rb") as opened:
        is_json = opened.read(FIRST_BYTES).lstrip().startswith(b"{")
    if is_json:
        return load(path, "PID | CORE")
    with Core(path) as file:
        return core(file)


def block(subject: str, address: str, stop: bool = False) -> dict:
    try:
        place = int(address, 16 if address.lower().startswith("0x") else 10)
    except ValueError:
        raise LabError(f"--block: '{address}' is no address: give one like 0x7f0012345670") from None
    if not 0 <= place < 1 << 64:
        raise LabError(f"--block: {address} is beyond all addresses")
    if subject.isdecimal():
        with Process(int(subject)) as memory:
            try:
                found = layout.find(memory)
            except layout.NotServed:
                return unserved.at(memory, place)
            return blocks.at(memory, found, place, stop)
    with Core(_file(subject, stop)) as file:
        return blocks.at(file, layout.find(file), place, stop)


def _file(subject: str, stop: bool) -> Path:
    path = Path(subject)
    if not path.is_file():
        raise LabError(f"there is no process and no file '{subject}': give a number that ps -e lists, or a core file")
    if stop:
        raise LabError(f"--stop is for a process, but {subject} is a file")
    return path


def load(path: Path, option: str) -> dict:
    """A reading that --json wrote. Raises LabError if the file is not such a reading."""
    try:
        with refused(f"{option}: {path} cannot be read"):
            found = decoded(json.loads, path.read_text(encoding="utf-8"))
    except ValueError:
        raise LabError(f"{option}: {path} is no JSON: write one with hak heap explain --json FILE PID") from None
    if not isinstance(found, Mapping) or found.get("schema") != SCHEMA:
        raise LabError(
            f"{option}: {path} is no reading of this version: write one with hak heap explain --json FILE PID"
        )
    return dict(found)
