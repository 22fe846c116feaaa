"""`hak record`: what a program asks of its allocator, into a file that can be asked later."""

import contextlib
import os
import resource
import signal
from pathlib import Path
from typing import Annotated

import typer

from hakmem_lab.cli import complete
from hakmem_lab.cli.profile import mean_of
from hakmem_lab.errors import EXIT_STOPPED, LabError


def register(app: typer.Typer) -> None:
    app.command(context_settings={"allow_interspersed_args": False})(record)


def record(
    subject: Annotated[list[str], typer.Argument(metavar="PID | -- CMD", help="A process, or a program after --")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="TRACE", help="The file to write")],
    seconds: Annotated[float | None, typer.Option(help="So long; the program goes on", min=0.01)] = None,
    allocator: Annotated[
        str, typer.Option(help="ALLOCATOR[,NAME=VALUE...] that serves CMD", autocompletion=complete.arms)
    ] = "default",
    stacks: Annotated[bool, typer.Option("--stacks", help="Also whence it allocates: hak trace --by stack")] = False,
    rate: Annotated[
        str, typer.Option(metavar="BYTES", help="With --stacks: mean bytes between samples; 1: every call")
    ] = "512K",
) -> None:
    """Record what a program and all that it starts ask of malloc: sizes, lifetimes, threads, time; no contents."""
    from hakmem_lab.trace import record as recording

    stack_bytes = mean_of(rate) if stacks else 0
    if subject[0].isdecimal():
        if len(subject) > 1:
            raise LabError(f"one process at a time: hak record -o {output} {subject[0]}")
        if allocator != "default":
            raise LabError("--allocator: a process that runs has its allocator already")
        from hakmem_lab.trace import attach

        found = attach.process(int(subject[0]), output, seconds, stack_bytes)
        typer.echo(f"hak: {found.headline()}", err=True)
        raise typer.Exit(0 if found.complete else EXIT_STOPPED)
    found, status = recording.command(subject, output, seconds, allocator, stack_bytes)
    typer.echo(f"hak: {found.headline()}", err=True)
    _end_like(status or (0 if found.complete else EXIT_STOPPED))


def _end_like(status: int) -> None:
    """As the program did: by its status, or by the signal that ended it, without a second core file."""
    if status < 0:
        with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler
            resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    raise typer.Exit(status)
