"""The memory of another process: its mappings, its bytes, and which of its pages are resident.

The process takes no part in this, and is not stopped. /proc/PID/smaps is parsed here, too: it holds the kernel's
figures for each mapping.
"""

import ctypes
import errno
import fcntl
import os
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NoReturn, Protocol

import numpy as np

from hakmem_lab.errors import LabError, rights
from hakmem_lab.system import files

PAGE = os.sysconf("SC_PAGESIZE")
DELETED = " (deleted)"  # suffix that the kernel adds to the name of a deleted file
# From linux/fs.h: PAGEMAP_SCAN reports runs of present pages. PFNZERO excludes zero pages, which no RSS counts.
PAGEMAP_SCAN = 0xC0606610
PRESENT, PFNZERO = 1 << 3, 1 << 5
RUNS = 4096
PAGEMAP_PRESENT, PAGEMAP_EXCLUSIVE = 1 << 63, 1 << 56


class Unreadable(Exception):
    """The memory is not mapped, or does not hold what is expected there."""


class Gone(LabError):
    """There is no such process, or it has ended."""

    def __init__(self, pid: int):
        super().__init__(files.no_process(pid))


# Exceptions that inconsistent numbers cause, in a damaged core file or a changing heap.
CONTRADICTIONS = (ArithmeticError, LookupError, MemoryError, StopIteration, TypeError, ValueError)


@contextmanager
def doubted(name: str, of: str) -> Iterator[None]:
    """The block reads a heap. Raises LabError if the heap is unreadable or inconsistent. of: "core" or "process"."""
    try:
        yield
    except Unreadable as error:
        doubt = "is it complete?" if of == "core" else "does it end, or is its heap damaged?"
        raise LabError(f"{name} cannot be read ({error}): {doubt}") from None
    except CONTRADICTIONS as error:
        doubt = "is the file damaged?" if of == "core" else "does it change too fast? --stop holds it still"
        raise LabError(f"the heap of {name} contradicts itself ({type(error).__name__}): {doubt}") from None


@dataclass(frozen=True)
class Mapping:
    start: int
    end: int
    permissions: str
    path: str
    offset: int = 0  # in the file

    @property
    def is_file(self) -> bool:
        return self.path.startswith("/")


class Memory(Protocol):
    """The memory to read: of a process, or in a core file."""

    name: str
    page: int

    def read(self, address: int, size: int) -> bytes: ...

    def maps(self) -> list[Mapping]: ...

    def resident(self, start: int, end: int) -> np.ndarray:
        """For each page of a range, whether it is resident."""

    def stack_pointers(self) -> list[int]: ...

    def programs(self) -> set[str]:
        """Files that are mapped as code: programs and libraries."""

    def files(self) -> list[tuple[int, int, str, int]]:
        """Mappings of files: start, end, file, offset in the file."""


SCAN_WORDS = (
    *("size", "flags", "start", "end", "walk_end", "vec", "vec_len", "max_pages"),
    *("inverted", "mask", "anyof", "returned"),
)


class ScanArgument(ctypes.Structure):
    """struct pm_scan_arg."""

    _fields_ = [(name, ctypes.c_uint64) for name in SCAN_WORDS]


