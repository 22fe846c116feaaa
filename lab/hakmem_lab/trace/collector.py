"""The collector of one recording, as a process of its own: what recorded programs connect to."""

import contextlib
import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hakmem_lab.errors import LabError
from hakmem_lab.trace import native
from hakmem_lab.trace.contents import counts

SOCKET = "HAK_RECORD_SOCKET"
ADDRESS_BYTES = 107  # of a socket's path, at most


@dataclass(frozen=True)
class Recorded:
    """What came of a recording. end: what the trace says of itself at its end."""

    path: Path
    trace_bytes: int
    complete: bool
    end: Mapping[str, Any]

    @property
    def operations(self) -> int:
        return self.end.get("operations", 0)

    def _counted(self) -> str:
        processes = self.end.get("process_count")
        if processes is None:  # nobody could count them
            return ""
        operations = f"{self.operations:,} operation{'s' * (self.operations != 1)}"
        return f"{operations} of {processes} process{'es' * (processes != 1)} in "

    def _share(self) -> str:
        return f" ({self.trace_bytes / self.operations:.2f} an operation)" if self.operations else ""

    def headline(self) -> str:
        """The one line about it."""
        words = [
            f"{self._counted()}{self.trace_bytes:,} bytes{self._share()}",
            "complete" if self.complete else f"partial: {self.end.get('reason')}",
        ]
        for each_one in self.end.get("not_recorded", ()):
            words.append(f"{each_one['executable']} was not recorded ({each_one['processes']} times)")
        return f"{self.path}: " + "; ".join(words)


def _folder() -> tempfile.TemporaryDirectory[str]:
    """A new one in which a socket can be: TMPDIR may be too long for its address."""
    folder = tempfile.TemporaryDirectory(prefix="hak-record-")
    if len(os.fsencode(f"{folder.name}/socket")) <= ADDRESS_BYTES:
        return folder
    folder.cleanup()
    return tempfile.TemporaryDirectory(prefix="hak-record-", dir="/tmp")


class Collector:
    """A context manager; on leaving, one that still runs finishes its trace."""

    def __init__(self, output: Path, info: Mapping[str, Any]):
        """info: what the trace says of itself; its `stacks`: bytes from one that is taken to the next, 0: none are."""
        wrong = "is in no folder that there is" if not output.absolute().parent.is_dir() else None
        if output.exists() and not output.is_file():
            wrong = "is a folder" if output.is_dir() else "is no regular file"
        if wrong:
            raise LabError(f"--output: {output} {wrong}: name a file to write the trace to")
        self._path, self._folder = output, _folder()
        folder = Path(self._folder.name)
        folder.chmod(0o711)  # a server that has dropped its rights connects, too
        self.socket = folder / "socket"
        (folder / "info").write_text(json.dumps(info), encoding="utf-8")
        self._process = subprocess.Popen(
            [native.collector(), self.socket, output, folder / "info", str(info["stacks"])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="surrogateescape",
            # What is typed is for the program. Of the same session, because the scheduler shares the processors out
            # by sessions, and what the packer asks for, to come after all others, holds within one only.
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
        """Asks it for something; one that has ended does not answer."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def wait(self) -> Recorded:
        """Until all that was recorded has ended, or it was told to stop, and the trace is written."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        self._close()
        if not line:
            return Recorded(self._path, _size(self._path), False, {"reason": "the collector was killed"})
        found = json.loads(line)
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
    """What a trace that was cut short holds, which is less than what was recorded."""
    with contextlib.suppress(LabError):
        processes = counts(path)["processes"]
        return {"operations": sum(each["operations"] - each["inherited"] for each in processes)}
    return {"operations": 0}


def _size(path: Path) -> int:
    return os.stat(path).st_size if path.exists() else 0
