"""A heap profile: stacks of places, with the figures of what was allocated there.

Return addresses from a heap become places in files. Their names come from the file's debug information, if it has any,
else from its symbol table. The process takes no part in this.
"""

import os
import shutil
import struct
import subprocess
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection

from hakmem_lab.inside.layout import Layout
from hakmem_lab.inside.links import SYMBOL
from hakmem_lab.inside.memory import DELETED, Memory, Unreadable, word

# Readers of pprof's format expect this order.
TYPES = (
    ("alloc_objects", "count"),
    ("alloc_space", "bytes"),
    ("inuse_objects", "count"),
    ("inuse_space", "bytes"),
    ("resident_space", "bytes"),
)
ALLOC_OBJECTS, ALLOC_SPACE, INUSE_OBJECTS, INUSE_SPACE, RESIDENT_SPACE = range(5)
UNKNOWN = "[unknown]"
REGION = "[region {}]"  # the outermost frame of what was allocated in a region


@dataclass(frozen=True)
class Place:
    """An instruction: its offset in a file, or its address if it is in no file."""

    path: str
    build_id: str
    offset: int

    def __str__(self) -> str:
        return f"{self.path.rpartition('/')[2]}+{self.offset:#x}" if self.path else f"{self.offset:#x}"


Stack = tuple[Place | str, ...]  # the innermost first; a string names a part of the heap


def region_of(stack: Stack) -> str:
    """The name of the region whose blocks the stack allocated; empty: none."""
    head, _, tail = REGION.partition("{}")
    last = stack[-1] if len(stack) > 1 and isinstance(stack[-1], str) else ""
    return last[len(head) : -len(tail)] if last.startswith(head) else ""


@dataclass
class HeapProfile:
    """values: stack -> one number for each type."""

    values: dict[Stack, list[float]] = field(default_factory=dict)
    types: Sequence[tuple[str, str]] = TYPES
    period: int = 0
    time_ns: int = 0
    duration_ns: int = 0
    comments: list[str] = field(default_factory=list)
    main: str = ""  # the program's own file
    copies: dict[str, list[str]] = field(default_factory=dict)  # file -> other paths to read it from
    named: dict[Place, Sequence["Name"]] = field(default_factory=dict)  # places whose names are known already
    missing: str = ""  # what the profile lacks, and why
    inherited: float = 0.0  # bytes in use that processes have from their parents over fork, at most
    rows: frozenset[Stack] = frozenset()  # keys of `values` that stand for the allocator's own memory

    def add(self, stack: Stack, values: Iterable[float]) -> None:
        before = self.values.setdefault(stack, [0.0] * len(self.types))
        for i, value in enumerate(values):
            before[i] += value

    def total(self, which: int) -> float:
        return sum(values[which] for values in self.values.values())

    def places(self) -> set[Place]:
        return {place for stack in self.values for place in stack if isinstance(place, Place)}

    def names(self) -> "Names":
        """The names of all places. Raises nothing: what has no name gets its place as one."""
        found = resolve(self.places() - self.named.keys(), self.copies)
        return Names({**found.known, **self.named})

    def join(self, other: "HeapProfile") -> None:
        """Add another process's profile; equal stacks are counted together."""
        for stack, values in other.values.items():
            self.add(stack, values)
        self.inherited += other.inherited
        self.period = self.period or other.period
        self.time_ns = max(self.time_ns, other.time_ns)
        self.duration_ns = max(self.duration_ns, other.duration_ns)
        self.comments += other.comments


# Structures of a 64-bit ELF file in memory.
ELF_HEAD = struct.Struct("<16s16xQ14xHH")  # identification; place, size and count of the program headers
HEADER = struct.Struct("<I4xQQ8xQ8x8x")  # type, offset, address, bytes in the file
NOTE = struct.Struct("<III")
ELF64 = b"\x7fELF\x02\x01"
PT_LOAD, PT_NOTE, NT_GNU_BUILD_ID = 1, 4, 3
HEADERS_MAX, NOTES_MAX = 128, 4096
IMAGE, IMAGES_MAX, NAME_BYTES = ("start", "end", "offset", "name"), 1 << 16, 4096


