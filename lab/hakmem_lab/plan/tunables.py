"""The options of the allocators that change speed or memory: where each is documented, and the values worth trying.

One row an option. The usual value is the documented default, which an arm without the option has. If the installed
version ignores an option, its arm equals the one without it, and the confirmation finds no difference.
"""

from collections.abc import Mapping
from dataclasses import dataclass

MALLOPT = "mallopt(3)"
TUNABLES = "The GNU C Library manual, Memory Allocation Tunables"
OPTIONS_DEF = "hakmem(3); HAKMEM_HELP=1"
JEMALLOC = "jemalloc(3), opt.{}"
MIMALLOC_2_0 = "mimalloc 2.0: mimalloc.h, readme.md; MIMALLOC_VERBOSE=1"
MIMALLOC = "mimalloc documentation, Environment Options; MIMALLOC_VERBOSE=1"
GPERFTOOLS = "gperftools: docs/tcmalloc.html, Modifying Runtime Behavior"
SCUDO = "LLVM documentation, Scudo Hardened Allocator, Options"
# Variables that hold several options -> (separator of a name and its value, separator of two options).
JOINED = {"MALLOC_CONF": (":", ","), "GLIBC_TUNABLES": ("=", ":"), "SCUDO_OPTIONS": ("=", ":")}


@dataclass(frozen=True)
class Option:
    """variable: environment variable; key: the option's name inside the variable, where that holds several options."""

    allocators: tuple[str, ...]
    variable: str
    values: tuple[str, ...]
    usual: str
    source: str
    key: str = ""

    @property
    def name(self) -> str:
        return self.key or self.variable


# (allocators; prefix of the variables, or the variable that holds all options; documentation; a row for each option:
# name, values worth trying, usual value).
FAMILIES: tuple[tuple[tuple[str, ...], str, str, tuple[tuple[str, tuple[str, ...], str], ...]], ...] = (
    (("hakmem",), "HAKMEM_", OPTIONS_DEF, (
        ("PROFILE", ("balanced", "lean"), "speed"),
        ("CACHE_CLASS_MAX", ("256K", "32K"), "8M"),
        ("DECAY_MS", ("50", "10000"), "1000"),
        ("RETAIN", ("0", "64M"), "8M"),
        ("RETAIN_MAX", ("0", "256M"), "no limit"),
        ("WARM_POOL_SIZE", ("0", "256"), "16"),
        ("HUGE_PAGES", ("off", "dense"), "auto"),
        ("MEM_LEAN", ("1",), "0"),
        ("BACKGROUND", ("0", "1"), "auto"),
    )),
    (("glibc",), "MALLOC_", MALLOPT, (
        ("ARENA_MAX", ("1", "2", "4"), "8 for each processor"),
        ("TRIM_THRESHOLD_", ("65536", "67108864"), "131072, adjusted"),
        ("MMAP_THRESHOLD_", ("65536", "33554432"), "131072, adjusted"),
        ("TOP_PAD_", ("16777216",), "131072"),
    )),
    (("glibc",), "GLIBC_TUNABLES", TUNABLES, (
        ("glibc.malloc.tcache_count", ("0", "127"), "7"),
        ("glibc.malloc.hugetlb", ("1",), "0"),
    )),
    (("jemalloc", "jemalloc5"), "MALLOC_CONF", JEMALLOC, (
        ("dirty_decay_ms", ("0", "1000", "-1"), "10000"),
        ("muzzy_decay_ms", ("10000",), "0"),
        ("narenas", ("1", "2"), "4 for each processor"),
        ("background_thread", ("true",), "false"),
        ("metadata_thp", ("auto",), "disabled"),
        ("thp", ("always", "never"), "default"),
        ("tcache_max", ("4096",), "32768"),
    )),
    (("mimalloc",), "MIMALLOC_", MIMALLOC_2_0, (
        ("DECOMMIT_DELAY", ("0", "1000"), "25"),
        ("ALLOW_DECOMMIT", ("0",), "1"),
        ("PAGE_RESET", ("1",), "0"),
        ("EAGER_COMMIT_DELAY", ("0",), "1"),
        ("LARGE_OS_PAGES", ("1",), "0"),
    )),
    (("mimalloc2", "mimalloc3"), "MIMALLOC_", MIMALLOC, (
        ("PURGE_DELAY", ("0", "100", "10000"), "10 (2.x), 1000 (3.x)"),
        ("PURGE_DECOMMITS", ("0",), "1"),
        ("ARENA_EAGER_COMMIT", ("0",), "2"),
        ("ALLOW_LARGE_OS_PAGES", ("1",), "0"),
        ("ALLOW_THP", ("0",), "1"),
    )),
    (("tcmalloc", "gperftools"), "TCMALLOC_", GPERFTOOLS, (
        ("RELEASE_RATE", ("0", "10"), "1"),
        ("AGGRESSIVE_DECOMMIT", ("1",), "0"),
        ("MAX_TOTAL_THREAD_CACHE_BYTES", ("8388608", "134217728"), "33554432"),
    )),
    (("scudo",), "SCUDO_OPTIONS", SCUDO, (("release_to_os_interval_ms", ("0", "-1"), "5000"),)),
)  # fmt: skip
TABLE = tuple(
    Option(allocators, begin, values, usual, source.format(name), name)
    if begin in JOINED
    else Option(allocators, begin + name, values, usual, source)
    for allocators, begin, source, rows in FAMILIES
    for name, values, usual in rows
)
# Allocators without documented environment variables for speed or memory -> why.
WITHOUT = {
    "snmalloc": "it is configured where it is built",
    "hardened_malloc": "it is configured where it is built",
    "rpmalloc": "it is configured where it is built",
    "compatmalloc": "it is configured where it is built",
    "google-tcmalloc": "a program sets its options by calls of MallocExtension",
}


def options_of(allocator: str) -> list[Option]:
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
