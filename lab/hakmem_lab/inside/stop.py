"""A process held still while it is read, as a debugger holds one: its parent sees nothing of it, and it goes on by
itself if the holder ends."""

import ctypes
import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager

from hakmem_lab.errors import LabError
from hakmem_lab.inside.memory import Gone

# Of linux/ptrace.h and linux/wait.h.
PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000
ROUNDS = 100  # over threads that start threads
SPIN_S, SOON_S, PATIENCE_S = 0.001, 0.1, 10.0  # until a thread stops

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def ptrace(request: int, thread: int, data: int = 0, address: int = 0) -> int:
    """0, or the number of the error. data: mostly a signal."""
    return 0 if _libc.ptrace(request, thread, address, data) == 0 else ctypes.get_errno()


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Every thread of it is stopped within the block. Raises LabError where that is not allowed."""
    held: dict[int, int] = {}  # thread -> a signal that it was to get meanwhile
    try:
        for _ in range(ROUNDS):
            fresh = [thread for thread in _threads(pid) if thread not in held]
            if not fresh:
                break
            for thread in fresh:
                _hold(pid, thread, held)
        yield
    finally:
        for thread, signal in held.items():
            ptrace(PTRACE_DETACH, thread, signal)


def _threads(pid: int) -> list[int]:
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        raise Gone(f"process {pid} has ended") from None


def _hold(pid: int, thread: int, held: dict[int, int]) -> None:
    error = ptrace(PTRACE_SEIZE, thread)
    if error == errno.ESRCH:
        return  # it has ended
    if error:
        raise LabError(
            f"process {pid} cannot be stopped ({os.strerror(error)}): be its user, end its debugger, or omit --stop"
        )
    held[thread] = 0
    if ptrace(PTRACE_INTERRUPT, thread) == 0 and (status := stops(pid, thread)) is not None:
        if os.WIFSTOPPED(status):
            event, signal = status >> 16, os.WSTOPSIG(status)
            held[thread] = 0 if event else signal
        else:
            del held[thread]


def stops(pid: int, thread: int) -> int | None:
    """Its status. None: it does not stop, and need not: it is in a call that nothing interrupts, such as vfork until
    the child goes on."""
    started = time.monotonic()
    while True:
        done, status = os.waitpid(thread, WALL | os.WNOHANG)
        if done:
            return status
        waited = time.monotonic() - started
        if waited > SOON_S and _sleeps_deeply(pid, thread):
            return None
        if waited > PATIENCE_S:
            raise LabError(f"process {pid} cannot be stopped: its thread {thread} does not stop; omit --stop")
        if waited > SPIN_S:
            time.sleep(SPIN_S)


def _sleeps_deeply(pid: int, thread: int) -> bool:
    try:
        with open(f"/proc/{pid}/task/{thread}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] == "D"
    except (OSError, IndexError):
        return False
