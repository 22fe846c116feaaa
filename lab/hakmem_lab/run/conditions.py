"""Measures under each condition of a spec in turn: alone, beside busy neighbours, on a used heap."""

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from hakmem_lab.judge.conditions import MEASURE, TITLES, asked
from hakmem_lab.plan.spec import normalised
from hakmem_lab.run.session import Session
from hakmem_lab.run.used import on_used_heap

NEIGHBOURS = 2
# The loop ends by itself when hak is gone.
_LOOP = "import os, sys\nwhile os.getppid() == int(sys.argv[1]):\n    for _ in range(1000000): pass"


WriteHistory = Callable[[Path, Path], None]  # (trace, file to write)


def in_turn(session: Session, measure: Callable[[str], None], write_history: WriteHistory) -> None:
    """Calls measure(phase) under every condition. A resumed run takes finished phases from the store."""
    measure(MEASURE)
    for name in asked(normalised(session.spec)):
        session.progress.say(f"the same {TITLES[name]}:")
        with under(name, session, write_history):
            measure(name)


def under(phase: str, session: Session, write_history: WriteHistory | None = None) -> AbstractContextManager[None]:
    """The context of a phase; an empty one where blocks are measured alone."""
    return contextlib.nullcontext() if phase == MEASURE else _AROUND[phase](session, write_history)


@contextlib.contextmanager
def _neighbours(session: Session, _: object = None) -> Iterator[None]:
    """Runs two busy loops on the processors that the program may use."""
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
def _used_heap(session: Session, write_history: WriteHistory | None) -> Iterator[None]:
    """Preloads a library with every arm that gives the heap the same history before `main`."""
    fresh, trace = session.arms, getattr(session.spec, "history", None)
    with tempfile.TemporaryDirectory(prefix="hak-") as folder:
        file = Path(folder) / "history" if trace else None
        if write_history and trace and file:
            write_history(Path(trace), file)
        session.arms = {name: on_used_heap(arm, file) for name, arm in fresh.items()}
        try:
            yield
        finally:
            session.arms = fresh


_AROUND: dict[str, Callable[[Session, WriteHistory | None], AbstractContextManager[None]]] = {
    "beside-load": _neighbours,
    "precondition": _used_heap,
}
