"""`hak trace`: what is in a trace that `hak record` wrote."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hakmem_lab.errors import LabError


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
    by: Annotated[
        str | None, typer.Option(metavar="stack", help="Of what --stacks recorded: who allocates, keeps, grows")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="By stack: *.pb.gz: pprof; *.folded; *.txt")
    ] = None,
    html: Annotated[Path | None, typer.Option("--html", help="By stack: flame graphs and a timeline")] = None,
) -> None:
    """What is in a trace: operations, sizes, lifetimes, threads, hand-overs; by stack, who allocates what."""
    from hakmem_lab.show import emit, report
    from hakmem_lab.show.terminal import traced
    from hakmem_lab.trace.contents import counts

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
    if json is not None:
        emit.write_object(result, json)
    if str(json) != "-":
        (traced.show_stacks if by else traced.show)(result)
