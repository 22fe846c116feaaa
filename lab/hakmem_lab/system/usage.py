"""The resources of a process and its descendants: read from /proc, or from a control group of one execution.

It uses version 2 of control groups where its memory controller is available, else version 1. A group is created beside
or below our own, where we need write permission. The kernel charges a group for more than resident memory: also for the
page cache that its processes touched first, their page tables, and kernel objects.
"""

import contextlib
import itertools
import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hakmem_lab.errors import LabError
from hakmem_lab.system.files import number, rows, text

PAGE_KIB = os.sysconf("SC_PAGESIZE") // 1024
TICK_S = 1.0 / os.sysconf("SC_CLK_TCK")
# Fields of /proc/PID/stat, counted from the one after the program's name, since the name may hold blanks.
MINOR_FAULTS, MAJOR_FAULTS, USER_TICKS, SYSTEM_TICKS, THREADS = 7, 9, 11, 12, 17


@dataclass(frozen=True)
class Usage:
    """Sums over a process and its living descendants. pss_kib: None where the exact figures were not read."""

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
    """(RSS, PSS) in KiB. Exact figures walk the page tables; the kernel's count lags by up to 64 pages a processor."""
    if exact and (fields := rows(f"/proc/{pid}/smaps_rollup")):
        return int(fields.get("Rss", "0").split()[0]), int(fields.get("Pss", "0").split()[0])
    pages = (text(f"/proc/{pid}/statm") or "0 0").split()[1]
    return int(pages) * PAGE_KIB, None


def usage(pid: int, exact: bool, without: Collection[int] = ()) -> Usage | None:
    """The use of the process and its descendants, without some of them; None if none of them has memory."""
    found: list[tuple[Any, ...]] = []
    for each, own_tasks in family(pid).items():
        stat, (own_rss, own_pss) = text(f"/proc/{each}/stat"), _memory(each, exact)
        if stat is not None and own_rss and each not in without:
            fields = stat.rpartition(")")[2].split()
            counts = (int(fields[at]) for at in (THREADS, USER_TICKS, SYSTEM_TICKS, MINOR_FAULTS, MAJOR_FAULTS))
            found.append((own_rss, own_pss, *counts, own_tasks))
    if not found:
        return None
    rss, pss, threads, user, system, minor, major, tasks = zip(*found, strict=True)
    cpu_s, known = (sum(user) + sum(system)) * TICK_S, None if None in pss else sum(pss)
    all_tasks = frozenset(itertools.chain(*tasks))
    return Usage(sum(rss), known, sum(threads), cpu_s, sum(minor), sum(major), len(found), all_tasks)


PROC = Path("/proc/self")
PROCESSES = "cgroup.procs"
MICRO, NANO, KIB = 1e-6, 1e-9, 1024
REMOVE_TRIES, REMOVE_PAUSE_S = 50, 0.01


class NoGroups(LabError):
    """No group can be made here; the text says why."""


def _row(path: Path, name: str) -> int | None:
    """The number after a name in a file with one pair a line."""
    value = rows(path).get(name, "")
    return int(value) if value.isdecimal() else None


def _stall_s(path: Path) -> float | None:
    """The seconds of the line `some` in a file such as memory.pressure: time in which at least one process waited."""
    words = rows(path).get("some", "").split()
    return next((int(word[6:]) * MICRO for word in words if word.startswith("total=")), None)


def _scaled(value: int | None, factor: float) -> float | None:
    return None if value is None else value * factor


@dataclass
class Group:
    """One group in one hierarchy (version 2) or in several (version 1, by controller). Close it after the run."""

    version: int
    folders: dict[str, Path]
    _start: dict[str, float] = field(default_factory=dict)
    _peak: int | None = None

    def processes(self) -> list[str]:
        """The cgroup.procs files through which a process joins the group."""
        return list(dict.fromkeys(str(folder / PROCESSES) for folder in self.folders.values()))

    def limit(self, kib: int) -> None:
        """Ends the group's processes when they need more memory than that, without swapping. Raises OSError."""
        folder, most = self.folders["memory"], str(kib * KIB)
        wanted = {"memory.limit_in_bytes": most} if self.version == 1 else {"memory.max": most, "memory.oom.group": "1"}
        for name, value in wanted.items():
            (folder / name).write_text(value, encoding="ascii")
        with contextlib.suppress(OSError):  # a kernel without swap lacks the file
            name, value = ("memory.memsw.limit_in_bytes", most) if self.version == 1 else ("memory.swap.max", "0")
            (folder / name).write_text(value, encoding="ascii")

    def mark(self) -> None:
        """Starts the times anew, and the peak where the kernel can reset it. In version 2 that needs Linux 6.12, and
        only reads through the same descriptor see the reset peak."""
        self._start = {name: value for name, value in self._now().items() if value is not None}
        with contextlib.suppress(OSError):
            self._peak = os.open(self._peak_file(), os.O_RDWR | os.O_CLOEXEC)
            os.write(self._peak, b"0")

    def _peak_file(self) -> Path:
        return self.folders["memory"] / ("memory.peak" if self.version == 2 else "memory.max_usage_in_bytes")

    def _peak_bytes(self) -> int | None:
        if self._peak is None:
            return number(self._peak_file())
        text = os.pread(self._peak, 32, 0).strip()
        return int(text) if text.isdigit() else None

    def _now(self) -> dict[str, float | None]:
        """The figures that only grow."""
        memory = self.folders["memory"]
        if self.version == 2:
            cpu_s = _scaled(_row(memory / "cpu.stat", "usage_usec"), MICRO)
            kills, stall_s = _row(memory / "memory.events", "oom_kill"), _stall_s(memory / "memory.pressure")
        else:
            used = self.folders.get("cpuacct")
            cpu_s = _scaled(number(used / "cpuacct.usage"), NANO) if used else None
            kills, stall_s = _row(memory / "memory.oom_control", "oom_kill"), None
        return {"cpu_s": cpu_s, "oom_kills": kills, "memory_stall_s": stall_s}

    def read(self) -> dict:
        """The use of all processes of the group; a value is None where this kernel does not report it."""
        now = self._now()
        grown = {key: None if value is None else value - self._start.get(key, 0) for key, value in now.items()}
        peak = _scaled(self._peak_bytes(), 1 / KIB)
        return {"by": f"cgroup v{self.version}", "memory_peak_kib": peak, **grown}

    def close(self) -> None:
        """Removes the group."""
        if self._peak is not None:
            os.close(self._peak)
            self._peak = None
        for folder in self.folders.values():
            remove(folder)


