"""What a process and its descendants use now, read from /proc."""

import os
from dataclasses import dataclass, field

from hakmem_lab.system.files import rows, text

PAGE_KIB = os.sysconf("SC_PAGESIZE") // 1024
TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat, counted from the one after the program's name, which may itself hold blanks.
MINOR_FAULTS, MAJOR_FAULTS, USER_TICKS, SYSTEM_TICKS, THREADS = 7, 9, 11, 12, 17


@dataclass(frozen=True)
class Usage:
    """Sums over a process and its living descendants. pss_kib: None where only the cheap figures were read."""

    rss_kib: int
    pss_kib: int | None
    threads: int
    cpu_s: float
    minor_faults: int
    major_faults: int
    processes: int
    tasks: frozenset[int] = field(repr=False, default=frozenset())


def family(pid: int) -> dict[int, list[int]]:
    """The process and its living descendants, each with its threads; empty when it is gone."""
    found, waiting = {}, [pid]
    while waiting:
        each = waiting.pop()
        try:
            tasks = [int(name) for name in os.listdir(f"/proc/{each}/task")]
        except OSError:
            continue
        found[each] = tasks
        for task in tasks:
            waiting += [int(child) for child in (text(f"/proc/{each}/task/{task}/children") or "").split()]
    return found


def _memory(pid: int, exact: bool) -> tuple[int, int | None]:
    """(RSS, PSS) in KiB. The exact figures cost a walk over the page tables; the kernel's own count lags by up to 64
    pages for every processor."""
    if exact and (fields := rows(f"/proc/{pid}/smaps_rollup")):
        return int(fields.get("Rss", "0").split()[0]), int(fields.get("Pss", "0").split()[0])
    pages = (text(f"/proc/{pid}/statm") or "0 0").split()[1]
    return int(pages) * PAGE_KIB, None


def usage(pid: int, exact: bool) -> Usage | None:
    """What the process and its descendants use; None when it has no memory any more."""
    rss, pss, threads, cpu, minor, major, processes = 0, 0, 0, 0.0, 0, 0, 0
    complete, tasks = exact, []
    for each, own_tasks in family(pid).items():
        stat = text(f"/proc/{each}/stat")
        own_rss, own_pss = _memory(each, exact)
        if stat is None or own_rss == 0:
            continue
        fields = stat.rpartition(")")[2].split()
        processes += 1
        tasks += own_tasks
        rss += own_rss
        pss += own_pss or 0
        complete = complete and own_pss is not None
        threads += int(fields[THREADS])
        cpu += (int(fields[USER_TICKS]) + int(fields[SYSTEM_TICKS])) * TICK_S
        minor += int(fields[MINOR_FAULTS])
        major += int(fields[MAJOR_FAULTS])
    if processes == 0:
        return None
    return Usage(rss, pss if complete else None, threads, cpu, minor, major, processes, frozenset(tasks))
