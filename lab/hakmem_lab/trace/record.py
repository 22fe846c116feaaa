"""Recording a command and all that it starts."""

import contextlib
import os
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from hakmem_lab import __version__
from hakmem_lab.errors import LabError
from hakmem_lab.plan.arms import Arm, parse_arm
from hakmem_lab.plan.spec import CommonSpec, build
from hakmem_lab.run.preflight import check_arm
from hakmem_lab.run.runner import Workload
from hakmem_lab.system import signals
from hakmem_lab.trace import native, reach
from hakmem_lab.trace.collector import SOCKET, Collector, Recorded

# Of the caller's environment, what decides how a program allocates; the rest is nobody's business.
TOLD = re.compile(
    r"HAKMEM_|MALLOC_|GLIBC_TUNABLES$|MIMALLOC_|TCMALLOC_|SCUDO_|JE_|PYTHON(MALLOC|HASHSEED|OPTIMIZE)$|OMP_|LANG$|LC_|TZ$"
    r"|LD_LIBRARY_PATH$"
)


def information(command: Sequence[str], arm: Arm | None, stack_bytes: int) -> dict[str, Any]:
    """What a trace says of how it came to be."""
    env = {name: value for name, value in os.environ.items() if TOLD.match(name)}
    if arm is not None:
        env |= arm.library.environment | arm.variables
    return {
        "command": list(command),
        "cwd": os.getcwd(),
        "environment": env,
        "stdin": _stdin(),
        "allocator": arm.text if arm else None,
        "machine": {"system": os.uname().sysname, "release": os.uname().release, "processors": os.cpu_count()},
        "began": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "recorder": __version__,
        "stacks": stack_bytes,
    }


def _stdin() -> str | None:
    """The file that is read from standard input, if it is one."""
    try:
        path = os.readlink("/proc/self/fd/0")
    except OSError:
        return None
    return path if os.path.isfile(path) else None


def command(
    words: Sequence[str], output: Path, seconds: float | None = None, allocator: str = "default", stack_bytes: int = 0
) -> tuple[Recorded, int]:
    """(what was recorded, the command's status as wait gives it). Raises LabError where it cannot be started."""
    arm = parse_arm(allocator, where="--allocator")
    workload = Workload.of(build(CommonSpec, {"kind": "run", "command": list(words)}, "command line"))
    env = os.environ | arm.library.environment | arm.variables
    others = arm.preload(os.environ.get("LD_PRELOAD"))
    if others:
        env["LD_PRELOAD"] = others
    if problem := reach.program_problem(Path(workload.argv[0])):
        raise LabError(f"command: {words[0]} cannot be recorded: {problem}")
    check_arm(arm, workload, env)
    env["LD_PRELOAD"] = f"{_preloadable()}:{others}" if others else str(_preloadable())
    with Collector(output, information(words, arm, stack_bytes)) as collector:
        env[SOCKET] = str(collector.socket)
        status = _run(words, workload.argv[0], env, collector, seconds)
        with stopped_by_signals(collector):
            return collector.wait(), status


def _preloadable() -> Path:
    library = native.recorder()
    if re.search("[ :]", str(library)):
        raise LabError(
            f"{library.parent}: a library there cannot be preloaded, as its path has a space or a colon in it; "
            "set XDG_CACHE_HOME to another folder"
        )
    return library


def _run(words: Sequence[str], program: str, env: dict[str, str], collector: Collector, seconds: float | None) -> int:
    """Its status. What is typed is for the program, which decides what it makes of a signal."""
    began = time.monotonic()
    try:
        process = subprocess.Popen(list(words), executable=program, env=env, close_fds=False)
    except OSError as error:
        raise LabError(f"command: {words[0]} cannot be started: {error.strerror}") from None
    with signals.handed_on(process.pid):
        collector.tell(f"root {process.pid}")
        with stopped_after(collector, seconds):
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = code = os.waitstatus_to_exitcode(status)
        cpu_s = usage.ru_utime + usage.ru_stime
        ended = f"{max(code, 0)} {max(-code, 0)}"
        collector.tell(f"exited {ended} {time.monotonic() - began:.6f} {cpu_s:.6f}")
    return code


@contextlib.contextmanager
def stopped_after(collector: Collector, seconds: float | None) -> Iterator[None]:
    """The recording ends after so long, if not before; None: it does not."""
    timer = None
    if seconds is not None:
        timer = threading.Timer(min(seconds, threading.TIMEOUT_MAX), collector.tell, ("stop",))
        timer.daemon = True
        timer.start()
    try:
        yield
    finally:
        if timer:
            timer.cancel()


@contextlib.contextmanager
def stopped_by_signals(collector: Collector) -> Iterator[None]:
    """Meanwhile a signal ends the recording of what the command has left running."""
    heard = [number for number in signals.NUMBERS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, lambda *_: collector.tell("stop")) for number in heard}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
