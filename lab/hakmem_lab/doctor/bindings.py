"""Which object answers malloc for every object of a live process: its jump slots, read from outside.

The dynamic linker has filled a slot with the function that it chose; one that still leads back into its own object
belongs to a function that has not been called yet. 64-bit processes of our own byte order.
"""

import bisect
import os
import re
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hakmem_lab.system.allocators import MALLOC

DELETED = " (deleted)"
_LINE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S+) ([0-9a-f]+) \S+ \d+\s*(.*)")
RELOCATION = np.dtype([("offset", "<u8"), ("type", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])
SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
POINTER = struct.Struct("<Q")
MOST_OBJECTS = 5000


@dataclass(frozen=True)
class Mapping:
    start: int
    end: int
    offset: int
    path: str


def mappings(text: str) -> list[Mapping]:
    """Of /proc/PID/maps, in the order of addresses."""
    found = []
    for line in text.splitlines():
        if match := _LINE.fullmatch(line):
            start, end, _, offset, path = match.groups()
            found.append(Mapping(int(start, 16), int(end, 16), int(offset, 16), path))
    return found


def objects(maps: Sequence[Mapping]) -> dict[str, Mapping]:
    """File -> where its first page is mapped."""
    found: dict[str, Mapping] = {}
    for mapping in maps:
        if mapping.path.startswith("/") and mapping.offset == 0:
            found.setdefault(mapping.path, mapping)
    return found


def file_of(mapping: Mapping, folder: Path, root: Path) -> Path:
    """Where to read a mapped file. folder: of the process; root: where it has its files. One that has been deleted or
    replaced since can be read through its mapping, with the rights that this takes."""
    if mapping.path.endswith(DELETED):
        return folder / "map_files" / f"{mapping.start:x}-{mapping.end:x}"
    return root / mapping.path.lstrip("/")


def of_process(maps: Sequence[Mapping], memory: int, folder: Path, root: Path) -> dict[str, set[str]]:
    """Object -> the objects that its malloc, calloc, realloc, free lead to; only slots that are filled.

    memory: descriptor of /proc/PID/mem. Raises OSError where the memory is not for us.
    """
    starts = [mapping.start for mapping in maps]
    found: dict[str, set[str]] = {}
    for path, first in list(objects(maps).items())[:MOST_OBJECTS]:
        for address in _slots(file_of(first, folder, root), first.start):
            target = POINTER.unpack(os.pread(memory, POINTER.size, address))[0]
            at = bisect.bisect_right(starts, target) - 1
            inside = at >= 0 and target < maps[at].end
            if inside and maps[at].path not in ("", path):
                found.setdefault(path, set()).add(maps[at].path)
    return found


def _slots(path: Path, base: int) -> list[int]:
    """Addresses of the slots of these functions in one object; none where its file is gone or damaged."""
    from elftools.elf.elffile import ELFFile

    try:
        with open(path, "rb") as file:
            if file.read(4) != b"\x7fELF":
                return []
            elf = ELFFile(file)
            if elf.elfclass != 64 or not elf.little_endian or sys.byteorder != "little":
                return []
            symbols = elf.get_section_by_name(".dynsym")
            wanted = [] if symbols is None else _indexes(elf, symbols)
            first = min((s["p_vaddr"] for s in elf.iter_segments("PT_LOAD")), default=0)
            bias = base - (first & -4096) if elf["e_type"] == "ET_DYN" else 0
            return [bias + offset for offset in _offsets(elf, wanted)] if wanted else []
    except Exception:  # the file may have been replaced by anything since it was mapped
        return []


def _indexes(elf: Any, symbols: Any) -> list[int]:
    """Numbers of the wanted functions in the dynamic symbol table."""
    names = elf.get_section(symbols["sh_link"]).data()
    table = np.frombuffer(symbols.data(), dtype=SYMBOL)
    found = []
    for word in MALLOC:
        at = -1
        while (at := names.find(word.encode() + b"\0", at + 1)) >= 0:
            found += np.nonzero(table["name"] == at)[0].tolist()
    return found


def _offsets(elf: Any, wanted: list[int]) -> list[int]:
    found: list[int] = []
    for section in elf.iter_sections("SHT_RELA"):
        table = np.frombuffer(section.data(), dtype=RELOCATION)
        found += table["offset"][np.isin(table["symbol"], wanted)].tolist()
    return found
