"""`hak record` writes a program's requests to its allocator into a file; `hak trace` shows what the file contains."""

import contextlib
import os
import resource
import signal
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from hakmem_lab.cli.flags import JsonFile, arms, seconds
from hakmem_lab.cli.heap import mean_of
from hakmem_lab.errors import EXIT_STOPPED, LabError


def register(app: typer.Typer) -> None:
    app.command(context_settings={"allow_interspersed_args": False})(record)
    app.command()(trace)


def record(
    subject: Annotated[list[str], typer.Argument(metavar="PID | -- CMD", help="A process, or a program after --")],
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="TRACE", help="The file to write (default: PROGRAM.trace)"),
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(help="Seconds to record; the program then goes on", min=0.01, callback=seconds)
    ] = None,
    allocator: Annotated[
        str, typer.Option(help="ALLOCATOR[,NAME=VALUE...] that serves CMD", autocompletion=arms)
    ] = "default",
    stacks: Annotated[bool, typer.Option("--stacks", help="Also record call stacks, for hak trace --by stack")] = False,
    rate: Annotated[
        str, typer.Option(metavar="BYTES", help="With --stacks: mean bytes between samples; 1: every call")
    ] = "512K",
    force: Annotated[bool, typer.Option("--force", help="Overwrite TRACE if it exists")] = False,
    json: JsonFile = None,
) -> None:
    """Record a program's requests to malloc, and those of programs it starts: sizes, lifetimes, threads, time."""
    from hakmem_lab.trace import record as recording

    stack_bytes = mean_of(rate) if stacks else 0
    output = output or Path(f"{Path(subject[0]).name}.trace")
    if output.is_file() and output.stat().st_size and not force:
        raise LabError(f"--output: {output} is there already: name another file, or overwrite it with --force")
    if subject[0].isdecimal():
        if len(subject) > 1:
            raise LabError(f"one process at a time: hak record -o {output} {subject[0]}")
        if allocator != "default":
            raise LabError("--allocator: a running process has its allocator already; leave it out")
        from hakmem_lab.trace import attach

        found = attach.process(int(subject[0]), output, seconds, stack_bytes)
        _say(found, output, json)
        raise typer.Exit(0 if found.complete else EXIT_STOPPED)
    found, status = recording.command(subject, output, seconds, allocator, stack_bytes)
    _say(found, output, json)
    _end_like(status or (0 if found.complete else EXIT_STOPPED))


def _say(found: Any, trace: Path, json: Path | None) -> None:
    """Report what was recorded, on standard error: standard output may hold the program's own output."""
    from hakmem_lab.show import formats

    if json is not None:
        formats.write_object({"trace": str(trace), "complete": found.complete, "headline": found.headline()}, json)
    typer.echo(f"hak: {found.headline()}", err=True)


def _end_like(status: int) -> None:
    """End as the program did: with its status, or by the same signal, without a second core file."""
    if status < 0:
        with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler
            resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    raise typer.Exit(status)


def trace(
    file: Annotated[Path, typer.Argument(metavar="TRACE", help="A file that hak record wrote")],
    json: JsonFile = None,
    process: Annotated[
        int | None, typer.Option("--process", metavar="N", min=0, help="Only this process, by its number in the trace")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(metavar="stack|pages", help="stack: who allocates and keeps blocks; pages: who keeps pages"),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", metavar="FILE", help="With --by stack: *.pb.gz (pprof), *.folded or *.txt"),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="With --by stack: HTML file for flame graphs and a timeline")
    ] = None,
    without: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="With --by pages: test together all stacks that contain this function"),
    ] = None,
    at: Annotated[
        str,
        typer.Option(metavar="end|peak|SECONDS", help="With --by pages: when blocks must still be live to be counted"),
    ] = "end",
    allocator: Annotated[
        str, typer.Option(help="With --by pages: ALLOCATOR[,NAME=VALUE...] to replay on", autocompletion=arms)
    ] = "hakmem",
) -> None:
    """What is in a trace: operations, sizes, lifetimes, threads, hand-overs; by stack, who allocates what."""
    from hakmem_lab.show import formats
    from hakmem_lab.show.terminal import traced
    from hakmem_lab.trace.contents import counts

    if not file.exists():
        raise LabError(f"there is no trace '{file}'; one is made by: hak record -o {file} -- COMMAND")
    if by not in (None, "stack", "pages"):
        raise LabError(f"--by: '{by}' is unknown; known: stack, pages")
    if without is not None and by != "pages":
        raise LabError("--without needs --by pages")
    if by != "stack" and (output or html):
        raise LabError(f"{'--output' if output else '--html'} needs --by stack")
    result: dict[str, Any] = {"schema": "hakmem-trace 1", "trace": str(file)}
    if by is None:
        result |= counts(file, process)
    elif by == "pages":
        from hakmem_lab.plan.arms import parse_arm
        from hakmem_lab.trace import blame

        result |= blame.by_pages(file, process, parse_arm(allocator, where="--allocator"), without, at)
    else:
        from hakmem_lab.inside.profile import forms
        from hakmem_lab.trace import stacks

        if output is not None:
            forms.check(output)
        counted, profile = stacks.by_stack(file, process)
        result |= {"schema": stacks.SCHEMA, **counted}
        if output is not None:
            forms.write(profile, output)
        if html is not None:
            from hakmem_lab.show import report

            report.write_reading(result, html, "--html")
    show = {None: traced.show, "stack": traced.show_stacks, "pages": traced.show_pages}[by]
    formats.put(result, json, partial(show, result))
