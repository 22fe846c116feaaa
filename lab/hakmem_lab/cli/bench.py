"""`hak bench [scorecard|demo|gallery] [NAME...]`: the project's own suites, or some of their workloads by name."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hakmem_lab.cli.flags import beginning, command, option
from hakmem_lab.cli.kinds import ROUNDS
from hakmem_lab.cli.measure import measure
from hakmem_lab.errors import LabError, nearest

SUITES = ("gallery", "scorecard", "demo")  # files of experiments/; a workload's name is looked up in this order
DEFAULT = "scorecard"
WHAT = "The project's own suites: the scorecard, the demo, the gallery of real programs; or workloads of them by name."
FLAGS = "words allocators only beside_load precondition budget set_ max_blocks seed store json format_ require quiet"


def spec_of(suite: str) -> Path:
    """Raises LabError outside of a checkout."""
    from hakmem_lab.plan import project

    top = project.root()
    if top is None:
        raise LabError("hak bench runs the suites of the project's checkout: start hak inside of one")
    path = top / "experiments" / f"{suite}.toml"
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def workloads(suite: str) -> list[str]:
    """The keys and groups of a suite's workloads. Raises LabError."""
    from hakmem_lab.plan.model import read_toml

    rows = read_toml(spec_of(suite))["workload"]
    return [str(name) for name in dict.fromkeys(row[key] for row in rows for key in ("key", "group") if key in row)]


def names(incomplete: str) -> list[str]:
    """Names that the Tab key offers."""
    try:
        return beginning(incomplete, dict.fromkeys([*SUITES, *(name for suite in SUITES for name in workloads(suite))]))
    except LabError:
        return []


Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SUITE] [NAME...]", help="scorecard, demo, gallery, or workloads", autocompletion=names),
]


def _chosen(given: list[str]) -> tuple[str, list[str]]:
    """(the suite, the workloads named on the command line). Raises LabError for a name that no suite has."""
    if not given or given[0] in SUITES:
        suites, wanted = given[:1] or [DEFAULT], given[1:]
    else:
        suites, wanted = list(SUITES), given
    known = {suite: workloads(suite) for suite in suites}
    for suite, there in known.items():
        if {*wanted} <= {*there}:
            return suite, wanted
    every = [name for there in known.values() for name in there]
    for name in wanted:
        if name not in every:
            hint = "; commands are compared by hak compare --commands CMD CMD" * (" " in name)
            raise LabError(f"{' and '.join(suites)}: there is no workload '{name}': {nearest(name, every)}{hint}")
    raise LabError(f"no suite has all of {', '.join(wanted)}; name workloads of one suite")


def bench(params: dict[str, Any]) -> None:
    given, only = params.pop("words") or [], params.pop("only")
    if given and given[-1].endswith(".toml"):
        measure("suite", params | {"words": given[given[0] in SUITES :], "only": only})
        return
    suite, wanted = _chosen(given)
    if wanted and only is not None:
        raise LabError(f"--only: leave it out, since workloads are named already: {', '.join(wanted)}")
    if suite == "gallery" and not wanted and only is None:
        _show_gallery()
        return
    measure("suite", params | {"words": [str(spec_of(suite))], "only": ",".join(wanted) or only})


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
    print("\nhak bench NAME measures one here; how, and all figures: results/gallery/README.md")


def register(app: typer.Typer) -> None:
    own = {"words": Names, "only": option(str | None, hidden=True), "budget": ROUNDS}
    app.command("bench", help=WHAT)(command(FLAGS, bench, **own))
