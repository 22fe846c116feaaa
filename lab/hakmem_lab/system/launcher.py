"""Starts programs through the C helper in `native/` and returns the resources that each used.

One Launcher runs one program at a time; it is not thread-safe.
"""

import contextlib
import math
import os
import re
import select
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from hakmem_lab.errors import LabError, Stopped
from hakmem_lab.system import signals
from hakmem_lab.system.compiled import compiled

SOURCES = Path(__file__).parent / "native"
ANY_BYTE = "surrogateescape"  # of a program's output: text that can be encoded again as it was
OUTPUT_LIMIT_BYTES = 64 << 20
GRACE_S = 5.0
SLOW_S = 10.0
TAIL_CHARACTERS = 400
GO = b"go\n"
NOT_LOADED = "the allocator was not loaded: its library is not mapped in the process"
NOT_OPENED = "the allocator was not loaded: nothing has opened its library since the program that does the work began"
UNSERVED_SHARE = 0.25  # programs with at least this share of the processor time count as doing the work


class LauncherEnded(Stopped):
    """Another process has killed the helper, so the program is not at fault."""


@dataclass(frozen=True)
class Request:
    """A program to run.

    argv[0]: path of the program. timeout_s: 0 = none. sample_ms: interval of readings of resident memory; 0 = never.
    expect: a library that must be mapped. output_limit_bytes: limit of standard output and error together; beyond it
    the program is killed. pss_ms: interval of readings of the whole tree's proportional memory; 0 = never. counters:
    (type, config) of events, as for perf_event_open. groups: cgroup.procs files of the groups that the program joins.
    stdin: a file that it reads from its beginning; None = nothing to read. worker: the program that does the work; it
    must open the library after its own start. held: it waits before its first instruction until `Running.go`.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str | None = None
    cpus: Sequence[int] = ()
    timeout_s: float = 300.0
    sample_ms: int = 10
    expect: str | None = None
    output_limit_bytes: int = OUTPUT_LIMIT_BYTES
    pss_ms: int = 0
    counters: Sequence[tuple[int, int]] = ()
    groups: Sequence[str] = ()
    stdin: str | None = None
    worker: str | None = None
    held: bool = False

    def payload(self, stdout: str, stderr: str) -> bytes:
        strings = [
            str(math.ceil(self.timeout_s * 1000)),
            str(self.sample_ms),
            str(self.output_limit_bytes),
            self.expect or "",
            self.stdin or os.devnull,
            stdout,
            stderr,
            self.cwd or "",
            ",".join(str(cpu) for cpu in self.cpus),
            str(len(self.argv)),
            *self.argv,
            str(len(self.env)),
            *(f"{name}={value}" for name, value in self.env.items()),
            str(self.pss_ms),
            ",".join(f"{type_}:{config}" for type_, config in self.counters),
            str(len(self.groups)),
            *self.groups,
            self.worker or "",
            "held" if self.held else "",
        ]
        if any("\0" in string for string in strings):
            raise ValueError("an argument or a variable holds a NUL character")
        return b"".join(os.fsencode(string) + b"\0" for string in strings)


@dataclass(frozen=True)
class Outcome:
    """The resources that a program used. CPU and faults include descendants that it waited for; the peak is that of the
    largest.

    pss_…: of all its processes together. counts: values of the counters in the order of the request; None where the
    machine has no such counter. rss_series, pss_series: at most 64 points (milliseconds from the start, KiB); each is
    the mean of the samples until the next point. mapped: whether the library was mapped; None where the program ended
    or hung before that was known. opened: how often the library's file was opened since the worker's start; None where
    the kernel does not report it. unserved_s: processor time that programs used without the library, as far as seen.
    unserved: the program with most of this time. tree: the figures of the run's cgroup, if there is one. moved: the
    program itself chose other processors than those of the request. extra: what else was measured, or `why` not.
    """

    exit: int | None
    signal: int | None
    timed_out: bool
    too_much_output: bool
    wall_s: float
    user_s: float
    system_s: float
    rss_peak_kib: int
    rss_mean_kib: float | None
    minor_faults: int
    major_faults: int
    voluntary_switches: int
    involuntary_switches: int
    samples: int
    mapped: bool | None
    pss_peak_kib: float | None = None
    pss_mean_kib: float | None = None
    counts: tuple[float | None, ...] = ()
    rss_series: Sequence[tuple[int, int]] = field(repr=False, default=())
    pss_series: Sequence[tuple[int, int]] = field(repr=False, default=())
    opened: int | None = None
    unserved_s: float = 0.0
    unserved: str = ""
    tree: dict | None = None
    moved: bool = False
    extra: dict = field(default_factory=dict)
    stdout: str = field(repr=False, default="")
    stderr: str = field(repr=False, default="")

    @property
    def cpu_s(self) -> float:
        return self.user_s + self.system_s

    def failure(self, expected: Sequence[int] = (0,)) -> str | None:
        """Why this is no successful end; None if it is one. expected: the exit codes of a successful end."""
        if self.timed_out:
            return f"still running after {self.wall_s:.1f} s, killed"
        if self.too_much_output:
            limit = f"{OUTPUT_LIMIT_BYTES >> 20} MiB of output (in a soak 1 GiB)"
            return f"wrote more than {limit}, killed; send output that hak need not read to /dev/null"
        if self.signal:
            short = ": the kernel ended it for want of memory" if (self.tree or {}).get("oom_kills") else ""
            return f"killed by {signals.name(self.signal)}{short}"
        if self.exit is not None and self.exit not in expected:
            # A shell exits with 128 + N if signal N ended its last command.
            told = f" ({signals.name(self.exit - SHELL_SIGNAL)})" if 0 < self.exit - SHELL_SIGNAL < signal.NSIG else ""
            return f"exit status {self.exit}{told}"
        if said := _SHELL_SAYS.search(self.stderr):
            return f"a shell reports that one of its commands, not the last one, was killed: {said[1]}"
        return None

    def not_served(self) -> str | None:
        """Why the expected allocator was not measured; None if there is no sign of that."""
        if self.unserved_s >= UNSERVED_SHARE * self.cpu_s > 0:
            part = min(1.0, self.unserved_s / self.cpu_s)
            return f"the allocator was not loaded by {self.unserved}, which used {part:.0%} of the processor time"
        if self.mapped is False:
            return NOT_LOADED
        return NOT_OPENED if self.opened == 0 else None

    def explained(self, why: str | None) -> str | None:
        """The reason of a failure with the end of the output, unless there was too much of it: one line without control
        characters."""
        if why is None or self.too_much_output:
            return why
        said = "".join(c if c.isprintable() else " " for c in self.stderr or self.stdout)
        tail = " ".join(said.split())[-TAIL_CHARACTERS:]
        return f"{why}: {tail}" if tail else why


SHELL_SIGNAL = 128
# A shell's report that a signal ended a command: a line of its own; bash adds the script and its line number.
_SHELL_SAYS = re.compile(
    r"^(?:\S+: line \d+: +\d+ )?(Segmentation fault|Aborted|Bus error|Illegal instruction|Floating point exception)"
    r"(?: +\(core dumped\).*| {3,}.*)?$",
    re.M,
)


def helper_path() -> Path:
    """The compiled helper, in the user's cache; compiled at the first use of this version of its source."""
    # Statically linked, the helper uses less memory, but not every system has a static libc.
    return compiled("launcher", [*SOURCES.glob("*.[ch]")], ("-static",), (), purpose="launcher")


