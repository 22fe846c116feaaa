"""One run of one arm: start the program (and its server), measure it, read the metrics.

Imports launcher, metrics, arms, spec, machine. A run that fails is not an exception but a record with `ok: false` and
`why`.
"""

import contextlib
import errno
import os
import socket
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from . import machine
from .arms import Arm
from .errors import LabError
from .launcher import Launcher, Outcome, Request, Running, wait_for_port
from .metrics import Metric, MetricMissing
from .spec import BlockSpec, CommonSpec, Server, find_program

SAMPLE_MS = 10
TAIL_CHARACTERS = 400
RESET_PEAK = "5"
MEASURES = ("wall_s", "cpu_s", "user_s", "system_s", "rss_peak_kib", "rss_mean_kib", "minor_faults", "major_faults",
            "voluntary_switches", "involuntary_switches")  # fmt: skip
EXECUTION_KEYS = ("wall_s", "user_s", "system_s", "rss_peak_kib", "minor_faults", "exit", "signal", "metrics", "why")
PEAKS = ("rss_peak_kib",)
SEED, TRIAL_SEED = "{seed}", 1


@dataclass(frozen=True)
class Workload:
    """What is run on every arm: argv with the program resolved."""

    argv: Sequence[str]
    env: dict[str, str]
    cwd: str | None
    pin: Sequence[int]
    timeout_s: float
    server: Server | None = None

    @classmethod
    def of(cls, spec: CommonSpec) -> "Workload":
        argv = [str(spec.program()), *spec.command[1:]]
        server = getattr(spec, "server", None)
        if spec.kind != "run" and not isinstance(spec, BlockSpec) and any(SEED in word for word in argv):
            raise LabError(f"command: {SEED} is drawn anew for every block, and a run of the kind {spec.kind} has none")
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
                raise LabError(f"{key}: there is no processor {min(unknown)} for us; there are {there}")
        return cls(argv, spec.env, spec.cwd, spec.pin, spec.timeout, server)

    def subject(self) -> list[str]:
        """The command that runs on the allocator under test."""
        return [str(find_program(self.server.command[0])), *self.server.command[1:]] if self.server else list(self.argv)

    def seeded(self) -> bool:
        """Whether a command asks for a seed of its own in every block."""
        server = self.server
        words = [*self.argv, *(server.command if server else ()), *((server and server.warm_up) or ())]
        return any(SEED in word for word in words)


def _failed(outcome: Outcome) -> str | None:
    why = outcome.failure()
    if why is None and outcome.exit != 0:
        why = f"exit status {outcome.exit}"
    if why is None and outcome.mapped is False:
        why = "the allocator was not loaded: its library is not mapped in the process"
    if why and (tail := _printable(outcome.stderr or outcome.stdout)[-TAIL_CHARACTERS:]):
        why += f": {tail}"
    return why


