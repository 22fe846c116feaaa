"""`hak explain`: every resident kilobyte of a process, or of a core file, by owner."""

from pathlib import Path
from typing import Annotated

import typer

from hakmem_lab.errors import LabError


def register(app: typer.Typer) -> None:
    app.command()(explain)


def explain(
    subject: Annotated[str, typer.Argument(metavar="PID | CORE", help="A process, a core file, or a reading (--json)")],
    json: Annotated[
        Path | None, typer.Option("--json", help="Write the reading there as one JSON object; - for standard output")
    ] = None,
    stop: Annotated[
        bool, typer.Option("--stop", help="Hold the process still meanwhile, for an exact picture")
    ] = False,
    diff: Annotated[
        Path | None, typer.Option("--diff", help="What has changed since this reading, which --json wrote")
    ] = None,
    block: Annotated[
        str | None, typer.Option("--block", metavar="ADDR", help="Which block is there: its class, live or free")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="Write the pictures there: an HTML file")] = None,
) -> None:
    """Where the memory of a process went: every resident kilobyte by owner."""
    from hakmem_lab.inside import reading
    from hakmem_lab.inside.explain import between
    from hakmem_lab.show import emit
    from hakmem_lab.show.terminal import process

    if block is not None:
        if json or diff or html:
            raise LabError("--block: is a question of its own: without --json, --diff and --html")
        process.show_block(reading.block(subject, block, stop))
        return
    before = reading.load(diff, "--diff") if diff else None
    result = reading.take(subject, stop)
    if before is not None:
        result["diff"] = between(before, result)
    if json is not None:
        emit.write_object(result, json)
    if html is not None:
        from hakmem_lab.show import report

        report.write_reading(result, html, "--html")
    if str(json) != "-":
        process.show_reading(result)
