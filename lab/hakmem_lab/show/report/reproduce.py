"""How to repeat a run: by its specification, which the page offers as TOML, and by its seed."""

import shlex

from hakmem_lab.plan.kind import Kind
from hakmem_lab.plan.kinds import KINDS
from hakmem_lab.show.report.model import LoadedRun, dumps

SAVED = "spec.toml"  # the name under which the page offers the spec


def command_line(run: LoadedRun) -> str:
    """A command line that repeats the run, from its saved specification."""
    spec, kind = run.header.get("spec") or {}, KINDS.get(run.kind, Kind(run.kind))
    values = {"seed": run.header.get("seed")} | {key: spec.get(key) for key in kind.flags}
    flags = [word for key, value in values.items() if value is not None for word in (f"--{key}", str(value))]
    return shlex.join(["hak", kind.name if " " in kind.called else kind.called, SAVED, *flags])


def specification(run: LoadedRun) -> str | None:
    """The normalised specification as TOML; None if none was recorded."""
    spec = run.header.get("spec")
    return dumps(spec) if spec else None
