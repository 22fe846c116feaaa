"""`--scan N=1,2,4`: the same question for every value, `{N}` in the commands standing for it.

A value is a run of its own, whose arms stand in the same blocks. The values share alpha, so that a scan of any length
calls something wrongly better or worse as seldom as one run.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hakmem_lab.errors import LabError

SCANNED = ("command", "commands", "setup", "prepare", "cleanup", "env", "stdin", "cwd")
Values = dict[str, str]


def combinations(scans: Sequence[str]) -> list[Values]:
    """Every combination of the values of `NAME=V,V,...`. Raises LabError."""
    found: dict[str, list[str]] = {}
    for text in scans:
        name, _, values = text.partition("=")
        found[name] = [value.strip() for value in values.split(",")]
        if not name.isidentifier() or not all(found[name]) or len(set(found[name])) < len(found[name]):
            raise LabError(f"--scan: '{text}' is not NAME=VALUE,VALUE,... with every value once")
        if name in ("seed", "port", "ops"):
            raise LabError(f"--scan: {{{name}}} stands for something else already; choose another name")
    return [dict(zip(found, values, strict=True)) for values in itertools.product(*found.values())]


def title(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name}={value}" for name, value in values.items())


def filled(written: Any, values: Mapping[str, str]) -> Any:
    """A word, or whatever holds words, with the values in their places."""
    if isinstance(written, str):
        for name, value in values.items():
            written = written.replace(f"{{{name}}}", value)
        return written
    if isinstance(written, Mapping):
        return {key: filled(each, values) for key, each in written.items()}
    return [filled(each, values) for each in written] if isinstance(written, list) else written


def expanded(commands: Sequence[str], scans: Sequence[str]) -> list[str]:
    """Every command with every value, each once: they are arms of one run."""
    return list(dict.fromkeys(filled(command, values) for command in commands for values in combinations(scans)))


def specs(spec: Any, scans: Sequence[str]) -> list[tuple[Values, Any]]:
    """(the values, the spec with them) of every combination. Raises LabError."""
    every = combinations(scans)
    written = {name: getattr(spec, name) for name in SCANNED if hasattr(spec, name)}
    for name in every[0]:
        if filled(written, {name: ""}) == written:
            raise LabError(f"--scan {name}: {{{name}}} stands nowhere in the command")
    alpha = spec.alpha / len(every)
    return [(values, spec.model_copy(update={"alpha": alpha} | filled(written, values))) for values in every]


def measured(spec: Any, scans: Sequence[str], run: Callable[[Any], dict], say: Callable[[str], None]) -> list[dict]:
    """The results, each with the values that it is about."""
    results = []
    for values, each in specs(spec, scans):
        say(f"scan: {title(values)}")
        results.append(run(each) | {"scan": values})
    return results
