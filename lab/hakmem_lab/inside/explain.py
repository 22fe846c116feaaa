"""`hak explain`: one reading of a process or a core file, as an object that JSON can hold."""

import time
from collections import Counter
from collections.abc import Mapping
from contextlib import nullcontext
from datetime import UTC, datetime

import numpy as np

from hakmem_lab.inside import layout, owners, picture, smaps, wastes
from hakmem_lab.inside.core import Core
from hakmem_lab.inside.heap import Reader
from hakmem_lab.inside.layout import Layout
from hakmem_lab.inside.memory import Memory, Process, doubted
from hakmem_lab.inside.objects import Heap
from hakmem_lab.inside.occupancy import CACHED, FREE, LIVE, NEW, TRANSFER
from hakmem_lab.inside.owners import Reading, mean_asked
from hakmem_lab.inside.smaps import Area
from hakmem_lab.inside.stop import stopped

SCHEMA = "hakmem-explain 1"
KIB = 1024
COUNTED = ("used_slices", "dirty_slices", "mapped_slices")


def process(pid: int, stop: bool = False) -> dict:
    """Raises LabError where there is no such process, it is not for us, or it does not use the library."""
    with Process(pid) as memory:
        found = layout.find(memory)
        started = time.monotonic()
        # What follows the block is computed while the process goes on.
        with stopped(pid) if stop else nullcontext(), doubted(memory.name, "process"):
            reader = Reader(memory, found)
            before = reader.counters()
            mappings = memory.text("smaps")
            heap = reader.read()
            snapshot = owners.Snapshot(memory, heap)
            after, names = reader.counters(), memory.threads()
        held = time.monotonic() - started
        with doubted(memory.name, "process"):
            reading = owners.attribute(heap, smaps.parse(mappings), snapshot)
        result = _result(heap, reading, names)
        result |= {"pid": pid, "stopped": stop, "counters": _compared(found, before, after)}
        result |= {"seconds": round(time.monotonic() - started, 3), "held_seconds": round(held, 3)}
        return result


def core(file: Core) -> dict:
    """The same of a core file; its pages of zeros count as not resident."""
    found = layout.find(file)
    with doubted(file.name, "core"):
        heap = Reader(file, found).read()
        areas = [Area(each, _held(file, each.start, each.end)) for each in file.maps()]
        reading = owners.read(file, heap, areas)
    return _result(heap, reading, {}) | {"core": file.name, "stopped": True}


def _held(memory: Memory, start: int, end: int) -> int:
    return int(np.count_nonzero(memory.resident(start, end))) * memory.page


def _compared(found: Layout, before: Mapping[str, int], after: Mapping[str, int]) -> dict:
    """How far two readings of the counters differ, one before and one after everything else."""
    slice_kib = (1 << found["HAK_SLICE_SHIFT"]) // KIB
    kib = {name.replace("_slices", "_kib"): after[name] * slice_kib for name in (*COUNTED, "learned_slices")}
    kib["cached_kib"] = _signed(after["cached_bytes"]) // KIB
    differences = {name: (after[name] - before[name]) * slice_kib for name in COUNTED}
    return kib | {"difference_kib": max(abs(each) for each in differences.values())}


def _signed(word: int) -> int:
    """Of a counter that is added to and taken from modulo 2^64."""
    return word - (1 << 64) if word >> 63 else word


def _result(heap: Heap, reading: Reading, names: Mapping[int, str]) -> dict:
    rows = _rows(reading)
    classes = _classes(heap, reading)
    threads = _threads(heap, names)
    result = {
        "schema": SCHEMA,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "library": {"path": heap.layout.path, "version": heap.layout.version},
        "rss_kib": reading.rss // KIB,
        "sum_kib": sum(row["kib"] for row in rows),
        "rows": rows,
        "classes": classes,
        "class_sizes": [*heap.layout.class_sizes[1:]],
        "threads": threads,
        "others": [{"name": name, "kib": size // KIB} for name, size in reading.others.most_common(20) if size >= KIB],
        "unmatched_kib": reading.unmatched // KIB,
        "broken_lists": heap.broken,
        "map": picture.cells(heap, reading),
    }
    result["wastes"] = wastes.largest(result)
    return result


def _rows(reading: Reading) -> list[dict]:
    """Whole KiB that add up as the bytes do: who is left with the largest rest gets the next KiB."""
    sizes = {name: reading.bytes[name] for name in owners.OWNERS}
    whole = {name: size // KIB for name, size in sizes.items()}
    missing = sum(sizes.values()) // KIB - sum(whole.values())
    for name in sorted(sizes, key=lambda name: -(sizes[name] % KIB))[:missing]:
        whole[name] += 1
    kept = [name for name in owners.OWNERS if whole[name] or name not in owners.OPTIONAL]
    return [{"owner": name, "kib": whole[name]} for name in kept]


def _classes(heap: Heap, reading: Reading) -> list[dict]:
    means = mean_asked(heap.caches, len(heap.layout.class_sizes))
    sampled = Counter(sample.cls for sample in heap.samples.values() if sample.cls < heap.layout["HAK_RUN_FIRST"])
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
                "transfer_blocks": states[TRANSFER],
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
            row |= {"slabs": 0, "live_blocks": live, "cached_blocks": cached, "transfer_blocks": 0, "free_blocks": 0}
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
    found = []
    sizes = heap.layout.class_sizes
    for cache in heap.caches:
        if cache.busy:
            kept = sum(len(blocks) * sizes[cls] for cls, blocks in cache.blocks.items())
            blocks = sum(len(blocks) for blocks in cache.blocks.values())
            found.append(
                {
                    "thread": cache.thread,
                    "name": names.get(cache.thread),
                    "cached_kib": kept // KIB,
                    "cached_blocks": blocks,
                    "events": cache.events,
                }
            )
    return sorted(found, key=lambda row: -row["cached_kib"])
