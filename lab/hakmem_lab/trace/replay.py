"""Runs hak-replay as a program to measure: from the facts of a trace to the figures that a replay reports."""

import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hakmem_lab.plan.metrics import MetricMissing
from hakmem_lab.run.runner import Runner
from hakmem_lab.run.session import Session
from hakmem_lab.system.launcher import Outcome
from hakmem_lab.trace import replayer
from hakmem_lab.trace.contents import Contents, objects, words

RECORDER_VARIABLES = ("LD_PRELOAD", "HAK_RECORD_SOCKET")
SERIES_POINTS = 64
MOST_REPEATS = 10


def command(
    trace: str, touch: str = "recorded", pace: str = "fast", processes: Sequence[int] = (), stack_mean: int = 0
) -> list[str]:
    """The command that replays a trace. stack_mean: mean bytes between two of its stacks; 0: no times by stack."""
    chosen = [f"--processes={','.join(map(str, processes))}"] if processes else []
    chosen += [f"--stacks={stack_mean}"] if stack_mean else []
    return [str(replayer()), f"--touch={touch}", *(["--pace"] if pace == "recorded" else []), *chosen, trace]


def recorded(found: Contents) -> dict[str, Any]:
    """The facts of a trace for the header of a run: the recorded processes, and the resources they used. Numbers that
    the trace lacks are None."""
    peaks = {each.get("process"): number(each, "rss_peak_kib") for each in objects(found.end.get("processes"))}
    processes = [{"process": each.number, "executable": words(each.about, "executable"),
                  "allocator": words(each.about, "allocator"), "peak_kib": peaks.get(each.number)}
                 for each in found.processes]  # fmt: skip
    return {"command": texts(found.info.get("command")), "complete": found.complete, "reason": found.partial,
            "wall_s": number(found.end, "wall_s"), "cpu_s": number(found.end, "cpu_s"),
            "processes": processes}  # fmt: skip


def environment(found: Contents) -> dict[str, str]:
    """The recorded variables of the program, without the recorder's own."""
    given = found.info.get("environment")
    pairs = given.items() if isinstance(given, dict) else ()
    return {name: value for name, value in pairs if isinstance(value, str) and name not in RECORDER_VARIABLES}


def texts(value: Any) -> list[str]:
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def number(found: Mapping[str, Any], key: str) -> float | None:
    """A number above 0."""
    value = found.get(key)
    return float(value) if isinstance(value, int | float) and math.isfinite(value) and value > 0 else None


@dataclass(frozen=True)
class Used:
    """The resources that the processes of a replay used. left_out, left_out_operations: number of processes left out,
    and of their operations."""

    processes: list[dict]
    left_out: int
    left_out_operations: int
    complete: bool

    @classmethod
    def read(cls, text: str) -> "Used":
        """Reads the output of hak-replay. Raises MetricMissing."""
        try:
            *processes, whole = [json.loads(line) for line in text.splitlines() if line.strip()]
            return cls(processes, whole["left_out"], whole["left_out_operations"], whole["complete"])
        except (ValueError, KeyError, TypeError):
            raise MetricMissing("the replay did not say what it used") from None

    def outcome(self, outcome: Outcome) -> Outcome:
        """The outcome with the replay's own figures: only the allocator's time, and the memory without the replay's
        own. Times are sums, since processes are replayed one after the other; the peak is that of the largest
        process."""
        cpu_s = sum(each["seconds"] for each in self.processes)
        largest = max(self.processes, key=lambda each: each["rss_peak_kib"])
        series = [(int(at), kib) for at, kib in largest["series"]][:SERIES_POINTS]
        left = {"after_load_kib": largest["after_load_kib"], "by": "rss"} if "after_load_kib" in largest else {}
        return replace(
            outcome,
            extra=outcome.extra | left,
            wall_s=max(sum(each["elapsed_s"] for each in self.processes), 1e-9),
            user_s=max(cpu_s, 1e-9),
            system_s=0.0,
            rss_peak_kib=max(largest["rss_peak_kib"], 1),
            rss_mean_kib=max(largest["rss_mean_kib"], 1.0),
            rss_series=series if series and series[-1][0] else [],  # a trace may have no times
        )

    def record(self, nodes: Collection[int] = ()) -> dict:
        """The report for the store, without the series, and with only these nodes of the stacks."""
        kept = [{key: value for key, value in each.items() if key != "series"} for each in self.processes]
        for each in kept:
            each["stacks"] = [row for row in each["stacks"] if row[0] in nodes]
        return {"processes": kept, "left_out": self.left_out, "left_out_operations": self.left_out_operations}


class ReplayRunner(Runner):
    """Runs hak-replay; the figures come from its own report. nodes: the stacks to keep in the records."""

    nodes: Collection[int] = ()

    def _part(self, outcome: Outcome, server: dict | None, why: str | None) -> dict:
        used = None
        if why is None:
            try:
                used = Used.read(outcome.stdout)
                outcome = used.outcome(outcome)
            except MetricMissing as error:
                why = str(error)
        part = super()._part(outcome, server, why)
        return part | ({"replay": used.record(self.nodes)} if used else {})


class ReplayBlocks(Session):
    """Blocks of replays."""

    runner_type, server_key = ReplayRunner, ""

    def _repeats(self, wall_s: float) -> int:
        """Limits the executions of a run, since each one also reads the trace, which may take many times as long."""
        return min(MOST_REPEATS, super()._repeats(wall_s)) if self.spec.repeat == "auto" else self.spec.repeat
