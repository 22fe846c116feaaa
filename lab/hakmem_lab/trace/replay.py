"""hak-replay from outside: what a trace says about itself, and what a replay of it says that it used."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hakmem_lab.errors import LabError, one_line
from hakmem_lab.plan.metrics import MetricMissing
from hakmem_lab.run.runner import Runner
from hakmem_lab.run.session import Session
from hakmem_lab.system.launcher import Outcome
from hakmem_lab.trace import native

TOUCHES = ("recorded", "all", "none")
RECORDER_VARIABLES = ("LD_PRELOAD", "HAK_RECORD_SOCKET")
SERIES_POINTS = 64
MOST_REPEATS = 10


@dataclass(frozen=True)
class Facts:
    """What a recorder wrote beside the operations; what it did not is None or empty.

    processes: number, operations, threads, about (what the recorder knew of it), resident (KiB over time).
    """

    complete: bool
    reason: str | None
    command: list[str]
    cwd: str | None
    environment: dict[str, str]
    stdin: str | None
    wall_s: float | None
    cpu_s: float | None
    peaks_kib: dict[int, float]
    processes: list[dict] = field(repr=False)

    @property
    def operations(self) -> int:
        return sum(process["operations"] for process in self.processes)

    @property
    def allocator(self) -> str | None:
        """The library that served the first process; None: the C library's, or not known."""
        about = (self.processes[0]["about"] or {}) if self.processes else {}
        return about.get("allocator") or None

    def peak_kib(self) -> float | None:
        """Of the largest process."""
        return max(self.peaks_kib.values(), default=None)


def command(trace: str, touch: str = "recorded", pace: str = "fast", processes: Sequence[int] = ()) -> list[str]:
    """The words that replay a trace."""
    chosen = [f"--processes={','.join(map(str, processes))}"] if processes else []
    return [str(native.replayer()), f"--touch={touch}", *(["--pace"] if pace == "recorded" else []), *chosen, trace]


def facts(trace: Path) -> Facts:
    """Raises LabError where the trace cannot be read, or was damaged."""
    done = subprocess.run([native.replayer(), "--facts", trace], capture_output=True, check=False)
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip() or f"exit status {done.returncode}"
        raise LabError(one_line(said.removeprefix("hak-replay: ")))
    try:
        raw = json.loads(done.stdout)
        return _facts(raw)
    except (ValueError, TypeError, AttributeError, KeyError):
        raise LabError(f"{trace} is damaged: what it says about itself cannot be read") from None


def _facts(raw: dict[str, Any]) -> Facts:
    info, end = raw["info"] or {}, raw["end"] or {}
    environment = {str(name): str(value) for name, value in (info.get("environment") or {}).items()}
    return Facts(
        raw["complete"],
        end.get("reason"),
        [str(word) for word in info.get("command") or []],
        info.get("cwd"),
        {name: value for name, value in environment.items() if name not in RECORDER_VARIABLES},
        info.get("stdin"),
        end.get("wall_s"),
        end.get("cpu_s"),
        {int(each["process"]): float(each["rss_peak_kib"]) for each in end.get("processes") or []
         if each.get("rss_peak_kib")},
        raw["processes"],
    )  # fmt: skip


@dataclass(frozen=True)
class Used:
    """What the processes of a replay used. left_out: how many processes, and of how many operations."""

    processes: list[dict]
    left_out: int
    left_out_operations: int
    complete: bool

    @classmethod
    def read(cls, text: str) -> "Used":
        """From the output of hak-replay. Raises MetricMissing."""
        try:
            *processes, whole = [json.loads(line) for line in text.splitlines() if line.strip()]
            return cls(processes, whole["left_out"], whole["left_out_operations"], whole["complete"])
        except (ValueError, KeyError, TypeError):
            raise MetricMissing("the replay did not say what it used") from None

    def outcome(self, outcome: Outcome) -> Outcome:
        """The run as the program's own would look: allocator's time alone, memory without that of the replay. Times
        add up, since processes are replayed one after the other; the peak is that of the largest."""
        cpu_s = sum(each["seconds"] for each in self.processes)
        largest = max(self.processes, key=lambda each: each["rss_peak_kib"])
        return replace(
            outcome,
            wall_s=max(sum(each["elapsed_s"] for each in self.processes), 1e-9),
            user_s=max(cpu_s, 1e-9),
            system_s=0.0,
            rss_peak_kib=max(largest["rss_peak_kib"], 1),
            rss_mean_kib=max(largest["rss_mean_kib"], 1.0),
            rss_series=[(int(at), kib) for at, kib in largest["series"]][:SERIES_POINTS],
        )

    def record(self) -> dict:
        """For the store, without the pictures."""
        kept = [{key: value for key, value in each.items() if key != "series"} for each in self.processes]
        return {"processes": kept, "left_out": self.left_out, "left_out_operations": self.left_out_operations}


class ReplayRunner(Runner):
    """Runs hak-replay; what it used is what its own report says."""

    def _part(self, outcome: Outcome, server: dict | None, why: str | None) -> dict:
        used = None
        if why is None:
            try:
                used = Used.read(outcome.stdout)
                outcome = used.outcome(outcome)
            except MetricMissing as error:
                why = str(error)
        part = super()._part(outcome, server, why)
        return part | ({"replay": used.record()} if used else {})


class ReplayBlocks(Session):
    """Blocks of replays."""

    runner_type = ReplayRunner

    def _repeats(self, wall_s: float) -> int:
        """An execution also reads the trace, which may take many times as long."""
        return min(MOST_REPEATS, super()._repeats(wall_s)) if self.spec.repeat == "auto" else self.spec.repeat
