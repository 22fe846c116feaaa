"""Kinds of runs. Each is a design or a module with `Spec` (a pydantic model), `analyse(header, records)`, a row in
`plan.kinds`, and `run(spec, context)`, whose result is also the run's last record; it raises LabError, Stopped or
Interrupted.

Modules are imported only when needed: statistics and plotting libraries are slow to load.
"""

import importlib
from pathlib import Path
from typing import Any

from hakmem_lab import extras
from hakmem_lab.errors import LabError, nearest
from hakmem_lab.judge.explain import explain
from hakmem_lab.plan.kinds import KINDS
from hakmem_lab.plan.model import build, read_toml
from hakmem_lab.run.conduct import Context
from hakmem_lab.run.endings import Progress, told
from hakmem_lab.store.records import Record
from hakmem_lab.store.results import Result
from hakmem_lab.store.runs import DESCRIBED, RENAMED, RunFile, last_result


def module(kind: str) -> Any:
    """What measures a kind: its design, or its module. Raises LabError for an unknown kind."""
    if kind not in KINDS:
        raise LabError(f"kind: there is no kind '{kind}': {nearest(kind, KINDS)}")
    if needed := KINDS[kind].needs:
        extras.need(needed, f"hak {kind}")
    package, design = KINDS[kind].package, KINDS[kind].design
    if design:
        return getattr(importlib.import_module(f"hakmem_lab.{design}"), kind)
    return importlib.import_module(f"{package}.kind" if package else f"{__name__}.{kind}")


def load_spec(path: Path, expected: str | None = None, overrides: dict | None = None):
    """The spec in a file; `expected`: the kind that the command is for; `overrides`: keys given as flags."""
    values = read_toml(path)
    kind = values.get("kind", expected)
    if kind is None:
        raise LabError(f"{path}: 'kind' is missing: one of {', '.join(KINDS)}")
    if isinstance(kind, str) and kind in RENAMED:
        raise LabError(f"{path}: kind: '{kind}' is called '{RENAMED[kind]}' now")
    if not isinstance(kind, str) or kind not in KINDS:
        raise LabError(f"{path}: kind: there is no kind '{kind}': {nearest(str(kind), KINDS)}")
    if expected and kind != expected:
        raise LabError(f"{path}: this is a spec of kind '{kind}'; run it with: hak {KINDS[kind].called} {path}")
    return build(module(kind).Spec, values | (overrides or {}), str(path))


def default_values(kind: str) -> dict:
    """Keys that `hak KIND` uses if it is given neither a command nor a spec; empty if the kind needs one of the two."""
    return getattr(module(kind), "default_values", dict)()


def result_of(file: RunFile, header: Record | None = None) -> Result:
    """The stored result. A run that has measured since its last result, or that has none of this version, is judged by
    its records. header: replaces the stored header."""
    header, records = header or file.header("spec", *DESCRIBED), list(file.records())
    stored = file.result() if "builds" in header else last_result(records)  # builds: only earlier versions judge them
    if stored is None:
        return module(header["kind"]).analyse(header, records)
    return stored | explain(stored).record()


def resume(file: RunFile, progress: Progress, more: int = 0) -> Result:
    """Continue a stored run with its stored spec. more: number of blocks beyond those planned."""
    header = file.header("spec", *DESCRIBED)
    context = Context(file.path.parent, header["spec_file"] or "command line", progress, file, more)
    with told(file):
        return module(header["kind"]).run(stored_spec(file), context)


def stored_spec(file: RunFile):
    header = file.header("spec", *DESCRIBED)
    return build(module(header["kind"]).Spec, header["spec"], str(file.path))
