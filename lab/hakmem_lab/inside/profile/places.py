"""From the return addresses of a heap to places in files, and where a process's files can be read."""

import struct
from bisect import bisect_right
from collections.abc import Iterable

import numpy as np

from hakmem_lab.inside.layout import Layout
from hakmem_lab.inside.memory import Memory, Unreadable
from hakmem_lab.inside.profile.model import Place
from hakmem_lab.inside.profile.symbols import build_id_of

DELETED = " (deleted)"
# Of an ELF file of 64 bits, as it lies in memory.
ELF_HEAD = struct.Struct("<16s16xQ14xHH")  # identification; place, size and count of the program headers
HEADER = struct.Struct("<I4xQQ8xQ8x8x")  # type, offset, address, bytes in the file
NOTE = struct.Struct("<III")
ELF64 = b"\x7fELF\x02\x01"
PT_LOAD, PT_NOTE, NT_GNU_BUILD_ID = 1, 4, 3
HEADERS_MAX, NOTES_MAX = 128, 4096


def return_addresses(memory: Memory, found: Layout) -> np.ndarray:
    """All that stacks hold, by their numbers."""
    root, size, piece = found.root("hak_sites"), found["size.hak_frame_t"], found["HAK_FRAMES_PER_PIECE"]
    count = int.from_bytes(memory.read(root + found["hak_sites_t.frame_count"], 8), "little")
    if count > piece * found["HAK_FRAME_PIECES"]:
        raise Unreadable("the table of frames")
    pieces = np.frombuffer(memory.read(root + found["hak_sites_t.frames"], 8 * found["HAK_FRAME_PIECES"]), "<u8")
    row = np.dtype({"names": ["pc"], "formats": ["<u8"], "offsets": [found["hak_frame_t.pc"]], "itemsize": size})
    parts = [np.zeros(0, "<u8")]
    for first in range(0, count, piece):
        data = memory.read(int(pieces[first // piece]), min(piece, count - first) * size)
        parts.append(np.frombuffer(data, row)["pc"])
    return np.concatenate(parts)


def places(memory: Memory, pcs: Iterable[int]) -> dict[int, Place]:
    """Of the calls, which are before the addresses to which they return."""
    files = sorted(memory.files())
    starts, ids = [start for start, *_ in files], dict[int, str]()
    bases, latest = [], dict[str, int]()  # where the file's beginning is mapped
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
            ids[base] = _build_id(memory, base, path)
        # Without a build id nothing tells whether it is the same file that has the name.
        named = path.removesuffix(DELETED) if ids[base] else path
        found[pc] = Place(named, ids[base], pc - 1 - start + offset)
    return found


def _build_id(memory: Memory, base: int, path: str) -> str:
    """Of the file that is mapped: another may have its name by now, or have it where we are."""
    try:
        return _build_id_at(memory, base)
    except (Unreadable, struct.error):
        return "" if path.endswith(DELETED) else build_id_of(path)


def _build_id_at(memory: Memory, base: int) -> str:
    """Empty where the file has none."""
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
    """File -> where it, or the one that had its name when it was mapped, may be read besides under its own name."""
    found: dict[str, list[str]] = {}
    pid = getattr(memory, "pid", None)
    for start, end, path, _ in memory.files() if pid is not None else ():
        for name in {path, path.removesuffix(DELETED)}:
            own = found.setdefault(name, [] if name != path else [f"/proc/{pid}/root{path}"])
            own.append(f"/proc/{pid}/map_files/{start:x}-{end:x}")
    return found
