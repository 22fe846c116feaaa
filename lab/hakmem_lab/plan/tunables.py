"""The options of the allocators that change speed or memory: where each is documented, and the values worth trying.

One row an option. The usual value is that of its documentation; it is what an arm without the option has. An option
that the installed version ignores makes an arm equal to the one without it, and the confirmation says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass

MALLOPT = "mallopt(3)"
TUNABLES = "The GNU C Library manual, Memory Allocation Tunables"
OPTIONS_DEF = "hakmem(3); HAKMEM_HELP=1"
JEMALLOC = "jemalloc(3), opt."
MIMALLOC_2_0 = "mimalloc 2.0: mimalloc.h, readme.md; MIMALLOC_VERBOSE=1"
MIMALLOC = "mimalloc documentation, Environment Options; MIMALLOC_VERBOSE=1"
GPERFTOOLS = "gperftools: docs/tcmalloc.html, Modifying Runtime Behavior"
SCUDO = "LLVM documentation, Scudo Hardened Allocator, Options"
# Variables that hold several options: what stands between a name and its value, and between two of them.
JOINED = {"MALLOC_CONF": (":", ","), "GLIBC_TUNABLES": ("=", ":"), "SCUDO_OPTIONS": ("=", ":")}


@dataclass(frozen=True)
class Option:
    """variable: of the environment; key: the option's name inside of it, where it holds several."""

    allocators: tuple[str, ...]
    variable: str
    values: tuple[str, ...]
    usual: str
    source: str
    key: str = ""

    @property
    def name(self) -> str:
        return self.key or self.variable


def _glibc(variable: str, values: tuple[str, ...], usual: str, source: str = MALLOPT, key: str = "") -> Option:
    return Option(("glibc",), variable, values, usual, source, key)


def _hakmem(name: str, values: tuple[str, ...], usual: str) -> Option:
    return Option(("hakmem",), f"HAKMEM_{name}", values, usual, OPTIONS_DEF)


def _jemalloc(key: str, values: tuple[str, ...], usual: str) -> Option:
    return Option(("jemalloc", "jemalloc5"), "MALLOC_CONF", values, usual, JEMALLOC + key, key)


def _old_mimalloc(name: str, values: tuple[str, ...], usual: str) -> Option:
    return Option(("mimalloc",), f"MIMALLOC_{name}", values, usual, MIMALLOC_2_0)


def _mimalloc(name: str, values: tuple[str, ...], usual: str) -> Option:
    return Option(("mimalloc2", "mimalloc3"), f"MIMALLOC_{name}", values, usual, MIMALLOC)


def _tcmalloc(name: str, values: tuple[str, ...], usual: str) -> Option:
    return Option(("tcmalloc",), f"TCMALLOC_{name}", values, usual, GPERFTOOLS)


TABLE = (
    _hakmem("PROFILE", ("balanced", "lean"), "speed"),
    _hakmem("CACHE_CLASS_MAX", ("256K", "32K"), "4M"),
    _hakmem("DECAY_MS", ("50", "10000"), "1000"),
    _hakmem("RETAIN", ("0", "64M"), "8M"),
    _hakmem("RETAIN_PERCENT", ("0", "100"), "25"),
    _hakmem("RETAIN_LEARNED", ("0",), "128M"),
    _hakmem("WARM_POOL_SIZE", ("0", "256"), "16"),
    _hakmem("HUGE_PAGES", ("off", "dense"), "auto"),
    _hakmem("SS_MEM_LEAN", ("1",), "0"),
    _glibc("MALLOC_ARENA_MAX", ("1", "2", "4"), "8 for each processor"),
    _glibc("MALLOC_TRIM_THRESHOLD_", ("65536", "67108864"), "131072, adjusted"),
    _glibc("MALLOC_MMAP_THRESHOLD_", ("65536", "33554432"), "131072, adjusted"),
    _glibc("MALLOC_TOP_PAD_", ("16777216",), "131072"),
    _glibc("GLIBC_TUNABLES", ("0", "127"), "7", TUNABLES, "glibc.malloc.tcache_count"),
    _glibc("GLIBC_TUNABLES", ("1",), "0", TUNABLES, "glibc.malloc.hugetlb"),
    _jemalloc("dirty_decay_ms", ("0", "1000", "-1"), "10000"),
    _jemalloc("muzzy_decay_ms", ("10000",), "0"),
    _jemalloc("narenas", ("1", "2"), "4 for each processor"),
    _jemalloc("background_thread", ("true",), "false"),
    _jemalloc("metadata_thp", ("auto",), "disabled"),
    _jemalloc("thp", ("always", "never"), "default"),
    _jemalloc("tcache_max", ("4096",), "32768"),
    _old_mimalloc("DECOMMIT_DELAY", ("0", "1000"), "25"),
    _old_mimalloc("ALLOW_DECOMMIT", ("0",), "1"),
    _old_mimalloc("PAGE_RESET", ("1",), "0"),
    _old_mimalloc("EAGER_COMMIT_DELAY", ("0",), "1"),
    _old_mimalloc("LARGE_OS_PAGES", ("1",), "0"),
    _mimalloc("PURGE_DELAY", ("0", "100", "10000"), "10 (2.x), 1000 (3.x)"),
    _mimalloc("PURGE_DECOMMITS", ("0",), "1"),
    _mimalloc("ARENA_EAGER_COMMIT", ("0",), "2"),
    _mimalloc("ALLOW_LARGE_OS_PAGES", ("1",), "0"),
    _mimalloc("ALLOW_THP", ("0",), "1"),
    _tcmalloc("RELEASE_RATE", ("0", "10"), "1"),
    _tcmalloc("AGGRESSIVE_DECOMMIT", ("1",), "0"),
    _tcmalloc("MAX_TOTAL_THREAD_CACHE_BYTES", ("8388608", "134217728"), "33554432"),
    Option(("scudo",), "SCUDO_OPTIONS", ("0", "-1"), "5000", SCUDO, "release_to_os_interval_ms"),
)
# Whose documentation names no variable of the environment for speed or memory.
WITHOUT = {
    "snmalloc": "it is configured where it is built",
    "hardened_malloc": "it is configured where it is built",
    "google-tcmalloc": "a program sets its options by calls of MallocExtension",
}


def options_of(allocator: str) -> list[Option]:
    """In the order of the table."""
    return [option for option in TABLE if allocator in option.allocators]


def variables(chosen: Mapping[Option, str]) -> dict[str, str]:
    """The variables of the environment that give these options these values."""
    found: dict[str, str] = {}
    for option, value in chosen.items():
        if not option.key:
            found[option.variable] = value
            continue
        equals, comma = JOINED[option.variable]
        before = found.get(option.variable)
        found[option.variable] = f"{before}{comma}" * bool(before) + f"{option.key}{equals}{value}"
    return found


def arm_text(allocator: str, chosen: Mapping[Option, str]) -> str:
    """The arm as a user would write it."""
    return ",".join([allocator, *(f"{name}={value}" for name, value in variables(chosen).items())])