def return_addresses(memory: Memory, found: Layout) -> np.ndarray:
    """The return addresses of all frames, indexed by the frame's number."""
    root, size, piece = found.root("hak_sites"), found["size.hak_frame_t"], found["HAK_FRAMES_PER_PIECE"]
    count = word(memory, root + found["hak_sites_t.frame_count"])
    if count > piece * found["HAK_FRAME_PIECES"]:
        raise Unreadable("the table of frames")
    pieces = np.frombuffer(memory.read(root + found["hak_sites_t.frames"], 8 * found["HAK_FRAME_PIECES"]), "<u8")
    row = np.dtype({"names": ["pc"], "formats": ["<u8"], "offsets": [found["hak_frame_t.pc"]], "itemsize": size})
    parts = [np.zeros(0, "<u8")]
    for first in range(0, count, piece):
        data = memory.read(int(pieces[first // piece]), min(piece, count - first) * size)
        parts.append(np.frombuffer(data, row)["pc"])
    return np.concatenate(parts)


def unloaded(memory: Memory, found: Layout) -> list[tuple[int, int, str, int]]:
    """Mappings of files whose code the process had, as it remembers them: start, end, file, offset in the file."""
    if "&hak_images" not in found or not (table := word(memory, found.root("hak_images"))):
        return []
    count = min(word(memory, table + found["hak_images_t.count"]), IMAGES_MAX)
    size, at = found["size.hak_mapping_t"], {name: found[f"hak_mapping_t.{name}"] for name in IMAGE}
    data = memory.read(table + found["hak_images_t.image"], count * size)
    rows = [
        [int.from_bytes(data[row + at[name] :][:8], "little") for name in IMAGE] for row in range(0, len(data), size)
    ]
    present = [(start, end) for start, end, *_ in memory.files()]
    gone = [row for row in rows if not any(start < row[1] and row[0] < end for start, end in present)]
    return [(start, end, name, offset) for start, end, offset, place in gone if (name := _text(memory, place))]


def _text(memory: Memory, place: int) -> str:
    data = memory.read(place, NAME_BYTES - place % NAME_BYTES)  # no string crosses a page that is not mapped
    data += b"" if b"\0" in data else memory.read(place + len(data), NAME_BYTES)
    return os.fsdecode(data.partition(b"\0")[0])


def places_of(memory: Memory, pcs: Iterable[int], gone: Sequence[tuple[int, int, str, int]] = ()) -> dict[int, Place]:
    """Places of the calls that return to these addresses; a call lies just before its return address. gone: what
    `unloaded` returns."""
    files = sorted([*memory.files(), *gone])
    starts, ids = [start for start, *_ in files], dict[int, str]()
    bases, latest = [], dict[str, int]()  # for each mapping, where its file's beginning is mapped
    for start, _, path, offset in files:
        latest[path] = start if offset == 0 else latest.get(path, start)
        bases.append(latest[path])
    found = {}
    for pc in set(pcs):
        i = bisect_right(starts, pc - 1) - 1
        if i < 0 or pc - 1 >= files[i][1]:
            found[pc] = Place("", "", pc - 1)
            continue
        start, _, path, offset = files[i]
        base = bases[i]
        if base not in ids:
            ids[base] = _mapped_build_id(memory, base, path)
        # Without a build id, the file that has the name today cannot be compared with the mapped one.
        named = path.removesuffix(DELETED) if ids[base] else path
        found[pc] = Place(named, ids[base], pc - 1 - start + offset)
    return found


def _mapped_build_id(memory: Memory, base: int, path: str) -> str:
    """The build id, read from memory: the path may lead to another file by now, or in our mount namespace."""
    try:
        return _build_id_at(memory, base)
    except (Unreadable, struct.error):
        return "" if path.endswith(DELETED) else build_id_of(path)


def _build_id_at(memory: Memory, base: int) -> str:
    """The build id of the file mapped at `base`; empty if it has none."""
    kind, place, size, count = ELF_HEAD.unpack(memory.read(base, ELF_HEAD.size))
    if not kind.startswith(ELF64) or size != HEADER.size or count > HEADERS_MAX:
        raise Unreadable("no ELF file")
    headers = [*HEADER.iter_unpack(memory.read(base + place, size * count))]
    first = min((address for type_, _, address, _ in headers if type_ == PT_LOAD), default=0)
    bias = base - first // memory.page * memory.page
    for type_, _, address, held in headers:
        if type_ == PT_NOTE and (found := _id_in(memory.read(bias + address, min(held, NOTES_MAX)))):
            return found
    return ""


def _id_in(notes: bytes) -> str:
    at = 0
    while at + NOTE.size <= len(notes):
        name, size, type_ = NOTE.unpack_from(notes, at)
        text = at + NOTE.size + (name + 3) // 4 * 4
        if type_ == NT_GNU_BUILD_ID and notes[at + NOTE.size : text] == b"GNU\0":
            return notes[text : text + size].hex()
        at = text + (size + 3) // 4 * 4
    return ""


def copies(memory: Memory) -> dict[str, list[str]]:
    """File -> other paths to read it from: below the process's root, or through its mapping if it was replaced."""
    found: dict[str, list[str]] = {}
    pid = getattr(memory, "pid", None)
    for start, end, path, _ in memory.files() if pid is not None else ():
        for name in {path, path.removesuffix(DELETED)}:
            own = found.setdefault(name, [] if name != path else [f"/proc/{pid}/root{path}"])
            own.append(f"/proc/{pid}/map_files/{start:x}-{end:x}")
    return found


ADDR2LINE, DEMANGLE = "addr2line", "c++filt"
TIMEOUT_S = 120
FUNCTION_TYPES = (2, 10)  # STT_FUNC, STT_GNU_IFUNC


@dataclass(frozen=True)
class Name:
    function: str
    file: str = ""
    line: int = 0


@dataclass
class Names:
    """known: place -> its functions, the innermost first, including inlined ones."""

    known: Mapping[Place, Sequence[Name]] = field(default_factory=dict)

    def of(self, place: Place | str) -> Sequence[Name]:
        if isinstance(place, str):
            return [Name(place)]
        return self.known.get(place) or [Name(str(place))]


def resolve(places: Iterable[Place], copies: Mapping[str, Sequence[str]] = MappingProxyType({})) -> Names:
    """The names of places. copies: file -> other paths to read it from. The first file with the right build id is read.
    Without a build id, copies come first, since the path itself may lead to another file here."""
    of_file: dict[tuple[str, str], list[Place]] = {}
    for place in places:
        of_file.setdefault((place.path, place.build_id), []).append(place)
    known: dict[Place, Sequence[Name]] = {}
    for (path, build_id), mine in of_file.items():
        others = copies.get(path, ())
        for candidate in ((path, *others) if build_id else (*others, path)) if path.startswith("/") else ():
            found = _of_file(candidate, build_id, mine)
            if found is not None:
                known |= found
                break
    return Names(known)


def build_id_of(path: str) -> str:
    """The build id of a file; empty if it has none or cannot be read."""
    try:
        with open(path, "rb") as file:
            return _build_id(ELFFile(file))
    except (OSError, ELFError, ValueError):
        return ""


def _of_file(path: str, build_id: str, places: Sequence[Place]) -> dict[Place, Sequence[Name]] | None:
    """The names of places in a file; None if it has another build id or cannot be read."""
    try:
        with open(path, "rb") as file:
            elf = ELFFile(file)
            if build_id and _build_id(elf) != build_id:
                return None  # another file has the name by now
            segments = [each for each in elf.iter_segments() if each["p_type"] == "PT_LOAD"]
            table = _table(elf)
    except (OSError, ELFError, KeyError, ValueError):
        return None
    addresses = {}
    for place in places:
        for each in segments:
            if each["p_offset"] <= place.offset < each["p_offset"] + each["p_filesz"]:
                addresses[place] = place.offset - each["p_offset"] + each["p_vaddr"]
    lines = _lines(path, sorted(set(addresses.values())))
    found: dict[Place, Sequence[Name]] = {}
    for place, address in addresses.items():
        named = table.name(address)
        rows = lines.get(address, [])
        if rows and not rows[-1].file:  # without debug information, addr2line names any nearby symbol
            rows = [*rows[:-1], Name(named or str(place))]
        found[place] = rows or [Name(named or str(place))]
    return found


def _build_id(elf: ELFFile) -> str:
    for section in elf.iter_sections():
        if isinstance(section, NoteSection):
            for note in section.iter_notes():
                if note["n_type"] == "NT_GNU_BUILD_ID":
                    return str(note["n_desc"])
    return ""


@dataclass
class _Table:
    """Functions of a file, by address."""

    starts: np.ndarray
    ends: np.ndarray
    names: list[str]

    def name(self, address: int) -> str:
        i = int(np.searchsorted(self.starts, address, "right")) - 1
        return self.names[i] if i >= 0 and address < self.ends[i] else ""


def _table(elf: ELFFile) -> _Table:
    parts, texts = [], list[str]()
    for wanted in (".symtab", ".dynsym"):
        section = elf.get_section_by_name(wanted)
        if section is None:
            continue
        rows = np.frombuffer(section.data(), SYMBOL)
        rows = rows[np.isin(rows["info"] & 15, FUNCTION_TYPES) & (rows["section"] != 0)]
        strings = elf.get_section(section["sh_link"]).data()
        parts.append(rows)
        texts += [strings[at : strings.find(b"\0", at)].decode("utf-8", "replace") for at in rows["name"].tolist()]
    rows = np.concatenate(parts) if parts else np.zeros(0, SYMBOL)
    order = np.argsort(rows["value"], kind="stable")
    starts = rows["value"][order].astype(np.int64)
    ends = starts + np.maximum(rows["size"][order], 1).astype(np.int64)
    return _Table(starts, ends, _demangled([texts[i] for i in order.tolist()]))


def _demangled(names: list[str]) -> list[str]:
    if not any(name.startswith("_Z") for name in names) or shutil.which(DEMANGLE) is None:
        return names
    done = _ask([DEMANGLE], "\n".join(names))
    lines = done.splitlines()
    return lines if len(lines) == len(names) else names


def _lines(path: str, addresses: Sequence[int]) -> dict[int, list[Name]]:
    """Functions and source lines from addr2line; empty if it is not installed."""
    if shutil.which(ADDR2LINE) is None or not addresses:
        return {}
    text = _ask([ADDR2LINE, "-a", "-f", "-i", "-C", "-e", path], "\n".join(f"{each:#x}" for each in addresses))
    found: dict[int, list[Name]] = {}
    mine: list[Name] = []
    rows = iter(text.splitlines())
    for row in rows:
        if row.startswith("0x"):
            mine = found.setdefault(int(row, 16), [])
            continue
        file, _, line = next(rows, "??:0").partition(" ")[0].rpartition(":")
        mine.append(Name(row, "" if file == "??" else file, int(line) if line.isdecimal() else 0))
    return found


def _ask(words: list[str], text: str) -> str:
    try:
        done = subprocess.run(
            words, input=text, capture_output=True, text=True, errors="replace", timeout=TIMEOUT_S, check=False
        )
        return done.stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
