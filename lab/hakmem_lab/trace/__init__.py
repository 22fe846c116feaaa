"""Programs recorded once and replayed: what they ask of an allocator, and what another one would make of it.

Here is the C of this group: which sources make which program. A folder is a program, or what programs share.
"""

from functools import cache
from pathlib import Path

from hakmem_lab.system.compiled import compiled

SOURCES = Path(__file__).parent / "native"
# Linked into the program where the system has them so: nothing of ours is then loaded beside what is measured.
ATTEMPTS = (("-pthread", "-l:libzstd.a", "-l:libz.a"), ("-pthread", "-lzstd", "-lz"))
NEEDS = {"zstd.h": "libzstd-dev", "zlib.h": "zlib1g-dev"}
PAST = Path(__file__).parents[1] / "system" / "native" / "used" / "past.h"
READER, WRITER = "format/read*.c", "format/write*.c"


def sources(*patterns: str) -> list[Path]:
    """The headers, all of them, and the sources of these patterns."""
    return sorted(SOURCES.glob("*/*.h")) + sorted({path for each in patterns for path in SOURCES.glob(each)})


@cache
def recorder() -> Path:
    """The library that is loaded into a program to record it."""
    # Its malloc is not the one that the compiler knows, and an exception of C++'s new passes through it. It follows
    # stacks by code of its own, so that no further library comes into the program.
    flags = ("-shared", "-fPIC", "-fvisibility=hidden", "-fno-builtin", "-fexceptions", "-pthread", "-static-libgcc")
    return compiled("libhakrecord.so", sources("recorder/*.c"), (*flags, "-ldl"), purpose="recorder", include=SOURCES)


@cache
def collector() -> Path:
    """The program that takes what recorders say and writes a trace."""
    found = sources("collect/*.c", "pack/*.c", WRITER)
    return compiled("hak-collect", found, *ATTEMPTS, purpose="collector of records", needs=NEEDS, include=SOURCES)


@cache
def replayer() -> Path:
    """The program that does what a trace says."""
    return compiled(
        "hak-replay", sources("replay/*.c", READER), *ATTEMPTS, purpose="replay of traces", needs=NEEDS, include=SOURCES
    )


@cache
def reader() -> Path:
    """The program that counts what is in a trace."""
    found, attempts = [*sources("stats/*.c", READER), PAST], [(*each, "-lm") for each in ATTEMPTS]
    return compiled("hak-trace", found, *attempts, purpose="reader of traces", needs=NEEDS, include=SOURCES)
