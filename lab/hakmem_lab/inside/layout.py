"""hak_layout, the library's own description of its structures, read from the memory of a process that uses the library;
and the objects of a heap, as arrays: chunks and their slices, slabs and their bits, caches, samples.

The description is searched for in all mappings of files, so it is also found in a program that links the library
statically.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from hakmem_lab.errors import LabError
from hakmem_lab.inside.memory import Mapping, Memory, Unreadable, readable

MAGIC = b"hakmem layout\0\0\0"
HEAD = struct.Struct("<16s6I4Q")
ROW = struct.Struct("<40sQ")
OPTION = struct.Struct("<24s8s8sqq")
VERSION = 3
ROWS_MAX, OPTIONS_MAX, CLASSES_MAX = 4096, 1024, 256
LARGEST = 256 << 20  # bytes of the largest mapping that is searched


@dataclass(frozen=True)
class Option:
    name: str
    kind: str
    when: str
    low: int
    high: int


class Layout:
    """Names and values, for instance layout["size.hak_slab_t"]; roots as layout.root("hak_arena")."""

    def __init__(self, rows: dict[str, int], options: list[Option], sizes: tuple[int, ...], version: int, path: str):
        self.rows, self.options, self.class_sizes, self.version, self.path = rows, options, sizes, version, path

    def __getitem__(self, name: str) -> int:
        try:
            return self.rows[name]
        except KeyError:
            raise LabError(f"{self.path} has no description of {name}: it is older than this hak") from None

    def __contains__(self, name: str) -> bool:
        return name in self.rows

    def root(self, name: str) -> int:
        return self["&" + name]


class NotServed(LabError):
    """The process has no hakmem in it."""


def find(memory: Memory) -> Layout:
    """Find the layout. Raises NotServed if the library is not there, LabError if it has another layout."""
    for place, path in _places(memory):
        try:
            return _read(memory, place, path)
        except Unreadable:
            continue  # a copy of a layout, or bytes that only resemble one
    named = [each.path for each in memory.maps() if "libhakmem" in each.path]
    if named:
        raise LabError(f"{memory.name} has {named[0]}, which does not describe its layout: it is older than this hak")
    if lost := getattr(memory, "lost", 0):
        raise LabError(f"{memory.name} is cut short: {lost >> 20:,} MiB are missing, and the library's data with them")
    raise NotServed(f"{memory.name} does not use hakmem: hak doctor says why, hak run -- COMMAND starts it on it")


def _places(memory: Memory) -> Iterator[tuple[int, str]]:
    """(address, file) of every candidate for the layout, the likeliest first."""
    maps = readable(memory.maps())
    named = any(each.is_file for each in maps)  # a core need not say which files were mapped
    candidates = [each for each in maps if _may_hold(each, named)]
    for each in sorted(candidates, key=lambda each: ("hakmem" not in each.path, each.start)):
        try:
            data = memory.read(each.start, each.end - each.start)
        except Unreadable:
            continue
        at = -1
        while (at := data.find(MAGIC, at + 1)) >= 0:
            yield each.start + at, each.path


def _may_hold(each: Mapping, named: bool) -> bool:
    private = each.permissions.endswith("p") and "x" not in each.permissions
    return private and (each.is_file or not named) and each.end - each.start <= LARGEST


def _read(memory: Memory, place: int, path: str) -> Layout:
    head = HEAD.unpack(memory.read(place, HEAD.size))
    _, version, library, row_count, row_bytes, option_count, option_bytes, itself, rows, options, sizes = head
    if itself != place:
        raise Unreadable("a copy")
    if version != VERSION:
        raise LabError(
            f"{memory.name} uses {path}, which has layout {version}; this hak reads layout {VERSION}: "
            f"use the hak that came with that library"
        )
    if row_bytes < ROW.size or option_bytes < OPTION.size or row_count > ROWS_MAX or option_count > OPTIONS_MAX:
        raise Unreadable("no layout")
    data = memory.read(rows, row_count * row_bytes)
    found = {}
    for i in range(row_count):
        name, value = ROW.unpack_from(data, i * row_bytes)
        if name[0]:
            found[_text(name)] = value
    data = memory.read(options, option_count * option_bytes)
    listed = [OPTION.unpack_from(data, i * option_bytes) for i in range(option_count)]
    classes = found.get("HAK_CLASS_COUNT", 0)
    if not 0 < classes <= CLASSES_MAX:
        raise Unreadable("no layout")
    each_size = struct.unpack(f"<{classes}I", memory.read(sizes, 4 * classes))
    return Layout(
        found, [Option(_text(row[0]), _text(row[1]), _text(row[2]), row[3], row[4]) for row in listed], each_size,
        library, path,
    )  # fmt: skip


def _text(field: bytes) -> str:
    return field.partition(b"\0")[0].decode("ascii", "replace")


# The owner of a slice.
ABSENT, UNKNOWN, SLAB, RUN, HUGE, DIRTY, CLEAN, SAMPLED, MIXED, REGION = range(10)


@dataclass
class Chunks:
    """One row for each chunk. slices[n, 128]: the owners of its slices; codes[n, 128]: the page map's classes."""

    base: np.ndarray
    state: np.ndarray
    count: np.ndarray  # chunks, if the row stands for several
    dirty: np.ndarray  # for a free extent
    slices: np.ndarray
    codes: np.ndarray


