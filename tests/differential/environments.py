"""Places where a program must run as well on ours as on the others: limits, refusals, company, hardship.

Each is a way to run any program. What is asked there is what no noise changes: the exit status, contents, requests
refused, and twice the memory of the best of the others; growth as ever.
"""

import atexit
import errno
import os
import random
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from arms import BUILD, LIBRARIES, OURS, ROOT, Run, run
from judge import Flag, Limit, ended_badly, judge, possible
from programs import MIB, Op, Program

PARTS, FOREIGN = BUILD / "tests/differential", ROOT / "build/aarch64"
# What glibc's malloc needs, and what only others use, both of a sandbox's choice.
DENIED = [
    "brk",
    "clock_gettime",
    "getcpu",
    "getrandom",
    "gettid",
    "madvise",
    "membarrier",
    "mincore",
    "mprotect",
    "mremap",
    "munmap",
    "prctl",
    "readlink",
    "rseq",
    "rt_sigprocmask",
    "sched_getaffinity",
    "sched_yield",
    "sysinfo",
]
DEADLY = {
    "madvise": "asked at start, and what is free goes back by it, as with jemalloc",
    "getrandom": "asked at start, as by glibc and mimalloc",
    "mremap": "moves free memory, too; glibc asks for it in realloc",
    "rt_sigprocmask": "asked at a fork, which no handler of a signal may come between",
}
STRACE = ["strace", "-f", "--seccomp-bpf", "-qq", "-c", "-e", "trace=%memory"]
ERRORS = {"EPERM": errno.EPERM, "ENOSYS": errno.ENOSYS, "ENOMEM": errno.ENOMEM, "kill": None}


@dataclass(frozen=True)
class Environment:
    """`words` are the launcher's; `before` precedes the program; `preload` stands beside the allocator's library."""

    name: str
    words: Sequence[str] = ()
    before: Sequence[Op] = ()
    preload: Sequence[str] = ()
    first: bool = False  # whether `preload` stands before the allocator
    extra: dict[str, str] = field(default_factory=dict)
    machine: str = "machine"
    counts: bool = False  # system calls about memory, which is slow
    limit: str = ""  # why nothing runs here: a case says so, and nobody looks here
    alone: bool = False  # nothing to compare with: only that it ends well,
    slow: bool = False  # or takes too long
    prefix: Sequence[str] = ()  # in place of the launcher; "--" follows
    around: Sequence[str] = ()  # before the launcher
    load: str = "load"  # which of the programs of tests/loaded runs there
    only_load: bool = False  # and no other

    def prepared(self, arm: str) -> tuple[list[str], dict[str, str]]:
        """What stands before the program: the launcher, where there is anything to launch with; and variables."""
        library = LIBRARIES[arm]
        loads = self.around or not self.alone
        libraries = [str(library)] if library and loads and self.name != "opened" else []
        libraries = [*self.preload, *libraries] if self.first else [*libraries, *self.preload]
        prefix = [*self.prefix]
        if not prefix and (self.words or libraries or self.around):
            preload = [f"preload={':'.join(libraries)}"] if libraries else []
            prefix = [*self.around, str(PARTS / "launch"), *self.words, *preload]
        return prefix, {**self.extra, "DIFFERENTIAL_OPEN": str(library or "libm.so.6")}

    def run(self, arm: str, program: Program) -> Run:
        prefix, extra = self.prepared(arm)
        program = {**program, "ops": [*self.before, *program["ops"]]}
        machine = PARTS / self.machine
        if not self.counts:
            return run("glibc", program, prefix, extra, machine, ours=arm == OURS)
        with tempfile.NamedTemporaryFile(prefix="differential-") as table:
            one = run("glibc", program, [*STRACE, "-o", table.name, *prefix], extra, machine, ours=arm == OURS)
            return replace(one, calls=counted(Path(table.name).read_text()))


def counted(table: str) -> int:
    """Calls in all, of what strace -c wrote: share, seconds, µs a call, calls, perhaps errors, name."""
    total = [line.split() for line in table.splitlines() if line.endswith(" total")]
    return int(total[0][3]) if total else 0


def cgroup(limit: int) -> Path | None:
    """A group of version 1 or 2 with so much memory, in bytes; None where none can be made."""
    for root, name in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        path = Path(root, f"differential-{limit}")
        try:
            path.mkdir(exist_ok=True)
            (path / name).write_text(str(limit))
            atexit.register(subprocess.run, ["rmdir", str(path)], check=False, capture_output=True)
            return path
        except OSError:
            continue
    return None


