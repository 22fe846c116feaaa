"""Names of places: of what calls what inside a file, from its debug information where it has some, else from its table
of symbols. Nothing is asked of the process."""

import shutil
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np
from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile
from elftools.elf.sections import NoteSection

from hakmem_lab.inside.profile.model import Place

ADDR2LINE, DEMANGLE = "addr2line", "c++filt"
TIMEOUT_S = 120
FUNCTION_TYPES = (2, 10)  # STT_FUNC, STT_GNU_IFUNC
SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)


@dataclass(frozen=True)
class Name:
    function: str
    file: str = ""
    line: int = 0


@dataclass
class Names:
    """known: place -> its functions, the innermost first: a call that the compiler resolved is a function as well."""

    known: Mapping[Place, Sequence[Name]] = field(default_factory=dict)

    def of(self, place: Place | str) -> Sequence[Name]:
        if isinstance(place, str):
            return [Name(place)]
        return self.known.get(place) or [Name(str(place))]


def resolve(places: Iterable[Place], copies: Mapping[str, Sequence[str]] = MappingProxyType({})) -> Names:
    """copies: file -> where it may be read besides. Read is what has the build id; where there is none, a copy, as the
    name may be another file's where we are."""
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
    """Empty where the file has none, or cannot be read."""
    try:
        with open(path, "rb") as file:
            return _build_id(ELFFile(file))
    except (OSError, ELFError, ValueError):
        return ""


def _of_file(path: str, build_id: str, places: Sequence[Place]) -> dict[Place, Sequence[Name]] | None:
    """None where it is another file, or none that can be read."""
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
        if rows and not rows[-1].file:  # without debug information addr2line names the nearest symbol, whosever it is
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
    """As addr2line tells them; nothing where there is none."""
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
