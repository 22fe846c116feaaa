"""`hak doctor`: is this program served by the allocator, and if not, why not, and what to do?

Exit status: 0 all of it is served, 1 it is not, or in part, 2 bad input.
"""

from pathlib import Path
from typing import Annotated

import typer

from hakmem_lab.cli import complete
from hakmem_lab.errors import LabError

EXIT_NOT_SERVED = 1


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
    from hakmem_lab.show.terminal.process import show_report

    arm = parse_arm(allocator, where="--allocator")
    is_process = subject[0].isdecimal()
    if is_process and len(subject) > 1:
        raise LabError(f"one process at a time: hak doctor {subject[0]}")
    found = process.examine(int(subject[0]), arm) if is_process else command.examine(subject, arm)
    if json is not None:  # first: whoever reads the terminal's lines may stop reading
        emit.write_object(found.record(), json)
    if str(json) != "-":
        show_report(found)
    if not found.served:
        raise typer.Exit(EXIT_NOT_SERVED)
