"""Runs that an earlier version stored: they are read, judged and shown as then. `tests/data/records` holds one or two
of each kind that measures in blocks, each with its result."""

import json
import math
from pathlib import Path

import pytest
from tests.typed import misfits

from hakmem_lab import kinds
from hakmem_lab.store.records import Block, Event, Run, Sample
from hakmem_lab.store.results import Result
from hakmem_lab.store.runs import RESULT_VERSION, RunFile, last_result, plain

RECORDED = sorted((Path(__file__).parents[1] / "data" / "records").glob("*.jsonl.gz"))
WORDS = {"headline", "answer", "reasons", "caveats", "warnings", "withheld", "so_far", "by_chance", "advice", "type"}


def differences(stored: object, now: object, place: str = "") -> list[str]:
    """Where a stored value is missing or another one now. Further keys and rows may be there; sentences may differ."""
    if isinstance(stored, dict) and isinstance(now, dict):
        own = {key: value for key, value in stored.items() if key not in WORDS}
        return [text for key, value in own.items() for text in differences(value, now.get(key), f"{place}.{key}")]
    if isinstance(stored, list) and isinstance(now, list) and len(stored) <= len(now):
        return [t for i, pair in enumerate(zip(stored, now, strict=False)) for t in differences(*pair, f"{place}[{i}]")]
    if isinstance(stored, float) and isinstance(now, float) and math.isclose(stored, now, rel_tol=1e-9, abs_tol=1e-12):
        return []
    return [] if stored == now else [f"{place}: {stored!r} is {now!r} now"]


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name.partition(".")[0])
def test_the_records_give_the_stored_result(path):
    file = RunFile(path)
    assert differences(file.result(), plain(kinds.result_of(file))) == []


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name.partition(".")[0])
def test_it_is_shown(path, here):
    shown = here("show", path, "--json", "-")
    assert shown.status == 0, shown.err
    assert shown.result()["verdict"] == RunFile(path).result()["verdict"]


TYPES = {"run": Run, "block": Block, "sample": Sample, "event": Event, "result": Result}


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name.partition(".")[0])
def test_its_values_have_the_types_of_today(path):
    for record in RunFile(path).records():
        if record["type"] in TYPES:
            assert misfits(record, TYPES[record["type"]], record["type"], closed=False) == []
    result = json.loads(json.dumps(plain(kinds.result_of(RunFile(path)))))
    assert misfits(result, Result, "result") == []


def test_there_is_a_run_of_every_kind_with_blocks():
    assert {path.name.partition(".")[0].partition("-")[0] for path in RECORDED} >= {
        "aa", "ab", "compare", "latency", "matrix", "replay", "suite", "sweep", "tune",
    }  # fmt: skip


def records_of(*types: str, version: int = RESULT_VERSION) -> list[dict]:
    more = {"result": {"version": version, "verdict": "GO"}}
    return [{"type": type_, **more.get(type_, {})} for type_ in types]


def test_a_stored_result_is_valid_until_a_run_goes_on():
    assert last_result(records_of("header", "block", "result", "decision"))["verdict"] == "GO"
    for later in ("event", "run", "block"):
        assert last_result(records_of("header", "result", later, "decision")) is None


def test_a_result_of_another_version_is_formed_again():
    assert last_result(records_of("header", "result", version=RESULT_VERSION + 1)) is None


def test_the_verdict_is_stored_once_and_read(tmp_path):
    """A result in the file is shown, whatever its records would give today."""
    stored = RunFile(next(path for path in RECORDED if path.name == "ab.jsonl.gz"))
    file = RunFile(tmp_path / "run.jsonl")
    changed = stored.result() | {"version": RESULT_VERSION, "verdict": "NO-GO"}
    file.path.write_text("".join(json.dumps(record) + "\n" for record in (stored.header(), changed)), encoding="utf-8")
    assert kinds.result_of(file)["verdict"] == "NO-GO"
