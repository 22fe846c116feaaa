"""`hak soak`: one process for the whole time; its memory, throughput and tails are sampled at least once a second.

An interrupted soak keeps its samples. When resumed, it continues with a new process: a new segment, which is analysed
on its own, since a slope across a restart would mean nothing. With a [server], the server is the process; the command
is the client that keeps it busy and reports its progress.

A soaking program reports about itself in lines. Their pattern has named groups, all of them optional: `operations` (so
far), `t` (seconds), `phase` (which the line is about), `next` (the phase that begins with the line), `started` (threads
so far), `live_kib`, and service times `p50_ns`, `p99_ns`, `p999_ns` or the same in `_us` or `_ms`.
"""

import math
import re
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from hakmem_lab.kinds.soak.result import analyse
from hakmem_lab.plan.arms import Arm, parse_arm
from hakmem_lab.plan.metrics import printed_number
from hakmem_lab.plan.spec import CommonSpec, Duration, Server, compiled
from hakmem_lab.plan.values import NUMBER
from hakmem_lab.run import endings
from hakmem_lab.run.conduct import Context, Recorder
from hakmem_lab.run.runner import single
from hakmem_lab.run.workload import DAEMON, Driver, Workload, choose_port, with_port
from hakmem_lab.system import machine, signals
from hakmem_lab.system.launcher import Launcher, Outcome, Request, Running, wait_for_port
from hakmem_lab.system.usage import Usage, usage

__all__ = ["analyse"]

DEFAULT_LINE = (
    r"^soak t=(?P<t>[0-9.]+) ops=(?P<operations>\d+) live_kib=(?P<live_kib>\d+) phase=(?P<phase>\S+) next=(?P<next>\S+)"
    r" threads=\d+ started=(?P<started>\d+)"
    r" p50_ns=(?P<p50_ns>\d+) p99_ns=(?P<p99_ns>\d+) p999_ns=(?P<p999_ns>\d+)$"
)
PERCENTILES = ("p50", "p99", "p999")
MICROSECONDS = {"ns": 1e-3, "us": 1.0, "ms": 1e3}
NAMES = ("t", "operations", "phase", "next", "started", "live_kib")
GROUPS = (*NAMES, *(f"{name}_{unit}" for name in PERCENTILES for unit in MICROSECONDS))


def check_pattern(pattern: str) -> str:
    """Returns the pattern, or raises ValueError."""
    groups = compiled(pattern).groupindex
    unknown = [name for name in groups if name not in GROUPS]
    if unknown or not groups:
        what = f"no group may be named '{unknown[0]}'" if unknown else "it names no group"
        raise ValueError(f"{what}; groups are named (?P<operations>...) and so on: {', '.join(GROUPS)}")
    return pattern


def _number(text: str | None) -> float | None:
    try:
        return printed_number(text) if text is not None else None
    except ValueError:
        return None


@dataclass
class LineReader:
    """Turns a growing output into one record for each sample."""

    pattern: str
    _begun: list[bytes] = field(default_factory=list)
    _last: tuple[float, float] | None = None
    _compiled: re.Pattern = field(init=False)
    _phase: str | None = None
    _line_phase: str | None = None

    def __post_init__(self) -> None:
        self._compiled = re.compile(self.pattern)

    def read(self, added: bytes, now_s: float) -> dict:
        """The values in the lines that end in `added`, the output since the last call: the latest operations, the worst
        tails.

        A value is None if no new line has it; a phase lasts until another one is announced. `phase` is the present one,
        `line_phase` that of the operations. now_s: the sampler's clock.
        """
        found = [match.groupdict() for line in self._lines(added) if (match := self._compiled.search(line))]
        latest = found[-1] if found else {}
        self._line_phase = latest.get("phase") or self._line_phase
        self._phase = latest.get("next") or latest.get("phase") or self._phase
        operations, started = _number(latest.get("operations")), _number(latest.get("started"))
        record = {
            "operations": None if operations is None else int(operations),
            "ops_per_s": self._rate(operations, _number(latest.get("t")), now_s),
            "phase": self._phase,
            "line_phase": self._line_phase,
            "live_kib": _number(latest.get("live_kib")),
            "threads_started": None if started is None else int(started),
        }
        for name in PERCENTILES:
            values = self._values(found, name)
            record[f"{name}_us"] = (statistics.median if name == "p50" else max)(values) if values else None
        return record

    def _lines(self, added: bytes) -> list[str]:
        """The lines that are complete now; an incomplete last line is kept for the next call."""
        whole, newline, rest = added.rpartition(b"\n")
        if not newline:
            self._begun.append(added)
            return []
        text = b"".join([*self._begun, whole])
        self._begun = [rest]
        return text.decode(errors="replace").splitlines()

    def _rate(self, operations: float | None, t_s: float | None, now_s: float) -> float | None:
        """Operations per second since the last line, by the program's own clock if it prints one."""
        if operations is None:
            return None
        at = now_s if t_s is None else t_s
        last, self._last = self._last, (at, operations)
        if last is None or at <= last[0] or operations < last[1]:
            return None
        return (operations - last[1]) / (at - last[0])

    @staticmethod
    def _values(found: list[dict], name: str) -> list[float]:
        return [
            value * factor
            for groups in found
            for unit, factor in MICROSECONDS.items()
            if (value := _number(groups.get(f"{name}_{unit}"))) is not None
        ]


