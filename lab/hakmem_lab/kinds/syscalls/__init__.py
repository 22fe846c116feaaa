"""`hak syscalls`: system calls per operation in the steady state, as the difference of two run lengths.

The runs are traced and therefore not timed. A command without {ops} has no two lengths: then the calls of the whole
process are reported, including start and end. {seed} in the command is a different number in every repeat, but the same
for all arms and both lengths, so the repeats execute different operations. With a [server], the server's calls are
counted, and the command is the client.

strace counts the calls. The allocator must be loaded into the program and not into strace, so the variables of the
dynamic linker are passed with -E.
"""

import contextlib
import os
import random
import re
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from hakmem_lab import extras
from hakmem_lab.designs.engine import Rule
from hakmem_lab.designs.limit import AgainstLimit
from hakmem_lab.errors import LabError, Stopped
from hakmem_lab.kinds.syscalls import result
from hakmem_lab.kinds.syscalls.result import SEED
from hakmem_lab.plan.arms import Arm, parse_arm, parse_arms
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.plan.spec import CommonSpec, Server
from hakmem_lab.run.conduct import Recorder
from hakmem_lab.run.runner import Runner, alone
from hakmem_lab.run.workload import TRIAL_SEED, Workload
from hakmem_lab.store.records import Record, Run
from hakmem_lab.store.results import Result
from hakmem_lab.system.launcher import GRACE_S, Outcome, Request, Running
from hakmem_lab.system.usage import family

# "% time  seconds  usecs/call  calls  [errors]  name"
_ROW = re.compile(r"^\s*[0-9.]+\s+[0-9.]+\s+\d+\s+(?P<calls>\d+)\s+(?:\d+\s+)?(?P<name>[a-z_]\w*)\s*$", re.M)
LINKER_PREFIX = "LD_"


def parse_summary(text: str) -> dict[str, int]:
    """Calls by name from the summary of `strace -c`; tables of several personalities are added up."""
    calls: dict[str, int] = {}
    for row in _ROW.finditer(text):
        if row["name"] != "total":
            calls[row["name"]] = calls.get(row["name"], 0) + int(row["calls"])
    return calls


