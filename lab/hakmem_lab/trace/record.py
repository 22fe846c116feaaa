"""Records a command and all that it starts. Recorded programs connect to the collector, a process of its own."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hakmem_lab import __version__
from hakmem_lab.errors import LabError, refused
from hakmem_lab.plan.arms import Arm, parse_arm
from hakmem_lab.run.folder import Folder
from hakmem_lab.run.preflight import check_arm
from hakmem_lab.run.workload import Workload
from hakmem_lab.system import signals
from hakmem_lab.trace import collector, reach, recorder
from hakmem_lab.trace.contents import counts, ended_early, left_out, until_exec

SOCKET = "HAK_RECORD_SOCKET"
NOTICE_S = 3.0
NOTHING = "nothing was recorded: it allocates nothing, or loses LD_PRELOAD on its way: hak doctor -- COMMAND"
ADDRESS_BYTES = 107  # longest path of a socket


@dataclass(frozen=True)
class Recorded:
    """The outcome of a recording. end: the JSON object at the end of the trace."""

    path: Path
    trace_bytes: int
    complete: bool
    end: Mapping[str, Any]

    @property
    def operations(self) -> int:
        return self.end.get("operations", 0)

    def _counted(self) -> str:
        processes = self.end.get("process_count")
        if processes is None:  # the collector was killed
            return ""
        operations = f"{self.operations:,} operation{'s' * (self.operations != 1)}"
        return f"{operations} of {processes} process{'es' * (processes != 1)} in "

    def _share(self) -> str:
        return f" ({self.trace_bytes / self.operations:.2f} an operation)" if self.operations else ""

    def headline(self) -> str:
        lost = left_out(self.end)
        words = [
            f"{self._counted()}{self.trace_bytes:,} bytes{self._share()}",
            f"partial: {self.end.get('reason')}" if not self.complete else
            "complete until its exec" if until_exec(self.end) else
            f"complete until {early}" if (early := ended_early(self.end)) else
            NOTHING if self.operations == 0 else "complete, except for this" if lost else "complete",
        ]  # fmt: skip
        return f"{self.path}: " + "; ".join([*words, *lost])


def _folder() -> tempfile.TemporaryDirectory[str]:
    """A new folder for a socket, in /tmp if the path in TMPDIR is too long for a socket's address."""
    folder = tempfile.TemporaryDirectory(prefix="hak-record-")
    if len(os.fsencode(f"{folder.name}/socket")) <= ADDRESS_BYTES:
        return folder
    folder.cleanup()
    return tempfile.TemporaryDirectory(prefix="hak-record-", dir="/tmp")


