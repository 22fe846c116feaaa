"""Checks of a program's surroundings. Of a process: limits, control groups, filters of system calls, and the right to
read its memory. Of the machine: page sizes, overcommit and mappings, which affect every program.

A command inherits the former from this process, so `self` is examined for a command that was not started yet.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path

from hakmem_lab.doctor import KIB, NOTE, OK, PROBLEM, ROOT, UNKNOWN, Check, amount, count, kib
from hakmem_lab.inside import links
from hakmem_lab.system import usage
from hakmem_lab.system.files import number, rows, text
from hakmem_lab.system.machine import chosen

MIB = KIB * KIB
# The memory that even a small program needs.
LEAST_DATA = 512 * KIB
NEARLY = 0.9
# (line of /proc/PID/limits, its name here, what is used of it, the flag of prlimit)
LIMITS = (("Max address space", "address space", "VmSize", "--as"), ("Max data size", "data", "VmData", "--data"))
UNLIMITED_V1 = 1 << 60
# Names in the control group's path of a process that runs in a container.
CONTAINER_WORDS = ("docker", "kubepods", "libpod", "lxc", "containerd", "crio")
CONTAINER_FILES = (".dockerenv", "run/.containerenv")
PTRACE = 19  # the number of the capability
NEEDED_CALLS = "mmap munmap mremap mprotect madvise futex write"


def of_process(root: Path = ROOT, process: str = "self") -> list[Check]:
    folder = root / "proc" / process
    status = rows(folder / "status")
    return [limits(folder, status, process), memory_group(root, process), seccomp(status), thp(folder, status)]


def _soft(folder: Path) -> dict[str, int | None] | None:
    """Limit -> bytes, None for no limit; None instead of the dict if the file may not be read."""
    lines = text(folder / "limits")
    if lines is None:
        return None
    words = {title: re.search(rf"^{title} +(\S+)", lines, re.M) for title, *_ in LIMITS}
    return {title: int(word[1]) if word and word[1].isdecimal() else None for title, word in words.items()}


def limits(folder: Path, status: dict[str, str], process: str) -> Check:
    name, soft = "limits", _soft(folder)
    if soft is None:
        return Check(name, UNKNOWN, "its limits cannot be read")
    parts, state, flags = [], OK, []
    for title, shown, row, flag in LIMITS:
        limit = soft.get(title)
        used = kib(status.get(row)) if process != "self" else None
        if limit is None:
            continue
        parts.append(f"{shown} {amount(limit)}" + ("" if used is None else f", {amount(used)} used"))
        flags.append(flag)
        short = limit < LEAST_DATA or (used is not None and used > NEARLY * limit)
        state = PROBLEM if short or state == PROBLEM else NOTE
    if not parts:
        return Check(name, OK, "address space and data unlimited")
    found = f"{'; '.join(parts)}: beyond, malloc returns NULL"
    lift = f"prlimit --pid {process} {' '.join(f'{flag}=unlimited' for flag in flags)}"
    return Check(name, state, found, "ulimit -v unlimited -d unlimited" if process == "self" else lift)


def _folder(root: Path, process: str) -> tuple[Path, Path, int] | None:
    """(folder, mount point of its hierarchy, version) of the control group that limits memory."""
    proc = root / "proc"
    own = usage.own_folders(proc / "self", proc / process)
    for name, version in (("memory", 1), ("", 2)):
        if name in own:
            folder, mount = (root / os.path.normpath(path).lstrip("/") for path in own[name])
            # A group outside of the mounted hierarchy cannot be read.
            if folder == mount or mount in folder.parents:
                return folder, mount, version
    return None


def memory_group(root: Path, process: str) -> Check:
    name = "cgroup memory"
    try:
        found = _folder(root, process)
    except (ValueError, IndexError):  # an unknown format, of another kernel version
        found = None
    if found is None:
        return Check(name, UNKNOWN, "its control group is not mounted here")
    folder, mount, version = found
    limit, slowed, used, kills = _version_1(folder) if version == 1 else _version_2(folder, mount)
    told = f"; the kernel has ended programs here for want of memory: {kills:,}" if kills else ""
    if limit is None and slowed is None:
        return Check(name, NOTE if kills else OK, f"no limit{told}")
    bound = min(bound for bound in (limit, slowed) if bound is not None)
    consequence = "the kernel ends it" if bound == limit else "the kernel slows it down"
    has = f"{amount(used)} of {amount(bound)} used" if used is not None else amount(bound)
    state = PROBLEM if used is not None and used > NEARLY * bound else NOTE
    remedy = f"HAKMEM_PROFILE=lean; or HAKMEM_MEMORY_LIMIT={int(NEARLY * bound) // MIB}M, where malloc returns NULL"
    return Check(name, state, f"{has}; beyond, {consequence}{told}", remedy)


def _version_1(folder: Path) -> tuple[int | None, int | None, int | None, int]:
    """(limit, threshold of throttling, in use, processes killed); the limit is the lowest of the group's ancestors."""
    stat = rows(folder / "memory.stat").get("hierarchical_memory_limit", "")
    limit = int(stat) if stat.isdecimal() else number(folder / "memory.limit_in_bytes")
    kills = rows(folder / "memory.oom_control").get("oom_kill", "0")
    bounded = limit is not None and limit < UNLIMITED_V1
    return limit if bounded else None, None, number(folder / "memory.usage_in_bytes"), _whole(kills)


