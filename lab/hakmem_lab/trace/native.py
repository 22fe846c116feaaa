"""The C of this group: which sources make which program. A file belongs to a program by the beginning of its name."""

from functools import cache
from pathlib import Path

from hakmem_lab.system.compiled import compiled

SOURCES = Path(__file__).parent / "native"
# Linked into the program where the system has them so: nothing of ours is then loaded beside what is measured.
ATTEMPTS = (("-pthread", "-l:libzstd.a", "-l:libz.a"), ("-pthread", "-lzstd", "-lz"))
NEEDS = "install libzstd-dev and zlib1g-dev"


def sources(*beginnings: str) -> list[Path]:
    """The headers, all of them, and the sources whose names begin so."""
    return sorted(SOURCES.glob("*.h")) + sorted({path for each in beginnings for path in SOURCES.glob(f"{each}*.c")})


@cache
def recorder() -> Path:
    """The library that is loaded into a program to record it."""
    # Its malloc is not the one that the compiler knows, and an exception of C++'s new passes through it.
    flags = ("-shared", "-fPIC", "-fvisibility=hidden", "-fno-builtin", "-fexceptions", "-pthread", "-ldl")
    return compiled("libhakrecord.so", sources("recorder"), flags, purpose="recorder")


@cache
def collector() -> Path:
    """The program that takes what recorders say and writes a trace."""
    found = sources("collect", "pack", "write")
    return compiled("hak-collect", found, *ATTEMPTS, purpose="collector of records", needs=NEEDS)


@cache
def replayer() -> Path:
    """The program that does what a trace says."""
    return compiled("hak-replay", sources("replay", "read"), *ATTEMPTS, purpose="replay of traces", needs=NEEDS)


@cache
def reader() -> Path:
    """The program that counts what is in a trace."""
    return compiled("hak-trace", sources("stats", "read"), *ATTEMPTS, purpose="reader of traces", needs=NEEDS)
