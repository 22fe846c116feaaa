"""The workload that runs on every arm. For a server: its port, and its resource use while its client runs.

A client runs without the arm's allocator: it gets only the spec's variables.
"""

import contextlib
import errno
import itertools
import os
import socket
import statistics
import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hakmem_lab.errors import LabError
from hakmem_lab.plan.arms import Arm, callers_environment
from hakmem_lab.plan.model import build
from hakmem_lab.plan.project import find_program
from hakmem_lab.plan.spec import CommonSpec, Server
from hakmem_lab.plan.stdin import check_file
from hakmem_lab.run.folder import FOLDER
from hakmem_lab.system import files
from hakmem_lab.system.launcher import Outcome, Request, accepts
from hakmem_lab.system.usage import Group

SEED, TRIAL_SEED = "{seed}", 1


@dataclass(frozen=True)
class Workload:
    """The workload of every arm. argv: the command, its program as a full path."""

    argv: Sequence[str]
    env: dict[str, str]
    cwd: str | None
    pin: Sequence[int]
    timeout_s: float
    server: Server | None = None
    stdin: str | None = None
    others: Sequence[Sequence[str]] = ()  # where arms are commands: the commands after the first
    prepare: Sequence[str] | None = None  # run before each execution
    check: Sequence[str] | None = None  # run after it: reads its output, and fails where that is wrong
    expect_exit: Sequence[int] = (0,)
    after_s: float = 0.0  # between the end of the load and the reading of memory
    requests: int | None = None  # in one run, for growth per 1,000 of them

    @classmethod
    def of(cls, spec: CommonSpec) -> "Workload":
        argv = [str(spec.program()), *spec.command[1:]]
        others = [[str(find_program(words[0])), *words[1:]] for words in getattr(spec, "commands", ())[1:]]
        server = getattr(spec, "server", None)
        if server is not None:
            find_program(server.command[0], "server.command")
            if server.warm_up:
                find_program(server.warm_up[0], "server.warm-up")
        if spec.cwd is not None and not Path(spec.cwd).is_dir():
            raise LabError(f"cwd: there is no folder '{spec.cwd}'")
        for key, wanted in (("pin", spec.pin), ("server.pin", server.pin if server else [])):
            allowed = os.sched_getaffinity(0)
            if unknown := set(wanted) - allowed:
                there = ", ".join(map(str, sorted(allowed)))
                raise LabError(f"{key}: processor {min(unknown)} is not available; available: {there}")
        stdin = None if spec.stdin is None else check_file(spec.stdin)
        workload = cls(argv, spec.env, spec.cwd, spec.pin, spec.timeout, server, stdin)
        workload = replace(workload, others=others, prepare=getattr(spec, "prepare", None))
        workload = replace(workload, check=getattr(spec, "check", None))
        workload = replace(workload, expect_exit=getattr(spec, "expect_exit", (0,)))
        workload = replace(workload, after_s=getattr(spec, "after", 0.0), requests=getattr(spec, "requests", None))
        if workload.seeded() and not spec.DRAWS_SEEDS:
            raise LabError(f"command: {SEED} is drawn anew for every block, but the kind {spec.kind} has no blocks")
        if any(FOLDER in word for word in workload.check or ()):
            raise LabError(
                f"check: it cannot use {FOLDER}, since it may run after a later execution; let it read its input"
            )
        return workload

    @classmethod
    def of_command(cls, words: Sequence[str]) -> "Workload":
        """The workload of a command that is not measured. Raises LabError where there is no such program."""
        return cls.of(build(CommonSpec, {"kind": "run", "command": list(words)}, "command line"))

    def on(self, arm: Arm) -> "Workload":
        """The workload of this arm, which may have a command of its own."""
        if not arm.command:
            return self
        return replace(self, argv=[str(find_program(arm.command[0])), *arm.command[1:]])

    def subject(self) -> list[str]:
        """The command that runs on the allocator under test."""
        return [str(find_program(self.server.command[0])), *self.server.command[1:]] if self.server else list(self.argv)

    def seeded(self) -> bool:
        """Whether a command contains {seed}."""
        server = self.server
        words = [*self.argv, *(server.command if server else ()), *((server and server.warm_up) or ())]
        words += [*itertools.chain(*self.others), *(self.prepare or ()), *(self.check or ())]
        return any(SEED in word for word in words)


PORT = "{port}"
DAEMON = "exit status 0; a server has to stay in the foreground: one that becomes a daemon has an option against that"
RECENT_PORTS = 64