def remove(folder: Path) -> None:
    """Removes a group. It retries, since the kernel refuses while a killed process is still exiting."""
    for _ in range(REMOVE_TRIES):
        try:
            folder.rmdir()
        except FileNotFoundError:
            break
        except OSError:
            time.sleep(REMOVE_PAUSE_S)
        else:
            break


@dataclass(frozen=True)
class Groups:
    """Where groups can be made. parents: controller -> folder; version 2 has one folder for all."""

    version: int
    parents: dict[str, Path]

    def new(self) -> Group:
        """Creates a group. Raises OSError where the permission has been withdrawn."""
        name = f"hak-{os.getpid()}-{time.monotonic_ns()}"
        group = Group(self.version, {})
        for controller, parent in self.parents.items():
            folder = parent / name
            try:
                folder.mkdir()
            except OSError:
                group.close()
                raise
            group.folders[controller] = folder
        return group


def _mounts(proc: Path) -> list[tuple[str, str, Path, set[str]]]:
    """(version, root inside of the hierarchy, where it is mounted, options) of every mounted hierarchy."""
    found = []
    for line in (text(proc / "mountinfo") or "").splitlines():
        words = line.split()
        kind, options = words[words.index("-") + 1], words[-1]
        if kind in ("cgroup", "cgroup2"):
            found.append((kind, words[3], Path(words[4]), set(options.split(","))))
    return found


def own_folders(proc: Path, process: Path | None = None) -> dict[str, tuple[Path, Path]]:
    """Controller ('' = version 2) -> (folder of our own group, mount point of its hierarchy).

    process: /proc folder of another process, whose groups are returned in our own mounts.
    """
    own = {}
    for line in (text((process or proc) / "cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            own[controller] = path
    found = {}
    for kind, root, mount, options in _mounts(proc):
        for controller in [""] if kind == "cgroup2" else options & set(own):
            # A path outside of our own cgroup namespace begins with "/.."; it is not mounted here.
            inside = controller in own and not own[controller].startswith("/..")
            if inside and os.path.commonpath((own[controller], root)) == root:
                found[controller] = (mount / os.path.relpath(own[controller], root), mount)
    return found


def _may_write(folder: Path) -> bool:
    return os.access(folder, os.W_OK) and os.access(folder / PROCESSES, os.W_OK)


def _version_2(own: Path, mount: Path) -> Groups | None:
    """Groups below our own group if that delegates the memory controller, which only the root group can do while it
    holds processes; else beside it."""
    for folder in (own, own.parent):
        inside = folder == mount or mount in folder.parents
        if inside and "memory" in (text(folder / "cgroup.subtree_control") or "").split() and _may_write(folder):
            return Groups(2, {"memory": Path(os.path.normpath(folder))})
    return None


def find(proc: Path = PROC) -> Groups:
    """Raises NoGroups with the reason."""
    own = own_folders(proc)
    if "" in own and (groups := _version_2(*own[""])):
        return groups
    names: list[str] = [name for name in ("memory", "cpuacct") if name in own]
    below = {name: Path(os.path.normpath(own[name][0])) for name in names}
    writable = {name: folder for name, folder in below.items() if _may_write(folder)}
    if "memory" in writable:
        return Groups(1, writable)
    if not own:
        raise NoGroups("no control groups are mounted here")
    raise NoGroups(
        "we may not make a control group here: be root, or begin the command with 'systemd-run --user --scope'"
    )


def tried(find_groups: Callable[[], Groups] = find) -> tuple[Groups | None, str | None]:
    """(groups, None), or (None, why there are none). It creates a group as a test, since a filter may refuse that."""
    try:
        groups = find_groups()
        groups.new().close()
    except NoGroups as error:
        return None, str(error)
    except OSError as error:
        return None, f"a control group cannot be made here: {error.strerror}"
    return groups, None
