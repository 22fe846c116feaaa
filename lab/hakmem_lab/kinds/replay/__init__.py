"""`hak replay`: replays a recorded program's allocations on several allocators, in blocks like any comparison.

With `live`, the recorded command itself also runs on each of them in the same blocks, to check the predictions.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, model_validator

from hakmem_lab.designs.contrasts import Contrasts, many, many_texts
from hakmem_lab.designs.engine import Rule
from hakmem_lab.errors import LabError
from hakmem_lab.judge.statistics.plan import Plan
from hakmem_lab.kinds.replay.result import LIVE, chosen, replayed, with_replay
from hakmem_lab.plan.arms import Arm
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.plan.project import find_program
from hakmem_lab.plan.spec import CompareSpec, MetricName, Word
from hakmem_lab.plan.stdin import check_file
from hakmem_lab.run.endings import Progress
from hakmem_lab.run.runner import Runner
from hakmem_lab.run.workload import TRIAL_SEED, Workload
from hakmem_lab.store.query import Blocks
from hakmem_lab.store.records import Record, Run
from hakmem_lab.store.results import Result
from hakmem_lab.trace import replay as traced
from hakmem_lab.trace import stacks
from hakmem_lab.trace.contents import Contents, contents, words
from hakmem_lab.trace.replay import ReplayBlocks, ReplayRunner

MOST_NAMED = 20
LIVE_METRICS = ("wall", "cpu", "rss")


def parse_numbers(value: Any) -> Any:
    """'0,3' -> [0, 3]."""
    return [part for part in value.split(",") if part] if isinstance(value, str) else value


class Spec(CompareSpec):
    """command: the program that replays the trace; it follows from the other keys."""

    OWN_AA: ClassVar[bool] = False
    kind: Literal["replay"] = "replay"  # type: ignore[assignment]
    trace: Word
    touch: Literal["recorded", "all", "none"] = "recorded"
    pace: Literal["fast", "recorded"] = "fast"
    processes: Annotated[list[Annotated[int, Field(ge=0)]], BeforeValidator(parse_numbers)] = []
    live: bool = False
    by: Literal["stack"] | None = None
    metric: MetricName = "cpu"
    max_blocks: Annotated[int, Field(ge=1, le=100_000)] = 12

    @model_validator(mode="before")
    @classmethod
    def _command(cls, values: Any) -> Any:
        if not isinstance(values, dict) or not isinstance(trace := values.get("trace"), str) or "command" in values:
            return values
        if not Path(trace).is_file():
            raise LabError(f"there is no trace '{trace}'; one is made by: hak record -o {trace} -- COMMAND")
        live = bool(values.get("live"))
        # A run reports the times of its last execution, by stack.
        values = {"pace": "recorded" if live else "fast"} | ({"repeat": 1} if values.get("by") else {}) | values
        mean = stacks.mean_bytes(Path(trace)) if values.get("by") else 0
        touch, pace = str(values.get("touch", "recorded")), str(values["pace"])
        numbers = parse_numbers(values.get("processes"))
        numbers = numbers if isinstance(numbers, list) else []  # the field's own check rejects other values
        return values | {"command": traced.command(trace, touch, pace, numbers, mean)}


def live_workload(spec: Spec, found: Contents) -> Workload:
    """The recorded command. Raises LabError if it cannot be run."""
    command, cwd = traced.texts(found.info.get("command")), words(found.info, "cwd") or None
    if not command:
        raise LabError(f"--live: {spec.trace} does not say which command was recorded")
    if cwd is not None and not Path(cwd).is_dir():
        raise LabError(f"--live: the recorded command ran in {cwd}, which does not exist here")
    program = Path(cwd or "", command[0]) if "/" in command[0] else find_program(command[0], "--live")
    stdin = words(found.info, "stdin")
    given = traced.environment(found) | spec.env
    return Workload([str(program), *command[1:]], given, cwd, spec.pin, spec.timeout,
                    stdin=check_file(stdin, "--live") if stdin else None)  # fmt: skip


class TwoRunners(Runner):
    """Replays on the arms, and runs the recorded command on the arms whose name ends in LIVE."""

    def __init__(self, own: Runner, live: Runner):  # no launcher of its own
        self._own, self._live = own, live
        self.search, self.no_groups = own.search, own.no_groups

    def run(self, arm: Arm, pad_bytes: int, repeat: int = 1, seed: int = TRIAL_SEED) -> Run:
        if arm.name.endswith(LIVE):
            return self._live.run(arm, pad_bytes, 1, seed)
        return self._own.run(arm, pad_bytes, repeat, seed)

    def trial(self, arm: Arm) -> Run:
        return (self._live if arm.name.endswith(LIVE) else self._own).trial(arm)

    def close(self) -> None:
        self._own.close()
        self._live.close()


class ReplaySession(ReplayBlocks):
    """Blocks of replays, and of live runs if requested."""

    judged = " on the replayed allocations alone"

    def __init__(self, spec: Spec, arms: Sequence[Arm], progress: Progress):
        self.trace, self.found = spec.trace, contents(Path(spec.trace))
        self.live = live_workload(spec, self.found) if spec.live else None
        if missing := sorted(set(spec.processes) - {each.number for each in self.found.processes}):
            there = ", ".join(str(each.number) for each in self.found.processes[:MOST_NAMED]) or "none"
            raise LabError(f"--processes: {spec.trace} has no process {missing[0]}; it has: {there}")
        super().__init__(spec, arms, progress, [spec.metric, *(m for m in LIVE_METRICS if m != spec.metric)])
        self.needed = [arms[0].name, arms[0].name + LIVE]
        self.stacks = chosen(Path(spec.trace), spec, next(iter(spec.processes), None)) if spec.by else None
        if self.stacks and isinstance(self.runner, ReplayRunner):
            self.runner.nodes = {node for row in self.stacks["rows"] for node in row["nodes"]}
        if self.live:
            self.runner = TwoRunners(self.runner, Runner(self.live, [Metric(name) for name in LIVE_METRICS]))

    def workload_on(self, arm: Arm) -> Workload:
        return self.live if self.live and arm.name.endswith(LIVE) else self.workload

    def said_of(self, arm: Arm) -> str:
        return f"replay of {self.trace}" if self.workload_on(arm) is self.workload else super().said_of(arm)

    def create(self, folder: Path, source: str, **more: object) -> None:
        super().create(folder, source, recorded=traced.recorded(self.found), stacks=self.stacks, **more)
        if self.found.partial:
            self.warn("partial", f"the trace is incomplete, and replayed as far as it goes: {self.found.partial}")


class Replay(Contrasts):
    session = ReplaySession

    def sides(self, spec: Spec) -> list[Arm]:
        """The baseline first; with live, then each of them again."""
        own = super().sides(spec)
        return own + [replace(arm, name=arm.name + LIVE) for arm in own if spec.live]

    def least(self, spec: Spec, plan: Plan) -> int:
        least = super().least(spec, plan)
        return max(plan.looks[-1], least) if spec.live or spec.by else least

    def rule(self, session: ReplaySession, phase: str) -> Rule:
        """All sides in every block, where live runs or stacks are asked for."""
        if not session.spec.live and not session.spec.by:
            return super().rule(session, phase)

        def left(_: Blocks) -> list[str]:
            pairs = ((name, {name + LIVE, name.removesuffix(LIVE)}) for name in session.arms)
            return [name for name, both in pairs if not both & {*session.gone}]

        return left

    def found(self, header: Record, records: list[Record]) -> Result:
        # A side that failed live has failed, even if its replays ended well.
        own = [r | {"arm": r["arm"].removesuffix(LIVE)} if r["type"] == "run" and not r["ok"] else r for r in records]
        return with_replay(super().found(replayed(header), own), header, records)


replay = Replay(Spec, many, many_texts)
