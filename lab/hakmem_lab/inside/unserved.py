"""A process that another allocator serves: its resident memory by kind of mapping, and the mapping of an address.

The rows have the names of a reading of hakmem, so that two readings can be compared.
"""

import time
from collections import Counter

from hakmem_lab.inside import owners
from hakmem_lab.inside.memory import Process, parse, total

ROWS = ("stacks", "code", "files", owners.ANONYMOUS)
KIB = 1024
OTHER = "another allocator serves it: hak heap profile {} shows which code holds its blocks"


def at(memory: Process, address: int) -> dict:
    """What `hak heap explain --block` says of an address: its mapping, since the blocks in it are not known."""
    found = (area for area in parse(memory.text("smaps")) if area.mapping.start <= address < area.mapping.end)
    if (area := next(found, None)) is None:
        return {"address": hex(address), "what": "in no mapping of the process"}
    each = area.mapping
    sizes = f"{area.rss // KIB:,} of {(each.end - each.start) // KIB:,} KiB resident"
    what = f"in {each.path or 'anonymous memory'} at {each.start:#x}, {each.permissions}, {sizes}"
    return {"address": hex(address), "what": f"{what}; {OTHER.format(memory.pid)}"}


def reading(memory: Process) -> dict:
    """The parts of a result of `hak heap explain` that are known without a heap of hakmem."""
    started = time.monotonic()
    areas, pointers, programs = parse(memory.text("smaps")), sorted(memory.stack_pointers()), memory.programs()
    sizes, others, before = Counter[str](), Counter[str](), None
    for area in areas:
        owner = owners.owner(area.mapping, before, pointers, programs)
        sizes[owner] += area.rss
        if owner == owners.ANONYMOUS:
            others[area.mapping.path or "[anon]"] += area.rss
        before = area.mapping
    rows = [{"owner": name, "kib": sizes[name] // KIB} for name in ROWS]
    return {
        "served": False,
        "library": None,
        "rss_kib": total(areas) // KIB,
        "sum_kib": sum(sizes.values()) // KIB,
        "rows": rows,
        "classes": [],
        "class_sizes": [],
        "threads": [],
        "regions": [],
        "regions_left_out": 0,
        "others": [{"name": name, "kib": size // KIB} for name, size in others.most_common(20) if size >= KIB],
        "unmatched_kib": 0,
        "broken": 0,
        "map": [],
        "wastes": [],
        "pid": memory.pid,
        "stopped": False,
        "seconds": round(time.monotonic() - started, 3),
    }
