"""How to run it again: the command line out of a run's header, and the specification as TOML.

May import: model, toml.
"""

from __future__ import annotations

import shlex

from hakmem_lab.show.report import toml
from hakmem_lab.show.report.model import LoadedRun

# Keys of a specification that are options of the command line as well.
_OPTIONS = ("control", "treatment", "allocator", "baseline", "allocators", "metric", "margin", "max-blocks")

# Keys that only a specification file can give.
_SPEC_ONLY = ("server", "guardrails", "env", "cwd", "pin")


def command_line(run: LoadedRun) -> str:
    """One line that runs it again: from its specification file, else from its options and command."""
    header = run.header
    words = ["hak", run.kind]
    seed = ["--seed", str(header["seed"])] if header.get("seed") is not None else []
    if header.get("spec_file"):
        return shlex.join([*words, str(header["spec_file"]), *seed])
    spec = header.get("spec") or {}
    argv = [str(word) for word in spec.get("command") or (header.get("command") or {}).get("argv") or []]
    plain = run.kind in ("ab", "compare", "aa", "syscalls") and not any(spec.get(name) for name in _SPEC_ONLY)
    if not plain or not argv:
        return shlex.join([*words, *([] if run.kind == "scorecard" else ["spec.toml"]), *seed])
    for name in _OPTIONS:
        value = spec.get(name)
        if isinstance(value, (list, tuple)):
            words += [f"--{name}", *(str(each) for each in value)]
        elif value is not None and not isinstance(value, (dict, bool)):
            words += [f"--{name}", str(value)]
    if spec.get("higher-is-better"):
        words.append("--higher-is-better")
    return shlex.join([*words, *seed, "--", *argv])


def specification(run: LoadedRun) -> str | None:
    """The normalised specification as TOML, None if none was recorded."""
    spec = run.header.get("spec")
    return toml.dumps(spec) if spec else None
