"""`hak suite SPEC`, and `hak scorecard`: the same, with the project's own spec where none is named. `hak gallery`: what
the gallery found; `hak gallery ROW`: a row of it, measured here.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from hakmem_lab.cli.flags import beginning, command, option
from hakmem_lab.cli.measure import measure
from hakmem_lab.errors import LabError, nearest

OWN_SPEC = Path("experiments") / "scorecard.toml"


def workloads(ctx: typer.Context, incomplete: str) -> list[str]:
    """On the Tab key: keys and groups of the suite, for the last of several words that commas separate."""
    from hakmem_lab.plan.spec import read_toml

    before, comma, last = incomplete.rpartition(",")
    # Where the flag has no value yet, the parser leaves the spec among the words that it has not taken.
    named = [word for word in (*(ctx.params.get("words") or ()), *ctx.args) if word.endswith(".toml")]
    try:
        spec = read_toml(Path(named[0]) if named or ctx.info_name != "scorecard" else own_spec())
    except (LabError, IndexError):
        return []
    rows = [row for row in spec.get("workload", []) if isinstance(row, dict)]
    known = dict.fromkeys(str(row[key]) for row in rows for key in ("key", "group") if key in row)
    return [before + comma + name for name in beginning(last, known)]


def row_names(incomplete: str) -> list[str]:
    from hakmem_lab.show import gallery

    try:
        return beginning(incomplete, gallery.names())
    except LabError:
        return []


def register(app: typer.Typer) -> None:
    names = "words allocators only budget set_ max_blocks seed store json format_ require quiet"
    flags = {
        "only": option(
            str | None, metavar="KEY,KEY...", help="These workloads or groups alone", autocompletion=workloads
        ),
        "budget": option(str | None, help="No further round of blocks beyond this time, such as 10m"),
    }
    spec = typer.Argument(metavar="SPEC.toml", help="The suite", show_default=False)
    what = 'Workloads of your own on several allocators, with bars to reach: see "A suite of your own" in docs/lab.md.'
    app.command("suite", help=what)(command(names, _suite, words=Annotated[list[str] | None, spec], **flags))
    spec = typer.Argument(metavar="[SPEC.toml]", help="Default: the project's own")
    what = "The project's suite: its workloads against all peers, milestones and history."
    app.command("scorecard", help=what)(command(names, _scorecard, words=Annotated[list[str] | None, spec], **flags))
    row = typer.Argument(metavar="[ROW]", help="Measure this one", autocompletion=row_names)
    names = "row allocators set_ max_blocks seed store json format_ quiet"
    what = "Which allocator for which program? What was found, losses first; with ROW: measured on this machine."
    app.command("gallery", help=what)(command(names, _gallery, row=Annotated[str | None, row]))


def _suite(params: dict[str, Any]) -> None:
    measure("suite", params)


def _scorecard(params: dict[str, Any]) -> None:
    measure("suite", params | {"words": params["words"] or [str(own_spec())]})


def own_spec() -> Path:
    """The project's. Raises LabError outside of a checkout."""
    from hakmem_lab.plan import project

    top = project.root()
    if top is None:
        raise LabError("a scorecard without a spec is the project's own: start hak inside a checkout, or name a spec")
    path = top / OWN_SPEC
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _gallery(params: dict[str, Any]) -> None:
    from hakmem_lab.show import gallery

    row, known = params.pop("row"), gallery.names()
    if row is None:
        _show_gallery()
    elif row not in known:
        raise LabError(f"the gallery has no row '{row}': {nearest(row, known)}")
    else:
        spec = gallery.top() / gallery.SPEC
        measure("suite", params | {"words": [str(spec)], "only": row, "budget": None, "require": None})


def _show_gallery() -> None:
    from hakmem_lab.show import gallery

    found = gallery.rows()
    for standing in gallery.STANDINGS:
        chosen = [row for row in found if row.standing() == standing]
        if chosen:
            print(f"\n{standing}:")
        for row in chosen:
            print("\n".join([f"  {row.key}: {row.title}", *(f"    {line}" for line in row.sentences())]))
    left = [key for key in gallery.names() if key not in {row.key for row in found}]
    if left:
        print(f"\nNot measured yet: {', '.join(left)}.")
    print("\nhak gallery ROW measures one here; how, and all figures: docs/gallery/README.md")
