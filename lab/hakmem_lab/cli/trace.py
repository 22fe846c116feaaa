"""`hak trace`: what is in a trace that `hak record` wrote."""

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    app.command()(trace)


def trace(
    file: Annotated[Path, typer.Argument(metavar="TRACE", help="What hak record wrote")],
    json: Annotated[
        Path | None, typer.Option("--json", help="Write all counts there as one JSON object; - for standard output")
    ] = None,
    process: Annotated[
        int | None, typer.Option("--process", metavar="N", min=0, help="Only this process, by its number in the trace")
    ] = None,
) -> None:
    """What is in a trace: operations, sizes, lifetimes, threads, hand-overs."""
    from hakmem_lab.show import emit
    from hakmem_lab.show.terminal import traced
    from hakmem_lab.trace.contents import counts

    result = {"schema": "hakmem-trace 1", "trace": str(file), **counts(file, process)}
    if json is not None:
        emit.write_object(result, json)
    if str(json) != "-":
        traced.show(result)
