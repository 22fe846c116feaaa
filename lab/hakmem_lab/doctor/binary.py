"""The facts of an ELF file that decide which allocator can serve it; and where to read the files that a process maps.

pyelftools reads the small tables. `Elf` reads the symbol tables, since a program may have a million symbols.
"""

import mmap
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from hakmem_lab.inside.memory import DELETED, Mapping
from hakmem_lab.system.allocators import ALLOCATORS, NAMES
from hakmem_lab.system.scripts import Damaged, Elf, Functions

MAGIC = b"\x7fELF"
# Limits beyond what any real file has, against damaged counts.
MOST_SECTIONS, MOST_SEGMENTS, MOST_TAGS = 1 << 16, 1 << 12, 1 << 12
# Sections with messages, and the one with compilers' versions. A file without sections is searched as a whole.
TEXT_SECTIONS, COMMENT = (".rodata", ".data.rel.ro"), ".comment"
MACHINES = {"EM_X86_64": "x86-64", "EM_386": "x86 (32 bit)", "EM_AARCH64": "aarch64", "EM_ARM": "arm (32 bit)",
            "EM_RISCV": "riscv", "EM_PPC64": "ppc64", "EM_S390": "s390", "EM_LOONGARCH": "loongarch"}  # fmt: skip
SYMBOLIC_FLAG, STATIC_TLS_FLAG, PIE_FLAG = 0x2, 0x10, 0x08000000


@dataclass(frozen=True)
class Binary:
    """interpreter: path of its dynamic linker; needed, search: names of libraries, and folders to find them in;
    symbolic: linked with -Bsymbolic, so that its own functions come first; pie: marked as a program that runs at any
    address; tls_bytes: size of its thread-local variables; texts: allocators whose messages it contains."""

    path: Path
    machine: str
    bits: int
    byte_order: str
    kind: str
    interpreter: str | None = None
    needed: tuple[str, ...] = ()
    search: tuple[str, ...] = ()
    symbolic: bool = False
    pie: bool = False
    static_tls: bool = False
    tls_bytes: int = 0
    sections: frozenset[str] = frozenset()
    functions: Functions = field(default_factory=Functions)
    texts: frozenset[str] = frozenset()
    comment: str = ""

    @property
    def architecture(self) -> tuple[str, int, str]:
        return self.machine, self.bits, self.byte_order

    def defines(self, name: str) -> bool:
        return name in self.functions.exported or name in self.functions.kept

    def is_library(self) -> bool:
        """Whether it is a shared library. libc and a few others can be started as well; they name an interpreter."""
        return self.kind == "dyn" and self.interpreter is None and not self.pie

    def musl(self) -> bool:
        """Whether it is linked to musl, and not to glibc."""
        return "ld-musl" in (self.interpreter or "") or any("musl" in name or name == "libc.so" for name in self.needed)


def is_elf(path: Path) -> bool:
    """Raises OSError."""
    with open(path, "rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def read(path: Path) -> Binary:
    """Raises Damaged where the file contradicts itself, OSError where it cannot be read."""
    from elftools.elf.elffile import ELFFile

    if not is_elf(path):
        raise Damaged("it is no ELF file")
    with open(path, "rb") as file:
        try:
            facts = _facts(ELFFile(file))
        except OSError:
            raise
        except Exception:  # damaged tables make pyelftools raise exceptions of any kind
            raise Damaged("its ELF header or a table of it is damaged") from None
        places = facts.pop("places")
        texts, comment = _texts(file, places)
    with Elf(path) as elf:
        functions = elf.functions(NAMES)
    return Binary(path, functions=functions, texts=texts, comment=comment, **facts)


def readable(path: Path) -> Binary | None:
    """The file's facts; None if it is no ELF file, is damaged, or may not be read."""
    try:
        return read(path)
    except (Damaged, OSError):
        return None


def _facts(elf: Any) -> dict:
    """Facts from the headers and the dynamic section; `places`: name -> (offset, size) of the sections with texts."""
    found: dict[str, Any] = {
        "machine": MACHINES.get(str(elf["e_machine"]), str(elf["e_machine"]).removeprefix("EM_").lower()),
        "bits": elf.elfclass,
        "byte_order": "little" if elf.little_endian else "big",
        "kind": str(elf["e_type"]).removeprefix("ET_").lower(),
    }
    for segment in islice(elf.iter_segments(), MOST_SEGMENTS):
        if segment["p_type"] == "PT_INTERP":
            found["interpreter"] = segment.get_interp_name()
        elif segment["p_type"] == "PT_TLS":
            found["tls_bytes"] = segment["p_memsz"]
        elif segment["p_type"] == "PT_DYNAMIC":
            found |= _dynamic(segment)
    sections = list(islice(elf.iter_sections(), MOST_SECTIONS))
    found["sections"] = frozenset(section.name for section in sections)
    texts = [s for s in sections if s.name in (*TEXT_SECTIONS, COMMENT) and s["sh_type"] != "SHT_NOBITS"]
    found["places"] = {section.name: (section["sh_offset"], section["sh_size"]) for section in texts}
    return found


def _dynamic(segment: Any) -> dict:
    needed, search, symbolic, static_tls, pie = [], [], False, False, False
    for tag in islice(segment.iter_tags(), MOST_TAGS):
        kind, value = tag.entry.d_tag, tag.entry.d_val
        if kind == "DT_NEEDED":
            needed.append(tag.needed)
        elif kind == "DT_RUNPATH":
            search += tag.runpath.split(":")
        elif kind == "DT_RPATH":
            search += tag.rpath.split(":")
        elif kind == "DT_SYMBOLIC":
            symbolic = True
        elif kind == "DT_FLAGS":
            symbolic = symbolic or bool(value & SYMBOLIC_FLAG)
            static_tls = bool(value & STATIC_TLS_FLAG)
        elif kind == "DT_FLAGS_1":
            pie = bool(value & PIE_FLAG)
    found = {"needed": tuple(needed), "search": tuple(search), "symbolic": symbolic, "static_tls": static_tls}
    return found | {"pie": pie}


def _texts(file: Any, places: dict[str, tuple[int, int]]) -> tuple[frozenset[str], str]:
    """(allocators whose messages the file contains, the compilers' comment)."""
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        ranges = [(at, at + size) for name, (at, size) in places.items() if name != COMMENT] or [(0, len(data))]
        found = {
            name
            for name, signs in ALLOCATORS.items()
            if any(data.find(text, start, end) >= 0 for text in signs.texts for start, end in ranges)
        }
        at, size = places.get(COMMENT, (0, 0))
        return frozenset(found), data[at : at + size].decode("ascii", "replace")


def objects(maps: Sequence[Mapping]) -> dict[str, Mapping]:
    """File -> the mapping of its beginning."""
    found: dict[str, Mapping] = {}
    for mapping in maps:
        if mapping.is_file and mapping.offset == 0:
            found.setdefault(mapping.path, mapping)
    return found


def file_of(mapping: Mapping, folder: Path, root: Path) -> Path:
    """The path to read a mapped file from. folder: the process's folder below /proc; root: the root of its file system.
    A file that was deleted or replaced since is read through map_files, which needs more rights."""
    if mapping.path.endswith(DELETED):
        return folder / "map_files" / f"{mapping.start:x}-{mapping.end:x}"
    return root / mapping.path.lstrip("/")