SECONDS = "{seconds}"
MIB = {"KiB": 1 / 1024, "MiB": 1.0, "GiB": 1024.0}
PER_HOUR = {"s": 3600.0, "min": 60.0, "h": 1.0, "d": 1 / 24}
# Most processor time for an exact reading of memory; if it takes longer, the kernel's cheaper count is read.
SAMPLING_SHARE, LEAST_SAMPLING_S = 0.02, 0.005
END_GRACE_S = 10.0
SAMPLED = ("rss_kib", "pss_kib", "threads", "processes", "cpu_s", "minor_faults", "major_faults")
LAUNCHER_SAMPLE_MS = 1000
OUTPUT_LIMIT_BYTES = 1 << 30


def parse_growth(value: Any) -> Any:
    """'1 MiB/h', '200 KiB/min' or a number of MiB per hour -> MiB per hour."""
    if isinstance(value, str) and not re.fullmatch(rf"\s*{NUMBER}\s*", value):
        found = re.fullmatch(rf"\s*({NUMBER})\s*(KiB|MiB|GiB)\s*/\s*(s|min|h|d)\s*", value)
        if not found:
            raise ValueError("a budget of growth is written as '1 MiB/h' or '100 KiB/min'")
        return float(found.group(1)) * MIB[found.group(2)] * PER_HOUR[found.group(3)]
    return value


class Spec(CommonSpec):
    """`{seconds}` in the command stands for the time that it has to run. Without it, the program is ended when the time
    is over, and a client that has ended is restarted. timeout: how much longer a program with `{seconds}` may take
    before it counts as hanging. warm_up: length of the beginning of every process that is not judged; by default it is
    determined from the course of the memory."""

    DRAWS_SEEDS: ClassVar[bool] = False
    kind: Literal["soak"] = "soak"
    allocator: str = "hakmem"
    duration: Duration = 600.0
    warm_up: Duration | None = None
    sample_interval: Annotated[Duration, Field(ge=0.02, le=1.0)] = 1.0
    budget: Annotated[float, BeforeValidator(parse_growth), Field(gt=0)] = 1.0
    line: Annotated[str, AfterValidator(check_pattern)] = DEFAULT_LINE
    server: Server | None = None

    @model_validator(mode="after")
    def _judged(self) -> "Spec":
        if self.warm_up is not None and self.warm_up >= self.duration:
            raise ValueError("warm-up: it takes all of the duration, so that nothing would be judged")
        return self


def run(spec: Spec, context: Context) -> dict:
    """The result, which is also the run's last record. Raises LabError, Stopped or Interrupted."""
    arm = parse_arm(spec.allocator, spec.allocator, "allocator")
    with Recorder(spec, [arm], Workload.of(spec), context) as recorder:
        recorder.begin()
        number, done_s = position(recorder.records())
        if spec.duration - done_s >= spec.sample_interval:
            _Segment(spec, arm, recorder, number, done_s).run()
        records = recorder.records()
        if not any(record["type"] == "sample" for record in records):
            why = next((record["why"] for record in reversed(records) if record["type"] == "run"), None)
            raise recorder.stopped(f"the program ended before the first sample: {why or 'exit status 0'}")
        return recorder.finish(analyse(recorder.file.header(), records))


def position(records: list[dict]) -> tuple[int, float]:
    """(number of the next segment, seconds sampled so far)."""
    samples = [record for record in records if record["type"] == "sample"]
    return (samples[-1]["segment"] + 1, samples[-1]["t_s"]) if samples else (0, 0.0)


