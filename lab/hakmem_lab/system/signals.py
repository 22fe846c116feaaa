"""SIGINT, SIGTERM and SIGHUP: the first one interrupts what goes on; later ones do not disturb how that is ended.

Processes that have lost whoever started them: a killed launcher's programs, the compilers of an interrupted build.

They come to this process, which ends them.
"""

import contextlib
import ctypes
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from types import FrameType

NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# So long nothing disturbs the end of an interrupted run; an interruption that got lost can be repeated after it.
PATIENCE_S = 20.0


class Interrupt(BaseException):
    """One of the signals has come. No KeyboardInterrupt, of which a parser of commands makes an end of its own."""

    def __init__(self, number: int):
        super().__init__()
        self.number = number


# The latter is Python's own, where nobody listens.
INTERRUPTS = (Interrupt, KeyboardInterrupt)


def number_of(error: BaseException) -> int:
    return error.number if isinstance(error, Interrupt) else signal.SIGINT


def name(number: int) -> str:
    """Real-time signals have no names of their own."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class _State:
    """first_s: when the signal came that is being obeyed. depth: of `held`; kept: what came meanwhile."""

    first_s: float | None = None
    depth = 0
    kept: int | None = None


def _hear(number: int, _: FrameType | None) -> None:
    now = time.monotonic()
    if _State.first_s is not None and now - _State.first_s < PATIENCE_S:
        return
    if _State.depth:
        _State.kept = _State.kept or number
        return
    _State.first_s = now
    raise Interrupt(number)


def listen() -> None:
    """From now on a signal raises Interrupt; one that is ignored, as by nohup or a shell's &, stays so."""
    _State.first_s, _State.kept = None, None
    for number in NUMBERS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _hear)


def ignore() -> None:
    """At the end of an interrupted process: else the interpreter, on its way out, lets the next one kill it."""
    for number in NUMBERS:
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """A signal that comes meanwhile interrupts at the end: for what must not be left half done."""
    _State.depth += 1
    try:
        yield
    finally:
        _State.depth -= 1
        if _State.kept is not None and not _State.depth:
            number, _State.kept = _State.kept, None
            _hear(number, None)


def _from_terminal() -> bool:
    """Whether a terminal tells everybody in its foreground, us and those that we started, of its Ctrl-C."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


@contextlib.contextmanager
def handled(numbers: Iterable[int], handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Meanwhile these signals are the handler's."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


@contextlib.contextmanager
def handed_on(pid: int) -> Iterator[None]:
    """Meanwhile the signals, one that was held included, go to that process, which decides how it ends."""

    def hand_on(number: int, _: FrameType | None) -> None:
        if number != signal.SIGINT or not _from_terminal():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    with handled([number for number in NUMBERS if signal.getsignal(number) is _hear], hand_on):
        if _State.kept is not None:
            number, _State.kept = _State.kept, None
            hand_on(number, None)
        yield


# Of linux/prctl.h.
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
LIMIT_S = 5.0  # a process in the middle of reading a broken disk does not end

_prctl = ctypes.CDLL(None).prctl


def adopt(wanted: bool = True) -> None:
    """From now on the orphans among the descendants of this process become its children; or no more."""
    _prctl(PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)


def die_with_parent() -> None:
    """In a child that is about to become another program: it is killed when its parent ends."""
    _prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def children() -> set[int]:
    """Child processes of this process, started by any of its threads."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found.update(map(int, (task / "children").read_text(encoding="ascii").split()))
    return found


def end(spared: Collection[int] = ()) -> None:
    """Kills the children of this process but those spared, and what comes to it from them, until none is left."""
    deadline = time.monotonic() + LIMIT_S
    while (left := children().difference(spared)) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.001)


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises TimeoutError after this time in the main thread; other threads get no signal, so they have no limit."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def over(*_: object) -> None:
        raise TimeoutError

    with handled([signal.SIGALRM], over):
        signal.setitimer(signal.ITIMER_REAL, seconds)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