@dataclass
class Slabs:
    base: np.ndarray
    cls: np.ndarray
    slices: np.ndarray
    carved: np.ndarray
    blocks: np.ndarray
    zeroed: np.ndarray
    bits: np.ndarray  # [n, bytes] bit i: block i is free

    def free(self, rows: np.ndarray, blocks: int) -> np.ndarray:
        """[row, block]: 1 if the block is free, else 0."""
        return np.unpackbits(self.bits[rows, : -(-blocks // 8)], axis=1, count=blocks, bitorder="little")


@dataclass
class Mixed:
    """The blocks of mixed slabs, which have different classes."""

    address: np.ndarray
    cls: np.ndarray
    free: np.ndarray  # whether the block is back in its slab


@dataclass
class Runs:
    """Blocks of whole slices: those of a class, and huge ones."""

    base: np.ndarray
    cls: np.ndarray
    bytes: np.ndarray  # usable size
    held: np.ndarray  # size of the slices, in bytes


@dataclass
class Cache:
    """The free blocks in one thread's cache; if not busy, the cache of an ended thread, parked for the next one.

    blocks: class -> addresses.
    """

    thread: int
    busy: bool
    blocks: dict[int, np.ndarray]
    asked_bytes: np.ndarray
    asked_count: np.ndarray
    events: int


@dataclass(frozen=True)
class Sample:
    """A sampled live block. cls: the class it would have unsampled; 0: it is in a region. site: its call site;
    weight_bytes: the allocated bytes that it stands for."""

    asked: int
    cls: int
    site: int
    bytes: int
    weight_bytes: float


STEP = 16  # bytes: unit of the blocks in a span


@dataclass
class Piece:
    """Memory of a region: a span of blocks, or one large block. slices and chunks are 0 in memory of the program."""

    base: int
    charged: int
    slices: int
    chunks: int
    is_span: bool
    first: int  # of a span: no block begins before this step of 16 bytes, nor from `at` on
    at: int
    end: int
    bits: int  # of a span: their address

    @property
    def bytes(self) -> int:
        return self.end * STEP if self.is_span else self.charged


@dataclass
class Region:
    name: str
    parent: str
    state: str
    soft: int  # bytes; 0: no limit
    hard: int
    used: int
    peak: int
    live_bytes: int
    live_blocks: int
    allocated: int
    freed: int
    pieces: list[Piece] = field(default_factory=list)


@dataclass
class Heap:
    layout: Layout
    chunks: Chunks
    slabs: Slabs
    mixed: Mixed
    runs: Runs
    caches: list[Cache]
    depot: dict[int, np.ndarray]  # class -> addresses
    pieces: list[tuple[int, int]]  # of metadata: (address, bytes)
    leaves: list[tuple[int, int]]
    counters: dict[str, int]
    samples: dict[int, Sample]  # by the block's address
    regions: list[Region] = field(default_factory=list)
    broken: int = 0  # number of objects that could not be read, or were inconsistent
