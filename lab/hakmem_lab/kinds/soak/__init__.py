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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from hakmem_lab.designs.engine import Rule
from hakmem_lab.designs.limit import AgainstLimit
from hakmem_lab.kinds.soak import result
from hakmem_lab.plan.arms import Arm, parse_arm
from hakmem_lab.plan.metrics import Metric, printed_number
from hakmem_lab.plan.spec import CommonSpec, Duration, Server, compiled
from hakmem_lab.plan.values import NUMBER
from hakmem_lab.run import endings
from hakmem_lab.run.conduct import Recorder
from hakmem_lab.run.runner import Runner, alone
from hakmem_lab.run.workload import ServerMeter, client_request, failure
from hakmem_lab.store.query import samples_of
from hakmem_lab.store.records import Record
from hakmem_lab.store.results import Result
from hakmem_lab.system import machine, signals
from hakmem_lab.system.counting import Counts
from hakmem_lab.system.launcher import Outcome, Request, Running
from hakmem_lab.system.usage import Usage, usage

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
    _compiled: re.Pattern[str] = field(init=False)
    _phase: str | None = None
    _line_phase: str | None = None

    def __post_init__(self) -> None:
        self._compiled = re.compile(self.pattern)

    def read(self, added: bytes, now_s: float) -> Record:
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
    def _values(found: list[Record], name: str) -> list[float]:
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
SAMPLED_BETTER = ("rss_series", "pss_series", "server")  # keys of a run in place of which a soak has its samples
OUTPUT_LIMIT_BYTES = 1 << 30


def parse_growth(value: Any) -> Any:
    """'1 MiB/h', '200 KiB/min' or a number of MiB per hour -> MiB per hour."""
    if isinstance(value, str) and not re.fullmatch(rf"\s*{NUMBER}\s*", value):
        found = re.fullmatch(rf"\s*({NUMBER})\s*(KiB|MiB|GiB)\s*/\s*(s|min|h|d)\s*", value)
        if not found:
            raise ValueError("a budget of growth is written as '1 MiB/h' or '100 KiB/min'")
        return float(found.group(1)) * MIB[found.group(2)] * PER_HOUR[found.group(3)]
    return value


class SoakSpec(CommonSpec):
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
    def _judged(self) -> "SoakSpec":
        if self.warm_up is not None and self.warm_up >= self.duration:
            raise ValueError("warm-up: it takes all of the duration, so that nothing would be judged")
        return self


def position(records: list[Record]) -> tuple[int, float]:
    """(number of the next segment, seconds sampled so far)."""
    samples = samples_of(records)
    return (samples[-1]["segment"] + 1, samples[-1]["t_s"]) if samples else (0, 0.0)


