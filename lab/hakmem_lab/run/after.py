"""Memory a stated time after the load has ended: of a server when its client has ended, of a command at its mark.

A command marks the end of its load by a line that it writes to the file which the variable HAK_MARK names. If it then
reads a line from `$HAK_MARK.done`, it waits there until its memory has been read. `hak mark` does both. Numbers in the
line are processes that do not belong to the program: `hak mark` itself.
"""

import contextlib
import os
import select
import statistics
import tempfile
import time
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path

from hakmem_lab.system import usage
from hakmem_lab.system.launcher import Outcome, Running

MARK, DONE = "HAK_MARK", ".done"
LINE = b"\n"
UNMARKED = f"the program wrote no line to ${MARK}: let it run 'hak mark' where its load has ended"
TOO_SOON = "the program ended {:g} s after its load, before its memory could be read at {:g} s"


def reading(running: Running, after_s: float, without: Collection[int] = ()) -> dict:
    """The memory of the program's processes after this time, or why it is not known. by: what it is the sum of."""
    began = time.monotonic()
    found = None if running.ended(after_s) else usage.usage(running.pid, True, without)
    if found is None:
        return {"why": TOO_SOON.format(round(time.monotonic() - began, 1), after_s)}
    by, kib = ("rss", found.rss_kib) if found.pss_kib is None else ("pss", found.pss_kib)
    return {"after_load_kib": kib, "by": by, "after_s": after_s}


@dataclass(frozen=True)
class _Wait:
    """What passed between a mark and its reading. from_s: seconds since the start of the program."""

    from_s: float
    wall_s: float
    cpu_s: float
    faults: int


class Mark:
    """The files of one execution. A context manager."""

    def __init__(self, after_s: float):
        self._after_s, self._waits = after_s, list[_Wait]()
        self._read: dict = {"why": UNMARKED}

    def __enter__(self) -> "Mark":
        self._folder = tempfile.TemporaryDirectory(prefix="hak-mark-")
        Path(self._folder.name).chmod(0o711)  # the program may have changed its user
        self._path, self._files = f"{self._folder.name}/mark", []
        for path in (self._path, self._path + DONE):
            os.mkfifo(path)
            os.chmod(path, 0o666)
            self._files.append(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            os.close(file)
        self._folder.cleanup()

    def environment(self) -> dict[str, str]:
        return {MARK: self._path}

    def wait(self, running: Running) -> Outcome:
        """Waits for the end of the program and reads its memory after each mark; the last reading counts. The waits
        count neither as time nor in the mean memory."""
        started = time.monotonic()
        marks, done = self._files
        while True:
            if not (over := running.ended()):
                select.select([running.fileno(), marks], [], [])
            if not (line := _drained(marks)):
                if over:  # without a line that came together with the end
                    return self._without_waits(running.wait())
                continue
            without = [int(word) for word in line.split() if word.isdigit()]
            _drained(done)
            before, began = usage.usage(running.pid, False), time.monotonic()
            self._read = reading(running, self._after_s, without)
            after = usage.usage(running.pid, False)
            if before and after:
                cpu_s, faults = after.cpu_s - before.cpu_s, after.minor_faults - before.minor_faults
                self._waits.append(_Wait(began - started, time.monotonic() - began, cpu_s, faults))
            os.write(done, LINE)

    def _without_waits(self, outcome: Outcome) -> Outcome:
        wall_s, cpu_s = (sum(getattr(each, name) for each in self._waits) for name in ("wall_s", "cpu_s"))
        share = max(0.0, 1 - cpu_s / outcome.cpu_s) if outcome.cpu_s else 1.0
        waited = [(each.from_s * 1000, (each.from_s + each.wall_s) * 1000) for each in self._waits]
        kept = [kib for at, kib in outcome.rss_series if not any(low <= at <= high for low, high in waited)]
        return replace(
            outcome,
            extra=self._read,
            wall_s=max(outcome.wall_s - wall_s, 1e-9),
            user_s=outcome.user_s * share,
            system_s=outcome.system_s * share,
            minor_faults=max(outcome.minor_faults - sum(each.faults for each in self._waits), 0),
            rss_mean_kib=statistics.fmean(kept) if waited and kept else outcome.rss_mean_kib,
        )


def _drained(file: int) -> bytes:
    with contextlib.suppress(BlockingIOError):
        return os.read(file, 1 << 16)
    return b""


def mark() -> None:
    """Marks the end of the load, and waits until the memory has been read. Does nothing where nobody measures it."""
    if path := os.environ.get(MARK):
        with contextlib.suppress(OSError):
            Path(path).write_bytes(b"%d\n" % os.getpid())
            with open(path + DONE, "rb") as done:
                done.readline()
