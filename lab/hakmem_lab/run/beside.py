"""A process beside a program that hak becomes: it follows that, and says at its end what of it was not served."""

import contextlib
import ctypes
import os
import signal
import socket

from hakmem_lab.plan.arms import Arm
from hakmem_lab.run import served
from hakmem_lab.system import follower

PR_SET_PTRACER = 0x59616D61
FIRST_OF_CONTAINER = 1  # to which all come that have lost their parent: what follows would be its child
IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTTOU)


def follow_this(arm: Arm) -> None:
    """To be called just before this process becomes the program; returns once it is followed, or cannot be. What
    follows is no child of the program, which may wait for all of its own."""
    if arm.library.path is None or os.getpid() == FIRST_OF_CONTAINER:
        return
    follower.helper_path()  # compiled now, where a failure can still be said
    program, (ours, theirs) = os.getpid(), socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        if os.fork() == 0:
            with contextlib.suppress(BaseException):
                _follow(arm, program, theirs)
        os._exit(0)
    theirs.close()
    os.waitpid(child, 0)
    with contextlib.suppress(OSError, ValueError), ours:
        number = int(ours.recv(32))
        # Where a debugger has to be an ancestor, this one is let in.
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(number), 0, 0, 0)
        ours.send(b"go")
        ours.recv(1)


def _follow(arm: Arm, program: int, caller: socket.socket) -> None:
    assert arm.library.path is not None
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    caller.send(str(os.getpid()).encode())
    caller.recv(2)
    images = follower.attached(program, arm.library.path, caller.close)
    unknown = "what the program starts was not followed: this system allows no ptrace"
    said = unknown if images is None else served.warning(arm, images)
    if said:
        os.write(2, f"hak: {said}\n".encode(errors="replace"))
