"""Reports all programs that a command starts, through every exec: whether the library was preloaded, and the processor
time. A helper in C, in `native/follow/`, follows the processes with ptrace. Measured runs are never followed.
"""

import contextlib
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hakmem_lab.system.compiled import compiled

SOURCES = Path(__file__).parent / "native" / "follow"
FIELDS = 7
READY = b"ready\n"


@dataclass(frozen=True)
class Image:
    """What a process ran between one exec and the next. by: the program that called exec; "" for the first one. lost:
    why the library was not loaded, "" if it was; see `lost_in` in image.c. own: it belongs to the command's own
    process."""

    pid: int
    program: str
    by: str
    lost: str
    cpu_s: float
    own: bool = False


@cache
def helper_path() -> Path:
    """The follower program; statically linked where possible, so that nothing is preloaded into it."""
    return compiled("hak-follow", sorted(SOURCES.glob("*.[ch]")), ("-static",), (), purpose="follower")


class Report:
    """The report of one use of the follower. A context manager."""

    def __init__(self, library: Path):
        self._library, self._file = library, tempfile.NamedTemporaryFile(prefix="hak-")  # noqa: SIM115

    def __enter__(self) -> "Report":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def words(self, *rest: str) -> list[str]:
        return [str(helper_path()), self._file.name, str(self._library), *rest]

    def command(self, argv: Sequence[str], limit_s: float = 0) -> list[str]:
        """The command to start in place of argv; it ends with the same status. limit_s: it is killed after this time;
        0: never."""
        return self.words(str(round(limit_s * 1000)), *argv)

    def images(self) -> list[Image]:
        """Images of ended processes, in the order of their ends, then of running ones."""
        parts = os.fsdecode(Path(self._file.name).read_bytes()).split("\0")[:-1]
        found = []
        for at in range(0, len(parts) - FIELDS + 1, FIELDS):
            whose, pid, state, why, microseconds, by, program = parts[at : at + FIELDS]
            lost = "" if state == "served" else why or "refused"
            found.append(Image(int(pid), program, by, lost, int(microseconds) / 1e6, whose == "command"))
        return found


class Exits:
    """Stops a process and all that it starts at their ends. `allowed`, which must be called once, waits until the
    process is followed."""

    def __init__(self, pid: int, library: Path):
        words = [str(helper_path()), os.devnull, str(library), "--exits", str(pid)]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={}, bufsize=0)

    def __enter__(self) -> "Exits":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()  # a stopped process goes on
        self._process.wait()
        self._process.stdout.close()

    def allowed(self) -> bool:
        assert self._process.stdout
        return self._process.stdout.readline() == READY

    def next(self, wait_s: float) -> int | None:
        """The process that ends now and is stopped, until `go_on`; None: there is none in this time. Negative: the
        process begins to trace others, so that neither it nor what it starts is followed."""
        assert self._process.stdout
        if not select.select([self._process.stdout], [], [], wait_s)[0]:
            return None
        line = self._process.stdout.readline()
        if not line:  # all have ended
            time.sleep(wait_s)
            return None
        return int(line)

    def go_on(self) -> None:
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(b"\n")


def attached(pid: int, library: Path, began: Callable[[], None]) -> list[Image] | None:
    """Follows a running process until it ends; None where that is not allowed. began: called once the process is
    followed, or cannot be."""
    with Report(library) as report:
        process = subprocess.Popen(report.words("--attach", str(pid)), stdout=subprocess.PIPE, env={})
        assert process.stdout
        allowed = process.stdout.readline() == READY
        began()
        process.wait()
        process.stdout.close()
        return report.images() if allowed else None