class Running:
    """A program that was started and has not been waited for."""

    def __init__(self, launcher: "Launcher", pid: int, stdout: int, stderr: int):
        self.pid, self._launcher, self._outputs = pid, launcher, (stdout, stderr)
        self._outcome: Outcome | None = None

    def go(self) -> None:
        """Lets a held program begin. If it cannot be started, `wait` raises OSError."""
        self._launcher.write(GO)

    def output(self, start_offset: int = 0) -> bytes:
        """Standard output so far, from this byte on. Call it only before `wait`."""
        return _read_from(self._outputs[0], start_offset)

    def fileno(self) -> int:
        """The descriptor that becomes readable at the end, for `select`."""
        return self._launcher.fileno()

    def ended(self, timeout_s: float = 0.0) -> bool:
        return self._outcome is not None or self._launcher.readable(timeout_s)

    def wait(self) -> Outcome:
        if self._outcome is None:
            if Launcher.when_slow and not self.ended(SLOW_S):
                Launcher.when_slow()
            try:
                fields = self._launcher.expect_line("ended ")
            except OSError:
                for fd in self._outputs:
                    os.close(fd)
                raise
            stdout, stderr = (_read_from(fd, 0).decode(errors=ANY_BYTE) for fd in self._outputs)
            for fd in self._outputs:
                os.close(fd)
            self._outcome = _parse_outcome(fields, stdout, stderr)
        return self._outcome

    def kill(self) -> Outcome:
        if not self.ended():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
        return self.wait()

    def terminate(self, grace_s: float = GRACE_S) -> Outcome:
        """Asks it to end, kills it after the grace period, and waits."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            if self.ended():
                break
            with contextlib.suppress(ProcessLookupError):  # the program has ended, but not yet its descendants
                os.kill(self.pid, number)
            if self.ended(grace_s):
                break
        return self.wait()


class Launcher:
    """The running helper. A context manager; on leaving, whatever still runs is killed."""

    _helpers: ClassVar[set[int]] = set()
    when_slow: ClassVar[Callable[[], None] | None] = None  # called for a program that runs longer than SLOW_S

    def __init__(self) -> None:
        signals.adopt()
        self._before = signals.children()
        self._process = subprocess.Popen(
            [helper_path()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0, start_new_session=True, env={}
        )
        assert self._process.stdin and self._process.stdout
        self._requests, self._answers = self._process.stdin, self._process.stdout
        self._helpers.add(self._process.pid)
        self._buffer = b""

    def __enter__(self) -> "Launcher":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        if not self._requests.closed:
            self._requests.close()
            self._process.wait()
            self._answers.close()
            self._helpers.discard(self._process.pid)

    def start(self, request: Request) -> Running:
        """Raises OSError where the program cannot be started."""
        outputs = [os.memfd_create(name) for name in ("stdout", "stderr")]
        payload = request.payload(*(f"/proc/{os.getpid()}/fd/{fd}" for fd in outputs))
        try:
            self.write(b"run %d\n" % len(payload) + payload)
            pid = int(self.expect_line("held " if request.held else "started "))
        except BaseException:
            for fd in outputs:
                os.close(fd)
            raise
        return Running(self, pid, *outputs)

    def run(self, request: Request) -> Outcome:
        return self.start(request).wait()

    def fileno(self) -> int:
        return self._answers.fileno()

    def readable(self, timeout_s: float) -> bool:
        if b"\n" in self._buffer:
            return True
        return bool(select.select([self._answers], [], [], timeout_s)[0])

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[self._requests.write(view) :]
        except BrokenPipeError:
            raise self._lost() from None

    def _lost(self) -> LauncherEnded:
        """The exception for a helper that is gone. The kernel has killed its program; this kills the program's
        descendants."""
        self._process.wait()
        signals.end(self._before | self._helpers)
        return LauncherEnded("hak's launcher was killed, and with it what it ran")

    def expect_line(self, start: str) -> str:
        while b"\n" not in self._buffer:
            data = os.read(self._answers.fileno(), 1 << 16)
            if not data:
                raise self._lost()
            self._buffer += data
        raw, _, self._buffer = self._buffer.partition(b"\n")
        line = raw.decode()
        if line.startswith("failed "):
            _, number, what = line.split(" ", 2)
            raise OSError(int(number), f"{os.strerror(int(number))} ({what})")
        if not line.startswith(start):
            raise LabError(f"hak's launcher answered '{line}'")
        return line[len(start) :]


def _read_from(fd: int, start: int) -> bytes:
    """The contents of the file from this byte on, in several reads, since one takes at most 2 GiB."""
    parts, end = [], os.fstat(fd).st_size
    while start < end and (part := os.pread(fd, end - start, start)):
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _known(text: str) -> float | None:
    """The number, or None for -1, which the helper writes for an unknown value."""
    return float(text) if float(text) >= 0 else None


def _series(text: str) -> list[tuple[int, int]]:
    return [(int(at), int(kib)) for at, _, kib in (point.partition(":") for point in text.split(",") if point)]


def _parse_outcome(line: str, stdout: str, stderr: str) -> Outcome:
    raw = dict(part.split("=", 1) for part in line.split())
    whole = ("rss_peak_kib", "minor_faults", "major_faults", "voluntary_switches", "involuntary_switches", "samples")
    known = ("rss_mean_kib", "pss_peak_kib", "pss_mean_kib")
    mapped = int(raw["mapped"])
    numbers: dict[str, Any] = {name: int(raw[name]) for name in whole} | {name: _known(raw[name]) for name in known}
    return Outcome(
        exit=int(raw["exit"]) if int(raw["exit"]) >= 0 else None,
        signal=int(raw["signal"]) or None,
        timed_out=raw["timed_out"] == "1",
        too_much_output=raw["too_much_output"] == "1",
        wall_s=float(raw["wall_s"]),
        user_s=float(raw["user_s"]),
        system_s=float(raw["system_s"]),
        mapped=None if mapped < 0 else bool(mapped),
        opened=int(raw["opened"]) if int(raw["opened"]) >= 0 else None,
        unserved_s=float(raw["unserved_s"]),
        unserved=raw["unserved"],
        moved=raw["moved"] == "1",
        **numbers,
        counts=tuple(_known(count) for count in raw["counters"].split(",") if count),
        rss_series=_series(raw["rss_series"]),
        pss_series=_series(raw["pss_series"]),
        stdout=stdout,
        stderr=stderr,
    )


def accepts(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    return False


def wait_for_port(port: int, running: Running, timeout_s: float) -> bool:
    """Waits until the port accepts connections. Returns False if the time is over or the program ends before."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and not running.ended():
        if accepts(port):
            return True
        time.sleep(0.01)
    return False


if __name__ == "__main__":
    print(helper_path())