class Process:
    """A live process, through its files below /proc."""

    def __init__(self, pid: int):
        self.pid, self.name, self.page = pid, f"process {pid}", PAGE
        self._memory = self._open("mem")
        try:
            self._pages = self._open("pagemap")
        except LabError:
            os.close(self._memory)
            raise
        self._scans = True
        self._runs = np.empty((RUNS, 3), np.uint64)

    def _open(self, name: str) -> int:
        try:
            return os.open(f"/proc/{self.pid}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            refuse(self.pid, error)

    def close(self) -> None:
        os.close(self._memory)
        os.close(self._pages)

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def read(self, address: int, size: int) -> bytes:
        try:
            found = os.pread(self._memory, size, address)
        except (OSError, OverflowError):
            found = b""
        if len(found) != size:
            if not self.text("maps"):  # empty: the process has ended
                raise Gone(self.pid)
            raise Unreadable(f"{size} bytes at {address:#x}")
        return found

    def write(self, address: int, data: bytes) -> None:
        """Raises LabError if that is not allowed."""
        try:
            with open(f"/proc/{self.pid}/mem", "r+b", buffering=0) as file:
                file.seek(address)
                file.write(data)
        except OSError as error:
            refuse(self.pid, error)

    def text(self, name: str) -> str:
        """Contents of one of the process's files below /proc."""
        try:
            with open(f"/proc/{self.pid}/{name}", encoding="utf-8", errors="surrogateescape") as file:
                return file.read()
        except FileNotFoundError:
            raise Gone(self.pid) from None
        except OSError as error:
            refuse(self.pid, error)

    def maps(self) -> list[Mapping]:
        return mappings(self.text("maps"))

    def _tasks(self) -> list[str]:
        try:
            return os.listdir(f"/proc/{self.pid}/task")
        except OSError as error:
            refuse(self.pid, error)

    def threads(self) -> dict[int, str]:
        """Thread number -> name. The number is the process's own, which in a container differs from ours."""
        found = {}
        for task in self._tasks():
            with suppress(Gone):  # this thread has ended meanwhile
                lines = self.text(f"task/{task}/status").splitlines()
                rows = {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
                found[int(rows.get("NSpid", task).split()[-1])] = rows["Name"]
        return found

    def stack_pointers(self) -> list[int]:
        """Stack pointers of the sleeping threads; the kernel does not show that of a running one."""
        found = []
        for task in self._tasks():
            with suppress(LabError):
                words = self.text(f"task/{task}/syscall").split()
                if len(words) >= 3:
                    found.append(int(words[-2], 16))
        return found

    def files(self) -> list[tuple[int, int, str, int]]:
        return [(each.start, each.end, each.path, each.offset) for each in self.maps() if each.is_file]

    def programs(self) -> set[str]:
        return {each.path for each in self.maps() if each.is_file and "x" in each.permissions}

    def resident(self, start: int, end: int) -> np.ndarray:
        found = np.zeros((end - start) // self.page, bool)
        if self._scans:
            try:
                self._scan(start, end, found)
                return found
            except OSError as error:
                if error.errno not in (errno.ENOTTY, errno.EINVAL):  # a kernel before 6.7
                    refuse(self.pid, error)
                self._scans = False
        return self._listed(start, end)

    def _scan(self, start: int, end: int, found: np.ndarray) -> None:
        at = start
        while at < end:
            argument = ScanArgument(size=ctypes.sizeof(ScanArgument), start=at, end=end, vec_len=RUNS)
            argument.vec = self._runs.ctypes.data
            argument.inverted, argument.mask, argument.returned = PFNZERO, PRESENT | PFNZERO, PRESENT
            count = fcntl.ioctl(self._pages, PAGEMAP_SCAN, argument)
            for first, last, _ in self._runs[:count].tolist():
                found[(first - start) // self.page : (last - start) // self.page] = True
            at = argument.walk_end if argument.walk_end > at else end

    def _listed(self, start: int, end: int) -> np.ndarray:
        """Residency from /proc/PID/pagemap. A page that is not exclusive and holds zeros is taken for the zero page."""
        wanted = (end - start) // self.page * 8
        entries = np.frombuffer(os.pread(self._pages, wanted, start // self.page * 8).ljust(wanted, b"\0"), "<u8")
        found = entries & PAGEMAP_PRESENT != 0
        zeros = bytes(self.page)
        for index in np.flatnonzero(found & (entries & PAGEMAP_EXCLUSIVE == 0)):
            found[index] = self.read(start + int(index) * self.page, self.page) != zeros
        return found


def word(memory: Memory, address: int, size: int = 8) -> int:
    """The unsigned number at an address."""
    return int.from_bytes(memory.read(address, size), "little")


def mappings(text: str) -> list[Mapping]:
    """Mappings in /proc/PID/maps, in the order of addresses."""
    return [mapping(line) for line in text.splitlines()]


def mapping(line: str) -> Mapping:
    words = line.split(maxsplit=5)
    first, _, last = words[0].partition("-")
    return Mapping(int(first, 16), int(last, 16), words[1], words[5] if len(words) > 5 else "", int(words[2], 16))


def refuse(pid: int, error: OSError) -> NoReturn:
    if error.errno in (errno.ENOENT, errno.ESRCH):
        raise Gone(pid)
    what_to_do = rights("be its user, where kernel.yama.ptrace_scope is 0")
    raise LabError(f"process {pid} cannot be read ({error.strerror}): {what_to_do}")


def readable(maps: Sequence[Mapping]) -> list[Mapping]:
    return [each for each in maps if each.permissions.startswith("r")]


HEADER = re.compile(r"^[0-9a-f]+-[0-9a-f]+ ")


@dataclass
class Area:
    """One mapping, and the bytes of it that are resident."""

    mapping: Mapping
    rss: int


def parse(text: str) -> list[Area]:
    found: list[Area] = []
    for line in text.splitlines():
        if HEADER.match(line):
            found.append(Area(mapping(line), 0))
        elif line.startswith("Rss:"):
            found[-1].rss = int(line.split()[1]) * 1024
    return found


def total(areas: Sequence[Area]) -> int:
    return sum(area.rss for area in areas)


class Mapped:
    """The mapped ranges; an address outside them cannot belong to the heap."""

    def __init__(self, memory: Memory):
        self._starts, self._ends = list[int](), list[int]()
        for each in sorted(memory.maps(), key=lambda each: each.start):
            if self._ends and self._ends[-1] == each.start:
                self._ends[-1] = each.end
            else:
                self._starts.append(each.start)
                self._ends.append(each.end)

    def has(self, start: int, size: int) -> bool:
        index = bisect_right(self._starts, start) - 1
        return index >= 0 and start + size <= self._ends[index]


def joined(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Merge adjacent ranges. ranges: (start, bytes), ascending."""
    found: list[tuple[int, int]] = []
    for start, size in ranges:
        if found and sum(found[-1]) == start:
            found[-1] = (found[-1][0], found[-1][1] + size)
        else:
            found.append((start, size))
    return found
