"""The objects that a live process has loaded, read from outside: the dynamic linker's list of them, the functions that
each defines, and the targets of its function slots.

Everything is read from the process's memory, so it is right even if files were replaced since. Only for 64-bit
processes of our own byte order.
"""

import platform
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from hakmem_lab.inside.memory import Memory

PAGE_SIZE, BASE, SECURE = 6, 7, 23  # types of entries in the auxiliary vector
PT_DYNAMIC = 2
DT_PLTRELSZ, DT_HASH, DT_STRTAB, DT_SYMTAB, DT_RELA, DT_RELASZ, DT_STRSZ, DT_JMPREL = 2, 4, 5, 6, 7, 8, 10, 23
DT_GNU_HASH = 0x6FFFFEF5
TAGS_MOST, OBJECTS_MOST, NAME_BYTES = 4096, 5000, 4096
# Relocations that fill a slot with a function's address: a call's slot, an address in code, a pointer in data.
SLOT, DATA, POINTER = "slot", "data", "pointer"
TYPES = {"x86_64": {7: SLOT, 6: DATA, 1: POINTER}, "aarch64": {1026: SLOT, 1025: DATA, 257: POINTER}}
RELOCATION = np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])
SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)


@dataclass(frozen=True)
class Slot:
    """A slot that is filled with a function's address. defined: the object's own function of that name, else 0;
    stands: the function's PLT entry, which represents it in a program linked for fixed addresses, else 0."""

    name: str
    kind: str
    value: int
    defined: int
    stands: int


