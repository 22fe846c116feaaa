"""Ends a run early: after a signal, the loss of the launcher, or a store that cannot be written.

Every kind of run ends here. By then its programs have ended and its measurements are stored. One line says how to go
on.

Also reports the progress of a long command on standard error: how far it is, and the time left.

On a terminal it rewrites one line; elsewhere it writes a line now and then.
"""

import contextlib
import errno
import os
import sys
import time
from collections.abc import Iterator
from typing import Protocol

from hakmem_lab.errors import Interrupted, Stopped, escaped
from hakmem_lab.store.runs import RunFile
from hakmem_lab.system import signals
from hakmem_lab.system.launcher import LauncherEnded


class ArmFailed(Stopped):
    """An arm cannot finish a block. index: number of the block; why: failure of its last run in the block."""

    def __init__(self, text: str, arm: str, index: int, why: str):
        super().__init__(text)
        self.arm, self.index, self.why = arm, index, why


class Recording(Protocol):
    """A run that has begun."""

    @property
    def file(self) -> RunFile: ...

    def event(self, what: str, text: str) -> None: ...


def cannot_go_on(run: RunFile, why: object) -> Stopped:
    """The exception for a run that can be continued later; its text says how."""
    return Stopped(f"{why}. Everything finished is kept: hak runs show {run.id}; go on with: hak runs resume {run.id}")


def cannot_write(run: RunFile, error: OSError) -> Stopped:
    why = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror
    return Stopped(
        f"cannot write to {run.path}: {why}. Everything finished is kept; make room, then: hak runs resume {run.id}"
    )


def conclude(recording: Recording, error: BaseException | None) -> None:
    """Call it after all programs have ended. Where `error` is a signal or the loss of the launcher, stores an event and
    raises Interrupted or Stopped."""
    run = recording.file
    if not isinstance(error, (*signals.INTERRUPTS, LauncherEnded)):
        return
    interrupted = isinstance(error, signals.INTERRUPTS)
    with contextlib.suppress(Stopped):  # on a full disk the event is lost, but the message stays the same
        if interrupted:
            recording.event("interrupted", "interrupted by the user")
        else:
            recording.event("stopped", str(error))
    if interrupted:
        text = f"interrupted; nothing finished is lost. Go on with: hak runs resume {run.id}"
        raise Interrupted(text, signals.number_of(error)) from None
    raise cannot_go_on(run, error) from None


@contextlib.contextmanager
def told(stored: RunFile | None = None) -> Iterator[None]:
    """Reports the same endings while no file of the run is open. stored: the run to be continued, if any."""
    rest = f"go on with: hak runs resume {stored.id}" if stored else "nothing was stored"
    try:
        yield
    except signals.INTERRUPTS as error:
        raise Interrupted(f"interrupted; {rest}", signals.number_of(error)) from None
    except LauncherEnded as error:
        raise Stopped(f"{error}; {rest}") from None


QUIET_LINE_S = 30.0


def duration(seconds: float) -> str:
    """For people: '4 s', '3 min 20 s', '2 h 05 min'."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{whole // 3600} h {whole % 3600 // 60:02d} min"


SHOWN: set[str] = set()  # warnings of this command that the reader of standard output has seen already


def _beside_stdout(stream) -> bool:
    """Whether standard output goes to the same place: both to terminals, or both to one file or pipe."""
    if stream.isatty() and sys.stdout.isatty():
        return True
    try:
        return os.path.sameopenfile(stream.fileno(), sys.stdout.fileno())
    except (OSError, ValueError):  # a stream without a file
        return False


class Progress:
    """Counts units of work (blocks, seconds) against a total."""

    def __init__(self, stream=None, quiet: bool = False):
        self._stream, self._quiet = stream or sys.stderr, quiet
        self._live = not quiet and self._stream.isatty()
        self._said = self._begun = self.started = time.monotonic()
        self._first: float | None = None
        self._reached, self._spoke = 0.0, False
        self.said_slow = False
        self.early: list[str] = []  # warnings to store in every run of the command
        self.parameters: list[dict[str, str]] = []  # of each command, or one for all: what replaced {NAME}
        self.server_flag = ""  # names the command's flag for a server, if it has one
        self.limits: list[str] = []  # the flags and keys that limit the time of one execution

    def warn_early(self, text: str) -> None:
        """Shows a warning, and keeps it for the file of the run, which does not exist yet."""
        self.early.append(text)
        self.warn(text)

    def warn(self, text: str) -> None:
        """A warning that stays. --quiet does not hide it."""
        if _beside_stdout(self._stream):
            SHOWN.add(text)
        self._clear()
        self._write(escaped(f"warning: {text}", but="\n") + "\n")

    def say(self, text: str) -> None:
        """A line that stays."""
        if not self._quiet:
            self._clear()
            self._write(escaped(text, but="\n") + "\n")

    def update(self, done: float, total: float, note: str = "") -> None:
        """Shows `done` of `total` units; the first call sets the start of the count."""
        joined = f" {note}" if note.startswith("blocks") else f", {note}" if note else ""
        self._show(done, total, f"{done:g} of {total:g}{joined}")

    def share(self, fraction: float, note: str = "") -> None:
        """Shows the finished part of work without known units; the shown part never shrinks."""
        self._reached = max(self._reached, min(1.0, fraction))
        self._show(self._reached, 1.0, f"{100 * self._reached:.0f} %" + (f", {note}" if note else ""))

    def _show(self, done: float, total: float, text: str) -> None:
        now = time.monotonic()
        if self._first is None:
            self._first, self._begun = done, now
        gained = done - self._first
        if done >= total:
            text += f", took {duration(now - self._begun)}" if gained > 0 else ""
        elif gained > 0:
            text += f", about {duration((now - self._begun) / gained * (total - done))} left"
        if self._live:
            self._write("\r\033[K" + text[:200])
        elif not self._quiet and (now - self._said > QUIET_LINE_S or (self._spoke and done >= total)):
            self._said, self._spoke = now, done < total
            self._write(text + "\n")

    def restart(self) -> None:
        """The next update begins a new count."""
        self._first, self._reached = None, 0.0
        self._clear()

    def _clear(self) -> None:
        if self._live:
            self._write("\r\033[K")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # the terminal may be gone; the measurement goes on
            self._stream.write(text)
            self._stream.flush()
