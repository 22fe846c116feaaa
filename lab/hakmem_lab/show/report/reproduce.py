"""How to repeat a run: the command line from its header, and the specification as TOML.

The keys come from the model of the kind's spec, so none is forgotten: each has a flag, or only a file can set it.
"""

import shlex
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from hakmem_lab import kinds
from hakmem_lab.errors import LabError
from hakmem_lab.plan.kind import Kind
from hakmem_lab.plan.kinds import COMMANDS, KINDS
from hakmem_lab.plan.spec import Server
from hakmem_lab.plan.values import SHELL
from hakmem_lab.show.report.model import LoadedRun, dumps

SAVED = "spec.toml"  # the name under which the page offers the spec
OWN_FLAGS = {"allocators", "stdin", "max-blocks"}  # the only flags of kinds whose other keys --set gives
NAMES = {"stdin": "input", "guardrails": "guardrail"}  # key -> flag with another name
STEPS = ("setup", "prepare", "cleanup", "check")
APART = {"kind", "command", "seed"}  # not given as flags


def command_line(run: LoadedRun) -> str:
    """A command line that repeats the run: from its specification file, else from its options and command."""
    header = run.header
    row = KINDS.get(run.kind, Kind(run.kind))
    begin = ["hak", run.kind if run.kind == "aa" else COMMANDS.get(run.kind, run.kind)]
    seed = ["--seed", str(header["seed"])] if header.get("seed") is not None else []
    spec = header.get("spec") or {}
    seed += [word for key in row.flags if spec.get(key) is not None for word in (f"--{key}", str(spec[key]))]
    file = header.get("spec_file")
    if file:
        flags = _flags(run.kind, _changed(run.kind, spec, _written(run.kind, Path(file))))
        return shlex.join([*begin, *([str(file), *flags] if flags is not None else [SAVED]), *seed])
    argv = [str(word) for word in spec.get("command") or (header.get("command") or {}).get("argv") or []]
    flags = _flags(run.kind, _changed(run.kind, spec, _defaults(run.kind)))
    if flags is not None and spec.get("commands"):  # the first of which is `command`
        return shlex.join([*begin, *flags, *seed])
    if flags is None or not argv:
        return shlex.join([*begin, *([] if row.own_spec else [SAVED]), *seed])
    return shlex.join([*begin, *flags, *seed, "--", *argv])


def _model(kind: str) -> Any:
    """The model of the kind's spec; None where it is not known, or not installed."""
    try:
        return kinds.module(kind).Spec
    except LabError:
        return None


def _defaults(kind: str) -> dict[str, Any] | None:
    """Key -> default of the keys that have one; None where the kind takes no command."""
    fields = model.model_fields if (model := _model(kind)) else {}
    if "command" not in fields:
        return None
    return {
        field.alias or name: field.get_default(call_default_factory=True)
        for name, field in fields.items()
        if not field.is_required()
    }


def _written(kind: str, file: Path) -> dict[str, Any]:
    """The spec in its file at present; empty where the file is missing or has a spec of another kind."""
    try:
        return kinds.load_spec(file, kind).model_dump(mode="json", by_alias=True)
    except (LabError, OSError):
        return {}


def _changed(kind: str, spec: Mapping[str, Any], known: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The keys of the spec that differ from `known`; None for an unknown kind."""
    model = _model(kind)
    if known is None or model is None:
        return None
    keys = [field.alias or name for name, field in model.model_fields.items()]
    if not known:
        return {}
    implied = {*APART, *(model.ARMS if spec.get("commands") else ())}
    return {key: spec[key] for key in keys if key in spec and key not in implied and spec[key] != known.get(key)}


def _flags(kind: str, changed: Mapping[str, Any] | None) -> list[str] | None:
    """The flags that make these changes; None where only a file can."""
    found: list[str] = []
    for key, value in changed.items() if changed is not None else ():
        words = list(_flag(kind, key, _line(value) if key in STEPS and value else value))
        if not words:
            return None
        found += words
    return None if changed is None else found


def _line(step: list[str]) -> str:
    """The step as one line for a shell, as it was written."""
    return step[2] if step[:2] == SHELL and len(step) == 3 else shlex.join(step)


def _server(value: Mapping[str, Any]) -> list[str]:
    """The server's command; empty where it has further settings, which no flag can give."""
    alone = Server(command=value["command"]).model_dump(mode="json", by_alias=True)
    return [shlex.join(value["command"])] if alone == value else []


_WORDS: dict[str, Callable[[Any], list[str]]] = {
    "allocators": list,
    "commands": lambda value: [*map(shlex.join, value)],
    "server": lambda value: _server(value) if value else [],
    "pin": lambda value: [",".join(map(str, value))],
    "expect-exit": lambda value: [",".join(map(str, value))],
}


def _flag(kind: str, key: str, value: Any) -> Iterator[str]:
    """The words for one key; empty where no flag can give it this value."""
    flag = f"--{NAMES.get(key, key)}"
    only_in_files = KINDS[kind].only_in_files
    if only_in_files is not None:
        if key in only_in_files:
            return
    elif key not in OWN_FLAGS:
        yield from _set(key, value)
        return
    if value is None or value is False:
        return
    if value is True:
        yield flag
    elif key in _WORDS:
        if words := _WORDS[key](value):
            yield from (flag, *words)
    elif isinstance(value, Mapping):
        if not any(isinstance(each, Mapping) for each in value.values()):
            yield from (word for name, each in value.items() for word in (flag, f"{name}={each}"))
    elif isinstance(value, (list, tuple)):
        yield from (word for each in value for word in (flag, str(each)))
    else:
        yield from (flag, str(value))


def _set(key: str, value: Any) -> Iterator[str]:
    """Sets a key with --set, which takes a word, a number, or the two lengths of `hak syscalls`."""
    if key == "ops" and value is not None:
        yield from ("--set", f"ops={','.join(map(str, value))}")
    elif isinstance(value, (str, int, float)):
        yield from ("--set", f"{key}={str(value).lower() if isinstance(value, bool) else value}")


def specification(run: LoadedRun) -> str | None:
    """The normalised specification as TOML; None if none was recorded."""
    spec = run.header.get("spec")
    return dumps(spec) if spec else None
