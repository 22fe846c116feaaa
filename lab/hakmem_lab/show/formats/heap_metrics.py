"""A reading of a heap as OpenMetrics text, in the words of hak_stats_openmetrics; what is resident is measured."""

from collections.abc import Iterator, Mapping

from hakmem_lab.inside.owners import HEAP_OWNERS
from hakmem_lab.show.formats.openmetrics import escaped

CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
KIB = 1024
STATES = {"live": ("live_blocks",), "cached": ("cached_blocks", "depot_blocks"), "free": ("free_blocks",)}
# name -> (help, value of a reading)
GAUGES = {
    "allocated": ("In blocks that are handed out, as large as their class.", "_allocated"),
    "active": ("In slabs and blocks, with all their free space.", "used_kib"),
    "dirty": ("Free, and perhaps resident: what may go back to the system.", "dirty_kib"),
    "metadata": ("Resident, of the allocator's own objects.", "metadata"),
    "resident": ("Resident, of the heap: measured.", "_resident"),
    "mapped": ("Mapped for blocks.", "mapped_kib"),
    "retained": ("Mapped, free and given back: address space only.", "_retained"),
}


def text(result: Mapping) -> str:
    return "".join([*_gauges(result), *_owners(result), *_sizes(result), *_threads(result), "# EOF\n"])


def _head(name: str, unit: str, kind: str, words: str) -> str:
    full = f"hakmem_{name}_{unit}" if unit else f"hakmem_{name}"
    return f"# TYPE {full} {kind}\n" + (f"# UNIT {full} {unit}\n" if unit else "") + f"# HELP {full} {words}\n"


def _gauges(result: Mapping) -> Iterator[str]:
    rows = {row["owner"]: row["kib"] * KIB for row in result["rows"]}
    counters = {name: kib * KIB for name, kib in result["counters"].items()}
    values = rows | counters
    values["_allocated"] = sum(row["live_bytes"] for row in result["classes"])
    values["_resident"] = sum(rows.get(owner, 0) for owner in HEAP_OWNERS)
    values["_retained"] = max(counters["mapped_kib"] - counters["used_kib"] - counters["dirty_kib"], 0)
    for name, (words, key) in GAUGES.items():
        yield _head(name, "bytes", "gauge", words) + f"hakmem_{name}_bytes {values[key]}\n"
    yield (
        _head("rss", "bytes", "gauge", "Resident, of the whole process.")
        + f"hakmem_rss_bytes {result['rss_kib'] * KIB}\n"
    )


def _owners(result: Mapping) -> Iterator[str]:
    yield _head("owner_resident", "bytes", "gauge", "Resident memory by owner; the sum is that of the process.")
    for row in result["rows"]:
        yield f'hakmem_owner_resident_bytes{{owner="{escaped(row["owner"])}"}} {row["kib"] * KIB}\n'


def _sizes(result: Mapping) -> Iterator[str]:
    """One histogram a state; every class has its bucket, so that they are the same at each scrape."""
    rows = {row["block_bytes"]: row for row in result["classes"]}
    yield _head("block_size", "bytes", "gaugehistogram", "Blocks by size: handed out, in caches, free in slabs.")
    for state, names in STATES.items():
        count = size = 0
        for bytes_ in (*result["class_sizes"], None):
            row = rows.get(bytes_, {})
            blocks = sum(row.get(name, 0) for name in names)
            count += blocks
            if bytes_:
                size += blocks * bytes_
                yield f'hakmem_block_size_bytes_bucket{{state="{state}",le="{bytes_}.0"}} {count}\n'
            elif state == "live":
                size += row.get("live_bytes", 0)
        yield f'hakmem_block_size_bytes_bucket{{state="{state}",le="+Inf"}} {count}\n'
        yield f'hakmem_block_size_bytes_gcount{{state="{state}"}} {count}\n'
        yield f'hakmem_block_size_bytes_gsum{{state="{state}"}} {size}\n'


def _threads(result: Mapping) -> Iterator[str]:
    yield _head("threads", "", "gauge", "Threads that have a cache.") + f"hakmem_threads {len(result['threads'])}\n"