_recent: deque[int] = deque(maxlen=RECENT_PORTS)
_choosing = threading.Lock()


def choose_port(server: Server) -> int:
    """The server's port, or an unused one. Raises OSError where another program uses it."""
    if server.port == "auto":
        return _free_port()
    if accepts(server.port):
        raise OSError(errno.EADDRINUSE, f"port {server.port} is in use by another program")
    return server.port


def _free_port() -> int:
    """An unused port. Skips recently given ports, since their servers may not listen yet: two may be started at
    once."""
    with _choosing:
        while True:
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            if port not in _recent:
                _recent.append(port)
                return port


def with_port(words: Sequence[str], port: int) -> list[str]:
    return [word.replace(PORT, str(port)) for word in words]


RESET_PEAK = "5"


class ServerMeter:
    """Measures a server's use from `begin` to `end`: of its first process, or of all its processes where they have a
    group.

    Create it as soon as the server has started: the times of its memory series count from there.
    """

    def __init__(self, pid: int, group: Group | None):
        self._pid, self._group, self._started_s = pid, group, time.monotonic()
        self._cpu_s: float | None = None
        self._window_ms = (0.0, 0.0)

    def begin(self) -> None:
        if self._group:
            self._group.mark()
        self._cpu_s = self._used_s()
        with contextlib.suppress(OSError):  # without the reset, the peak includes the start
            Path(f"/proc/{self._pid}/clear_refs").write_text(RESET_PEAK, encoding="ascii")
        self._window_ms = (self._age_ms(), 0.0)

    def _age_ms(self) -> float:
        return (time.monotonic() - self._started_s) * 1000

    def _used_s(self) -> float | None:
        """None if the process is gone."""
        import psutil

        try:
            times = psutil.Process(self._pid).cpu_times()
        except psutil.Error:
            return None
        return times.user + times.system

    def end(self) -> dict:
        """Empty if the process is gone."""
        self._window_ms = (self._window_ms[0], self._age_ms())
        used_s = self._used_s()
        peak = files.rows(f"/proc/{self._pid}/status").get("VmHWM")
        if peak is None or used_s is None or self._cpu_s is None:
            return {}
        tree = self._group.read() if self._group else None
        whole = (tree or {}).get("cpu_s")
        cpu_s = used_s - self._cpu_s if whole is None else whole
        return {"cpu_s": cpu_s, "rss_peak_kib": int(peak.split()[0]), "tree": tree}

    def memory(self, outcome: Outcome, used: dict) -> dict:
        """The server's memory over its whole life, and its means and peaks between `begin` and `end`."""
        rss, pss = within(outcome.rss_series, self._window_ms), within(outcome.pss_series, self._window_ms)
        found: dict = {"window_ms": [round(at) for at in self._window_ms], "rss_series": outcome.rss_series}
        found |= {"pss_series": outcome.pss_series, "rss_mean_kib": mean_of(rss), "pss_mean_kib": mean_of(pss)}
        found["pss_peak_kib"] = peak_of(pss)
        if rss and "rss_peak_kib" in used:
            found["rss_peak_kib"] = max(used["rss_peak_kib"], peak_of(rss))
        return found


def within(series: Sequence[tuple[int, int]], window_ms: tuple[float, float]) -> list[tuple[int, int]]:
    """The points between two times; if there are none, the last one before, else the first one."""
    first, last = window_ms
    before = [(at, kib) for at, kib in series if at <= last]
    return [(at, kib) for at, kib in before if at >= first] or before[-1:] or list(series[:1])


def peak_of(series: Sequence[tuple[int, int]]) -> int | None:
    return max((kib for _, kib in series), default=None)


def mean_of(series: Sequence[tuple[int, int]]) -> float | None:
    """The plain mean, since every point stands for equally many samples."""
    return statistics.fmean(kib for _, kib in series) if series else None


def client_request(workload: Workload, command: Sequence[str], port: int | None) -> Request:
    """The request to start a client. port: None for the `prepare` command of a program that is no server."""
    argv = list(command) if port is None else with_port(command, port)
    argv[0] = str(find_program(argv[0]))
    env = callers_environment() | workload.env
    return Request(argv, env, workload.cwd, workload.pin, workload.timeout_s, sample_ms=0)


def failure(outcome: Outcome, what: str = "") -> str | None:
    """Why a client, or a command before or after a run, failed, else None."""
    why = outcome.explained(outcome.failure())
    return f"{what}: {why}" if why and what else why
