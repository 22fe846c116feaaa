"""Runs a command whose processes are looked at now and then, and once more at their ends, whatever ends them."""

import contextlib
import ctypes
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from hakmem_lab.errors import EXIT_SIGNAL, LabError
from hakmem_lab.system import signals
from hakmem_lab.system.follower import Exits

PR_SET_PTRACER, PTRACER_ANY = 0x59616D61, (1 << 64) - 1
WAIT_S = 0.02
NOT_STARTED = 127


def run(
    argv: Sequence[str], env: dict[str, str], library: Path | None, look: Callable[[int], float],
    last: Callable[[int], None],
) -> int:  # fmt: skip
    """Runs the command; the program gets the terminal's input and our signals. Returns its exit status, as a shell
    reports it. look(pid): called now and then, returns the seconds until the next call. last(pid): called while a
    process is stopped at its end, if it can be followed; last(-pid): called when it begins to trace others. Raises
    LabError where it cannot be started."""
    with ExitStack() as stack, signals.held():  # until they can be forwarded
        pid, gate = _forked(argv, env)
        exits = _follow(stack, pid, library, gate)
        if error := gate.recv(64):
            os.waitpid(pid, 0)
            raise LabError(f"command: {argv[0]} cannot be started: {error.decode()}")
        with signals.handed_on(pid):
            due = time.monotonic()
            while True:
                done, status = os.waitpid(pid, os.WNOHANG)
                if done:
                    code = os.waitstatus_to_exitcode(status)
                    return code if code >= 0 else EXIT_SIGNAL - code
                if time.monotonic() >= due:
                    due = time.monotonic() + look(pid)
                _wait(exits, last)


def _wait(exits: Exits | None, last: Callable[[int], None]) -> None:
    if exits is None:
        time.sleep(WAIT_S)
    elif (ending := exits.next(WAIT_S)) is not None:
        try:
            last(ending)
        finally:
            exits.go_on()


def _forked(argv: Sequence[str], env: dict[str, str]) -> tuple[int, socket.socket]:
    """(a child that will become the program, a socket to it). It sends a line when it may be followed, waits for one,
    and then sends why it cannot become the program, or closes the socket."""
    sys.stdout.flush()
    sys.stderr.flush()
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid:
        theirs.close()
        return pid, ours
    try:
        ours.close()
        _permit(PTRACER_ANY)
        theirs.send(b"ready")
        if not theirs.recv(8):  # hak was killed
            os._exit(NOT_STARTED)
        _permit(0)
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        os.execvpe(argv[0], list(argv), env)
    except OSError as error:
        with contextlib.suppress(OSError):
            theirs.send((error.strerror or str(error)).encode())
    finally:
        os._exit(NOT_STARTED)


def _follow(stack: ExitStack, pid: int, library: Path | None, gate: socket.socket) -> Exits | None:
    """The follower of the child and its descendants, or None where they cannot be followed. The child goes on."""
    gate.recv(8)
    try:
        if library is not None and (exits := stack.enter_context(Exits(pid, library))).allowed():
            return exits
        why = "this system allows no ptrace"
    except (LabError, OSError) as error:  # no compiler, for instance
        why = str(error)
    finally:
        gate.send(b"go")
    print(f"hak: processes that leave by _exit or a signal may be missing, as none is followed: {why}", file=sys.stderr)
    return None


def _permit(tracer: int) -> None:
    """Some systems let only an ancestor trace a process; this allows others. 0: none."""
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(tracer), 0, 0, 0)
