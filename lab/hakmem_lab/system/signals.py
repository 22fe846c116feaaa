"""Handles SIGINT, SIGTERM and SIGHUP: the first one interrupts the work; later ones do not disturb its end.

Also adopts and ends orphaned processes, such as a killed launcher's programs or the compilers of an interrupted build.
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
# Further signals are ignored for this time after the first, while the run ends; later ones interrupt again.
PATIENCE_S = 20.0


class Interrupt(BaseException):
    """One of the signals has come. It is no KeyboardInterrupt, since the command-line parser handles that one in its
    own way."""

    def __init__(self, number: int):
        super().__init__()
        self.number = number


# Python raises KeyboardInterrupt where `listen` was not called.
INTERRUPTS = (Interrupt, KeyboardInterrupt)


def number_of(error: BaseException) -> int:
    return error.number if isinstance(error, Interrupt) else signal.SIGINT


def name(number: int) -> str:
    """The name of a signal. Real-time signals have none in Python."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


class _State:
    """first_s: time of the last signal that interrupted. depth: nesting of `held`. kept: signal that came during
    `held`."""

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
    """From now on a signal raises Interrupt. A signal that is ignored, as under nohup or a shell's &, stays ignored."""
    _State.first_s, _State.kept = None, None
    for number in NUMBERS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _hear)


def ignore() -> None:
    """Ignores the signals at the end of an interrupted process; otherwise the next one kills the interpreter while it
    exits."""
    for number in NUMBERS:
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def held() -> Iterator[None]:
    """Delays a signal until the end of the context, for work that must not be left half done."""
    _State.depth += 1
    try:
        yield
    finally:
        _State.depth -= 1
        if _State.kept is not None and not _State.depth:
            number, _State.kept = _State.kept, None
            _hear(number, None)


def _from_terminal() -> bool:
    """Whether we are in a terminal's foreground process group, so that Ctrl-C also reaches the programs that we
    started."""
    try:
        return os.tcgetpgrp(0) == os.getpgrp()
    except OSError:
        return False


@contextlib.contextmanager
def handled(numbers: Iterable[int], handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Sets a handler for these signals within the context."""
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


@contextlib.contextmanager
def handed_on(pid: int) -> Iterator[None]:
    """Within the context, sends the signals on to this process, including a delayed one. The process decides how it
    ends."""

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
LIMIT_S = 5.0  # a process that waits for a broken disk cannot be ended

_prctl = ctypes.CDLL(None).prctl


def adopt(wanted: bool = True) -> None:
    """Makes orphaned descendants of this process its children from now on; wanted: False ends that."""
    _prctl(PR_SET_CHILD_SUBREAPER, int(wanted), 0, 0, 0)


def die_with_parent() -> None:
    """Makes the kernel kill this process when its parent ends. Call it in a child before its exec."""
    _prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def children() -> set[int]:
    """Child processes of this process, started by any of its threads."""
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):
            found.update(map(int, (task / "children").read_text(encoding="ascii").split()))
    return found


def end(spared: Collection[int] = ()) -> None:
    """Kills the children of this process except those spared, and the orphans that they leave, until none is left."""
    deadline = time.monotonic() + LIMIT_S
    while (left := children().difference(spared)) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, os.WNOHANG)
        time.sleep(0.001)


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises TimeoutError after this time, in the main thread. Other threads get no signal, so they have no limit."""
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