def traced(strace: str, summary: Path, argv: Sequence[str], env: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """(the command, its environment) that counts the calls of argv and of everything it starts."""
    handed_over = {name: value for name, value in env.items() if name.startswith(LINKER_PREFIX)}
    words = [word for name, value in handed_over.items() for word in ("-E", f"{name}={value}")]
    own = {name: value for name, value in env.items() if name not in handed_over}
    return [strace, "-f", "-c", "-o", str(summary), *words, "--", *argv], own


class TracedRunner(Runner):
    """Counts the system calls of what runs on an arm, and of all that it starts. A server's clients run untraced."""

    def __init__(self, workload: Workload):
        self._strace = extras.tool("strace", "counting system calls")
        self._values: Mapping[str, str] = {}
        self._summary: Path | None = None  # where strace counts; None: it does not
        super().__init__(workload, [Metric("wall")])

    def counted(self, arm: Arm, values: Mapping[str, str]) -> tuple[dict[str, int], Record]:
        """(calls by name of the whole execution, the execution). values: placeholder -> value, in the commands."""
        with self.filled(values), tempfile.TemporaryDirectory(prefix="hak-") as folder:
            self._summary = Path(folder) / "calls"
            try:
                part = self._execute(arm, 0)
                calls = _counted(self._summary)
            finally:
                self._summary = None
        if part["why"] is None and not calls:
            part["why"] = "strace counted no system call"
        return calls, part | {"metrics": {}, "mapped": None}

    @contextlib.contextmanager
    def filled(self, values: Mapping[str, str]) -> Iterator[None]:
        self._values = values
        try:
            yield
        finally:
            self._values = {}

    def filled_in(self, words: Sequence[str], port: int | None = None) -> list[str]:
        for name, value in self._values.items():
            words = [word.replace(name, value) for word in words]
        return super().filled_in(words, port)

    def request(self, *given: Any, **named: Any) -> Request:
        request = super().request(*given, **named)
        if self._summary is None:
            return request
        words, own = traced(self._strace, self._summary, request.argv, request.env)
        return replace(request, argv=words, env=own, expect=None, worker=None, sample_ms=0)

    def _ended(self, server: Running) -> Outcome:
        return _end_traced(server) if self._summary else super()._ended(server)


def check_tracing() -> None:
    """Raises LabError if strace cannot trace here."""
    with TracedRunner(Workload.of_command(["/bin/true"])) as runner:
        calls, part = runner.counted(parse_arm("default"), {})
    if part["why"] or not calls.get("execve"):
        why = part["why"] or "it counted nothing"
        raise LabError(f"strace cannot trace programs here: {why}. In a container it needs the capability SYS_PTRACE")


def _counted(summary: Path) -> dict[str, int]:
    return parse_summary(summary.read_text(encoding="utf-8", errors="replace") if summary.exists() else "")


def _end_traced(running: Running) -> Outcome:
    """End the traced processes: strace itself ignores SIGTERM, and writes its summary after its program has ended."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in family(running.pid):
            if pid != running.pid and not running.ended():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        if running.ended(GRACE_S):
            return running.wait()
    return running.kill()


OPS = "{ops}"
MOST_SEED = 2**31


def parse_ops(value: Any) -> Any:
    """'1000000,5000000' -> [1000000, 5000000]."""
    return [int(part) for part in value.split(",")] if isinstance(value, str) else value


def check_ops(value: list[int]) -> list[int]:
    if not 0 < value[0] < value[1]:
        raise ValueError("ops are two lengths, the shorter one first, both above 0")
    return value


TwoLengths = Annotated[
    list[int], BeforeValidator(parse_ops), Field(min_length=2, max_length=2), AfterValidator(check_ops)
]


class SyscallsSpec(CommonSpec):
    """ops: the two lengths that {ops} in the command stands for. budget: calls per operation, at most."""

    kind: Literal["syscalls"] = "syscalls"
    allocators: Annotated[list[str], Field(min_length=1, default_factory=lambda: ["hakmem", "glibc"])]
    ops: TwoLengths | None = None
    repeats: Annotated[int, Field(ge=2, le=100)] = 3
    budget: Annotated[float, Field(gt=0)] | None = None
    server: Server | None = None

    @model_validator(mode="after")
    def _placeholder(self) -> "SyscallsSpec":
        used = any(OPS in word for word in self.command)
        if used != (self.ops is not None):
            raise ValueError("the key 'ops' and {ops} in the command go together: one of them is missing")
        if self.budget is not None and self.ops is None:
            raise ValueError("a budget is in calls per operation: it needs the key 'ops' and {ops} in the command")
        return self

    def unjudged(self) -> str:
        """Why there is no verdict; empty if there is a budget."""
        return "" if self.budget else "without the key 'budget' there is nothing that the counts have to keep"


@dataclass(frozen=True)
class Execution:
    """One traced execution of the plan."""

    index: int
    arm: Arm
    length: str
    ops: int | None
    seed: int

    @property
    def values(self) -> dict[str, str]:
        """Placeholder -> its value."""
        return {SEED: str(self.seed)} | ({} if self.ops is None else {OPS: str(self.ops)})


def plan(spec: SyscallsSpec, arms: Sequence[Arm], seed: int) -> list[Execution]:
    """Every arm and length `repeats` times, in a random order within each repeat."""
    lengths = list(zip(("short", "long"), spec.ops, strict=True)) if spec.ops else [("whole", None)]
    rng = random.Random(f"syscalls {seed}")
    order = []
    for repeat in range(spec.repeats):
        one = [(arm, *length) for arm in arms for length in lengths]
        rng.shuffle(one)
        number = random.Random(f"syscalls {seed} {repeat}").randrange(1, MOST_SEED)
        order += [(*each, number) for each in one]
    return [Execution(index, *each) for index, each in enumerate(order)]


class Counted(Recorder[SyscallsSpec]):
    """Before the traced runs, each arm is run once under the follower, which cannot work beside strace."""

    def __init__(self, *given: Any):
        super().__init__(*given)
        self.runner = TracedRunner(self.workload)

    def release(self) -> None:
        self.runner.close()

    def begin(self) -> None:
        check_tracing()
        self.unserved: list[str] = []
        super().begin()
        for text in self.unserved:
            self.warn("unserved", text)

    def check_arms(self) -> None:
        super().check_arms()
        order = plan(self.spec, list(self.arms.values()), TRIAL_SEED)
        first = min(order, key=lambda execution: execution.ops or 0)
        with self.runner.filled(first.values):
            for arm in self.arms.values():
                trial = self.runner.trial(arm)
                if trial.get("lost"):
                    raise LabError(trial["why"])
                self.unserved += filter(None, [trial.get("unserved")])


class Syscalls(AgainstLimit):
    Spec, session = SyscallsSpec, Counted

    def sides(self, spec: SyscallsSpec) -> list[Arm]:
        if len(set(spec.allocators)) != len(spec.allocators):
            raise LabError("allocators: the same side is named twice")
        return parse_arms({text: text for text in spec.allocators}, dict.fromkeys(spec.allocators, "allocators"))

    def rule(self, session: Counted, phase: str) -> Rule:
        """The executions that have not ended well yet."""
        executions = plan(session.spec, list(session.arms.values()), session.seed)

        def left(records: Sequence[Record]) -> list[Execution]:
            done = {record["block"] for record in records if record["type"] == "run" and record["ok"]}
            return [execution for execution in executions if execution.index not in done]

        return left

    def execute(self, session: Counted, named: Execution) -> None:
        """Raises Stopped if the execution fails."""
        before = [run for run in session.records() if run["type"] == "run" and run["block"] == named.index]
        count = len(session.arms) * session.spec.repeats * (2 if session.spec.ops else 1)
        session.progress.update(named.index, count, f"{named.arm.name}, {named.length}")
        record = _executed(named, session.runner) | {"attempt": len(before)}
        if changed := session.changed_file():
            record |= {"ok": False, "why": f"{changed} changed during the run"}
        session.append(record)
        if changed:
            raise Stopped(f"{changed} changed during run {session.file.id}; its counts are kept, start a new run")
        if not record["ok"]:
            raise session.stopped(f"{named.arm.name}: {' '.join(record['argv'])}: {record['why']}")

    def found(self, header: Record, records: list[Record]) -> Result:
        return result.found(header, records)


syscalls = Syscalls()


def _executed(execution: Execution, runner: TracedRunner) -> Run:
    started = time.time()
    calls, part = runner.counted(execution.arm, execution.values)
    with runner.filled(execution.values):
        argv = runner.filled_in(runner.workload.argv)
    record = alone(runner.record(execution.arm, 0, 1, started, [part]), execution.index)
    own: Run = {"argv": argv, "length": execution.length, "ops": execution.ops, "calls": calls}
    return record | own | {"value": float(sum(calls.values()))}
