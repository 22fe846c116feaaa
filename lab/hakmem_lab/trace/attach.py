"""Recording a process that runs: a debugger loads the recorder into it, and leaves it alone again."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

from hakmem_lab.errors import LabError
from hakmem_lab.run.preflight import program_problem
from hakmem_lab.system import signals
from hakmem_lab.trace import native
from hakmem_lab.trace.collector import Collector, Recorded
from hakmem_lab.trace.record import information, stopped_after, stopped_by_signals

# Where malloc begins, its thread holds no lock of the allocator. A process that does not come there is in no malloc.
QUIET_S, LIMIT_S = 2.0, 60.0
RTLD_NOW_NODELETE = 0x1002
UNREACHED = -2  # of hak_record_attach
_VALUE = re.compile(r"^\$\d+ = (?:\(void \*\) )?(-?(?:0x)?[0-9a-f]+)", re.M)


def process(pid: int, output: Path, seconds: float | None = None) -> Recorded:
    """Until it ends, the seconds are over or a signal comes; the process goes on. Raises LabError."""
    command = _command(pid)
    debugger = shutil.which("gdb")
    if debugger is None:
        raise LabError("a process that runs is recorded through gdb: install gdb, or record it from its start with --")
    info = information(command, None) | {"cwd": _link(pid, "cwd"), "environment": {}, "stdin": None}
    with Collector(output, info) as collector:
        _inject(debugger, pid, collector.socket)
        with stopped_by_signals(collector):
            collector.tell("exited 0 0 0 0")  # nothing of ours is to be waited for
            with stopped_after(collector, seconds):
                return collector.wait()


def _command(pid: int) -> list[str]:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
    except OSError:
        raise LabError(f"there is no process {pid}") from None
    if problem := program_problem(Path(f"/proc/{pid}/exe")):
        raise LabError(f"process {pid} cannot be recorded: {problem}")
    return [os.fsdecode(word) for word in words]


def _link(pid: int, name: str) -> str | None:
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/{name}")
    return None


def _inject(debugger: str, pid: int, socket: Path) -> None:
    library = native.recorder()
    steps = [
        "set confirm off", "set pagination off", "set debuginfod enabled off", "set breakpoint pending off",
        "handle SIGINT stop nopass", "tbreak malloc", "continue", "delete",
        f'print ((void *(*)(const char *, int))dlopen)("{library}", {RTLD_NOW_NODELETE})',
        f'print ((int (*)(const char *))hak_record_attach)("{socket}")',
        "detach",
    ]  # fmt: skip
    words = [debugger, "-nx", "-batch", "-p", str(pid)]
    for step in steps:
        words += ["-ex", step]
    with signals.held():
        done = _watched(words)
    if _link(pid, "exe") is None:
        raise LabError(f"process {pid} cannot be recorded: it has ended")
    values = _VALUE.findall(done)
    if "Operation not permitted" in done or "ptrace:" in done:
        raise LabError(f"process {pid} may not be debugged: be its user with kernel.yama.ptrace_scope at 0, or root")
    if len(values) == 2 and int(values[-1], 0) == UNREACHED:
        raise LabError(f"process {pid} cannot be recorded: it is recorded already, or cannot reach {socket.parent}")
    if len(values) < 2 or int(values[-1], 0) <= 0:
        why = " ".join(line for line in done.splitlines() if "rror" in line or "No symbol" in line)[-300:]
        raise LabError(f"process {pid} cannot be recorded: the recorder could not be loaded into it{why and ': '}{why}")


def _watched(words: list[str]) -> str:
    """What gdb says. A process that does not come to malloc is interrupted where it is."""
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        errors="replace", start_new_session=True,
    )  # fmt: skip
    deadline = time.monotonic() + LIMIT_S
    while True:
        try:
            return process.communicate(timeout=QUIET_S)[0]
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                process.kill()
                return process.communicate()[0]
            process.send_signal(signal.SIGINT)
