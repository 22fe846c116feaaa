"""What else is loaded: wrappers of libc's functions, libraries of Debian's, and sandboxes that kill.

Each is a place where glibc's malloc works, so ours must. What is not installed is left out, and named.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from arms import LIBRARIES, OURS, ROOT
from environments import Environment, try_one
from hunt import drawn
from judge import Flag
from programs import Program, listing

sys.path.append(str(ROOT / "tests/loaded"))
from interposers import build, imports  # type: ignore[import-not-found]

FOLDER = tempfile.TemporaryDirectory(prefix="differential-loaded-")
SYSTEM = Path("/usr/lib") / f"{os.uname().machine}-linux-gnu"
MEMORY = ("mmap", "munmap", "mremap", "madvise")
SEED, PROGRAMS = 20261127, 3
AUDIT = "unsigned la_version(unsigned v) { return v; }"

# What a program and its loader call beside malloc; the machine reads its figures and starts threads and children.
ANY = """execve openat read pread64 write close fstat newfstatat lseek access arch_prctl set_tid_address
 set_robust_list rseq prlimit64 alarm exit exit_group wait4 clone clone3 vfork rt_sigaction rt_sigprocmask rt_sigreturn
 getrusage clock_gettime clock_nanosleep nanosleep getpid gettid"""
MALLOC = "brk mmap munmap mremap mprotect futex getrandom madvise"
# Approximations of what these sources allow, not copies of their lists.
SANDBOXES = {
    # malloc.c, arena.c and sysmalloc of glibc 2.36
    "glibc": MALLOC,
    # sandbox-seccomp-filter.c of OpenSSH 9.2: preauth_insns, in part
    "OpenSSH": MALLOC + " geteuid getuid getpgid gettimeofday ppoll pselect6 select shutdown time writev",
    # seccomp-util.c of systemd 252, in part
    "systemd": MALLOC
    + " mincore msync mlock munlock mlockall membarrier sched_getaffinity getcpu sysinfo memfd_create",
    # syscall_sets.cc and baseline_policy.cc of Chromium, in part: no mincore, no sysinfo, no sched_getaffinity
    "Chromium": MALLOC + " mlock munlock gettimeofday time getcpu epoll_wait epoll_ctl eventfd2 restart_syscall",
    # SandboxFilter.cpp of Firefox, in part
    "Firefox": MALLOC + " mincore sched_getaffinity sysinfo membarrier memfd_create getcpu gettimeofday",
}


@cache
def numbers() -> dict[str, int]:
    """Of system calls, by name, as the compiler knows them."""
    shown = subprocess.run(
        [os.environ.get("CC", "cc"), "-E", "-dM", "-include", "asm/unistd.h", "-x", "c", "/dev/null"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return {name: int(number) for name, number in re.findall(r"#define __NR_(\w+) (\d+)\n", shown.stdout)}


def sandboxes() -> Iterator[Environment]:
    known = numbers()
    for name, calls in SANDBOXES.items():
        allowed = sorted({known[call] for call in f"{ANY} {calls}".split() if call in known})
        yield Environment(f"killed beyond {name}", [f"allow={','.join(map(str, allowed))}"])


def interposers(names: tuple[str, ...]) -> Iterator[Environment]:
    for name in names:
        library = build(name, Path(FOLDER.name))
        for mode in ("allocate", "first"):
            for first in (True, False):
                side = "before" if first else "behind"
                yield Environment(
                    f"{name} {mode} {side}",
                    preload=[str(library)],
                    first=first,
                    extra={"LOADED_MODE": mode},
                )


def neighbours() -> Iterator[Environment]:
    time = Path(FOLDER.name) / "time"
    time.write_text("@2020-01-01 00:00:00\n")
    faketime = {"FAKETIME_TIMESTAMP_FILE": str(time), "FAKETIME_NO_CACHE": "1"}
    for name in (
        "libucm.so.0",
        "faketime/libfaketime.so.1",
        "torsocks/libtorsocks.so",
        "libfakeroot/libfakeroot-sysv.so",
        "libeatmydata.so",
        "libprofiler.so.0",
    ):
        if not (SYSTEM / name).exists():
            print(f"not installed: {name}")
            continue
        around = ["fakeroot", "--"] if "fakeroot" in name else []
        for first in (True, False):
            side = "before" if first else "behind"
            extra = faketime if "faketime" in name else {}
            yield Environment(
                f"{Path(name).name} {side}",
                preload=[str(SYSTEM / name)],
                first=first,
                around=around,
                extra=extra,
            )
    audit = Path(FOLDER.name) / "audit.so"
    compiler = os.environ.get("CC", "cc")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-x", "c", "-", "-o", audit],
        input=AUDIT,
        text=True,
        check=True,
    )
    yield Environment("LD_AUDIT", extra={"LD_AUDIT": str(audit)})
    if shutil.which("valgrind"):
        yield Environment(
            "Valgrind",
            around=["valgrind", "-q", "--tool=none", "--trace-children=yes"],
            slow=True,
            alone=True,
        )
    else:
        print("not installed: valgrind")


def places(all_names: bool) -> list[Environment]:
    """`all_names`: a wrapper of each function that the library imports, not of those alone that take pages away."""
    library = LIBRARIES[OURS]
    names = tuple(imports(library.resolve())) if all_names and library else MEMORY
    return [*interposers(names), *neighbours(), *sandboxes()]


def wrong(place: Environment, program: Program) -> list[Flag]:
    """How ours ends badly where glibc ends well. Where both are killed by a sandbox, its list is too short to tell."""
    kinds = ("status", "contents")
    flags, runs = try_one(place, program, (OURS, "glibc"), kinds)
    killed = [rows[0] for rows in runs.values() if rows[0].status == -signal.SIGSYS]
    if len(killed) > 1:
        return [Flag("status", killed[0].status, killed[0].status, "glibc")]
    return [flag for flag in flags if flag.kind in kinds]


def loaded() -> int:
    found = 0
    all_places = places(all_names=True)
    for number, program in enumerate(drawn(SEED, PROGRAMS)):
        for place in all_places:
            if flags := wrong(place, program):
                found += 1
                print(f"-- program {number} of seed {SEED}, {place.name}: {', '.join(map(str, flags))}")
                print(listing(program), flush=True)
    print(f"{len(all_places)} places, {PROGRAMS} programs, {found} findings")
    return 1 if found else 0
