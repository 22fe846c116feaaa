"""A group of processes that stands still and goes on as one: through the freezer of control groups, version 2.

A process notices only by the clock that it stood still. The freezer sends no signal, and a parent that waits for the
process gets no report. The kernel ends a frozen process by SIGKILL all the same.
"""

import contextlib
import os
import time
from pathlib import Path

from hakmem_lab.system import usage
from hakmem_lab.system.usage import PROC, PROCESSES, Groups

PREFIX = "hak-turns-"
INSIDE = "all"
LACKING = (
    "the sides could not take turns: this needs a control group of version 2: be root, or begin the command with "
    "'systemd-run --user --scope'"
)


def _parent(groups: Groups | None) -> Path | None:
    """The folder in which groups are made, or None. In version 2, the folder where resources are measured."""
    if groups and groups.version == 2:
        return groups.parents["memory"]
    folder, _ = usage.own_folders(PROC).get("", (None, None))
    return folder


def _remove_left(parent: Path) -> None:
    """Removes the empty groups of processes that were killed."""
    for folder in parent.glob(f"{PREFIX}*"):
        if not (PROC.parent / folder.name.split("-")[2]).exists():
            for group in (folder / INSIDE, folder):
                with contextlib.suppress(OSError):
                    group.rmdir()


class Freezer:
    """One group. Close it after use, when its processes have ended. Raises OSError where none can be made."""

    def __init__(self, groups: Groups | None = None):
        """groups: where groups that measure a part of the processes are made; see `groups`."""
        parent = _parent(groups)
        if parent is None:
            raise FileNotFoundError
        _remove_left(parent)
        self._folder = Path(os.path.normpath(parent)) / f"{PREFIX}{os.getpid()}-{time.monotonic_ns()}"
        self._inside = self._folder / INSIDE
        self._folder.mkdir()
        try:
            self._inside.mkdir()
            self._state = os.open(self._folder / "cgroup.freeze", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            self._remove()
            raise
        self.groups = groups
        if groups and groups.version == 2:
            (self._folder / "cgroup.subtree_control").write_text("+memory", encoding="ascii")
            self.groups = Groups(2, {"memory": self._folder})

    @property
    def processes(self) -> str:
        """The cgroup.procs file through which a process joins. What it starts is in the group, too."""
        return str(self._inside / PROCESSES)

    def stop(self) -> None:
        os.pwrite(self._state, b"1", 0)

    def go(self) -> None:
        os.pwrite(self._state, b"0", 0)

    def kill(self) -> None:
        """Kills all that is in the group now."""
        for file in self._folder.rglob(PROCESSES):
            with contextlib.suppress(OSError):
                for pid in file.read_text(encoding="ascii").split():
                    os.kill(int(pid), 9)

    def close(self) -> None:
        self.go()
        os.close(self._state)
        self._remove()

    def _remove(self) -> None:
        for folder in (self._inside, self._folder):
            usage.remove(folder)


def lacking() -> str:
    """Why no group can be made here; empty if it can."""
    try:
        Freezer().close()
    except OSError:
        return LACKING
    return ""
