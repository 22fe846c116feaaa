"""System calls of one execution, counted by strace.

The allocator must reach the program and not strace, so the variables of the dynamic linker are handed over with -E.
"""

import contextlib
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from hakmem_lab.errors import LabError
from hakmem_lab.plan.spec import Server
from hakmem_lab.run.runner import Workload
from hakmem_lab.run.served import drive
from hakmem_lab.run.serving import choose_port, with_port
from hakmem_lab.system.launcher import GRACE_S, Launcher, Outcome, Request, Running, wait_for_port
from hakmem_lab.system.proc import family

# "% time  seconds  usecs/call  calls  [errors]  name"
_ROW = re.compile(r"^\s*[0-9.]+\s+[0-9.]+\s+\d+\s+(?P<calls>\d+)\s+(?:\d+\s+)?(?P<name>[a-z_]\w*)\s*$", re.M)
LINKER_PREFIX = "LD_"
TAIL_CHARACTERS = 400
ATTACH_FAILED = re.compile(r"ptrace|PTRACE|attach|not permitted|seccomp")


def parse_summary(text: str) -> dict[str, int]:
    """Calls by name from what `strace -c` writes; several personalities are added up."""
    calls: dict[str, int] = {}
    for row in _ROW.finditer(text):
        if row["name"] != "total":
            calls[row["name"]] = calls.get(row["name"], 0) + int(row["calls"])
    return calls


def find_strace() -> str:
    """Raises LabError where there is none."""
    found = shutil.which("strace")
    if found is None:
        raise LabError("counting system calls needs strace: install it (Debian: apt-get install strace)")
    return found


def traced(strace: str, summary: Path, argv: Sequence[str], env: Mapping[str, str]) -> tuple[list[str], dict[str, str]]:
    """(the command, its environment) that counts the calls of argv and of everything it starts."""
    handed_over = {name: value for name, value in env.items() if name.startswith(LINKER_PREFIX)}
    words = [word for name, value in handed_over.items() for word in ("-E", f"{name}={value}")]
    own = {name: value for name, value in env.items() if name not in handed_over}
    return [strace, "-f", "-c", "-o", str(summary), *words, "--", *argv], own


class Counter:
    """Counts the system calls of programs, one after the other."""

    def __init__(
        self, launcher: Launcher, cwd: str | None, pin: Sequence[int], timeout_s: float, stdin: str | None = None
    ):
        self._launcher, self._cwd, self._pin, self._timeout_s, self._stdin = launcher, cwd, pin, timeout_s, stdin
        self._strace = find_strace()

    def check(self) -> None:
        """Raises LabError where strace cannot trace here."""
        calls, outcome = self.count(["/bin/true"], {"PATH": "/usr/bin:/bin"})
        if outcome.exit != 0 or not calls.get("execve"):
            why = " ".join(outcome.stderr.split())[-TAIL_CHARACTERS:] or outcome.failure() or "it counted nothing"
            raise LabError(
                f"strace cannot trace programs here: {why}. In a container it needs the capability SYS_PTRACE"
            )

    def count(self, argv: Sequence[str], env: Mapping[str, str]) -> tuple[dict[str, int], Outcome]:
        """Calls by name of the whole execution, and how it ended (strace ends as its program does)."""
        with tempfile.TemporaryDirectory(prefix="hak-") as folder:
            summary = Path(folder) / "calls"
            command, own = traced(self._strace, summary, argv, env)
            request = Request(command, own, self._cwd, self._pin, self._timeout_s, sample_ms=0, stdin=self._stdin)
            outcome = self._launcher.run(request)
            return _counted(summary), outcome

    def count_server(
        self, workload: Workload, server: Server, client: Sequence[str], argv: Sequence[str], env: Mapping[str, str]
    ) -> tuple[dict[str, int], Outcome, str | None]:
        """Calls by name of a server, whose command is argv, from its start to its end while one client drives it; how
        it ended; why that does not count, else None. The client runs untraced, on no arm."""
        port = choose_port(server)
        with tempfile.TemporaryDirectory(prefix="hak-") as folder, Launcher() as clients:
            summary = Path(folder) / "calls"
            command, own = traced(self._strace, summary, with_port(argv, port), env)
            pin = server.pin or self._pin
            running = self._launcher.start(Request(command, own, self._cwd, pin, self._timeout_s, sample_ms=0))
            why: str | None = f"the server did not listen on port {port} within {server.ready_timeout:g} s"
            try:
                if wait_for_port(port, running, server.ready_timeout):
                    why = drive(clients, workload, server, client, port)
            finally:
                if running.ended() and why is None:
                    why = "the server ended during the run"
                outcome = _end_traced(running)
            return _counted(summary), outcome, why


def _counted(summary: Path) -> dict[str, int]:
    return parse_summary(summary.read_text(encoding="utf-8", errors="replace") if summary.exists() else "")


def _end_traced(running: Running) -> Outcome:
    """Ends what strace traces: strace itself ignores SIGTERM, and writes its summary once its program has ended."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in family(running.pid):
            if pid != running.pid and not running.ended():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
        if running.ended(GRACE_S):
            return running.wait()
    return running.kill()