class Linked:
    """One object. Every method raises Unreadable if the process's memory does not hold what is expected."""

    def __init__(self, memory: Memory, base: int, dynamic: int, name: str = ""):
        self._memory, self.base, self.name = memory, base, name
        self._tags: dict[int, int] = {}
        for at in range(dynamic, dynamic + TAGS_MOST * 16, 16):
            tag, value = struct.unpack("<qQ", memory.read(at, 16))
            if tag == 0:
                break
            self._tags[tag] = value

    @classmethod
    def at(cls, memory: Memory, base: int) -> "Linked | None":
        """The object whose headers are at `base`; None if it has no dynamic section."""
        head = memory.read(base, 64)
        if head[:6] != b"\x7fELF\x02\x01":
            return None
        (first,), (size, count) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
        headers = [struct.unpack("<I12xQ32x", memory.read(base + first + i * size, 56)) for i in range(count)]
        places = [base + address for kind, address in headers if kind == PT_DYNAMIC]
        return cls(memory, base, places[0]) if places else None

    def _place(self, tag: int) -> int:
        """The address in a tag. Some dynamic linkers add the base to it, others do not."""
        value = self._tags.get(tag, 0)
        return value + self.base if 0 < value < self.base else value

    def _words(self, address: int, count: int) -> tuple[int, ...]:
        return struct.unpack(f"<{count}I", self._memory.read(address, 4 * count))

    @property
    def strings(self) -> int:
        """Address of the string table: it lies in the object even if the object has fixed addresses and base 0."""
        return self._place(DT_STRTAB)

    @cached_property
    def _strings(self) -> bytes:
        return self._memory.read(self.strings, self._tags.get(DT_STRSZ, 0))

    def _rows(self, first: int, last: int) -> np.ndarray:
        """Rows first..last of the symbol table."""
        size = SYMBOL.itemsize
        data = self._memory.read(self._place(DT_SYMTAB) + size * first, size * (last - first + 1))
        return np.frombuffer(data, SYMBOL)

    def _string(self, at: int) -> str:
        return self._strings[at : self._strings.find(b"\0", at)].decode("utf-8", "replace")

    def defined(self, name: str) -> int:
        """The address of the function of this name that it exports; 0: none."""
        for index in self._candidates(name):
            (row,) = self._rows(index, index)
            if row["section"] and row["value"] and self._string(int(row["name"])) == name:
                return self.base + int(row["value"])
        return 0

    def _candidates(self, name: str) -> Iterator[int]:
        if DT_GNU_HASH in self._tags:
            return self._gnu_hashed(name)
        return self._hashed(name) if DT_HASH in self._tags else iter(())

    def _gnu_hashed(self, name: str) -> Iterator[int]:
        table = self._place(DT_GNU_HASH)
        buckets, first, bloom, _ = self._words(table, 4)
        wanted = 5381
        for byte in name.encode():
            wanted = (wanted * 33 + byte) & 0xFFFFFFFF
        start = table + 16 + 8 * bloom
        (index,) = self._words(start + 4 * (wanted % buckets), 1) if buckets else (0,)
        while index >= first and index != 0:
            (found,) = self._words(start + 4 * buckets + 4 * (index - first), 1)
            if (found ^ wanted) >> 1 == 0:
                yield index
            if found & 1:
                return
            index += 1

    def _hashed(self, name: str) -> Iterator[int]:
        table = self._place(DT_HASH)
        buckets, chains = self._words(table, 2)
        wanted = 0
        for byte in name.encode():
            wanted = (wanted << 4) + byte
            wanted = (wanted ^ (wanted >> 24 & 0xF0)) & 0x0FFFFFFF
        (index,) = self._words(table + 8 + 4 * (wanted % buckets), 1) if buckets else (0,)
        for _ in range(chains):
            if index == 0:
                return
            yield index
            (index,) = self._words(table + 8 + 4 * (buckets + index), 1)

    def slots(self, names: Iterable[str]) -> list[Slot]:
        """Slots that the dynamic linker fills with functions of these names."""
        found = []
        kinds = TYPES[platform.machine()]
        for table, size in ((DT_RELA, DT_RELASZ), (DT_JMPREL, DT_PLTRELSZ)):
            length = self._tags.get(size, 0) // RELOCATION.itemsize * RELOCATION.itemsize
            data = self._memory.read(self._place(table), length) if length else b""
            rows = np.frombuffer(data, RELOCATION)
            rows = rows[np.isin(rows["type"], list(kinds))]
            found += [
                (int(row["offset"]), kinds[int(row["type"])], int(row["symbol"])) for row in rows if row["symbol"]
            ]
        symbols = self._named({symbol for _, _, symbol in found}, set(names))
        return [self._slot(offset, kind, *symbols[symbol]) for offset, kind, symbol in found if symbol in symbols]

    def _named(self, indexes: set[int], names: set[str]) -> dict[int, tuple[str, int, bool]]:
        if not indexes:
            return {}
        first, found = min(indexes), {}
        table = self._rows(first, max(indexes))
        for index in indexes:
            row = table[index - first]
            if (text := self._string(int(row["name"]))) in names:
                found[index] = (text, int(row["value"]), bool(row["section"]))
        return found

    def _slot(self, offset: int, kind: str, name: str, value: int, here: bool) -> Slot:
        (leads,) = struct.unpack("<Q", self._memory.read(self.base + offset, 8))
        address = self.base + value if value else 0
        return Slot(name, kind, leads, address if here else 0, 0 if here else address)


def auxiliary(data: bytes) -> dict[int, int]:
    """Entries of /proc/PID/auxv, by type."""
    return dict(struct.iter_unpack("<QQ", data[: len(data) // 16 * 16]))


def objects(memory: Memory, base: int) -> list[Linked]:
    """Loaded objects in the search order of the dynamic linker at `base`, the program first; empty before it runs."""
    linker = Linked.at(memory, base)
    place = linker.defined("_r_debug") if linker else 0
    if linker and not place and (pointer := linker.defined("_dl_debug_addr")):  # musl's
        (place,) = struct.unpack("<Q", memory.read(pointer, 8))
    if place == 0:
        return []
    found: list[Linked] = []
    (at,) = struct.unpack("<Q", memory.read(place + 8, 8))
    while at and len(found) < OBJECTS_MOST:
        start, name, dynamic, at = struct.unpack("<4Q", memory.read(at, 32))
        found.append(Linked(memory, start, dynamic, _text(memory, name)))
    return found


def _text(memory: Memory, address: int) -> str:
    """The string at an address; no read crosses into the next page, which may not be mapped."""
    found = b""
    while address and len(found) < NAME_BYTES and b"\0" not in found:
        room = min(64, memory.page - address % memory.page)
        found += memory.read(address, room)
        address += room
    return found.partition(b"\0")[0].decode("utf-8", "surrogateescape")
