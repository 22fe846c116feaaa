"""`hak system check | tune | undo`: the machine's settings, made quiet for measuring, and back as they were.

`hak run`: a program on an allocator that is checked to serve it. Replaces this process with the program; one beside it
says at the end what of it was not served.

`hak record`: what a program asks of its allocator, into a file; `hak trace`: what is in it.

`hak doctor`: is this program served by the allocator, and if not, why not, and what to do? Exit status: 0 all of it is
served, 1 it is not, or in part, 2 bad input.
"""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from hakmem_lab.cli.flags import JsonFile, arms, seconds
from hakmem_lab.cli.heap import mean_of
from hakmem_lab.errors import EXIT_STOPPED, LabError, nearest, refused

Action = Annotated[str, typer.Argument(metavar="check|tune|undo", help="Look, change, or put back")]
EXIT_DISTURBED, EXIT_NOT_SERVED = 1, 1


def register(app: typer.Typer) -> None:
    app.command("system")(system)
    app.command(context_settings={"allow_interspersed_args": False})(run)
    app.command()(doctor)
    app.command(context_settings={"allow_interspersed_args": False})(record)
    app.command()(trace)


def system(action: Action = "check", json: JsonFile = None) -> None:
    """Is the machine set up to measure: clock, layout, huge pages, other load? tune sets it, undo puts it back."""
    from hakmem_lab.doctor import NOTE, Report, quiet
    from hakmem_lab.show import formats
    from hakmem_lab.show.terminal.process import show_report

    if action not in ("check", "tune", "undo"):
        raise LabError(f"hak system: there is no '{action}': {nearest(action, ('check', 'tune', 'undo'))}")
    if action == "check":
        checks = quiet.check()
        found = [check.name for check in checks if check.state == NOTE]
        text = f"what may disturb here: {', '.join(found)}" if found else "nothing here disturbs that hak can see"
        report = Report(text, not found, False, tuple(checks))
        record = {"quiet": not found, "checks": report.record()["checks"]}
        formats.put(record, json, partial(show_report, report))
        raise typer.Exit(EXIT_DISTURBED if found else 0)
    lines = quiet.tune() if action == "tune" else quiet.undo()
    nothing = "nothing to change" if action == "tune" else "nothing to put back"
    print("\n".join(lines) or nothing)
    if lines and action == "tune":
        print("hak system undo puts it back; so does a restart")


def run(
    command: Annotated[list[str], typer.Argument(help="The program and its arguments, after --")],
    allocator: Annotated[str, typer.Option(help="ALLOCATOR[,NAME=VALUE...]", autocompletion=arms)] = "hakmem",
    set_: Annotated[
        list[str], typer.Option("--set", metavar="NAME=VALUE", help="A variable or option; repeatable")
    ] = [],  # noqa: B006
    callgrind: Annotated[bool, typer.Option("--callgrind", help="Count its instructions, on standard error")] = False,
) -> None:
    """Run a program on hakmem or a peer, checked to be really served by it."""
    from hakmem_lab.plan.arms import parse_arm
    from hakmem_lab.run import served
    from hakmem_lab.run.preflight import check_arm
    from hakmem_lab.run.workload import Workload
    from hakmem_lab.system import signals

    arm = parse_arm(allocator, where="--allocator", settings=set_)
    workload, env = Workload.of_command(command), arm.beside()
    check_arm(arm, workload, env)
    if callgrind:
        raise typer.Exit(_counted(workload.argv, env))
    signals.adopt(False)  # which outlives the change to the program
    served.follow_this(arm)
    with refused(f"command: {workload.argv[0]} cannot be started"):
        os.execve(workload.argv[0], list(workload.argv), env)


