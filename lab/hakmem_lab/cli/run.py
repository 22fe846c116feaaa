"""`hak run`: a program on an allocator that is checked to serve it. Replaces this process with the program."""

import os
from typing import Annotated

import typer

from hakmem_lab.cli import complete
from hakmem_lab.errors import LabError


def register(app: typer.Typer) -> None:
    app.command(context_settings={"allow_interspersed_args": False})(run)


def run(
    command: Annotated[list[str], typer.Argument(help="The program and its arguments, after --")],
    allocator: Annotated[str, typer.Option(help="ALLOCATOR[,NAME=VALUE...]", autocompletion=complete.arms)] = "hakmem",
    set_: Annotated[
        list[str], typer.Option("--set", metavar="NAME=VALUE", help="A variable or option; repeatable")
    ] = [],  # noqa: B006
    callgrind: Annotated[bool, typer.Option("--callgrind", help="Count its instructions, on standard error")] = False,
) -> None:
    """Run a program on hakmem or a peer, checked to be really served by it."""
    from hakmem_lab.plan.arms import parse_arm
    from hakmem_lab.run.preflight import check_arm
    from hakmem_lab.run.runner import Workload
    from hakmem_lab.system import signals

    arm = parse_arm(allocator, where="--allocator", settings=set_)
    workload, env = Workload.of_command(command), arm.beside()
    check_arm(arm, workload, env)
    if callgrind:
        from hakmem_lab.cli import instructions

        raise typer.Exit(instructions.run(workload.argv, env))
    signals.adopt(False)  # which outlives the change to the program
    try:
        os.execve(workload.argv[0], list(workload.argv), env)
    except OSError as error:
        raise LabError(f"command: {workload.argv[0]} cannot be started: {error.strerror}") from None
