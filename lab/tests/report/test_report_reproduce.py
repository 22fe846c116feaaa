"""The printed command repeats the run: it includes every key of every spec, and gives the same spec again."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from hakmem_lab import kinds
from hakmem_lab.cli import measure
from hakmem_lab.cli.commands import app
from hakmem_lab.plan.kinds import KINDS
from hakmem_lab.plan.model import build
from hakmem_lab.plan.spec import normalised
from hakmem_lab.show.report import LoadedRun
from hakmem_lab.show.report.reproduce import APART, NAMES, OWN_FLAGS, SAVED, command_line

ONLY_IN_FILES = {name: kind.only_in_files for name, kind in KINDS.items() if kind.only_in_files is not None}

BASE: dict[str, dict[str, Any]] = {
    "ab": {"control": "glibc", "treatment": "hakmem"},
    "compare": {"allocators": ["glibc", "hakmem"]},
    "aa": {},
    "matrix": {"base": "hakmem", "factors": {"A": "X=1", "B": "Y=1"}},
    "sweep": {"default": "hakmem", "candidates": {"a": "hakmem,X=1"}},
    "tune": {},
    "latency": {"allocators": ["glibc", "hakmem"]},
    "soak": {},
    "syscalls": {},
}
# Values that differ from every default. A test below fails for a key that has no value here.
SAMPLES: dict[str, Any] = {
    "question": "is it 'better'?", "command": ["prog", "a b", "--x"], "env": {"A": "1", "B": "x y"}, "cwd": "/",
    "stdin": "", "pin": [0, 1], "expect-exit": [0, 1], "timeout": 90.0, "seed": 5, "metric": r"regex:a = (\d+)",
    "label": "time per operation", "unit": "ns", "higher-is-better": True, "margin": 0.03, "alpha": 0.01, "looks": 2,
    "max-blocks": 44, "warm-up": 3, "repeat": 5, "guardrails": {"rss": 0.05, "cpu": 0.07}, "also": ["faults", "pss"],
    "server": {"command": ["serve"]}, "control": "jemalloc", "treatment": "hakmem,X=1", "detect": 0.02,
    "rare": 0.01, "setup": "make > /dev/null", "prepare": ["rm", "a b"], "cleanup": "make clean",
    "check": "grep -q done",
    "commands": [["prog", "a b"], ["prog", "2"]], "names": ["one", "two"],
    "after": 5.0, "requests": 1000, "price": "4.5 EUR/GiB-month",
    "quick": True, "beside-load": True, "schedule": "one-by-one",
    "precondition": True, "history": __file__,
    "builds": 6, "allocators": ["hakmem,A=1", "glibc"], "baseline": "hakmem,A=1", "base": "hakmem,Z=1",
    "factors": {"A": "X=1", "C": "Z=1"}, "default": "glibc", "candidates": {"b": "hakmem,Y=1"}, "select-blocks": 5,
    "allocator": "jemalloc", "resamples": 400, "rate": 500.0, "duration": 9.0,
    "histogram": r"H (?P<value>\d+) (?P<count>\d+)",
    "value-unit": "us", "ops": [1000, 2000], "repeats": 4, "budget": 0.5,
    "readings": {"ops": r"regex:a = (\d+)"}, "combine": True, "tries": 20,
    "sample-interval": 0.5, "line": r"x (?P<operations>\d+)",
}  # fmt: skip
OF_KIND = {
    ("latency", "metric"): "p90",
    ("tune", "higher-is-better"): False,
    ("soak", "warm-up"): 60.0,
    ("latency", "rate"): 500.0,
}
NO_KEYS = ("callgrind", "ops", "link")  # options of hak compare that store nothing, or the commands that they make
NEEDS = {"rate": ["prog", "{rate}"], "duration": ["prog", "{seconds}"], "ops": ["prog", "{ops}"]}


def fields(kind: str) -> dict[str, Any]:
    return {field.alias or name: field for name, field in kinds.module(kind).Spec.model_fields.items()}


def sampled(kind: str, key: str, folder: Path) -> Any:
    """A spec in which this key does not have its default."""
    value = OF_KIND.get((kind, key), SAMPLES.get(key))
    assert value is not None, f"no sample for the key {key} of {kind}: add one, so that its command line is tested"
    if key == "stdin":
        value = str(folder / "in")
        Path(value).write_text("x")
    own = {"kind": kind, "command": NEEDS.get(key, ["prog"])} | BASE[kind] | {key: value}
    if key == "commands":
        own = {"kind": kind, key: value}
    if key == "budget" and kind == "syscalls":
        own |= {"ops": [1000, 2000], "command": NEEDS["ops"]}
    return build(kinds.module(kind).Spec, own, "test")


def options(kind: str) -> set[str]:
    command = typer.main.get_command(app).commands[kind]
    return {name.removeprefix("--") for parameter in command.params for name in parameter.opts}


def parsed(line: str, kind: str) -> dict[str, Any]:
    """The stored form of the spec that `hak` makes from this command line."""
    _, name, *words = measure.spread_allocators(shlex.split(line))
    context = typer.main.get_command(app).commands[name].make_context(name, words)
    params = {name: value for name, value in context.params.items() if name not in NO_KEYS}
    if name == "compare" and kind == "compare":
        params["baseline"] = params.pop("control") or params["baseline"]
    _, spec = measure.spec_of(kind, params["words"] or [], measure.overrides(params))
    return normalised(spec)


def settable(kind: str) -> list[str]:
    """Keys that can differ from their default, except `kind` and `seed`, which have their own place in the line."""
    fixed = {key for key, field in fields(kind).items() if str(field.annotation).startswith("typing.Literal[")}
    fixed = {key for key in fixed if len(fields(kind)[key].annotation.__args__) == 1}
    return [key for key in fields(kind) if key not in {"kind", "seed", *fixed}]


CASES = [(kind, key) for kind in BASE for key in settable(kind) if (kind, key) != ("aa", "guardrails")]


@pytest.mark.parametrize(("kind", "key"), CASES)
def test_a_key_is_in_the_command_or_asks_for_the_file(kind: str, key: str, tmp_path: Path) -> None:
    spec = sampled(kind, key, tmp_path)
    stored = normalised(spec)
    line = command_line(LoadedRun({"kind": kind, "spec": stored, "seed": 7}))
    if SAVED in shlex.split(line):
        only = key in ONLY_IN_FILES[kind] if kind in ONLY_IN_FILES else True
        assert only
        return
    again = parsed(line, kind)
    if key == "prepare":  # the line says it as a shell command
        again[key] = shlex.split(again[key][2])
    assert again == stored | {"seed": 7}


@pytest.mark.parametrize("kind", ONLY_IN_FILES)
def test_the_flags_are_those_of_the_command(kind: str) -> None:
    for key in set(fields(kind)) - APART:
        assert (NAMES.get(key, key) in options(kind)) == (key not in ONLY_IN_FILES[kind]), key


@pytest.mark.parametrize("kind", [kind for kind in BASE if kind not in ONLY_IN_FILES])
def test_the_other_commands_set_single_values(kind: str) -> None:
    own = {key for key in OWN_FLAGS if key in fields(kind)}
    assert own
    assert {"set", *(NAMES.get(key, key) for key in own)} <= options(kind)


def test_what_a_flag_replaced_in_a_file_is_said_again(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_text('kind = "ab"\ncommand = "prog"\ncontrol = "glibc"\ntreatment = "hakmem"\n')
    stored = normalised(kinds.load_spec(file))
    header = {"kind": "ab", "spec": stored | {"margin": 0.02}, "spec_file": str(file), "seed": 7}
    assert command_line(LoadedRun(header)) == f"hak compare {file} --margin 0.02 --seed 7"
    header["spec"] = stored | {"cwd": "/"}
    assert command_line(LoadedRun(header)) == "hak compare spec.toml --seed 7"


def test_a_recorded_input_is_given_again(tmp_path: Path) -> None:
    spec = sampled("ab", "stdin", tmp_path)
    line = command_line(LoadedRun({"kind": "ab", "spec": normalised(spec), "seed": 7}))
    assert f"--input {tmp_path / 'in'}" in line