def environments() -> list[Environment]:
    found = [
        *(Environment(f"as {mib} MiB", [f"as={mib * MIB}"]) for mib in (64, 256, 1024)),
        *(Environment(f"data {mib} MiB", [f"data={mib * MIB}"]) for mib in (16, 128)),
        Environment("stack 256 KiB", [f"stack={256 << 10}"]),
        Environment("no huge pages", ["thp=off"]),
        *(
            Environment(
                f"{call} {name}", [f"deny={call}:{number or 'kill'}"], limit=DEADLY.get(call, "") if not number else ""
            )
            for call in DENIED
            for name, number in ERRORS.items()
        ),
        Environment("mlockall", before=[{"op": "lock"}]),
        *(
            Environment(f"{left} mappings left", before=[{"op": "maps", "x": most_mappings() - left}])
            for left in (60, 500)
        ),
        *(Environment(f"{mib} MiB left", before=[{"op": "reserve", "x": mib * MIB}]) for mib in (64, 512, 4096)),
        Environment("forks in handlers", before=[{"op": "storm", "x": 2000}]),
        Environment("opened", before=[{"op": "open"}]),
        *(Environment(f"beside {n}", preload=[str(LIBRARIES[n])]) for n in ("jemalloc", "mimalloc", "tcmalloc")),
        *(
            Environment(f"behind {n}", preload=[str(LIBRARIES[n])], first=True)
            for n in ("jemalloc", "mimalloc", "tcmalloc")
        ),
        *(
            Environment(f"fork handlers {w}", preload=[str(PARTS / "early.so")], first=w == "first")
            for w in ("first", "last")
        ),
        *(
            Environment(
                f"call {n} fails, {count}", extra={"FAULT_PLAN": f"any:{n}:{count}"}, machine="faulty", alone=True
            )
            for n in (1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233)
            for count in (1, 20, 10**9)
        ),
        *(Environment(f"profile {name}", extra={"HAKMEM_PROFILE": name}) for name in ("balanced", "lean", "hardened")),
        Environment("no caches", extra={"HAKMEM_CACHE": "0"}),
        Environment("guards", extra={"HAKMEM_GUARD_RATE": "1M"}),
        Environment("counted", counts=True),
        Environment(
            "AddressSanitizer",
            preload=[str(LIBRARIES[OURS])],
            extra={"ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1"},  # the slots are no place it looks at
            machine="machine_asan",
            alone=True,
            slow=True,
        ),
    ]
    if (FOREIGN / "tests/differential/machine").exists():
        emulator = f'shift; exec qemu-aarch64 -L /usr/aarch64-linux-gnu -E LD_PRELOAD={FOREIGN}/libhakmem.so "$@"'
        machine = str(FOREIGN / "tests/differential/machine")
        found.append(Environment("qemu", prefix=["sh", "-c", emulator, "sh"], machine=machine, alone=True, slow=True))
    if os.geteuid() == 0:
        found += [Environment(f"cgroup {mib} MiB", [f"cgroup={at}"]) for mib in (64, 256) if (at := cgroup(mib * MIB))]
    return found


def most_mappings() -> int:
    return int(Path("/proc/sys/vm/max_map_count").read_text())


REFUSED = Limit(lambda one: one.refused, 2, 16, "calls")
CALLS = Limit(lambda one: one.calls, 3, 2000, "")


def try_one(
    place: Environment, program: Program, arms: Sequence[str], kinds: Sequence[str] = ()
) -> tuple[list[Flag], dict[str, list[Run]]]:
    """Ours, and only where something could be wrong, of these `kinds` if any are named, the others, too."""
    program = shortened(program)
    ours = place.run(OURS, program)
    runs = {OURS: [ours]}
    if place.counts:
        runs |= {arm: [place.run(arm, program)] for arm in arms if arm != OURS}
        best, arm = min(
            ((rows[0].calls, arm) for arm, rows in runs.items() if arm != OURS and rows[0].status == 0),
            default=(ours.calls, OURS),
        )
        above = ours.status == 0 and ours.calls > CALLS.ratio * best + CALLS.floor
        return ([Flag("system calls", ours.calls, best, arm)] if above else []), runs
    if place.alone:
        bad = (ours.status != 0 or ours.stderr) and not (place.slow and ours.status == -signal.SIGXCPU)
        return ([Flag("status", ours.status, 0, f"{ours.status} {ours.stderr!r}")] if bad else []), runs
    if not [flag for flag in possible(ours) if not kinds or flag.kind in kinds]:
        return [], runs
    runs |= {arm: [place.run(arm, program)] for arm in arms if arm != OURS}
    if flags := ended_badly(runs):
        return flags, runs
    flags = [flag for flag in judge(runs, stable=True) if flag.kind != "refused"]
    good = [(REFUSED.value(rows), arm) for arm, rows in runs.items() if arm != OURS and rows[0].status == 0]
    if good and ours.status == 0 and ours.refused > REFUSED.ratio * min(good)[0] + REFUSED.floor:
        flags.append(Flag("refused", ours.refused, *min(good), REFUSED.unit))
    return flags, runs


def shortened(program: Program) -> Program:
    """Hardship makes slow, and shows soon."""
    return {**program, "rounds": min(program["rounds"], 32), "idle_ms": 0}


def choose(places: Sequence[Environment], chance: random.Random) -> Environment:
    """Any kind of place as often as any other, however many of the kind there are."""
    places = [place for place in places if not place.limit]
    kinds = sorted({place.name.split()[0] for place in places})
    kind = chance.choice(kinds)
    return chance.choice([place for place in places if place.name.split()[0] == kind])
