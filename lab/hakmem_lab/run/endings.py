"""How a run ends that does not reach its end: a signal, a killed launcher, a store that takes no more.

Every kind of run ends here: what it has started is gone by then, what it has measured stays, and one line says how to
go on.
"""

import contextlib
import errno
from collections.abc import Iterator
from typing import Protocol

from hakmem_lab.errors import Interrupted, Stopped
from hakmem_lab.store.runs import RunFile
from hakmem_lab.system import signals
from hakmem_lab.system.launcher import LauncherEnded


class Recording(Protocol):
    """A run that has begun."""

    @property
    def file(self) -> RunFile: ...

    def event(self, what: str, text: str) -> None: ...


def cannot_go_on(run: RunFile, why: object) -> Stopped:
    """For a run that can be continued later; says how."""
    return Stopped(f"{why}. Everything finished is kept: hak show {run.id}; go on with: hak resume {run.id}")


def cannot_write(run: RunFile, error: OSError) -> Stopped:
    why = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror
    return Stopped(
        f"cannot write to {run.path}: {why}. Everything finished is kept; make room, then: hak resume {run.id}"
    )


def conclude(recording: Recording, error: BaseException | None) -> None:
    """To be called when nothing runs any more. Raises Interrupted or Stopped where `error` is a signal or the loss of
    the launcher, which the run then keeps as an event."""
    run = recording.file
    if not isinstance(error, (*signals.INTERRUPTS, LauncherEnded)):
        return
    interrupted = isinstance(error, signals.INTERRUPTS)
    with contextlib.suppress(Stopped):  # a full disk is no reason to say anything else
        if interrupted:
            recording.event("interrupted", "interrupted by the user")
        else:
            recording.event("stopped", str(error))
    if interrupted:
        text = f"interrupted; nothing finished is lost. Go on with: hak resume {run.id}"
        raise Interrupted(text, signals.number_of(error)) from None
    raise cannot_go_on(run, error) from None


@contextlib.contextmanager
def told(stored: RunFile | None = None) -> Iterator[None]:
    """Says the same of what has no file yet, or none that it has opened again. stored: the run to be continued."""
    rest = f"go on with: hak resume {stored.id}" if stored else "nothing was stored"
    try:
        yield
    except signals.INTERRUPTS as error:
        raise Interrupted(f"interrupted; {rest}", signals.number_of(error)) from None
    except LauncherEnded as error:
        raise Stopped(f"{error}; {rest}") from None
