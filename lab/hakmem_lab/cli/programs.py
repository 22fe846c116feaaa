"""`hak run`: runs a program on an allocator, after a check that the allocator serves it. The program replaces this
process. A second process reports at the end which processes of the program were not served.

`hak doctor`: does the allocator serve this program, and if not, why not, and what to do? Exit status: 0 fully served,
1 not served, or only in part, or with `--machine` disturbed; 2 bad input.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from hakmem_lab.cli.flags import JsonFile, arms
from hakmem_lab.errors import LabError, nearest, refused

Action = Annotated[str, typer.Argument(metavar="check|tune|undo", help="Look, change, or put back")]
EXIT_DISTURBED, EXIT_NOT_SERVED = 1, 1
DEFAULT_ARM = "hakmem"


def register(app: typer.Typer) -> None:
    app.command("system", hidden=True)(system)
    app.command(context_settings={"allow_interspersed_args": False})(run)
    app.command()(doctor)


def system(action: Action = "check", json: JsonFile = None) -> None:
    """Is the machine set up to measure: clock, layout, huge pages, other load? tune sets it, undo puts it back."""
    from hakmem_lab.doctor import quiet
    from hakmem_lab.show import formats
    from hakmem_lab.show.terminal.process import show_report

    if action not in ("check", "tune", "undo"):
        raise LabError(f"hak system: there is no '{action}': {nearest(action, ('check', 'tune', 'undo'))}")
    if action == "check":
        report = quiet.report()
        formats.put(report.settings(), json, partial(show_report, report))
        raise typer.Exit(0 if report.served else EXIT_DISTURBED)
    _change(action, json)


def _change(action: str, json: Path | None) -> None:
    from hakmem_lab.doctor import quiet
    from hakmem_lab.show import formats

    lines = quiet.tune() if action == "tune" else quiet.undo()
    said = lines or ["nothing to change" if action == "tune" else "nothing to put back"]
    if lines and action == "tune":
        said = [*said, "hak doctor --machine --undo puts it back; so does a restart"]
    formats.put({"changes": lines}, json, lambda: print("\n".join(said)))


def run(
    command: Annotated[list[str], typer.Argument(help="The program and its arguments, after --")],
    allocator: Annotated[str, typer.Option(help="ALLOCATOR[,NAME=VALUE...]", autocompletion=arms)] = "hakmem",
    set_: Annotated[
        list[str], typer.Option("--set", metavar="NAME=VALUE", help="Set a variable or option; repeatable")
    ] = [],  # noqa: B006
    callgrind: Annotated[
        bool, typer.Option("--callgrind", help="Count the program's instructions; the number goes to standard error")
    ] = False,
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
    signals.adopt(False)  # execve keeps this setting
    served.follow_this(arm)
    with refused(f"command: {workload.argv[0]} cannot be started"):
        os.execve(workload.argv[0], list(workload.argv), env)


def _counted(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Run the program in the foreground, print its instructions on standard error, and return its exit status."""
    from hakmem_lab.run.callgrind import total, traced
    from hakmem_lab.system import signals

    with tempfile.TemporaryDirectory(prefix="hak-") as folder:
        words = traced(argv, Path(folder))
        with signals.held():  # until there is a process to forward them to
            process = subprocess.Popen(words, env=env, preexec_fn=signals.die_with_parent)  # noqa: PLW1509 (there are no threads)
            with signals.handed_on(process.pid):
                status = process.wait()
        found = total(Path(folder), process.pid)
    said = "counted nothing: the program was killed, or became another one" if found is None else f"{found:,}"
    print(f"hak: instructions: {said}", file=sys.stderr)
    return 128 - status if status < 0 else status


def doctor(
    subject: Annotated[
        list[str] | None, typer.Argument(metavar="PID | -- CMD", help="A process, or a program after --")
    ] = None,
    json: JsonFile = None,
    allocator: Annotated[str, typer.Option(help="ALLOCATOR[,NAME=VALUE...]", autocompletion=arms)] = DEFAULT_ARM,
    only_start: Annotated[bool, typer.Option("--only-start", help="End the program where its own code begins")] = False,
    machine: Annotated[
        bool,
        typer.Option("--machine", help="Is this machine fit to measure? Its settings and speeds, or an A/A of CMD"),
    ] = False,
    tune: Annotated[bool, typer.Option("--tune", help="With --machine: change its settings for measuring")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="With --machine: put its settings back")] = False,
    set_: Annotated[
        list[str], typer.Option("--set", metavar="KEY=VALUE", help="With --machine -- CMD: set a key of the A/A")
    ] = [],  # noqa: B006
) -> None:
    """Is a program, or a process, served by hakmem? If not: why not, and what to do. A program runs for 5 s at most, to
    find all that it starts."""
    from hakmem_lab.doctor import examine
    from hakmem_lab.plan.arms import parse_arm
    from hakmem_lab.show import formats
    from hakmem_lab.show.terminal.process import show_report

    if not machine and (tune or undo or set_):
        raise LabError("hak doctor: --tune, --undo and --set belong to --machine")
    if not machine and not subject:
        raise LabError("hak doctor: one of a process, a program after --, or --machine")
    if tune or undo:
        _change("tune" if tune else "undo", json)
        return
    if machine:
        _machine(subject or [], allocator if allocator != DEFAULT_ARM else None, set_, json)
        return
    assert subject is not None
    arm = parse_arm(allocator, where="--allocator")
    is_process = subject[0].isdecimal()
    if is_process and len(subject) > 1:
        raise LabError(f"one process at a time: hak doctor {subject[0]}")
    found = examine.process(int(subject[0]), arm) if is_process else examine.command(subject, arm, not only_start)
    formats.put(found.record(), json, partial(show_report, found))
    if not found.served:
        raise typer.Exit(EXIT_NOT_SERVED)


def _machine(command: list[str], allocator: str | None, set_: list[str], json: Path | None) -> None:
    """The settings and the speeds of the machine; with a command, how often its A/A errs."""
    from hakmem_lab.cli.measure import measure
    from hakmem_lab.doctor import quiet, speeds
    from hakmem_lab.show import formats
    from hakmem_lab.show.terminal.process import show_report

    if command:
        outputs = {"store": None, "json": json, "format_": None, "quiet": False}
        measure("aa", {"words": command, "allocator": allocator, "set_": set_} | outputs)
        return
    settings, found = quiet.report(), speeds.report(speeds.probed())

    def show() -> None:
        show_report(settings)
        show_report(found)

    formats.put(found.record() | {"settings": settings.settings()}, json, show)
    if not settings.served:
        raise typer.Exit(EXIT_DISTURBED)
