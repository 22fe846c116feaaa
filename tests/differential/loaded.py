"""What else is loaded: wrappers of libc's functions, libraries and tools of Debian's, and sandboxes that kill.

Each is a place where glibc's malloc works, so ours must. What is not installed is left out, and named.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

from arms import BUILD, LIBRARIES, OURS, ROOT, TIMED_OUT, environment
from environments import Environment, try_one
from hunt import drawn, features
from judge import Flag
from programs import Program, listing
from sandboxes import THREADS, rules

sys.path.append(str(ROOT / "tests/loaded"))
from interposers import MAY_FAIL, build, imports  # type: ignore[import-not-found]

FOLDER = tempfile.TemporaryDirectory(prefix="differential-loaded-")
SYSTEM = Path("/usr/lib") / f"{os.uname().machine}-linux-gnu"
SEED, PROGRAMS = 20261127, 3
LOAD_S = 100
# It looks at each symbol that is bound, and allocates meanwhile, in a name space of its own.
AUDIT = """
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
unsigned la_version(unsigned v) { return v; }
unsigned la_objopen(struct link_map *m, Lmid_t l, uintptr_t *c)
{ free(malloc(100)); return LA_FLG_BINDTO | LA_FLG_BINDFROM; }
uintptr_t la_symbind64(Elf64_Sym *s, unsigned n, uintptr_t *r, uintptr_t *d, unsigned *f, const char *name)
{ free(malloc(1000)); return s->st_value; }
"""
# Libraries that are preloaded, with variables that make them work; in both orders.
NEIGHBOURS: dict[str, dict[str, str]] = {
    "libucm.so.0": {},
    "faketime/libfaketime.so.1": {"FAKETIME_TIMESTAMP_FILE": "{folder}/time", "FAKETIME_NO_CACHE": "1"},
    "torsocks/libtorsocks.so": {},
    "libfakeroot/libfakeroot-sysv.so": {},
    "libeatmydata.so": {},
    "libprofiler.so.0": {"CPUPROFILE": "{folder}/profile"},
    "libpcprofile.so": {},
    "libubsan.so.1": {},
    # It reads before blocks that it did not make, so it crashes beside any allocator without headers; jemalloc, too.
    "libmemusage.so": {"LOADED_UNALIGNED": "1", "MEMUSAGE_TRACE_MMAP": "yes"},
    "libc_malloc_debug.so.0": {"GLIBC_TUNABLES": "glibc.malloc.check=3", "MALLOC_PERTURB_": "85"},
    "heaptrack/libheaptrack_preload.so": {"DUMP_HEAPTRACK_OUTPUT": "{folder}/heaptrack"},
}
# These write to stderr, which counts against a drawn program; and libmemusage's blocks have no malloc_usable_size.
TALK = ("libprofiler.so.0", "libmemusage.so")
# The load as a program that wraps malloc itself, or has UndefinedBehaviorSanitizer's runtime in it.
OF_ITS_OWN = {
    "--wrap=malloc": "load_wrap",
    "malloc over __libc_malloc": "load_libc",
    "malloc over RTLD_NEXT": "load_next",
    "-fsanitize=undefined": "load_ubsan",
}
VALGRIND = ["valgrind", "-q", "--trace-children=yes", "--error-exitcode=9"]
TOOLS = {
    "Valgrind": [*VALGRIND, "--tool=none"],
    "memcheck": VALGRIND,
    "memcheck, malloc not replaced": [*VALGRIND, "--soname-synonyms=somalloc=nouserintercepts"],
}


def sandboxes() -> Iterator[Environment]:
    """systemd makes its own before the program starts, the other programs make theirs themselves."""
    yield Environment("killed beyond systemd", [f"filter={rules('systemd', '')}"])
    for name in ("glibc", "openssh", "chromium", "firefox"):
        extra = {"LOADED_FILTER": rules(name, THREADS)}
        yield Environment(f"killed beyond {name}", extra=extra, only_load=True)


def interposers(names: tuple[str, ...]) -> Iterator[Environment]:
    """Each wrapper allocates at every call or at the first, sleeps, or fails; memory goes back soon."""
    for name, library in build(names, Path(FOLDER.name)).items():
        for mode in ("allocate", "first", "block", *(["fail"] if name in MAY_FAIL else [])):
            extra = {"LOADED_MODE": mode, "HAKMEM_DECAY_MS": "20"}
            for place in both_orders(f"{name} {mode}", library, extra):
                yield replace(place, only_load=mode in ("block", "fail"))


def both_orders(name: str, library: Path, extra: dict[str, str]) -> Iterator[Environment]:
    around = ["fakeroot", "--"] if "fakeroot" in name else []
    for first in (True, False):
        side = "before" if first else "behind"
        yield Environment(f"{name} {side}", preload=[str(library)], first=first, around=around, extra=extra)


def neighbours() -> Iterator[Environment]:
    (Path(FOLDER.name) / "time").write_text("@2020-01-01 00:00:00\n")
    yield from both_orders("a logger", BUILD / "tests/loaded/libloaded_forward.so", {})
    for name, variables in NEIGHBOURS.items():
        extra = {key: value.format(folder=FOLDER.name) for key, value in variables.items()}
        library = next((at / name for at in (SYSTEM, SYSTEM.parent) if (at / name).exists()), None)
        if not library:
            print(f"not installed: {name}")
            continue
        for place in both_orders(Path(name).name, library, extra):
            yield replace(place, only_load=name in TALK)


def tools() -> Iterator[Environment]:
    audit = Path(FOLDER.name) / "audit.so"
    command = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-D_GNU_SOURCE", "-x", "c", "-", "-o", str(audit)]
    subprocess.run(command, input=AUDIT, text=True, check=True)
    yield Environment("LD_AUDIT", extra={"LD_AUDIT": str(audit)})
    for name, load in OF_ITS_OWN.items():
        yield Environment(name, load=load, only_load=True)
    if (BUILD / "tests/loaded/loaded_uring").exists():
        yield from (
            replace(place, load="uring", only_load=True)
            for place in both_orders("io_uring and a hook", BUILD / "tests/loaded/libloaded_hook.so", {})
        )
    else:
        print("not installed: liburing-dev")
    if not shutil.which("valgrind"):
        print("not installed: valgrind")
        return
    yield from (Environment(name, around=around, slow=True, only_load=True) for name, around in TOOLS.items())


@cache
def places(wrapped: tuple[str, ...]) -> list[Environment]:
    """`wrapped`: functions of libc that a wrapper each intercepts."""
    return [*interposers(wrapped), *neighbours(), *tools(), *sandboxes()]


def run_load(place: Environment, arm: str) -> tuple[int, str]:
    """The exit status of the load, negative for a signal, and the end of what it wrote to stderr."""
    prefix, extra = place.prepared(arm)
    command = [*prefix, *(["--"] if prefix else []), str(BUILD / f"tests/loaded/loaded_{place.load}")]
    try:
        done = subprocess.run(
            command, env={**environment("glibc"), **extra}, capture_output=True, text=True, errors="replace",
            check=False, timeout=LOAD_S,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return TIMED_OUT, "hangs"
    return done.returncode, done.stderr.strip()[-300:]


def load_fails(place: Environment) -> list[Flag]:
    """Where it fails on ours and not on glibc. Where a sandbox kills both, its table is too short to tell."""
    status, errors = run_load(place, OURS)
    sandboxed = "LOADED_FILTER" in place.extra or place.words
    others = run_load(place, "glibc")[0] if status != 0 or sandboxed else 0
    if others in (0, -signal.SIGSYS) and (status != 0 or others != 0):
        who = "the load" if others == 0 else "the table kills glibc, too:"
        return [Flag("status", status, others, f"{who} {status} {errors!r}")]
    return []


def threaded() -> list[Program]:
    """Of the programs that start threads some that are unlike, for those drawn in a row resemble each other."""
    found = [program for program in drawn(SEED, 100) if "threads" in features(program["ops"])]
    return found[:: len(found) // PROGRAMS][:PROGRAMS]


def wrong(place: Environment, program: Program) -> list[Flag]:
    """How ours ends badly where glibc ends well."""
    kinds = ("status", "contents")
    return [flag for flag in try_one(place, program, (OURS, "glibc"), kinds)[0] if flag.kind in kinds]


def loaded(quick: bool) -> int:
    """The load in each place; and, unless it is to be `quick`, programs that were drawn, but for the slowest places."""
    found, began = 0, time.monotonic()
    library = LIBRARIES[OURS]
    all_places = places(tuple(imports(library.resolve())) if library else ())
    programs = [] if quick else threaded()
    for place in all_places:
        if flags := load_fails(place):
            found += 1
            print(f"-- {place.name}: {', '.join(map(str, flags))}", flush=True)
        for number, program in enumerate([] if place.only_load else programs):
            if flags := wrong(place, program):
                found += 1
                print(f"-- program {number} of seed {SEED}, {place.name}: {', '.join(map(str, flags))}")
                print(listing(program), flush=True)
    minutes = (time.monotonic() - began) / 60
    print(f"{len(all_places)} places, the load and {len(programs)} programs, {found} findings, {minutes:.0f} minutes")
    return 1 if found else 0