def _printable(text: str) -> str:
    """In one line, and harmless to a terminal."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _measures(outcome: Outcome) -> dict:
    return {name: getattr(outcome, name) for name in MEASURES}


class Runner:
    """Runs one workload on any arm. A context manager: on leaving, nothing that it started still runs."""

    def __init__(self, workload: Workload, metrics: Sequence[Metric]):
        self.workload, self.metrics = workload, metrics
        self._seed = TRIAL_SEED
        self._launchers = [Launcher() for _ in range(2 if workload.server else 1)]
        self._steal = machine.StealMeter()

    def __enter__(self) -> "Runner":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for launcher in self._launchers:
            launcher.close()

    def run(self, arm: Arm, pad_bytes: int, repeat: int = 1, seed: int = TRIAL_SEED) -> dict:
        """A record of the run: everything measured, means over `repeat` executions (peaks: the greatest).

        seed: what {seed} in the commands stands for.
        """
        started, self._seed = time.time(), seed
        record = {
            "arm": arm.name,
            "started": started,
            "repeat": repeat,
            "pad_bytes": pad_bytes,
            "ok": True,
            "why": None,
        }
        if self.workload.seeded():
            record["workload_seed"] = seed
        parts: list[dict] = []
        for _ in range(repeat):
            part = self._execute(arm, pad_bytes)
            parts.append(part)
            if part["why"]:
                break
        record |= _combined(parts)
        if len(parts) > 1:
            record["executions"] = [{key: part[key] for key in EXECUTION_KEYS} for part in parts]
        record["ok"] = record["why"] is None
        if record["ok"]:
            record["value"] = record["metrics"][self.metrics[0].name]
        record["load_1m"], record["steal_percent"] = machine.load_1m(), self._steal.percent()
        return record

    def _execute(self, arm: Arm, pad_bytes: int) -> dict:
        try:
            return self._measured(arm, pad_bytes)
        except OSError as error:
            unknown = dict.fromkeys((*MEASURES, "exit", "signal", "mapped"))
            return unknown | {"timed_out": False, "metrics": {}, "why": f"cannot be started: {error.strerror}"}

    def _measured(self, arm: Arm, pad_bytes: int) -> dict:
        if self.workload.server:
            return self._with_server(arm, pad_bytes)
        argv = self._filled_in(self.workload.argv)
        outcome = self._start(self._launchers[0], argv, arm.environment(self.workload.env, pad_bytes), arm).wait()
        return self._part(outcome, None, _failed(outcome))

    def _filled_in(self, words: Sequence[str], port: int | None = None) -> list[str]:
        """The words of a command with what {seed} and {port} stand for."""
        words = [word.replace(SEED, str(self._seed)) for word in words]
        return words if port is None else [word.replace("{port}", str(port)) for word in words]

    def _start(
        self, launcher: Launcher, argv: Sequence[str], env: dict, arm: Arm | None, pin: Sequence[int] = ()
    ) -> Running:
        library = arm.library.path if arm else None
        expect = str(library.resolve()) if library else None
        w = self.workload
        return launcher.start(Request(argv, env, w.cwd, pin or w.pin, w.timeout_s, SAMPLE_MS, expect))

    def _part(self, outcome: Outcome, server: dict | None, why: str | None) -> dict:
        part = {**_measures(outcome), "exit": outcome.exit, "signal": outcome.signal, "timed_out": outcome.timed_out,
                "mapped": outcome.mapped, "metrics": {}, "why": why}  # fmt: skip
        if server is not None:
            part["server"] = server
        if why is None:
            try:
                part["metrics"] = {metric.name: metric.read(outcome, server) for metric in self.metrics}
            except MetricMissing as error:
                part["why"] = str(error)
        return part

    def _with_server(self, arm: Arm, pad_bytes: int) -> dict:
        server, w = self.workload.server, self.workload
        port = _free_port() if server.port == "auto" else server.port
        if server.port != "auto" and _in_use(port):
            raise OSError(errno.EADDRINUSE, f"port {port} is in use by another program")
        argv = self._filled_in(w.subject(), port)
        environment = arm.environment(w.env, pad_bytes)
        running = self._start(self._launchers[1], argv, environment, arm, server.pin)
        client, usage, why = None, {}, f"the server did not listen on port {port} within {server.ready_timeout:g} s"
        try:
            if wait_for_port(port, running, server.ready_timeout):
                client, usage, why = self._clients(running, port)
        finally:
            ended = running.ended()
            outcome = running.terminate()
        if ended:
            why = f"the server ended during the run: {_failed(outcome) or 'exit status 0'}"
        elif why is None and outcome.mapped is False:
            why = _failed(outcome)
        usage["rss_mean_kib"] = outcome.rss_mean_kib
        return self._part(client or outcome, usage, why)

    def _clients(self, running: Running, port: int) -> tuple[Outcome | None, dict, str | None]:
        """The warm-up client, then the measured one: (its outcome, what the server used meanwhile, why it failed)."""
        warm_up = self.workload.server.warm_up
        if warm_up and (why := self._client(warm_up, port, "warm-up client")[1]):
            return None, {}, why
        meter = _ServerMeter(running.pid)
        client, why = self._client(self.workload.argv, port, "client")
        return client, meter.read(), why

    def _client(self, command: Sequence[str], port: int, what: str) -> tuple[Outcome, str | None]:
        argv = self._filled_in(command, port)
        argv[0] = str(find_program(argv[0]))
        plain = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ} | {"LC_ALL": "C"}
        try:
            outcome = self._start(self._launchers[0], argv, plain | self.workload.env, None).wait()
        except OSError as error:
            raise OSError(error.errno, f"{what} {argv[0]}: {error.strerror}") from None
        failed = _failed(outcome)
        return outcome, f"{what}: {failed}" if failed else None


class _ServerMeter:
    """Processor time and peak memory of a running process from now on."""

    def __init__(self, pid: int):
        self._pid = pid
        self._cpu_s = self._used_s()
        with contextlib.suppress(OSError):  # the peak then includes the start, as for any process
            Path(f"/proc/{pid}/clear_refs").write_text(RESET_PEAK, encoding="ascii")

    def _used_s(self) -> float | None:
        """None if the process is gone."""
        import psutil

        try:
            times = psutil.Process(self._pid).cpu_times()
        except psutil.Error:
            return None
        return times.user + times.system

    def read(self) -> dict:
        """Empty if the process is gone."""
        used_s = self._used_s()
        try:
            status = Path(f"/proc/{self._pid}/status").read_text(encoding="ascii")
            peak = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
        except (OSError, StopIteration):
            return {}
        return {"cpu_s": used_s - self._cpu_s, "rss_peak_kib": peak} if used_s is not None else {}


def _combined(parts: Sequence[dict]) -> dict:
    """One record of several executions: means, greatest peaks, the last one's end."""
    record = dict(parts[-1])
    if len(parts) > 1 and record["why"] is None:
        for name in MEASURES:
            values = [part[name] for part in parts if part[name] is not None]
            if values:
                record[name] = max(values) if name in PEAKS else statistics.fmean(values)
        record["metrics"] = {
            name: max(part["metrics"][name] for part in parts)
            if name in ("rss", "server-rss")
            else statistics.fmean(part["metrics"][name] for part in parts)
            for name in record["metrics"]
        }
    return record


def _in_use(port: int) -> bool:
    with contextlib.suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    return False


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