class Collector:
    """The running collector. A context manager; on leaving, a collector that still runs finishes its trace."""

    def __init__(self, output: Path, info: Mapping[str, Any]):
        """info: the JSON object at the start of the trace; its `stacks`: mean bytes between recorded stacks; 0: no
        stacks."""
        wrong = "is in no folder that exists" if not output.absolute().parent.is_dir() else None
        if output.exists() and not output.is_file():
            wrong = "is a folder" if output.is_dir() else "is no regular file"
        if wrong:
            raise LabError(f"--output: {output} {wrong}: name a file to write the trace to")
        self._path, self._folder = output, _folder()
        folder = Path(self._folder.name)
        folder.chmod(0o711)  # a server that has changed its user must connect, too
        self.socket = folder / "socket"
        (folder / "info").write_text(json.dumps(info), encoding="utf-8")
        self._process = subprocess.Popen(
            [collector(), self.socket, output, folder / "info", str(info["stacks"])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="surrogateescape",
            # Its own process group, so that Ctrl-C reaches only the program. The same session, because the scheduler
            # divides the processors between sessions, and the packer's idle priority only works within its session.
            process_group=0,
            env={},
        )
        assert self._process.stdin and self._process.stdout and self._process.stderr
        if self._process.stdout.readline() != "ready\n":
            said = self._process.stderr.read().strip().removeprefix("hak-collect: ")
            self._folder.cleanup()
            raise LabError(f"--output: no trace can be written: {said}")

    def __enter__(self) -> "Collector":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def tell(self, line: str) -> None:
        """Sends a line to the collector; does nothing if that has ended."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def wait(self) -> Recorded:
        """Waits until all recorded processes have ended, or a stop was requested, and the trace is written."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        self._close()
        if not line:
            return Recorded(self._path, _size(self._path), False, {"reason": "the collector was killed"})
        found = json.loads(line)
        if found["bytes"] == 0:  # the disk was full from the beginning
            self._path.unlink(missing_ok=True)
        end = found["end"] if found["complete"] else found["end"] | _counted(self._path)
        return Recorded(self._path, found["bytes"], found["complete"], end)

    def _close(self) -> None:
        assert self._process.stdin and self._process.stdout and self._process.stderr
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()
        self._process.stderr.close()
        self._folder.cleanup()


def _counted(path: Path) -> dict[str, int]:
    """The counts of an incomplete trace, which holds less than was recorded."""
    with contextlib.suppress(LabError):
        processes = counts(path)["processes"]
        return {"operations": sum(each["operations"] - each["inherited"] for each in processes)}
    return {"operations": 0}


def _size(path: Path) -> int:
    return os.stat(path).st_size if path.exists() else 0


# Variables that affect how a program allocates. For privacy, a trace holds no others of the caller's environment.
TOLD = re.compile(
    r"HAKMEM_|MALLOC_|GLIBC_TUNABLES$|MIMALLOC_|TCMALLOC_|SCUDO_|JE_|PYTHON(MALLOC|HASHSEED|OPTIMIZE)$|OMP_|LANG$|LC_|TZ$"
    r"|LD_LIBRARY_PATH$"
)


def information(command: Sequence[str], arm: Arm | None, stack_bytes: int) -> dict[str, Any]:
    """The JSON object at the start of a trace: how it was recorded."""
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
    """Path of standard input, if that is a file."""
    try:
        path = os.readlink("/proc/self/fd/0")
    except OSError:
        return None
    return path if os.path.isfile(path) else None


def command(
    words: Sequence[str], output: Path, seconds: float | None = None, allocator: str = "default", stack_bytes: int = 0
) -> tuple[Recorded, int]:
    """Records a command. Returns the outcome, and the command's exit code, negative for a signal. Raises LabError where
    it cannot be started."""
    arm = parse_arm(allocator, where="--allocator")
    workload, env = Workload.of_command(words), arm.beside()
    if problem := reach.program_problem(Path(workload.argv[0])):
        raise LabError(f"command: {words[0]} cannot be recorded: {problem}")
    check_arm(arm, workload, env)
    env["LD_PRELOAD"] = ":".join(filter(None, (str(_preloadable()), env.get("LD_PRELOAD"))))
    with Folder() as folder, Collector(output, information(words, arm, stack_bytes)) as collector:
        env[SOCKET] = str(collector.socket)
        status = _run(folder.fill(words), workload.argv[0], env, collector, seconds)
        with stopped_by_signals(collector), _said_of_a_wait():
            return collector.wait(), status


def _said_of_a_wait() -> contextlib.AbstractContextManager[None]:
    """Prints a line if programs that the command left running run on for longer than NOTICE_S."""
    text = "hak: the command has ended, and what it has started is still recorded; Ctrl-C ends the recording"
    return _after(NOTICE_S, partial(print, text, file=sys.stderr, flush=True))


def _preloadable() -> Path:
    library = recorder()
    if re.search("[ :]", str(library)):
        raise LabError(
            f"{library.parent}: a library there cannot be preloaded, as its path has a space or a colon in it; "
            "set XDG_CACHE_HOME to another folder"
        )
    return library


def _run(words: Sequence[str], program: str, env: dict[str, str], collector: Collector, seconds: float | None) -> int:
    """Runs the program, and returns its exit code. Signals are passed to the program, which decides how it reacts."""
    began = time.monotonic()
    with signals.held():  # until the process exists that gets the signals
        with refused(f"command: {words[0]} cannot be started"):
            process = subprocess.Popen(list(words), executable=program, env=env, close_fds=False)
        with signals.handed_on(process.pid):
            collector.tell(f"root {process.pid}")
            with stopped_after(collector, seconds):
                _, status, usage = os.wait4(process.pid, 0)
            process.returncode = code = os.waitstatus_to_exitcode(status)
            cpu_s = usage.ru_utime + usage.ru_stime
            ended = f"{max(code, 0)} {max(-code, 0)}"
            collector.tell(f"exited {ended} {time.monotonic() - began:.6f} {cpu_s:.6f}")
    return code


def stopped_after(collector: Collector, seconds: float | None) -> contextlib.AbstractContextManager[None]:
    """Stops the recording after this time in seconds; None: no limit."""
    if seconds is None:
        return contextlib.nullcontext()
    return _after(min(seconds, threading.TIMEOUT_MAX), partial(collector.tell, "stop"))


@contextlib.contextmanager
def _after(seconds: float, call: Callable[[], None]) -> Iterator[None]:
    """Calls the function after this time, unless the context has ended before."""
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def stopped_by_signals(collector: Collector) -> contextlib.AbstractContextManager[None]:
    """Within the context, a signal stops the recording."""
    heard = [number for number in signals.NUMBERS if signal.getsignal(number) is not signal.SIG_IGN]
    return signals.handled(heard, lambda *_: collector.tell("stop"))
