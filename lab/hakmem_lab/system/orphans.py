"""Processes that have lost whoever started them: a killed launcher's programs, the compilers of an interrupted build.

They come to this process, which ends them.
"""

import contextlib
import ctypes
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path

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
    """Of this process, whichever of its threads has started them."""
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
