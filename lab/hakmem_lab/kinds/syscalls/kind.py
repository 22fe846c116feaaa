"""`hak syscalls`: system calls per operation in the steady state, as the difference of two run lengths.

The runs are traced and therefore not timed. A command without {ops} has no two lengths: then the calls of the whole
process are reported, start and end included. {seed} in it is another number in every repeat, the same for all arms and
both lengths: then the repeats are of different operations. With a [server] its calls are counted, and the command is
the client.
"""

import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from hakmem_lab.errors import LabError, Stopped
from hakmem_lab.kinds.syscalls.count import TAIL_CHARACTERS, Counter
from hakmem_lab.kinds.syscalls.result import SEED, analyse
from hakmem_lab.plan.arms import Arm
from hakmem_lab.plan.spec import CommonSpec, Server
from hakmem_lab.run.blockless import Recorder
from hakmem_lab.run.context import Context
from hakmem_lab.run.runner import MEASURES, Workload
from hakmem_lab.run.session import parse_arms
from hakmem_lab.system.launcher import Launcher

__all__ = ["Spec", "analyse", "run"]

OPS = "{ops}"
MOST_SEED = 2**31


def parse_ops(value: Any) -> Any:
    """'1000000,5000000' -> [1000000, 5000000]."""
    return [int(part) for part in value.split(",")] if isinstance(value, str) else value


class Spec(CommonSpec):
    """ops: the two lengths that {ops} in the command stands for. budget: calls per operation, at most."""

    kind: Literal["syscalls"] = "syscalls"
    allocators: Annotated[list[str], Field(min_length=1, default_factory=lambda: ["hakmem", "glibc"])]
    ops: Annotated[list[int], BeforeValidator(parse_ops), Field(min_length=2, max_length=2)] | None = None
    repeats: Annotated[int, Field(ge=2, le=100)] = 3
    budget: Annotated[float, Field(gt=0)] | None = None
    server: Server | None = None

    @field_validator("ops")
    @classmethod
    def _ops(cls, value: list[int] | None) -> list[int] | None:
        if value is not None and not 0 < value[0] < value[1]:
            raise ValueError("ops are two lengths, the shorter one first, both above 0")
        return value

    @model_validator(mode="after")
    def _placeholder(self) -> "Spec":
        used = any(OPS in word for word in self.command)
        if used != (self.ops is not None):
            raise ValueError("the key 'ops' and {ops} in the command go together: one of them is missing")
        if self.budget is not None and self.ops is None:
            raise ValueError("a budget is in calls per operation: it needs the key 'ops' and {ops} in the command")
        return self


@dataclass(frozen=True)
class Execution:
    """One traced execution of the plan."""

    index: int
    arm: Arm
    length: str
    ops: int | None
    seed: int

    def argv(self, words: Sequence[str]) -> list[str]:
        """With what {ops} and {seed} stand for."""
        length = OPS if self.ops is None else str(self.ops)
        return [word.replace(OPS, length).replace(SEED, str(self.seed)) for word in words]


def plan(spec: Spec, arms: Sequence[Arm], seed: int) -> list[Execution]:
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


def run(spec: Spec, context: Context) -> dict:
    """The result, which is also the run's last record. Raises LabError, Stopped or Interrupted."""
    if len(set(spec.allocators)) != len(spec.allocators):
        raise LabError("allocators: the same arm is named twice")
    arms = parse_arms({text: text for text in spec.allocators}, dict.fromkeys(spec.allocators, "allocators"))
    workload = Workload.of(spec)
    with Recorder(spec, arms, workload, context) as recorder, Launcher() as launcher:
        counter = Counter(launcher, workload.cwd, workload.pin, workload.timeout_s, workload.stdin)
        counter.check()
        recorder.begin()
        _count(spec, plan(spec, arms, recorder.seed), counter, recorder)
        return recorder.finish(analyse(recorder.file.header(), recorder.records()))


def _count(spec: Spec, executions: Sequence[Execution], counter: Counter, recorder: Recorder) -> None:
    """What is not in the store yet. Raises Stopped at the first execution that fails."""
    records = [record for record in recorder.records() if record["type"] == "run"]
    done = {record["block"] for record in records if record["ok"]}
    attempts = {record["block"]: record["attempt"] + 1 for record in records}
    for execution in executions:
        if execution.index in done:
            continue
        note = f"{execution.arm.name}, {execution.length}"
        recorder.progress.update(execution.index, len(executions), note)
        try:
            record = _execute(spec, execution, counter, recorder.workload)
        except OSError as error:
            raise recorder.stopped(f"strace cannot be started: {error.strerror}") from None
        if changed := recorder.changed_file():
            record |= {"ok": False, "why": f"{changed} changed during the run"}
        recorder.append(record | {"attempt": attempts.get(execution.index, 0)})
        if changed:
            raise Stopped(f"{changed} changed during run {recorder.file.id}; its counts are kept, start a new run")
        if not record["ok"]:
            recorder.progress.restart()
            raise recorder.stopped(f"{execution.arm.name}: {' '.join(record['argv'])}: {record['why']}")
    recorder.progress.restart()


def _execute(spec: Spec, execution: Execution, counter: Counter, workload: Workload) -> dict:
    argv, environment = execution.argv(workload.argv), execution.arm.environment(spec.env)
    started = time.time()
    if workload.server:
        subject = execution.argv(workload.subject())
        calls, outcome, why = counter.count_server(workload, workload.server, argv, subject, environment)
    else:
        calls, outcome = counter.count(argv, environment)
        why = outcome.failure()
        if why and (tail := " ".join((outcome.stderr or outcome.stdout).split())[-TAIL_CHARACTERS:]):
            why += f": {tail}"
    if why is None and not calls:
        why = "strace counted no system call"
    return {
        "type": "run",
        "block": execution.index,
        "position": 0,
        "arm": execution.arm.name,
        "phase": "measure",
        "started": started,
        "repeat": 1,
        "argv": argv,
        "length": execution.length,
        "ops": execution.ops,
        "calls": calls,
        "value": float(sum(calls.values())),
        "metrics": {},
        "mapped": None,
        "pad_bytes": 0,
        "exit": outcome.exit,
        "signal": outcome.signal,
        "timed_out": outcome.timed_out,
        "ok": why is None,
        "why": why,
        **{name: getattr(outcome, name) for name in MEASURES},
    }
