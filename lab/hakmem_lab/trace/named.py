"""Names the places of a trace whose files have other paths here, for instance files of a container.

They are found below the process's root while that exists, and kept in the trace: pieces of kind 7, before its end.
"""

import contextlib
import json
import os
import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from hakmem_lab.errors import decoded
from hakmem_lab.inside.profile.places import Name, Place, resolve

HEAD = struct.Struct("<8IQII")  # mark, kind, process, thread, operations, slots, bytes, packed bytes, time; sum, 0
MARK, END, NAMES = 0x4B4E4843, 5, 7
BEGIN = 16  # bytes of the header of a trace
FRAME, FLAGS, BLOCK = 0xFD2FB528, 0xA0, 1 << 17  # a zstd frame of blocks that are stored as they are
ROWS = 2000  # places in a piece: some 300 KB


def elsewhere(pid: int) -> int | None:
    """A descriptor of the process's root, if its files are not ours: it holds them when the process has ended."""
    with contextlib.suppress(OSError):
        root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        same = os.path.samestat(os.fstat(root), os.stat("/proc/self/root"))
        if same and os.path.samestat(os.stat(f"/proc/{pid}/ns/mnt"), os.stat("/proc/self/ns/mnt")):
            os.close(root)
            return None
        return root
    return None


def keep(path: Path, places: Iterable[Place], root: int) -> None:
    """Add the names of places to a complete trace. root: that of the process."""
    places = set(places)
    below = f"/proc/{os.getpid()}/fd/{root}"
    known = resolve(places, {place.path: [below + place.path] for place in places}).known
    rows = [[*vars(place).values(), [[*vars(name).values()] for name in names]] for place, names in known.items()]
    texts = [json.dumps({"names": rows[at : at + ROWS]}).encode() for at in range(0, len(rows), ROWS)]
    with open(path, "r+b") as file:
        ends = [at for at, kind, _ in _pieces(file.fileno()) if kind == END]
        if not ends or not texts:
            return
        end = os.pread(file.fileno(), os.fstat(file.fileno()).st_size - ends[-1], ends[-1])
        try:
            os.pwrite(file.fileno(), b"".join(map(_piece, texts)) + end, ends[-1])
        except OSError:
            os.ftruncate(file.fileno(), ends[-1])
            os.pwrite(file.fileno(), end, ends[-1])


def stored(path: Path) -> dict[Place, Sequence[Name]]:
    """The names in a trace, which are untrusted."""
    found: dict[Place, Sequence[Name]] = {}
    with open(path, "rb") as file, contextlib.suppress(ValueError, TypeError, KeyError):
        for at, kind, packed in _pieces(file.fileno()):
            if kind == NAMES:
                text = _plain(os.pread(file.fileno(), packed, at + HEAD.size)).decode("utf-8", "replace")
                for name, build_id, offset, names in decoded(json.loads, text)["names"]:
                    place = Place(str(name), str(build_id), int(offset))
                    found[place] = [Name(str(function), str(file), int(line)) for function, file, line in names]
    return found


def _pieces(file: int) -> Iterator[tuple[int, int, int]]:
    """(place, kind, packed bytes) of every piece."""
    at = BEGIN
    while len(head := os.pread(file, HEAD.size, at)) == HEAD.size:
        mark, kind, *_, packed, _, _, _ = HEAD.unpack(head)
        if mark != MARK:
            return
        yield at, kind, packed
        at += HEAD.size + packed


def _piece(plain: bytes) -> bytes:
    parts = [plain[at : at + BLOCK] for at in range(0, len(plain), BLOCK)]
    heads = [(len(part) << 3 | (at == len(parts) - 1)).to_bytes(3, "little") for at, part in enumerate(parts)]
    packed = struct.pack("<IBI", FRAME, FLAGS, len(plain))
    packed += b"".join(head + part for head, part in zip(heads, parts, strict=True))
    head = HEAD.pack(MARK, NAMES, 0, 0, 0, 0, len(plain), len(packed), 0, 0, 0)[:-8]
    return head + struct.pack("<II", zlib.crc32(head + packed), 0) + packed


def _plain(packed: bytes) -> bytes:
    at, found = 9, bytearray()
    while at + 3 <= len(packed):
        size = int.from_bytes(packed[at : at + 3], "little") >> 3
        found += packed[at + 3 : at + 3 + size]
        at += 3 + size
    return bytes(found)
