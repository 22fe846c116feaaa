"""Reads the file of a program. For a script: the programs that the kernel starts for it. For an ELF file: its dynamic
linker, and the functions that it defines, exports and imports.

Functions that read an ELF file raise Damaged where the file contradicts itself.
"""

import mmap
import os
import shutil
import struct
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

MARK = b"#!"
LONGEST_LINE = 4096
DEEPEST = 5  # most levels of scripts whose interpreters are scripts: the kernel's limit
ENV = "env"
ENV_WITH_VALUE = ("-u", "-C", "--unset", "--chdir")


def interpreter(path: Path) -> list[str] | None:
    """The words after `#!`: the interpreter, and its argument before the script's name. None if the file is no
    script."""
    try:
        with open(path, "rb") as file:
            line = file.read(LONGEST_LINE).split(b"\n", 1)[0]
    except OSError:
        return None
    if not line.startswith(MARK):
        return None
    # The kernel passes all text after the interpreter as one argument.
    return os.fsdecode(line[len(MARK) :].strip()).split(None, 1)


def _started_by_env(words: list[str]) -> str | None:
    """The program that `env` starts: the first word that is neither an option nor NAME=VALUE."""
    left = " ".join(words).split()
    while left:
        word = left.pop(0)
        if word in ENV_WITH_VALUE and left:
            left.pop(0)
        elif not word.startswith("-") and "=" not in word:
            return word
    return None


def interpreters(path: Path) -> list[Path]:
    """All interpreters of a script, in the order of their start; empty for a program."""
    found: list[Path] = []
    while len(found) < DEEPEST and (words := interpreter(path)):
        path = Path(words[0])
        found.append(path)
        if path.name == ENV and (name := _started_by_env(words[1:])) and (there := shutil.which(name)):
            path = Path(there)
            found.append(path)
    return found


INTERPRETER, SYMTAB, DYNSYM = 3, 2, 11
FUNCTIONS = (2, 10)  # symbol types: STT_FUNC, STT_GNU_IFUNC
EVERY = range(16)
UNDEFINED = 0


class Damaged(ValueError):
    """A header or a table that does not fit the file."""


@dataclass(frozen=True)
class Functions:
    """Names of functions. kept: defined but not exported, so the dynamic linker cannot replace them. exported: defined,
    and other objects may bind to them. imported: another object must define them."""

    kept: frozenset[str] = frozenset()
    exported: frozenset[str] = frozenset()
    imported: frozenset[str] = frozenset()


class Elf:
    """One ELF file, 32 or 64 bit, of either byte order."""

    def __init__(self, path: Path):
        with open(path, "rb") as file:
            self._data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            self._wide, self._order = self._data[4] == 2, "<" if self._data[5] == 1 else ">"
        except IndexError:
            raise Damaged("its ELF header is cut off") from None

    def __enter__(self) -> "Elf":
        return self

    def __exit__(self, *_: object) -> None:
        self._data.close()

    def _read(self, format_: str, offset: int) -> tuple:
        try:
            return struct.unpack_from(self._order + format_, self._data, offset)
        except (struct.error, OverflowError):
            raise Damaged("its ELF header is damaged") from None

    def interpreter(self) -> str | None:
        """The dynamic linker that the file requests; None if it is statically linked."""
        (offset,) = self._read("Q" if self._wide else "I", 32 if self._wide else 28)
        size, count = self._read("HH", 54 if self._wide else 42)
        for at in range(offset, offset + count * size, size or 1):
            kind, begin, length = self._read("I4xQ16xQ" if self._wide else "II8xI", at)
            if kind == INTERPRETER:
                return os.fsdecode(self._data[begin : begin + length].rstrip(b"\0"))
        return None

    def functions(self, names: Iterable[str], kinds: Collection[int] = FUNCTIONS) -> Functions:
        """Which of these names its symbol tables define, export or import; a stripped program has no `kept` ones.
        kinds: types of symbols."""
        defined: dict[int, set[str]] = {SYMTAB: set(), DYNSYM: set()}
        imported: set[str] = set()
        sections = self._sections()
        for kind, offset, size, link in sections:
            if kind in defined and link < len(sections):
                _, at, length, _ = sections[link]
                here, elsewhere = self._symbols(offset, size, self._data[at : at + length], set(names), kinds)
                defined[kind] |= here
                imported |= elsewhere if kind == DYNSYM else set()
        exported = defined[DYNSYM]
        return Functions(frozenset(defined[SYMTAB] - exported), frozenset(exported), frozenset(imported))

    def texts(self, wanted: Iterable[bytes]) -> set[bytes]:
        """Which of these byte strings the file contains."""
        return {text for text in wanted if self._data.find(text) >= 0}

    def _sections(self) -> list[tuple[int, int, int, int]]:
        """(type, offset, size, linked section) of each."""
        (offset,) = self._read("Q" if self._wide else "I", 40 if self._wide else 32)
        size, count = self._read("HH", 58 if self._wide else 46)
        fields = "4xI16xQQI" if self._wide else "4xI8xIII"
        return [self._read(fields, offset + i * size) for i in range(count)] if offset else []

    def _symbols(
        self, offset: int, size: int, strings: bytes, names: set[str], kinds: Collection[int]
    ) -> tuple[set[str], set[str]]:
        """(functions of these names that a symbol table defines, names that it imports)."""
        places: dict[int, str] = {}
        for name in names:
            word, at = name.encode() + b"\0", -1
            # The string table may hold a name only as the end of a longer one.
            while (at := strings.find(word, at + 1)) >= 0:
                places[at] = name
        symbol = struct.Struct(self._order + ("IBxH16x" if self._wide else "I8xBxH"))
        table = self._data[offset : offset + size - size % symbol.size]
        defined: set[str] = set()
        wanted: set[str] = set()
        if not places or len(table) % symbol.size:
            return defined, wanted
        for name, info, section in symbol.iter_unpack(table):
            if name in places:
                if section == UNDEFINED:
                    wanted.add(places[name])
                elif info & 15 in kinds:
                    defined.add(places[name])
        return defined, wanted
