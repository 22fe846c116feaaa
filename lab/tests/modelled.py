"""Programs that are never started: a model says what each execution of one does, and the clock stands still meanwhile.

The seam is `Launcher`, through which the laboratory starts every program that it measures. A test of what sessions,
designs and pages make of a program's figures asks for `modelled`; one of processes, signals or the kernel starts a real
program.
"""

import functools
import os
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hakmem_lab.kinds import tune
from hakmem_lab.run import early, endings, preflight, runner, session, together, trials
from hakmem_lab.system.launcher import LauncherEnded, Outcome, Request

USUAL = Outcome(
    exit=0, signal=None, timed_out=False, too_much_output=False, wall_s=0.02, user_s=0.018, system_s=0.002,
    rss_peak_kib=2000, rss_mean_kib=1500.0, minor_faults=120, major_faults=0, voluntary_switches=1,
    involuntary_switches=0, samples=2, mapped=True,
)  # fmt: skip
NO_PROCESS = 1 << 30  # beyond the kernel's largest PID


@dataclass
class Execution:
    """number: counts the executions of this program, trials included, from 1."""

    number: int
    argv: Sequence[str]
    env: Mapping[str, str]


Model = Callable[[Execution], dict]  # -> the fields of an Outcome that are not the usual ones


class Clock:
    """Seconds that pass only while a program runs."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    time = monotonic

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


class Modelled:
    """The models of a test. calls: its executions, in order."""

    def __init__(self, folder: Path):
        self.folder, self.clock = folder, Clock()
        self.calls: list[Execution] = []
        self._models: dict[str, Model] = {}
        self._numbers: Counter[str] = Counter()

    def __call__(self, model: Model, name: str = "modelled.sh") -> Path:
        """The path of a program that behaves like the model. Where the file exists already, it stays as it is."""
        path = self.folder / name
        if not path.exists():
            path.write_text("#!/bin/sh\nexit 99 # modelled, and not to be started\n")
            path.chmod(0o755)
        self._models[str(path)] = model
        return path

    def outcome(self, request: Request) -> Outcome:
        path = request.argv[0]
        assert path in self._models, f"{path} would be started"
        self._numbers[path] += 1
        self.calls.append(Execution(self._numbers[path], request.argv, request.env))
        found = replace(USUAL, mapped=True if request.expect else None, counts=(None,) * len(request.counters))
        found = replace(found, **self._models[path](self.calls[-1]))
        self.clock.sleep(found.wall_s)
        return found


class Ended:
    """Stands in for a `Running`."""

    pid = NO_PROCESS

    def __init__(self, outcome: Outcome):
        self._outcome, self._fd = outcome, os.eventfd(1)  # readable at once

    def __del__(self) -> None:
        os.close(self._fd)

    def fileno(self) -> int:
        return self._fd

    def go(self) -> None:
        pass

    def ended(self, timeout_s: float = 0.0) -> bool:
        return True

    def wait(self) -> Outcome:
        return self._outcome

    def terminate(self, grace_s: float = 0.0) -> Outcome:
        return self._outcome


class Launching:
    """Stands in for a `Launcher`."""

    def __init__(self, programs: Modelled):
        self._programs = programs

    def start(self, request: Request) -> Ended:
        return Ended(self._programs.outcome(request))

    def run(self, request: Request) -> Outcome:
        return self._programs.outcome(request)

    def close(self) -> None:
        pass


def installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Modelled:
    """From now on no program is measured but those that are modelled."""
    programs = Modelled(folder)
    for module in (runner, together):
        monkeypatch.setattr(module, "Launcher", functools.partial(Launching, programs))
    for module in (session, early, endings, runner, together, trials, tune):
        monkeypatch.setattr(module, "time", programs.clock)
    # The same order in every test: one side after another.
    one_by_one = lambda own, arms: [each for arm in arms for each in trials.tried(own, [arm])]  # noqa: E731
    monkeypatch.setattr(session, "tried", one_by_one)
    # Whether an allocator serves a program can only be asked of one that is started.
    monkeypatch.setattr(preflight, "check_arm", lambda arm, workload, env=None: None)
    monkeypatch.setattr(runner.Runner, "_trial", lambda self, arm: self.run(arm, 0))
    return programs


def counted(execution: Execution) -> dict:
    """As fakes/counted.sh: `AT_N` says what the n-th execution does, `RATE` what the others print."""
    what = execution.env.get(f"AT_{execution.number}", execution.env.get("ALWAYS"))
    if what == "exit":
        return {"exit": 7, "stderr": "failing on purpose\n"}
    if what == "kill":
        raise LauncherEnded("hak's launcher was killed, and with it what it ran")
    if what == "change":
        with open(execution.argv[0], "a") as file:
            file.write("# changed\n")
    return {"stdout": f"ops {execution.env.get('RATE', 1000)}\n"}