def _counted(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Runs the program in the foreground, says on standard error what it needed; its exit status."""
    from hakmem_lab.run.callgrind import total, traced
    from hakmem_lab.system import signals

    with tempfile.TemporaryDirectory(prefix="hak-") as folder:
        words = traced(argv, Path(folder))
        with signals.held():  # until there is somebody to hand them on to
            process = subprocess.Popen(words, env=env, preexec_fn=signals.die_with_parent)  # noqa: PLW1509 (there are no threads)
            with signals.handed_on(process.pid):
                status = process.wait()
        found = total(Path(folder), process.pid)
    said = "counted nothing: the program was killed, or became another one" if found is None else f"{found:,}"
    print(f"hak: instructions: {said}", file=sys.stderr)
    return 128 - status if status < 0 else status


def doctor(
    subject: Annotated[list[str], typer.Argument(metavar="PID | -- CMD", help="A process, or a program after --")],
    json: JsonFile = None,
    allocator: Annotated[str, typer.Option(help="ALLOCATOR[,NAME=VALUE...]", autocompletion=arms)] = "hakmem",
    only_start: Annotated[bool, typer.Option("--only-start", help="End it where its own code begins")] = False,
) -> None:
    """Is a program, or a process, served by hakmem? If not: why not, and what to do. A program is run, for 5 s at most,
    so that all that it starts is seen."""
    from hakmem_lab.doctor import examine
    from hakmem_lab.plan.arms import parse_arm
    from hakmem_lab.show import formats
    from hakmem_lab.show.terminal.process import show_report

    arm = parse_arm(allocator, where="--allocator")
    is_process = subject[0].isdecimal()
    if is_process and len(subject) > 1:
        raise LabError(f"one process at a time: hak doctor {subject[0]}")
    found = examine.process(int(subject[0]), arm) if is_process else examine.command(subject, arm, not only_start)
    formats.put(found.record(), json, partial(show_report, found))
    if not found.served:
        raise typer.Exit(EXIT_NOT_SERVED)


def record(
    subject: Annotated[list[str], typer.Argument(metavar="PID | -- CMD", help="A process, or a program after --")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="TRACE", help="The file to write")],
    seconds: Annotated[
        float | None, typer.Option(help="So long; the program goes on", min=0.01, callback=seconds)
    ] = None,
    allocator: Annotated[
        str, typer.Option(help="ALLOCATOR[,NAME=VALUE...] that serves CMD", autocompletion=arms)
    ] = "default",
    stacks: Annotated[bool, typer.Option("--stacks", help="Also record call stacks, for hak trace --by stack")] = False,
    rate: Annotated[
        str, typer.Option(metavar="BYTES", help="With --stacks: mean bytes between samples; 1: every call")
    ] = "512K",
    force: Annotated[bool, typer.Option("--force", help="Overwrite TRACE, if it is there")] = False,
) -> None:
    """Record what a program and all that it starts ask of malloc: sizes, lifetimes, threads, time; no contents."""
    from hakmem_lab.trace import record as recording

    stack_bytes = mean_of(rate) if stacks else 0
    if output.is_file() and output.stat().st_size and not force:
        raise LabError(f"--output: {output} is there already: name another file, or overwrite it with --force")
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


def trace(
    file: Annotated[Path, typer.Argument(metavar="TRACE", help="What hak record wrote")],
    json: JsonFile = None,
    process: Annotated[
        int | None, typer.Option("--process", metavar="N", min=0, help="Only this process, by its number in the trace")
    ] = None,
    by: Annotated[
        str | None, typer.Option(metavar="stack", help="Of what --stacks recorded: who allocates, keeps, grows")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="By stack: *.pb.gz: pprof; *.folded; *.txt")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="By stack: flame graphs and a timeline")] = None,
) -> None:
    """What is in a trace: operations, sizes, lifetimes, threads, hand-overs; by stack, who allocates what."""
    from hakmem_lab.show import formats, report
    from hakmem_lab.show.terminal import traced
    from hakmem_lab.trace.contents import counts

    if not file.exists():
        raise LabError(f"there is no trace '{file}'; one is made by: hak record -o {file} -- COMMAND")
    if by not in (None, "stack"):
        raise LabError(f"--by: '{by}' is nothing that a trace is counted by; known: stack")
    if by is None and (output or html):
        raise LabError(f"{'--output' if output else '--html'}: goes with --by stack")
    result: dict[str, Any] = {"schema": "hakmem-trace 1", "trace": str(file)}
    if by is None:
        result |= counts(file, process)
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
            report.write_reading(result, html, "--html")
    formats.put(result, json, partial(traced.show_stacks if by else traced.show, result))
