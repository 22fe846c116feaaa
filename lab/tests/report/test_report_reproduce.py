"""The printed specification repeats the run: whatever key a run sets, it gives the same spec again."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

from hakmem_lab import kinds
from hakmem_lab.plan.model import build
from hakmem_lab.plan.spec import normalised
from hakmem_lab.show.report import LoadedRun
from hakmem_lab.show.report.reproduce import specification

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
NEEDS = {"rate": ["prog", "{rate}"], "duration": ["prog", "{seconds}"], "ops": ["prog", "{ops}"]}


def fields(kind: str) -> dict[str, Any]:
    return {field.alias or name: field for name, field in kinds.module(kind).Spec.model_fields.items()}


def sampled(kind: str, key: str, folder: Path) -> Any:
    """A spec in which this key does not have its default."""
    value = OF_KIND.get((kind, key), SAMPLES.get(key))
    assert value is not None, f"no sample for the key {key} of {kind}: add one, so that it is tested"
    if key == "stdin":
        value = str(folder / "in")
        Path(value).write_text("x")
    own = {"kind": kind, "command": NEEDS.get(key, ["prog"])} | BASE[kind] | {key: value}
    if key == "commands":
        own = {"kind": kind, key: value}
    if key == "budget" and kind == "syscalls":
        own |= {"ops": [1000, 2000], "command": NEEDS["ops"]}
    return build(kinds.module(kind).Spec, own, "test")


def settable(kind: str) -> list[str]:
    """Keys that can differ from their default, except `kind` and `seed`, which a run adds."""
    fixed = {key for key, field in fields(kind).items() if str(field.annotation).startswith("typing.Literal[")}
    fixed = {key for key in fixed if len(fields(kind)[key].annotation.__args__) == 1}
    return [key for key in fields(kind) if key not in {"kind", "seed", *fixed}]


CASES = [(kind, key) for kind in BASE for key in settable(kind) if (kind, key) != ("aa", "guardrails")]


@pytest.mark.parametrize(("kind", "key"), CASES)
def test_the_specification_gives_the_same_spec_again(kind: str, key: str, tmp_path: Path) -> None:
    stored = normalised(sampled(kind, key, tmp_path))
    text = specification(LoadedRun({"kind": kind, "spec": stored, "seed": 7}))
    assert normalised(build(kinds.module(kind).Spec, tomllib.loads(text or ""), "test")) == stored
