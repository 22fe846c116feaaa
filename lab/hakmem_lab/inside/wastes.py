"""The ten largest wastes of a reading, and what to do about each."""

from collections.abc import Iterator, Mapping

MOST = 10
LEAST_KIB = 4
LARGE_PART = 0.05  # of the RSS, from which on metadata is a waste worth a word


def largest(result: Mapping) -> list[dict]:
    rows = {row["owner"]: row["kib"] for row in result["rows"]}
    found = [*_of_classes(result), *_of_threads(result), *_of_rows(rows, result), *_outside(result)]
    kept = [row for row in found if row["kib"] >= LEAST_KIB]
    return sorted(kept, key=lambda row: -row["kib"])[:MOST]


def _waste(what: str, kib: int, remedy: str) -> dict:
    return {"what": what, "kib": kib, "remedy": remedy}


def _of_classes(result: Mapping) -> Iterator[dict]:
    for row in result["classes"]:
        size, pages = row["block_bytes"], row["free_pages_kib"]
        if size is None:
            continue
        all_blocks = row["live_blocks"] + row["cached_blocks"] + row["free_blocks"]
        share = 100 * row["live_blocks"] // max(all_blocks, 1)
        yield _waste(
            f"blocks of {size} bytes: whole pages of free blocks",
            pages,
            "hak_trim(0), or HAKMEM_PROFILE=lean, gives pages inside nearly empty slabs back",
        )
        yield _waste(
            f"blocks of {size} bytes: free beside live ones ({share} % live)",
            row["free_kib"] - pages,
            "hak profile shows who holds the live ones; blocks of one life, allocated together, leave whole pages free",
        )
        if row["rounding_kib"] > 0:
            yield _waste(
                f"blocks of {size} bytes: rounding of requests of {row['mean_asked']:.0f} bytes on average",
                row["rounding_kib"],
                f"ask for what the class below holds, or use all {size} bytes",
            )


def _of_threads(result: Mapping) -> Iterator[dict]:
    for row in result["threads"]:
        name = f" ({row['name']})" if row["name"] else ""
        yield _waste(
            f"thread {row['thread']}{name}: {row['cached_blocks']} cached blocks",
            row["cached_kib"],
            "hak_thread_flush() before it idles; HAKMEM_CACHE_CLASS_MAX limits what it may keep",
        )


def _of_rows(rows: Mapping[str, int], result: Mapping) -> Iterator[dict]:
    yield _waste(
        "free memory that waits for its decay",
        rows["waiting for decay"],
        "hak_trim(0) returns it now; HAKMEM_DECAY_MS, HAKMEM_RETAIN and HAKMEM_RETAIN_PERCENT keep less",
    )
    yield _waste(
        "pages that nobody wrote to, resident as parts of huge pages",
        rows["huge-page excess"],
        "HAKMEM_HUGE_PAGES=off, or echo madvise >/sys/kernel/mm/transparent_hugepage/enabled",
    )
    yield _waste(
        "blocks in the depot, on their way from thread to thread",
        rows["in the depot"],
        "hak_trim(0); what nobody takes goes back after HAKMEM_DECAY_MS",
    )
    if rows["metadata"] > LARGE_PART * result["rss_kib"]:
        yield _waste(
            "metadata", rows["metadata"], "it grows with the most that was ever in use, and stays; a restart frees it"
        )


def _outside(result: Mapping) -> Iterator[dict]:
    stacks = next(row["kib"] for row in result["rows"] if row["owner"] == "stacks")
    threads = max(len(result["threads"]), 1)
    if stacks // threads > 512:
        yield _waste(f"stacks, {stacks // threads} KiB a thread", stacks, "fewer threads, or less on their stacks")
    for row in result["others"][:3]:
        yield _waste(
            f"not the heap: {row['name']}",
            row["kib"],
            "mapped by the program itself, or by another allocator in it: hak doctor says which",
        )
