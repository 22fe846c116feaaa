"""Makes traces byte by byte, including those that the writer would refuse."""

import itertools
import struct
import zlib
from collections.abc import Iterator

MALLOC, CALLOC, ALIGNED, FREE, FREE_FOREIGN, REALLOC, REALLOC_FOREIGN, TOUCHED, WAIT, THREAD_END = range(10)
IMPLIED, NEXT, NEAR, TOLD = (hint << 4 for hint in range(4))
INFO, PROCESS, OPERATIONS, RESIDENT, END = range(1, 6)
HEADER = b"HAKTRACE" + struct.pack("<II", 1, 0)
BLOCK = 1 << 17  # of zstd, at most
RUN, REPEATED = 64, 2
MARK = 0x4B4E4843


def leb(value: int) -> bytes:
    parts = bytearray()
    while value >= 0x80:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*parts, value])


def zigzag(value: int) -> bytes:
    return leb(value << 1 if value >= 0 else -value * 2 - 1)


def blocks(plain: bytes) -> Iterator[tuple[bytes, int]]:
    """(content, kind and size) of zstd blocks; long runs of one byte become run-length blocks."""
    other = bytearray()
    for byte, group in itertools.groupby(plain):
        length = len(list(group))
        if length < RUN:
            other += bytes([byte]) * length
            continue
        yield from raw(bytes(other))
        other.clear()
        yield from ((bytes([byte]), min(BLOCK, length - at) << 3 | REPEATED) for at in range(0, length, BLOCK))
    yield from raw(bytes(other))


def raw(plain: bytes) -> Iterator[tuple[bytes, int]]:
    yield from ((part := plain[at : at + BLOCK], len(part) << 3) for at in range(0, len(plain), BLOCK))


def frame(plain: bytes, claimed: int | None = None) -> bytes:
    """A zstd frame. claimed: the content size in its header, by default the true one."""
    found = list(blocks(plain)) or [(b"", 0)]
    out = struct.pack("<IBI", 0xFD2FB528, 0xA0, len(plain) if claimed is None else claimed)
    for index, (content, head) in enumerate(found):
        out += (head | (index == len(found) - 1)).to_bytes(3, "little") + content
    return out


def chunk(kind: int, plain: bytes, operations: int = 0, **fields: int) -> bytes:
    """A chunk. fields: values that replace the right ones in its head."""
    packed = fields.pop("packed", None) or frame(plain)
    head = {"mark": MARK, "kind": kind, "process": 0, "thread": 0, "operations": operations, "slots": 0}
    head |= {"bytes": len(plain), "packed_bytes": len(packed), "time_ns": 0} | fields
    crc = head.pop("crc", None)
    words = struct.pack("<8IQ", *head.values())
    return words + struct.pack("<II", zlib.crc32(words + packed) if crc is None else crc, 0) + packed


def columns(codes: bytes, sizes: bytes = b"", slots: bytes = b"", times: bytes = b"", extras: bytes = b"") -> bytes:
    parts = (codes, sizes, slots, times, extras)
    return struct.pack("<5I", *map(len, parts)) + b"".join(parts)


def thread(number: int, codes: bytes, *parts: bytes, slots: int = 0, **fields: int) -> bytes:
    return chunk(OPERATIONS, columns(codes, *parts), len(codes), thread=number, slots=slots, **fields)


def trace(*chunks: bytes, complete: bool | None = True, end: bytes = b"{}") -> bytes:
    """A whole trace. complete: as the end chunk says; None leaves out the end chunk."""
    return HEADER + b"".join(chunks) + (b"" if complete is None else chunk(END, end, int(complete)))
