"""`hak fleet`: a spec of the kind ab on many hosts, through an engine that is there."""

from pathlib import Path
from typing import Annotated, Any

import typer

from hakmem_lab.cli import complete, measure
from hakmem_lab.cli.measure import Format, JsonFile, Keys, MaxBlocks, Quiet, Require, Seed, StoreFolder
from hakmem_lab.errors import LabError, nearest

ENGINES = ("dask", "slurm", "kubernetes")
HELP = "A spec on many hosts, through Dask, Slurm or Kubernetes: a verdict about the fleet, and how its hosts differ."


def _engines(incomplete: str) -> list[str]:
    return complete.beginning(incomplete, ENGINES)


Words = Annotated[
    list[str] | None, typer.Argument(metavar="[SPEC.toml]", help="A spec of the kind ab", show_default=False)
]
Engine = Annotated[
    str | None,
    typer.Option(help="dask, slurm or kubernetes", autocompletion=_engines),
]
Workers = Annotated[int | None, typer.Option(help="dask: try it with so many workers on this machine", min=1)]
Scheduler = Annotated[str | None, typer.Option(metavar="ADDRESS", help="dask: of the cluster, such as tcp://head:8786")]


def register(app: typer.Typer) -> None:
    app.command("fleet", help=HELP)(fleet)


def fleet(
    ctx: typer.Context, words: Words = None,
    engine: Engine = None, workers: Workers = None, scheduler: Scheduler = None,
    set_: Keys = None, max_blocks: MaxBlocks = None, seed: Seed = None,
    store: StoreFolder = None, json: JsonFile = None, format_: Format = None, require: Require = None,
    quiet: Quiet = False,
) -> None:  # fmt: skip
    params = ctx.params
    measure.check_require(require)
    measure.check_json(json)
    measure.check_format(format_, json)
    source, spec = _spec_of(params)
    _measure(source, spec, params)


def _spec_of(params: dict[str, Any]) -> tuple[str, Any]:
    """(the spec's file, the spec). Raises LabError."""
    from hakmem_lab.kinds.fleet.job import FleetSpec, check
    from hakmem_lab.plan.spec import build, read_toml

    words, engine = params["words"] or [], params["engine"]
    if len(words) != 1 or not words[0].endswith(".toml"):
        raise LabError("hak fleet takes one file that ends in .toml: a spec of the kind ab")
    if engine is None:
        raise LabError(f"--engine is missing: one of {', '.join(ENGINES)}")
    if engine not in ENGINES:
        raise LabError(f"--engine: there is no engine '{engine}': {nearest(engine, ENGINES)}")
    source, values = words[0], read_toml(Path(words[0]))
    if (kind := values.get("kind", "ab")) not in ("ab", "fleet"):
        raise LabError(f"{source}: kind: a fleet runs specs of the kind ab, and this one is of the kind '{kind}'")
    spec = build(FleetSpec, values | measure.overrides(params) | {"kind": "fleet"}, source)
    check(spec, source)
    return source, spec


def _measure(source: str, spec: Any, params: dict[str, Any]) -> None:
    from hakmem_lab import kinds
    from hakmem_lab.run.context import Context
    from hakmem_lab.run.endings import told
    from hakmem_lab.run.progress import Progress
    from hakmem_lab.store.runs import default_folder

    context = Context(params["store"] or default_folder(), source, Progress(quiet=params["quiet"]))
    with told():
        result = kinds.module("fleet").run(spec, context)
    measure.finish(result, params["json"], params["require"], params["format_"])
