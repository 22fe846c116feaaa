"""Records the allocations of a program and replays them on other allocators.

This module lists the C sources of each program. A folder holds one program, or code that programs share.
"""

from functools import cache
from pathlib import Path

from hakmem_lab.system.compiled import compiled

SOURCES = Path(__file__).parent / "native"
# Static libraries where the system has them, so that the replayed program loads no libraries of ours.
ATTEMPTS = (("-pthread", "-l:libzstd.a", "-l:libz.a"), ("-pthread", "-lzstd", "-lz"))
NEEDS = {"zstd.h": "libzstd-dev", "zlib.h": "zlib1g-dev"}
PAST = Path(__file__).parents[1] / "system" / "native" / "used" / "past.h"
READER, WRITER = "format/read*.c", "format/write*.c"


def sources(*patterns: str) -> list[Path]:
    """All headers, and the sources that match these patterns."""
    return sorted(SOURCES.glob("*/*.h")) + sorted({path for each in patterns for path in SOURCES.glob(each)})


@cache
def recorder() -> Path:
    """The library that is loaded into a program to record it."""
    # -fno-builtin: its malloc is not the standard one. -fexceptions: exceptions of C++'s new pass through it.
    # -static-libgcc: it unwinds stacks without a further library in the program.
    flags = ("-shared", "-fPIC", "-fvisibility=hidden", "-fno-builtin", "-fexceptions", "-pthread", "-static-libgcc")
    return compiled("libhakrecord.so", sources("recorder/*.c"), (*flags, "-ldl"), purpose="recorder", include=SOURCES)


@cache
def collector() -> Path:
    """The program that takes the recorders' data and writes a trace."""
    found = sources("collect/*.c", "pack/*.c", WRITER)
    return compiled("hak-collect", found, *ATTEMPTS, purpose="collector of records", needs=NEEDS, include=SOURCES)


@cache
def replayer() -> Path:
    """The program that replays a trace."""
    return compiled(
        "hak-replay", sources("replay/*.c", READER), *ATTEMPTS, purpose="replay of traces", needs=NEEDS, include=SOURCES
    )


@cache
def reader() -> Path:
    """The program that counts the operations of a trace."""
    found, attempts = [*sources("stats/*.c", READER), PAST], [(*each, "-lm") for each in ATTEMPTS]
    return compiled("hak-trace", found, *attempts, purpose="reader of traces", needs=NEEDS, include=SOURCES)
