"""`hak suite SPEC`, and `hak scorecard`: the same, with the project's own spec where none is named."""

from pathlib import Path
from typing import Annotated

import typer

from hakmem_lab.cli import complete, measure
from hakmem_lab.cli.flags import (
    Allocators,
    Format,
    JsonFile,
    Keys,
    MaxBlocks,
    Quiet,
    Require,
    Seed,
    StoreFolder,
)
from hakmem_lab.errors import LabError

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
    return [before + comma + name for name in complete.beginning(last, known)]


Spec = Annotated[list[str] | None, typer.Argument(metavar="SPEC.toml", help="The suite", show_default=False)]
OwnSpec = Annotated[list[str] | None, typer.Argument(metavar="[SPEC.toml]", help="Default: the project's own")]
Only = Annotated[
    str | None,
    typer.Option(metavar="KEY,KEY...", help="These workloads or groups alone", autocompletion=workloads),
]
Budget = Annotated[str | None, typer.Option(help="No further round of blocks beyond this time, such as 10m")]


def register(app: typer.Typer) -> None:
    app.command("suite")(suite)
    app.command("scorecard")(scorecard)


def suite(
    ctx: typer.Context, words: Spec = None,
    allocators: Allocators = None, only: Only = None, budget: Budget = None, set_: Keys = None,
    max_blocks: MaxBlocks = None, seed: Seed = None, store: StoreFolder = None, json: JsonFile = None,
    format_: Format = None, require: Require = None, quiet: Quiet = False,
) -> None:  # fmt: skip
    """Workloads of your own on several allocators, with bars to reach: see "A suite of your own" in docs/lab.md."""
    measure.measure_with("suite", ctx.params, {})


def scorecard(
    ctx: typer.Context, words: OwnSpec = None,
    allocators: Allocators = None, only: Only = None, budget: Budget = None, set_: Keys = None,
    max_blocks: MaxBlocks = None, seed: Seed = None, store: StoreFolder = None, json: JsonFile = None,
    format_: Format = None, require: Require = None, quiet: Quiet = False,
) -> None:  # fmt: skip
    """The project's suite: its workloads against all peers, milestones and history."""
    measure.measure_with("suite", ctx.params | {"words": words or [str(own_spec())]}, {})


def own_spec() -> Path:
    """The project's. Raises LabError outside of a checkout."""
    from hakmem_lab.plan import project

    top = project.root()
    if top is None:
        raise LabError("a scorecard without a spec is the project's own: start hak inside a checkout, or name a spec")
    path = top / OWN_SPEC
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
