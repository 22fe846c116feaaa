"""`hak fleet`: runs a spec of the kind ab on many hosts, through an existing engine."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from hakmem_lab.cli.flags import beginning, command, option
from hakmem_lab.cli.measure import check_output, finish, overrides
from hakmem_lab.errors import LabError, nearest
from hakmem_lab.store.results import Result

OF_THE_SPEC = ("engine", "workers", "scheduler", "set_", "max_blocks", "seed")  # parameters that are keys of the spec
ENGINES = ("dask", "slurm", "kubernetes")
OVERVIEW = (
    "a spec on many hosts: a verdict about all of them, and which gain, which lose",
    "spec.toml --engine dask --scheduler tcp://head:8786",
)
HELP = "A spec on many hosts, through Dask, Slurm or Kubernetes: a verdict about the fleet, and how its hosts differ."
FLAGS = {
    "words": Annotated[
        list[str] | None, typer.Argument(metavar="[SPEC.toml]", help="A spec of the kind ab", show_default=False)
    ],
    "engine": option(
        str | None, help="dask, slurm or kubernetes", autocompletion=lambda incomplete: beginning(incomplete, ENGINES)
    ),
    "workers": option(int | None, help="dask: try the spec with this number of workers on this machine", min=1),
    "scheduler": option(
        str | None, metavar="ADDRESS", help="dask: address of the cluster's scheduler, such as tcp://head:8786"
    ),
    "output": option(
        Path | None,
        "-o",
        "--output",
        metavar="DIR",
        help="slurm, kubernetes: a folder that every host can read and write",
    ),
    "shares": option(int | None, help="slurm, kubernetes: number of hosts", min=1),
    "image": option(str | None, help="kubernetes: a container image with hak and the program"),
    "claim": option(str | None, help="kubernetes: a PersistentVolumeClaim that several nodes may write"),
    "merge": option(Path | None, metavar="DIR", help="Combine the shares that a job has finished; may be repeated"),
    "close": option(bool, "--close", help="With --merge: no more shares will come; judge those present"),
    "measure_": option(
        Path | None, "--measure", metavar="DIR", help="Measure one share, as a task of Slurm or Kubernetes"
    ),
    "share": option(
        int | None, help="With --measure: number of the share (default: the one the scheduler gives the task)", min=0
    ),
}


def register(app: typer.Typer) -> None:
    names = " ".join([*FLAGS, "set_ max_blocks seed store json format_ require quiet"])
    app.command("fleet", help=HELP)(command(names, _fleet, **FLAGS))


def _fleet(params: dict[str, Any]) -> None:
    json, format_, require, store, quiet = (params[name] for name in ("json", "format_", "require", "store", "quiet"))
    check_output(json, format_, require)
    if params["measure_"] is not None:
        _share(params["measure_"], params["share"], quiet)
        return
    if params["merge"] is not None:
        finish(_merged(params["merge"], params["close"], store, quiet), json, require, format_)
        return
    source, spec = _spec_of(params)
    if spec.engine == "dask":
        finish(_measured(source, spec, store, quiet), json, require, format_)
    else:
        _write(source, spec, *(params[name] for name in ("output", "shares", "image", "claim")))


def _spec_of(params: dict[str, Any]) -> tuple[str, Any]:
    """(the spec's file, the spec). Raises LabError."""
    from hakmem_fleet.part import FleetSpec, check
    from hakmem_lab.plan.model import build, read_toml

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
    given = overrides({name: params[name] for name in OF_THE_SPEC})
    spec = build(FleetSpec, values | given | {"kind": "fleet"}, source)
    check(spec, source)
    return source, spec


def _measured(source: str, spec: Any, store: Path | None, quiet: bool) -> Result:
    """Measure on a Dask cluster."""
    from hakmem_lab import kinds
    from hakmem_lab.run.conduct import Context
    from hakmem_lab.run.endings import Progress, told
    from hakmem_lab.store.runs import default_folder

    context = Context(store or default_folder(), source, Progress(quiet=quiet))
    with told():
        return kinds.module("fleet").run(spec, context)


def _write(
    source: str, spec: Any, output: Path | None, shares: int | None, image: str | None, claim: str | None
) -> None:
    """The files of Slurm or Kubernetes, and what to do with them."""
    from hakmem_fleet import folder as folders
    from hakmem_fleet.folder import Folder

    if output is None or shares is None:
        flag = "-o DIR, a folder that all hosts see," if output is None else "--shares N, on how many hosts,"
        raise LabError(f"{flag} is missing: {spec.engine} writes files into that folder")
    if spec.engine == "kubernetes":
        folders.check_kubernetes(image, claim)
    else:
        folders.check_slurm(output)
    folder = Folder.create(output, spec, shares, source)
    if spec.engine == "slurm":
        print(shlex.join(["sbatch", str(folders.slurm(folder))]))
    else:
        print(shlex.join(["kubectl", "create", "-f", str(folders.kubernetes(folder, image, claim))]))
    print(shlex.join(["hak", "fleet", "--merge", str(output)]))


def _share(path: Path, share: int | None, quiet: bool) -> None:
    """Measure one share, as a task of Slurm or Kubernetes."""
    from hakmem_fleet.folder import Folder, share_here
    from hakmem_lab.run.endings import Progress

    number = share_here() if share is None else share
    if number is None:
        raise LabError("--share is missing: outside of Slurm and Kubernetes nobody says which one")
    count = Folder(path).measure(number, Progress(quiet=quiet))
    print(f"share {number}: {count} blocks measured" if count else f"share {number}: nothing was left to do")


def _merged(path: Path, close: bool, store: Path | None, quiet: bool) -> Result:
    from hakmem_fleet.folder import collect
    from hakmem_lab.run.endings import Progress
    from hakmem_lab.store.runs import default_folder

    return collect(path, store or default_folder(), Progress(quiet=quiet), close)