def _version_2(folder: Path, mount: Path) -> tuple[int | None, int | None, int | None, int]:
    groups = [group for group in (folder, *folder.parents) if group == mount or mount in group.parents]
    least = {}
    for file in ("memory.max", "memory.high"):
        bounds = [bound for group in groups if (bound := number(group / file)) is not None]
        least[file] = min(bounds, default=None)
    kills = rows(folder / "memory.events").get("oom_kill", "0")
    return least["memory.max"], least["memory.high"], number(folder / "memory.current"), _whole(kills)


def _whole(word: str) -> int:
    return int(word) if word.isdecimal() else 0


def seccomp(status: dict[str, str]) -> Check:
    name, mode = "seccomp", status.get("Seccomp")
    more = "; no new privileges, so that setuid bits have no effect" if status.get("NoNewPrivs") == "1" else ""
    if mode is None:
        return Check(name, UNKNOWN, "the kernel does not say whether system calls are filtered")
    if mode == "0":
        return Check(name, OK, f"no filter of system calls{more}")
    if mode == "1":
        found = "strict: read, write and exit alone, so that a heap cannot grow"
        return Check(name, PROBLEM, found, "begin strict mode after memory was allocated, or use a filter")
    filters = count(_whole(status.get("Seccomp_filters", "1")) or 1, "filter")
    found = f"{filters} of system calls, which cannot be read from outside{more}"
    return Check(name, NOTE, found, f"the filter must allow: {NEEDED_CALLS}")


def thp(folder: Path, status: dict[str, str]) -> Check:
    """Whether the process has switched huge pages off for itself and its children."""
    has = kib(rows(folder / "smaps_rollup").get("AnonHugePages")) if folder.name != "self" else None
    if status.get("THP_enabled") == "0":
        found = "prctl(PR_SET_THP_DISABLE) has switched huge pages off, those of 64 KiB too"
        return Check("huge pages here", NOTE, found, "start it without that prctl; a parent may have called it")
    now = "" if has is None else f"; {amount(has)} are in pages of 2 MiB"
    return Check("huge pages here", OK, f"not switched off for this process{now}")


def container(root: Path, process: str) -> bool:
    """Whether there are signs of a container. A container may also show none."""
    groups = text(root / "proc" / process / "cgroup") or ""
    known = any((root / name).exists() for name in CONTAINER_FILES) if process == "self" else False
    return known or any(word in groups for word in CONTAINER_WORDS)


def inspection(root: Path = ROOT, process: str = "self", refused: str | None = None) -> Check:
    """May another process read its memory, as debuggers and profilers do? refused: why our own attempt failed."""
    name = "inspection"
    own = rows(root / "proc/self/status").get("CapEff", "0")
    capable = bool(int(own, 16) >> PTRACE & 1)
    scope = number(root / "proc/sys/kernel/yama/ptrace_scope") or 0
    where = "in a container without ptrace: " if container(root, process) and not capable else ""
    give = "docker run --cap-add SYS_PTRACE" if where else "be root"
    if process != "self" and refused is None:
        return Check(name, OK, "its memory can be read from outside")
    if refused is not None:
        return Check(name, NOTE, f"{where}its memory cannot be read from outside: {refused}", give)
    if scope == 0 or (capable and scope < 3):
        how = "by root" if capable and scope else "by its own user"
        return Check(name, NOTE if where else OK, f"{where}its memory can be read {how}", give if where else None)
    who = {1: "by its parents alone", 2: "by root alone"}.get(scope, "by nobody until the next start of the machine")
    remedy = "sysctl kernel.yama.ptrace_scope=0" if scope < 3 else "boot with kernel.yama.ptrace_scope below 3"
    return Check(name, NOTE, f"{where}ptrace_scope {scope}: its memory can be read {who}", remedy)


HUGE = Path("sys/kernel/mm/transparent_hugepage")
MIDDLE = "hugepages-64kB"
KNOWN_PAGE_BYTES = 4096
DEFAULT_MAPPINGS = 65530
STRICT = 2


def of_machine(
    env: Mapping[str, str], root: Path = ROOT, process: str = "self", mapped: int | None = None
) -> list[Check]:
    """Checks of the machine. env: the program's environment, for its options; process: its page size is read;
    mapped: the number of its mappings."""
    found = [page_size(root, process), huge_pages(env, root), middle_pages(env, root)]
    return [*found, overcommit(root), mappings(root, mapped)]


def auxiliary(path: Path) -> dict[int, int]:
    """Auxiliary vector of a process; empty where it may not be read."""
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
    """Multi-size huge pages; hakmem asks for those of 64 KiB."""
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
