#!/usr/bin/env python3
"""Write the seed corpus of fuzz_api: make_corpus.py tests/fuzz/corpus_api

Each file is a program of four-byte operations (operations.c): code, slot, size code (little endian). The low nibble of
the code says what, the high nibble how. Inputs that a fuzzer found are added to the directory by hand.
"""
import pathlib
import random
import struct
import sys

MALLOC, CALLOC, REALLOCARRAY, FREE, REALLOC, ALIGNED, HEAP = 0, 4, 5, 6, 10, 13, 15
UNITS = (1, 16, 256, 4096)
IMPOSSIBLE = 0xFFFF
FLUSH, TRIM, STATS, CHECK = 0, 1, 2, 3


def size_code(size):
    """The code of the smallest representable size >= size."""
    for index, unit in enumerate(UNITS):
        if -(-size // unit) < 0x4000:
            return index << 14 | -(-size // unit)
    raise ValueError(size)


def op(what, slot=0, size=0, how=0):
    code = size if size == IMPOSSIBLE else size_code(size)
    return struct.pack("<BBH", how << 4 | what, slot, code)


def sizes_up_and_down():
    sizes = [0, 1, 8, 15, 16, 17, 24, 32, 48, 64, 100, 128, 255, 256, 257, 512, 1000, 1024, 2048, 4096, 4097]
    sizes += [8192, 16384, 20480, 32768, 32769, 65536, 65537, 102400, 262144, 1 << 20, 3 << 20, 5 << 20]
    for what in (MALLOC, CALLOC, REALLOCARRAY):
        yield b"".join(op(what, i, s) for i, s in enumerate(sizes)) + b"".join(op(FREE, i) for i in range(len(sizes)))
    yield b"".join(op(REALLOC, 0, s) for s in sizes + sizes[::-1])
    yield b"".join(op(MALLOC, i, s) + op(FREE, i, how=1) for i, s in enumerate(sizes))


def alignments():
    for how in range(16):
        yield b"".join(op(ALIGNED, slot, 1 + slot * 700, how) for slot in range(24)) + b"".join(
            op(FREE, slot, how=2) for slot in range(24)
        )


def patterns():
    fill = b"".join(op(MALLOC, slot, 100) for slot in range(64))
    yield fill + b"".join(op(FREE, slot) for slot in range(64)) + op(HEAP, how=FLUSH) + op(HEAP, how=CHECK)
    yield fill + b"".join(op(FREE, slot) for slot in range(63, -1, -1)) + op(HEAP, how=TRIM) + fill
    yield b"".join(op(MALLOC, 0, 1 << 20) + op(REALLOC, 0, 2 << 20) + op(HEAP, how=TRIM) for _ in range(20))
    yield op(MALLOC, 0, IMPOSSIBLE) + op(MALLOC, 1, 50) + op(REALLOC, 1, IMPOSSIBLE) + op(CALLOC, 2, IMPOSSIBLE)
    yield b"".join(op(ALIGNED, s, IMPOSSIBLE, s % 16) for s in range(32)) + op(HEAP, how=STATS)
    yield b"".join(op(MALLOC, s, 60 << 20) for s in range(8))
    yield op(MALLOC, 0, 100) + op(REALLOC, 0, 0) + op(HEAP, how=CHECK)
    yield b""
    yield b"\x00\x00\x00"


def random_walks(seeds):
    for seed in range(seeds):
        generator = random.Random(seed)
        yield bytes(generator.randrange(256) for _ in range(4 * generator.choice((50, 300, 1000))))


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: make_corpus.py DIRECTORY")
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for kind in (sizes_up_and_down(), alignments(), patterns(), random_walks(12)):
        for number, program in enumerate(kind):
            (directory / f"{kind.__name__}-{number:02}").write_bytes(program)


if __name__ == "__main__":
    main()
