"""Checks of the machine: what every program on it meets."""

import os
from collections.abc import Mapping
from pathlib import Path

from hakmem_lab.doctor.checks import NOTE, OK, PROBLEM, ROOT, UNKNOWN, Check, amount, kib, number, rows, text
from hakmem_lab.inside import links
from hakmem_lab.system.machine import chosen

HUGE = Path("sys/kernel/mm/transparent_hugepage")
MIDDLE = "hugepages-64kB"
KNOWN_PAGE_BYTES = 4096
DEFAULT_MAPPINGS = 65530
NEARLY = 0.9
STRICT = 2


def checks(env: Mapping[str, str], root: Path = ROOT, process: str = "self", mapped: int | None = None) -> list[Check]:
    """env: of the program, for its options; process: whose page size is read; mapped: how many mappings it has."""
    found = [page_size(root, process), huge_pages(env, root), middle_pages(env, root)]
    return [*found, overcommit(root), mappings(root, mapped)]


def auxiliary(path: Path) -> dict[int, int]:
    """What the kernel told the program at its start; empty where that is not for us."""
    try:
        data = path.read_bytes()
    except OSError:
        return {}
    return links.auxiliary(data)


def page_size(root: Path, process: str) -> Check:
    size = auxiliary(root / "proc" / process / "auxv").get(links.PAGE_SIZE) or os.sysconf("SC_PAGESIZE")
    if size == KNOWN_PAGE_BYTES:
        return Check("page size", OK, amount(size))
    found = f"{amount(size)}: read at the start, and every block of whole pages is rounded up to it"
    return Check("page size", NOTE, found, "compare resident memory before you rely on it: hak compare --metric rss")


def huge_pages(env: Mapping[str, str], root: Path) -> Check:
    name = "huge pages"
    mode = chosen(str(root / HUGE / "enabled"))
    dense = env.get("HAKMEM_HUGE_PAGES") == "dense"
    if mode == "always":
        found = "always: any heap may get pages of 2 MiB that it hardly uses; hakmem declines them up to 32 MiB"
        return Check(name, NOTE, found, f"echo madvise >/{HUGE}/enabled")
    if mode == "never" and dense:
        return Check(name, PROBLEM, "never: HAKMEM_HUGE_PAGES=dense has no effect", f"echo madvise >/{HUGE}/enabled")
    if mode in ("madvise", "never"):
        found = {"madvise": "madvise: pages of 2 MiB for who asks", "never": "never: no pages of 2 MiB"}[mode]
        return Check(name, OK, found + (", as HAKMEM_HUGE_PAGES=dense does" if dense else ""))
    return Check(name, UNKNOWN, "this system does not say whether there are pages of 2 MiB")


def middle_pages(env: Mapping[str, str], root: Path) -> Check:
    """Multi-size pages, of which hakmem asks for 64 KiB."""
    name = "multi-size pages"
    sizes = sorted((root / HUGE).glob("hugepages-*kB"), key=lambda path: int(path.name[10:-2]))
    if not any(path.name == MIDDLE for path in sizes):
        return Check(name, NOTE, "this kernel offers no pages of 64 KiB", "Linux 6.8 or newer has them")
    mode, above = text(root / HUGE / MIDDLE / "enabled") or "", chosen(str(root / HUGE / "enabled"))
    word = mode.partition("[")[2].partition("]")[0]
    if env.get("HAKMEM_HUGE_PAGES") == "off":
        return Check(name, OK, f"64 KiB: {word}; HAKMEM_HUGE_PAGES=off does not ask for them")
    if word in ("always", "madvise") or (word == "inherit" and above in ("always", "madvise")):
        return Check(name, OK, f"64 KiB: {word}, so that a heap beyond 8 MiB has most of its page faults saved")
    found = f"64 KiB: {word or 'unknown'}; with them a heap beyond 8 MiB has most of its page faults saved"
    return Check(name, NOTE, found, f"echo madvise >/{HUGE / MIDDLE}/enabled")


def overcommit(root: Path) -> Check:
    name = "overcommit"
    mode = number(root / "proc/sys/vm/overcommit_memory")
    if mode is None:
        return Check(name, UNKNOWN, "vm.overcommit_memory cannot be read")
    if mode != STRICT:
        return Check(name, OK, f"{mode}: memory is charged when it is touched")
    memory = rows(root / "proc/meminfo")
    limit, used = kib(memory.get("CommitLimit")), kib(memory.get("Committed_AS"))
    if limit is None or used is None:
        return Check(name, NOTE, "2: memory is charged when it is mapped", "sysctl vm.overcommit_memory=0")
    state = PROBLEM if used > NEARLY * limit else NOTE
    found = f"2: memory is charged when it is mapped; {amount(used)} of {amount(limit)} are"
    return Check(name, state, found, "sysctl vm.overcommit_memory=0, or vm.overcommit_ratio=90")


def mappings(root: Path, used: int | None) -> Check:
    name = "vm.max_map_count"
    most = number(root / "proc/sys/vm/max_map_count")
    if most is None:
        return Check(name, UNKNOWN, "vm.max_map_count cannot be read")
    remedy = "sysctl vm.max_map_count=1048576"
    has = f"{most:,} mappings a process at most" + ("" if used is None else f", it has {used:,}")
    if used is not None and used > NEARLY * most:
        return Check(name, PROBLEM, f"{has}: mmap will soon fail, and malloc return NULL", remedy)
    if most < DEFAULT_MAPPINGS:
        return Check(name, NOTE, f"{has}, fewer than Linux has by itself ({DEFAULT_MAPPINGS:,})", remedy)
    return Check(name, OK, has)
