"""A core file, read as if it were the process.

A core does not say which pages were resident, so every page that is not all zeros counts as resident.
"""

import mmap
import os
import struct
from bisect import bisect_right
from collections import Counter
from pathlib import Path

import numpy as np
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from hakmem_lab.errors import LabError
from hakmem_lab.inside.links import PAGE_SIZE, auxiliary
from hakmem_lab.inside.memory import Mapping, Unreadable

PROGRAM_PARTS = 3
# Offset of the stack pointer in elf_prstatus.
STACK_POINTER = {"EM_X86_64": 112 + 19 * 8, "EM_AARCH64": 112 + 31 * 8}


class _WithoutSections:
    """A core file whose header names no table of sections, for the parser. The table is at the file's end, so a file
    that was cut short has lost it. Only a core with very many segments needs it."""

    FIELDS = ((40, 8), (60, 4))  # (offset, bytes) in the header: e_shoff; e_shnum and e_shstrndx
    COUNT_AT, MANY = 56, b"\xff\xff"

    def __init__(self, file):
        self.seek, self.tell, self._file = file.seek, file.tell, file
        head = file.read(64)
        wide = head[4:5] == b"\x02" and head[self.COUNT_AT : self.COUNT_AT + 2] != self.MANY
        self._head = bytearray(head) if wide else bytearray()
        for at, size in self.FIELDS if wide else ():
            self._head[at : at + size] = bytes(size)
        file.seek(0)

    def read(self, size: int = -1) -> bytes:
        at = self._file.tell()
        data = self._file.read(size)
        known = self._head[at : at + len(data)]
        return bytes(known) + data[len(known) :]


class Core:
    def __init__(self, path: Path):
        self.path, self.name, self.page = path, str(path), 4096
        # Start, end, offset in the file, bytes in the file, permissions.
        self._segments: list[tuple[int, int, int, int, str]] = []
        self._files: list[tuple[int, int, str, int]] = []
        self._pointers: list[int] = []
        self.lost = 0  # bytes that are missing because the file was cut short
        try:
            with open(path, "rb") as file:
                self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
                self._load(ELFFile(_WithoutSections(file)))  # type: ignore[arg-type]
        except OSError as error:
            raise LabError(f"{path} cannot be read: {error.strerror}") from None
        except LabError:
            raise
        except ELFError as error:
            raise LabError(f"{path} is neither a process nor a core file: {error}") from None
        except Exception as error:  # the parser trusts its input
            raise LabError(f"{path} is damaged: {type(error).__name__} in its headers") from None
        self._starts = [segment[0] for segment in self._segments]

    def __enter__(self) -> "Core":
        return self

    def __exit__(self, *_: object) -> None:
        self._data.close()

    def _load(self, elf) -> None:
        if elf["e_type"] != "ET_CORE":
            raise LabError(f"{self.path} is an ELF file, but not a core: give a process's number, or a core file")
        if elf["e_machine"] not in STACK_POINTER or not elf.little_endian:
            raise LabError(f"{self.path} is a core of another architecture than x86-64 and aarch64")
        for segment in elf.iter_segments():
            if segment["p_type"] == "PT_LOAD":
                self._add(segment)
            elif segment["p_type"] == "PT_NOTE" and segment["p_offset"] + segment["p_filesz"] <= len(self._data):
                for note in segment.iter_notes():
                    self._note(note, STACK_POINTER[elf["e_machine"]])
        self._segments.sort()
        if not self._segments:
            raise LabError(f"{self.path} holds no memory: is it complete?")

    def _add(self, segment) -> None:
        start, flags = segment["p_vaddr"], segment["p_flags"]
        wanted = min(segment["p_filesz"], segment["p_memsz"])
        present = min(wanted, max(0, len(self._data) - segment["p_offset"]))
        self.lost += wanted - present
        letters = "".join(letter if flags & bit else "-" for letter, bit in (("r", 4), ("w", 2), ("x", 1)))
        self._segments.append((start, start + segment["p_memsz"], segment["p_offset"], present, letters + "p"))

    def _note(self, note, stack_pointer: int) -> None:
        if note["n_type"] == "NT_FILE":
            entries = note["n_desc"]["Elf_Nt_File_Entry"]
            for entry, name in zip(entries, note["n_desc"]["filename"], strict=False):
                place = entry["page_offset"] * note["n_desc"]["page_size"]
                self._files.append((entry["vm_start"], entry["vm_end"], os.fsdecode(name), place))
            return
        if note["n_type"] not in ("NT_PRSTATUS", "NT_AUXV"):
            return
        described = note["n_desc"]
        data = described.encode("latin-1") if isinstance(described, str) else bytes(described)
        if note["n_type"] == "NT_AUXV":
            page = auxiliary(data).get(PAGE_SIZE)
            self.page = page if page in (4096, 16384, 65536) else self.page
        elif len(data) >= stack_pointer + 8:
            self._pointers.append(struct.unpack_from("<Q", data, stack_pointer)[0])

    def maps(self) -> list[Mapping]:
        names = sorted(self._files)
        firsts = [first for first, *_ in names]
        found = []
        for start, end, _, _, permissions in self._segments:
            near = bisect_right(firsts, start) - 1
            path = names[near][2] if near >= 0 and start < names[near][1] else ""
            found.append(Mapping(start, end, permissions, path))
        return found

    def read(self, address: int, size: int) -> bytes:
        """Read across segments: a library's initialised data and its zeroed data, for instance, are two mappings."""
        parts, at, left = [], address, size
        while left > 0:
            index = bisect_right(self._starts, at) - 1
            start, end, offset, present, _ = self._segments[index] if index >= 0 else (0, 0, 0, 0, "")
            count = min(left, start + present - at)
            if count <= 0:
                missing = ", which the core does not hold" if at < end else ""
                raise Unreadable(f"{size} bytes at {address:#x}{missing}")
            parts.append(self._data[offset + at - start : offset + at - start + count])
            at, left = at + count, left - count
        return b"".join(parts)

    def resident(self, start: int, end: int) -> np.ndarray:
        found = np.zeros((end - start) // self.page, bool)
        index = max(bisect_right(self._starts, start) - 1, 0)
        for at in range(index, len(self._segments)):
            first, _, offset, present, _ = self._segments[at]
            if first >= end:
                break
            low, high = max(first, start), min(first + present, end)
            pages = (high - low) // self.page
            if pages > 0:
                words = np.frombuffer(self._data, np.uint8, pages * self.page, offset + low - first)
                page = (low - start) // self.page
                found[page : page + pages] = words.reshape(pages, self.page).any(axis=1)
        return found

    def files(self) -> list[tuple[int, int, str, int]]:
        return self._files

    def programs(self) -> set[str]:
        """The files mapped in several parts: the core's note does not say which files are executable."""
        counts = Counter(name for _, _, name, _ in self._files)
        return {name for name, count in counts.items() if count >= PROGRAM_PARTS}

    def stack_pointers(self) -> list[int]:
        return self._pointers
