"""`hak doctor`: is this program served by the allocator, and if not, why not, and what to do?

Exit status: 0 all of it is served, 1 it is not, or in part, 2 bad input.
"""

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hakmem_lab.cli import complete

if TYPE_CHECKING:
    from hakmem_lab.doctor.checks import Report

EXIT_NOT_SERVED = 1
WIDTH = 100
STATES = {"ok": "green", "note": "blue", "problem": "bold red", "unknown": "yellow"}


def register(app: typer.Typer) -> None:
    app.command()(doctor)


def doctor(
    subject: Annotated[list[str], typer.Argument(metavar="PID | -- CMD", help="A process, or a program after --")],
    json: Annotated[
        Path | None, typer.Option("--json", help="Write the result there as one JSON object; - for standard output")
    ] = None,
    allocator: Annotated[str, typer.Option(help="ALLOCATOR[,NAME=VALUE...]", autocompletion=complete.arms)] = "hakmem",
) -> None:
    """Is a program, or a process, served by hakmem? If not: why not, and what to do."""
    from hakmem_lab.doctor import command, process
    from hakmem_lab.plan.arms import parse_arm
    from hakmem_lab.show import emit

    arm = parse_arm(allocator, where="--allocator")
    is_process = len(subject) == 1 and subject[0].isdecimal()
    found = process.examine(int(subject[0]), arm) if is_process else command.examine(subject, arm)
    if json is not None:  # first: whoever reads the terminal's lines may stop reading
        emit.write_object(found.record(), json)
    if str(json) != "-":
        show(found)
    if not found.served:
        raise typer.Exit(EXIT_NOT_SERVED)


def show(found: "Report") -> None:
    """The verdict, then a line a check, with what to do below it."""
    from rich.console import Console
    from rich.text import Text

    from hakmem_lab.errors import one_line

    console = Console(highlight=False, soft_wrap=True)
    width = min(WIDTH, console.width) if console.is_terminal else WIDTH
    style = "bold green" if found.served else "bold red"
    for line in _wrapped(one_line(found.verdict), "", width):
        console.print(Text(line, style=style))
    console.print()
    names = max(len(check.name) for check in found.checks)
    for check in found.checks:
        margin = " " * (11 + names)
        first, *rest = _wrapped(one_line(check.found), margin, width)
        console.print(
            Text(f"{check.state:<9}", STATES[check.state]).append(f"{check.name:<{names}}  ", "default"), end=""
        )
        console.print(Text(first.removeprefix(margin)))
        for line in rest:
            console.print(Text(line))
        if check.remedy:
            for line in _wrapped("-> " + one_line(check.remedy), " " * 9, width):
                console.print(Text(line, style="bold"))


def _wrapped(text: str, margin: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=margin, subsequent_indent=margin, break_on_hyphens=False) or [
        margin
    ]
