"""`hak top`: a process's memory by owner, class and thread, live; and its options, changed with a preview."""

import sys
from typing import Annotated

import typer

from hakmem_lab.errors import LabError


def register(app: typer.Typer) -> None:
    app.command()(top)


def top(
    pid: Annotated[int, typer.Argument(metavar="PID", help="A process")],
    interval: Annotated[float, typer.Option(help="Seconds from one reading to the next", min=0.1, max=3600)] = 2.0,
) -> None:
    """Where the memory of a process goes, live; options that may change at any time are changed from here."""
    from hakmem_lab.inside.watch import Subject, Watch
    from hakmem_lab.show.terminal import live

    subject = Subject(pid)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise LabError(f"hak top needs a terminal: without one, hak explain {pid} or hak metrics {pid}")
    live.show(Watch(subject), interval)