@dataclass
class _Segment:
    """One process from its start to its end. offset_s: seconds that earlier segments have sampled."""

    spec: Spec
    arm: Arm
    recorder: Recorder
    number: int
    offset_s: float
    exact: bool = True
    threads_seen: set[int] = field(default_factory=set)
    driver: Driver | None = None
    client_failed: str | None = None

    def run(self) -> None:
        """Run the process. On an interruption, it is ended, and its end is recorded, before this returns."""
        spec, workload = self.spec, self.recorder.workload
        left_s = spec.duration - self.offset_s
        workload = replace(workload, timeout_s=left_s + spec.timeout)
        served = (workload.server, self._port(workload.server)) if workload.server else None
        request = self._request(left_s, served)
        self.recorder.progress.say(f"run {self.recorder.file.id}: {endings.duration(left_s)} of one process")
        started, failed = time.time(), None
        with Launcher() as launcher:
            try:
                running = launcher.start(request)
            except OSError as error:
                raise self.recorder.stopped(f"command: {request.argv[0]} cannot be started: {error.strerror}") from None
            self.recorder.event("segment", f"segment {self.number}: process {running.pid} started")
            try:
                if served:
                    server, port = served
                    again = not any(SECONDS in word for word in spec.command)
                    self.driver = Driver(workload, server, self._filled(workload.argv, left_s), port, again)
                    failed = self._unready(running, *served) or (None if running.ended() else self.driver.begin())
                ended_early = failed is None and not self._sample(running, left_s)
            except BaseException as error:
                interrupted = isinstance(error, signals.INTERRUPTS)
                self._end(running.terminate(), started, "interrupted" if interrupted else f"stopped: {error}")
                raise
            finally:
                self.recorder.progress.restart()
                if self.driver:
                    self.driver.close()
            if not ended_early and not workload.server and any(SECONDS in word for word in spec.command):
                ended_early = running.ended(min(END_GRACE_S, spec.timeout))
            self._end(running.terminate(), started, failed or self.client_failed, ended_early)

    def _port(self, server: Server) -> int:
        try:
            return choose_port(server)
        except OSError as error:
            raise self.recorder.stopped(f"server: {error.strerror}") from None

    @staticmethod
    def _filled(words: Sequence[str], left_s: float) -> list[str]:
        return [word.replace(SECONDS, str(math.ceil(left_s))) for word in words]

    def _request(self, left_s: float, served: tuple[Server, int] | None) -> Request:
        """The process to sample: the server, if there is one, on its port; else the command."""
        spec, workload, library = self.spec, self.recorder.workload, self.arm.library.path
        argv, pin = self._filled(workload.subject(), left_s), workload.pin
        if served:
            argv, pin = with_port(argv, served[1]), served[0].pin or pin
        return Request(
            argv, self.arm.environment(spec.env), workload.cwd, pin, left_s + spec.timeout,
            LAUNCHER_SAMPLE_MS, str(library.resolve()) if library else None, OUTPUT_LIMIT_BYTES,
            stdin=None if served else workload.stdin,
        )  # fmt: skip

    def _unready(self, running: Running, server: Server, port: int) -> str | None:
        """Wait for the server; the reason if it is not ready in time, else None."""
        limit_s = server.ready_timeout
        if wait_for_port(port, running, limit_s):
            return None
        return None if running.ended() else f"the server did not listen on port {port} within {limit_s:g} s"

    def _sample(self, running: Running, left_s: float) -> bool:
        """Sample until the time is over; False if the program ended before, or its client failed."""
        reader, steal, offset = LineReader(self.spec.line), machine.StealMeter(), 0
        begun, index = time.monotonic(), 0
        while True:
            # Sample in the middle of the interval: by then a program that prints a line for each has named its phase.
            wait_s = begun + (index + 0.5) * self.spec.sample_interval - time.monotonic()
            if wait_s > 0 and running.ended(wait_s):
                return False
            t_s = time.monotonic() - begun
            used = self._usage(running.pid)
            if used is None:
                return False
            if self.driver:
                added, self.client_failed = self.driver.heard()
            else:
                added = running.output(offset)
                offset += len(added)
            lines = reader.read(added, t_s)
            self.recorder.append(self._record(t_s, used, lines) | {"steal_percent": steal.percent()})
            if self.client_failed:
                return False
            # After a late sample, missed ones are skipped.
            index = max(index, math.floor((time.monotonic() - begun) / self.spec.sample_interval)) + 1
            phase = f", phase {lines['phase']}" if lines["phase"] else ""
            note = f"resident {used.rss_kib / 1024:.1f} MiB{phase}"
            self.recorder.progress.update(round(self.offset_s + t_s), round(self.spec.duration), note)
            if t_s + self.spec.sample_interval > left_s:
                return True

    def _usage(self, pid: int) -> Usage | None:
        before = time.thread_time()
        used = usage(pid, self.exact)
        took_s = time.thread_time() - before
        if self.exact and took_s > max(LEAST_SAMPLING_S, SAMPLING_SHARE * self.spec.sample_interval):
            self.exact = False
            text = f"an exact reading takes {took_s * 1e3:.0f} ms: from now on the kernel's count"
            self.recorder.event("memory", text)
        return used

    def _record(self, t_s: float, used: Usage, lines: dict) -> dict:
        self.threads_seen |= used.tasks
        lines = dict(lines)
        if lines["threads_started"] is None:
            lines["threads_started"] = len(self.threads_seen)
        return {
            "type": "sample",
            "segment": self.number,
            "t_s": round(self.offset_s + t_s, 6),
            "exact": self.exact,
            **{name: getattr(used, name) for name in SAMPLED},
            **lines,
        }

    def _end(self, outcome: Outcome, started: float, why: str | None, ended_early: bool = False) -> None:
        why = why or outcome.not_served()
        if why is None and ended_early:
            why = outcome.failure()
            if self.spec.server:
                why = f"the server ended during the soak: {why or DAEMON}"
            why = outcome.explained(why)
        more = {"load_1m": machine.load_1m(), "ended_by_itself": ended_early}
        self.recorder.append(single(outcome, self.arm.name, self.number, started, why, **more))
        self.recorder.changed_file()
