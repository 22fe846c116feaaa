"""`hak profile`: which stacks allocated what is in use, of a process that runs or of a command."""

from pathlib import Path
from typing import Annotated

import typer

from hakmem_lab.cli import complete
from hakmem_lab.errors import LabError

UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
MEAN_MOST = 1 << 30


def register(app: typer.Typer) -> None:
    app.command(context_settings={"allow_interspersed_args": False})(profile)


def mean_of(text: str) -> int:
    """What --rate says."""
    digits, unit = (text[:-1], UNITS[text[-1].upper()]) if text[-1:].upper() in UNITS else (text, 1)
    mean = int(digits) * unit if digits.isascii() and digits.isdecimal() else 0
    if not 1 <= mean <= MEAN_MOST:
        raise LabError(f"--rate: '{text}' is no number of bytes from 1 to 1G, such as 512K")
    return mean


def profile(
    subject: Annotated[
        list[str] | None, typer.Argument(metavar="PID | -- CMD", help="A process, or a program after --")
    ] = None,
    output: Annotated[
        Path,
        typer.Option("-o", "--output", metavar="FILE", help="*.pb.gz: pprof; *.folded: collapsed; *.txt: a report"),
    ] = Path("heap.pb.gz"),
    rate: Annotated[str, typer.Option(metavar="BYTES", help="Mean bytes between samples; 1: every block")] = "512K",
    seconds: Annotated[float, typer.Option(help="Of a process that does not sample yet: so long", min=0)] = 10,
    allocator: Annotated[str, typer.Option(help="ALLOCATOR[,NAME=VALUE...]", autocompletion=complete.arms)] = "hakmem",
    diff: Annotated[
        tuple[Path, Path] | None, typer.Option(metavar="A B", help="What is other in profile B than in A; both *.pb.gz")
    ] = None,
) -> None:
    """Which stacks allocated what is in use: a heap profile of a process, or of a command when it ends."""
    from hakmem_lab.inside.profile import forms, take
    from hakmem_lab.trace import attach

    if diff is not None:
        if subject:
            raise LabError("--diff: of two profiles, without a process or a program")
        typer.echo(forms.changes(*map(forms.read, diff)), nl=False)
        return
    if not subject:
        raise LabError("which process? hak profile PID, or hak profile -- CMD")
    forms.check(output)
    mean = mean_of(rate)
    status = 0
    if subject[0].isdecimal():
        if len(subject) > 1:
            raise LabError(f"one process at a time: hak profile {subject[0]}")
        found = take.of_process(int(subject[0]), mean, seconds, attach.start_sampling)
    else:
        found, status = take.of_command(subject, mean, allocator)
    forms.write(found, output)
    typer.echo(f"{output}: {forms.headline(found)}", err=True)
    if status:
        raise typer.Exit(status)
