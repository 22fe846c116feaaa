"""What a command starts, through every exec to the end: which program, on the preload or without it, and how much
processor time it used. A helper in C, in `native/follow/`, follows it as a debugger follows; what is measured is never
run so.
"""

import os
import subprocess
import tempfile
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
    """What a process ran between one exec and the next. by: the program that called exec; "" for the first one.
    lost: why the library was not in it; "" where it was: see `lost_in` of image.c. own: of the
    command's own process."""

    pid: int
    program: str
    by: str
    lost: str
    cpu_s: float
    own: bool = False


@cache
def helper_path() -> Path:
    """The program that follows; static where that can be, so that nothing is preloaded into it."""
    return compiled("hak-follow", sorted(SOURCES.glob("*.[ch]")), ("-static",), (), purpose="follower")


class Report:
    """What one use of the follower says. A context manager."""

    def __init__(self, library: Path):
        self._library, self._file = library, tempfile.NamedTemporaryFile(prefix="hak-")  # noqa: SIM115

    def __enter__(self) -> "Report":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def words(self, *rest: str) -> list[str]:
        return [str(helper_path()), self._file.name, str(self._library), *rest]

    def command(self, argv: Sequence[str], limit_s: float = 0) -> list[str]:
        """The command to be started in the place of this one; it ends as that does. limit_s: then it is killed."""
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


def attached(pid: int, library: Path, began: Callable[[], None]) -> list[Image] | None:
    """Follows a process that runs, until it ends; None where that is not allowed. began: called once it is followed."""
    with Report(library) as report:
        process = subprocess.Popen(report.words("--attach", str(pid)), stdout=subprocess.PIPE, env={})
        assert process.stdout
        allowed = process.stdout.readline() == READY
        began()
        process.wait()
        process.stdout.close()
        return report.images() if allowed else None
