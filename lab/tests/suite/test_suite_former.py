"""Runs stored under the kind's old name, scorecard, can still be read and resumed."""

import json

import pytest
from suite_factory import header, runs, spec, workload

from hakmem_lab.kinds.suite.result import analyse

FORMER = "20261101-000000-scorecard-aaaa"
TIMES = {"hakmem": {"wall": 1.0}, "glibc": {"wall": 1.2}, "mimalloc": {"wall": 1.0}, "jemalloc": {"wall": 1.1}}
NEW_KEYS = ("only",)
GONE = {"history": True, "milestone": [{"name": "M1", "workload": "mix", "against": "glibc", "at-least": 2}]}
NEW_WORKLOAD_KEYS = ("group", "guardrails", "hint")


@pytest.fixture
def former(store):
    """A finished run in the old format."""
    bars = [{"against": "glibc", "at-least": 1.1}]
    top = header(spec(workload(bars=bars), workload("other")), FORMER) | {"command": {"argv": []}}
    records = [top, {"type": "history", "entries": []}, *runs("mix", TIMES), *runs("other", TIMES)]
    result = analyse(top, records)
    result["scorecard"] = result.pop("suite")
    top |= {"kind": "scorecard", "spec": top["spec"] | {"kind": "scorecard"} | GONE}
    for key in NEW_KEYS:
        del top["spec"][key]
    for row in top["spec"]["workload"]:
        for key in NEW_WORKLOAD_KEYS:
            del row[key]
    records += [{"type": "result", **result, "kind": "scorecard"}]
    store.mkdir()
    path = store / f"{FORMER}.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def test_they_are_shown_and_listed(former, here):
    shown = here("show", FORMER)
    assert shown.status == 0, shown.err
    assert "GO  hakmem reaches 1 of 1 bars" in shown.out
    assert here("show", FORMER, "--json", "-").result()["suite"]["rows"][0]["arms"]["glibc"]["ratio"] > 1.1
    assert "suite" in here("list").out


def test_they_are_reported(former, here, tmp_path):
    page = tmp_path / "page.html"
    answer = here("report", FORMER, "-o", page)
    assert answer.status == 0, answer.err
    assert "Geometric means of the ratios" in page.read_text(encoding="utf-8")


def test_one_that_was_interrupted_is_resumed(here, tmp_path, store, records):
    """A new run, cut off after its first blocks and converted to the old format."""
    rows = "".join(f"[[workload]]\nkey = '{key}'\ncommand = '/bin/true'\nmemory = false\n" for key in ("a", "b"))
    path = tmp_path / "suite.toml"
    head = "kind = 'suite'\nallocators = ['glibc', 'glibc,A=1']\nmax-blocks = 3\n[defaults]\nrepeat = 1\n"
    path.write_text(head + rows, encoding="utf-8")
    assert here("suite", path, "--quiet").status == 0
    (file,) = store.glob("*.jsonl")
    top, *others = map(json.loads, file.read_text(encoding="utf-8").splitlines())
    top |= {"kind": "scorecard", "spec": top["spec"] | {"kind": "scorecard"}, "id": FORMER}
    cut = [index for index, record in enumerate(others) if record["type"] == "block"][1]
    file.write_text("".join(json.dumps(record) + "\n" for record in [top, *others[: cut + 1]]), encoding="utf-8")
    file.rename(store / f"{FORMER}.jsonl")
    found = here("resume", "last", "--quiet", "--json", "-")
    assert found.status == 0, found.err
    assert (found.result()["kind"], found.result()["final"], found.result()["blocks"]) == ("suite", True, 6)
    assert len(records("block", ok=True)) == 6
