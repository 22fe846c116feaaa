"""Measuring under the conditions that a spec asks for, one after the other: alone, beside busy neighbours, on a used
heap."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from hakmem_lab.judge.conditions import MEASURE, TITLES, asked
from hakmem_lab.plan.spec import normalised
from hakmem_lab.run.session import Session
from hakmem_lab.run.used import on_used_heap

NEIGHBOURS = 2
# Ends by itself where hak was killed.
_LOOP = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n    for _ in range(1000000): pass"


def in_turn(session: Session, measure: Callable[[str], None]) -> None:
    """measure(phase): under every condition; those of an earlier part of the run are in the store already."""
    measure(MEASURE)
    for name in asked(normalised(session.spec)):
        session.progress.say(f"the same {TITLES[name]}:")
        with _AROUND[name](session):
            measure(name)


@contextlib.contextmanager
def _neighbours(session: Session) -> Iterator[None]:
    """Two loops that want a processor each, of those that the program may use."""
    warned, session.warned_of_load = session.warned_of_load, True
    words = [sys.executable, "-S", "-c", _LOOP, str(os.getpid())]
    with contextlib.ExitStack() as stack:
        for _ in range(NEIGHBOURS):
            loop = stack.enter_context(subprocess.Popen(words, stdin=subprocess.DEVNULL))
            stack.callback(loop.kill)
            if session.spec.pin:
                os.sched_setaffinity(loop.pid, session.spec.pin)
        yield
    session.warned_of_load = warned


@contextlib.contextmanager
def _used_heap(session: Session) -> Iterator[None]:
    """Before `main`, a library gives every arm the same past."""
    fresh = session.arms
    session.arms = {name: on_used_heap(arm) for name, arm in fresh.items()}
    try:
        yield
    finally:
        session.arms = fresh


_AROUND: dict[str, Callable[[Session], AbstractContextManager[None]]] = {
    "beside-load": _neighbours,
    "precondition": _used_heap,
}