class LongRunner(Runner):
    """Runs one process until the time is over, and stores samples of it. offset_s: seconds that earlier segments have
    sampled."""

    def __init__(self, recorder: Recorder[SoakSpec], number: int, offset_s: float):
        self._recorder, self._spec, self._number, self._offset_s = recorder, recorder.spec, number, offset_s
        self._left_s = self._spec.duration - offset_s
        self._told = any(SECONDS in word for word in self._spec.command)  # the command ends in time by itself
        super().__init__(replace(recorder.workload, timeout_s=self._left_s + self._spec.timeout), [Metric("wall")])
        self._exact, self._tasks = True, set[int]()
        self._over = False  # the process has ended by itself
        self._ended_by: BaseException | None = None
        self._speaker: Running | None = None  # the program, or the client of a server: its output is read
        self._read_bytes = 0
        self._new_client: Callable[[], Running] | None = None
        self._client_failed: str | None = None

    def segment(self, arm: Arm) -> None:
        """Stores the samples and the run. On an interruption, the process is ended and stored before this raises."""
        recorder, started = self._recorder, time.time()
        recorder.progress.say(f"run {recorder.file.id}: {endings.duration(self._left_s)} of one process")
        try:
            part = self._measured(arm, 0, {})
        except OSError as error:
            raise recorder.stopped(f"cannot be started: {error.strerror}") from None
        if self._ended_by:
            interrupted = isinstance(self._ended_by, signals.INTERRUPTS)
            part["why"] = "interrupted" if interrupted else f"stopped: {self._ended_by}"
        record = alone(self.record(arm, 0, 1, started, [part]), self._number) | {"ended_by_itself": self._over}
        recorder.append({name: value for name, value in record.items() if name not in SAMPLED_BETTER})
        recorder.changed_file()
        if self._ended_by:
            raise self._ended_by

    def filled_in(self, words: Sequence[str], port: int | None = None) -> list[str]:
        return super().filled_in([word.replace(SECONDS, str(math.ceil(self._left_s))) for word in words], port)

    def request(self, *given: Any, **named: Any) -> Request:
        request = super().request(*given, **named)
        return replace(request, sample_ms=LAUNCHER_SAMPLE_MS, output_limit_bytes=OUTPUT_LIMIT_BYTES)

    def _awaited(self, running: Running) -> Outcome:
        self._speaker = running
        self._follow(running)
        if self._told and not self._over and not self._ended_by:
            self._over = running.ended(min(END_GRACE_S, self._spec.timeout))
        return running.terminate()

    def part(self, outcome: Outcome) -> Record:
        failed = outcome.explained(outcome.failure()) if self._over else None
        return self._part(outcome, None, outcome.not_served() or failed)

    def _clients(
        self, server: Server, running: Running, meter: ServerMeter | Counts, port: int
    ) -> tuple[Outcome | None, Record, str | None]:
        """Runs the warm-up client, then one client after the other."""
        if server.warm_up and (why := self._client(server.warm_up, port, "warm-up client")[1]):
            return None, {}, why
        request = client_request(self.workload, self.filled_in(self.workload.argv), port)
        self._new_client = partial(self.launchers[0].start, request)
        self._speaker = self._new_client()
        self._follow(running)
        if self._speaker:
            self._speaker.kill()
        return None, {}, self._client_failed

    def _heard(self) -> bytes:
        """The output since the last call. A client that has ended well is started again, unless it was told the
        time."""
        if self._speaker is None:
            return b""
        over = self._new_client is not None and self._speaker.ended()
        added = self._speaker.output(self._read_bytes)
        self._read_bytes += len(added)
        if over and self._new_client:
            self._client_failed = failure(self._speaker.wait(), "client")
            self._read_bytes = 0
            self._speaker = None if self._told or self._client_failed else self._new_client()
        return added

    def _follow(self, running: Running) -> None:
        self._recorder.event("segment", f"segment {self._number}: process {running.pid} started")
        try:
            self._over = not self._sample(running)
        except BaseException as error:
            self._ended_by = error

    def _sample(self, running: Running) -> bool:
        """Sample until the time is over; False if the program ended before, or its client failed."""
        reader, steal = LineReader(self._spec.line), machine.StealMeter()
        begun, index, interval_s = time.monotonic(), 0, self._spec.sample_interval
        while True:
            # Sample in the middle of the interval: by then a program that prints a line for each has named its phase.
            wait_s = begun + (index + 0.5) * interval_s - time.monotonic()
            if wait_s > 0 and running.ended(wait_s):
                return False
            t_s = time.monotonic() - begun
            used = self._usage(running.pid)
            if used is None:
                return False
            lines = reader.read(self._heard(), t_s)
            self._keep(self._offset_s + t_s, used, lines, steal.percent())
            if self._client_failed:
                return False
            # After a late sample, missed ones are skipped.
            index = max(index, math.floor((time.monotonic() - begun) / interval_s)) + 1
            if t_s + interval_s > self._left_s:
                return True

    def _usage(self, pid: int) -> Usage | None:
        before = time.thread_time()
        used = usage(pid, self._exact)
        took_s = time.thread_time() - before
        if self._exact and took_s > max(LEAST_SAMPLING_S, SAMPLING_SHARE * self._spec.sample_interval):
            self._exact = False
            text = f"an exact reading takes {took_s * 1e3:.0f} ms: from now on the kernel's count"
            self._recorder.event("memory", text)
        return used

    def _keep(self, t_s: float, used: Usage, lines: Record, steal_percent: float) -> None:
        """Stores a sample and shows it."""
        self._tasks |= used.tasks
        started = lines["threads_started"]
        sample = {"type": "sample", "segment": self._number, "t_s": round(t_s, 6), "exact": self._exact}
        sample |= {name: getattr(used, name) for name in SAMPLED} | lines
        sample |= {"threads_started": len(self._tasks) if started is None else started, "steal_percent": steal_percent}
        self._recorder.append(sample)
        phase = f", phase {lines['phase']}" if lines["phase"] else ""
        note = f"resident {used.rss_kib / 1024:.1f} MiB{phase}"
        self._recorder.progress.update(round(t_s), round(self._spec.duration), note)


class Soak(AgainstLimit):
    Spec = SoakSpec

    def sides(self, spec: SoakSpec) -> list[Arm]:
        return [parse_arm(spec.allocator, spec.allocator, "allocator")]

    def rule(self, session: Recorder[SoakSpec], phase: str) -> Rule:
        """One process, for what the processes before it have left of the time."""
        before = len(_ended(session.records()))

        def left(records: list[Record]) -> list[Arm]:
            over = session.spec.duration - position(records)[1] < session.spec.sample_interval
            return [] if over or len(_ended(records)) > before else [*session.arms.values()]

        return left

    def execute(self, session: Recorder[SoakSpec], named: Arm) -> None:
        with LongRunner(session, *position(session.records())) as runner:
            runner.segment(named)
        if not samples_of(records := session.records()):
            why = _ended(records)[-1]["why"]
            raise session.stopped(f"the program ended before the first sample: {why or 'exit status 0'}")

    def found(self, header: Record, records: list[Record]) -> Result:
        return result.found(header, records)


def _ended(records: Sequence[Record]) -> list[Record]:
    return [record for record in records if record["type"] == "run"]


soak = Soak()
