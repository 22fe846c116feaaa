"""Suites of quick programs with the real runner: stored, resumed, limited by a budget, and with a server."""

import json
import shutil
import signal
from types import SimpleNamespace

import pytest

from hakmem_lab.judge.statistics.paired import least_count
from hakmem_lab.store.runs import RunFile
from hakmem_lab.system import machine

PEERS = ["glibc", "glibc,RATE=900", "glibc,RATE=1000"]
SUBJECT = "glibc,RATE=1100"
SCRIPT = "echo ops ${RATE:-500}"


def toml(value) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {toml(each)}" for key, each in value.items()) + " }"
    return "[" + ", ".join(map(toml, value)) + "]" if isinstance(value, list) else json.dumps(value)


def table(table_name: str, /, **keys) -> str:
    lines = [f"{key.replace('_', '-')} = {toml(value)}" for key, value in keys.items()]
    return "\n".join([f"[[{table_name}]]", *lines, ""])


def rate_workload(key: str, script: str = SCRIPT, **keys) -> str:
    common = {"key": key, "title": f"the {key}", "command": ["/bin/sh", "-c", script], "metric": r"regex:ops (\d+)"}
    return table("workload", **common | {"higher_is_better": True, "repeat": 1} | keys)


@pytest.fixture
def card(tmp_path):
    """card(tables…, key=value…): writes a suite's spec; returns its path."""

    def write(*tables: str, **keys):
        top = {"kind": "suite", "allocators": [SUBJECT, *PEERS], "subject": SUBJECT, "max-blocks": 8, "seed": 5}
        lines = [f"{key} = {json.dumps(value)}" for key, value in (top | keys).items()]
        path = tmp_path / "card.toml"
        path.write_text("\n".join([*lines, *tables]), encoding="utf-8")
        return path

    return write


def test_workloads_are_measured_in_blocks_and_judged(here, card, records):
    bars = [{"against": "best", "at-least": 1.05}, {"against": "half", "at-least": 2.5, "title": "half"}]
    path = card(
        rate_workload("first", arms={"half": "glibc,RATE=550"}, bars=bars),
        rate_workload("second", max_blocks=3, memory=False),
    )
    answer = here("suite", path, "--json", "-", "--quiet")
    assert answer.status == 0, answer.err
    found = answer.result()
    rows = {(row["key"], row["metric"]): row for row in found["suite"]["rows"]}
    best = rows["first", "speed"]
    assert (best["verdict"], best["best_peer"]) == ("pass", "glibc,RATE=1000")
    assert best["arms"]["glibc"]["ratio"] == pytest.approx(2.2)
    assert rows["first", "half"]["verdict"] == "miss"
    assert (found["final"], found["blocks"]) == (True, 11)
    blocks = records("block", ok=True)
    assert sum(block["workload"] == "second" for block in blocks) == 3
    assert {len(block["order"]) for block in blocks if block["workload"] == "first"} == {5}
    firsts = {block["order"][0] for block in blocks if block["workload"] == "first"}
    assert len(firsts) > 1
    assert records("header")[0]["programs"].keys() == {"first", "second"}


def test_a_workload_may_choose_its_schedule(here, card, records):
    keys = {"metric": "cpu", "command": ["/bin/sh", "-c", "n=0; while [ $n -lt 5000 ]; do n=$((n + 1)); done"]}
    rows = [table("workload", key=name, title=name, repeat=1, schedule=schedule, **keys)
            for name, schedule in (("both", "together"), ("turns", "one-by-one"))]  # fmt: skip
    path = card(*rows, allocators=["glibc", "glibc,A=1"], subject="glibc,A=1", **{"max-blocks": 2})
    answer = here("suite", path, "--quiet", "--json", "-")
    assert answer.status == 0, answer.err
    said = {event["workload"]: event["schedule"] for event in records("event", what="schedule")}
    assert said == {"both": "together", "turns": "one-by-one"}
    together = {run["workload"] for run in records("run", phase="measure") if run.get("schedule") == "together"}
    assert together == {"both"}


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"schedule": "together"}, "workload 'x': 'wall' cannot be measured while the other sides run"),
        ({"schedule": "turns"}, "workload 'x': 'wall' cannot be measured while the other sides run"),
        ({"schedule": "at-once"}, "schedule"),
    ],
)
def test_a_schedule_that_cannot_be(here, card, keys, said):
    answer = here("suite", card(table("workload", key="x", title="x", command=["/bin/true"], **keys)), "--quiet")
    assert answer.status == 2
    assert said in answer.message()


def test_the_workloads_take_turns(here, card, records):
    here("suite", card(rate_workload("first"), rate_workload("second")), "--quiet", "--json", "-")
    turns = [(block["block"], block["workload"]) for block in records("block")]
    assert [index for index, _ in turns] == sorted(index for index, _ in turns)
    assert {key for index, key in turns if index == 0} == {"first", "second"}


def test_every_round_has_a_block_of_each_workload_under_each_condition(here, card, records):
    path = card(rate_workload("first"), rate_workload("second", max_blocks=2))
    both = ("--beside-load", "--precondition")
    found = here("suite", path, *both, "--max-blocks", "3", "--quiet", "--json", "-").result()
    assert found["final"] and found["blocks"] == 5
    assert [(each["name"], each["blocks"]) for each in found["conditions"]] == [("beside-load", 5), ("precondition", 5)]
    blocks = [(block["block"], block["workload"], block["phase"]) for block in records("block", ok=True)]
    phases = {"measure", "beside-load", "precondition"}
    assert len(blocks) == 15 and {(key, phase) for index, key, phase in blocks if index == 0} == {
        (key, phase) for key in ("first", "second") for phase in phases
    }
    for each in found["conditions"]:
        (row,) = [row for row in each["suite"]["rows"] if (row["key"], row["metric"]) == ("first", "speed")]
        assert row["arms"]["glibc"]["ratio"] == pytest.approx(2.2)
    shown = here("show").out
    assert "against each, on a used heap, and below it" in " ".join(shown.split())


def test_figures_that_depend_on_the_neighbours_are_measured_one_by_one(here, card, records):
    """Peak memory and a figure that the program prints come from the same run of each side alone."""
    busy = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo took $PPID"
    path = card(
        rate_workload("x", busy, metric="cpu", higher_is_better=False, schedule="together", repeat=1,
                      also={"p99": r"regex:took (\d+)"}),
    )  # fmt: skip
    answer = here("suite", path, "--allocators", SUBJECT, "glibc", "--max-blocks", "1", "--quiet", "--json", "-")
    assert answer.status == 0, answer.err
    runs = records("run", phase="measure")
    assert {run["schedule"] for run in runs} == {"together"} and len(runs) == 4
    for side in (SUBJECT, "glibc"):
        first, second = (run for run in runs if run["arm"] == side)
        assert first["metrics"]["cpu"] != second["metrics"]["cpu"]
        alone = [{name: run["metrics"][name] for name in ("rss", r"regex:took (\d+)")} for run in (first, second)]
        assert alone[0] == alone[1] and first["rss_peak_kib"] == alone[0]["rss"] and first["wall_s"] > 0


def test_an_arm_that_crashes_in_its_trial_takes_no_part_and_the_others_do(here, card):
    path = card(rate_workload("first", '[ "$RATE" = 900 ] && kill -SEGV $$; ' + SCRIPT))
    answer = here("suite", path, "--quiet", "--json", "-")
    assert answer.status == 0, answer.err
    (row,) = [row for row in answer.result()["suite"]["rows"] if row["metric"] == "speed"]
    assert row["arms"]["glibc,RATE=1000"]["ratio"] == pytest.approx(1.1)
    assert any("glibc,RATE=900" in text and "SIGSEGV" in text for text in answer.result()["warnings"]), answer.result()


def test_an_arm_that_crashes_alone_does_not_part_the_others(here, card, records):
    script = '[ "$RATE" = 900 ] && kill -SEGV $$; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'
    path = card(rate_workload("first", script, metric="cpu", higher_is_better=False))
    words = ("--allocators", SUBJECT, "glibc", "glibc,RATE=900", "--max-blocks", "1", "--quiet", "--json", "-")
    found = here("suite", path, *words).result()
    schedules = {event["schedule"] for event in records("event", what="schedule")}
    assert len(schedules) == 1 and found["final"]
    assert "glibc" in next(row for row in found["suite"]["rows"] if row["metric"] == "speed")["arms"]


def test_only_some_workloads_and_other_allocators(here, card, records):
    path = card(rate_workload("first"), rate_workload("second"))
    words = ("--only", "second", "--max-blocks", "2", "--allocators", SUBJECT, "glibc")
    answer = here("suite", path, *words, "--set", "price=4/GiB-month", "--quiet", "--json", "-")
    assert answer.status == 0
    (saved,) = answer.result()["money"]
    assert (saved["control"], saved["treatment"], saved["metric"]) == ("glibc", SUBJECT, "peak RSS")
    assert saved["sentence"] in answer.result()["answer"]
    assert {block["workload"] for block in records("block")} == {"second"}
    assert {record["arm"] for record in records("run")} == {SUBJECT, "glibc"}


def test_a_budget_ends_it_after_two_rounds(here, card, records):
    answer = here("suite", card(rate_workload("first"), budget="1ms"), "--quiet", "--json", "-")
    assert [block["block"] for block in records("block")] == [0, 1]
    assert records("event", what="budget")
    assert answer.result()["final"]


def test_a_workload_ends_when_its_intervals_are_narrow(here, card, records):
    path = card(
        rate_workload("steady", memory=False), allocators=[SUBJECT, "glibc"], within="5%", **{"max-blocks": 500}
    )
    answer = here("suite", path, "--quiet", "--json", "-")
    assert answer.status == 0, answer.err
    tried = answer.result()["suite"]["tried"]["steady"]
    assert answer.result()["final"] and not tried["open"]
    assert len(records("block")) == tried["blocks"] == 15


def test_a_workload_ends_when_it_was_tried_for_long_enough(here, card, records):
    path = card(rate_workload("first"), rate_workload("second"), within="5%", patience="1ms", **{"max-blocks": 500})
    answer = here("suite", path, "--quiet", "--json", "-")
    found = answer.result()
    assert found["final"] and {key: each["open"] for key, each in found["suite"]["tried"].items()} == {
        "first": True, "second": True,
    }  # fmt: skip
    least = least_count(0.05 / 2 / (len(found["arms"]) - 1))
    assert {each["blocks"] for each in found["suite"]["tried"].values()} == {least}
    assert not any("too few blocks" in text for text in found["warnings"])


def test_a_suite_judges_all_workloads_by_another_metric(here, card, records):
    path = card(rate_workload("first"), **{"max-blocks": 2})
    assert here("suite", path, "--quiet", "--set", "metric=rss").status == 0
    (workload,) = records("header")[0]["spec"]["workload"]
    assert (workload["metric"], workload["memory"], workload["higher-is-better"]) == ("rss", False, False)


def test_an_interrupted_suite_goes_on_where_it_was(begin, here, card, records, until, store):
    path = card(rate_workload("first", "sleep 0.05; " + SCRIPT), rate_workload("second"))
    running = begin("suite", path, "--quiet")
    until(lambda: list(store.glob("*.jsonl")) and len(records("block")) >= 3)
    running.send_signal(signal.SIGINT)
    assert running.wait() == 130
    assert "hak runs resume" in running.stderr.read()
    before = {(b["workload"], b["block"]) for b in records("block", ok=True)}
    assert 3 <= len(before) < 16
    answer = here("resume", "last", "--json", "-", "--quiet")
    assert answer.result()["final"], answer.err
    finished = [(b["workload"], b["block"]) for b in records("block", ok=True)]
    assert sorted(finished) == [(key, index) for key in ("first", "second") for index in range(8)]


def test_a_server_is_measured_under_its_client(here, card, fakes):
    server = {"command": [str(fakes.server), "{port}"]}
    text = rate_workload("served", "echo ops 1 {port}", max_blocks=2)
    text += "[workload.server]\ncommand = " + json.dumps(server["command"]) + "\n"
    answer = here("suite", card(text), "--quiet", "--json", "-")
    assert answer.status == 0, answer.err
    speed, memory = answer.result()["suite"]["rows"]
    assert (speed["metric"], memory["metric"], memory["unit"]) == ("speed", "peak RSS", "KiB")
    assert memory["medians"]["glibc"] > 100


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_system_calls_are_counted_beside_the_timed_workloads(here, card, records):
    loop = "i=0; while [ $i -lt {ops} ]; do kill -0 $$; i=$((i+1)); done"
    counted = table("workload", key="calls", title="calls", command=["/bin/sh", "-c", loop], ops=[100, 600],
                    label="system calls", bars=[{"at-most": 0.5}])  # fmt: skip
    answer = here("suite", card(counted, rate_workload("first", max_blocks=1)), "--quiet", "--json", "-")
    assert answer.status == 0, answer.err
    row = answer.result()["suite"]["rows"][0]
    assert (row["metric"], row["verdict"]) == ("system calls", "miss")
    assert row["value"] == pytest.approx(1.0, abs=0.05)
    assert len(records("count")) == 8


LOOP = "i=0; while [ $i -lt {ops} ]; do kill -0 $$; i=$((i+1)); done"


def counted_workload(command: list[str]) -> str:
    return table("workload", key="calls", title="calls", command=command, ops=[100, 600], bars=[{"at-most": 0.5}])


def test_missing_strace_is_known_before_anything_runs(here, card, store, tmp_path, monkeypatch):
    monkeypatch.setattr("hakmem_lab.extras.shutil", SimpleNamespace(which=lambda _: None))
    mark = tmp_path / "ran"
    path = card(counted_workload(["/bin/sh", "-c", LOOP]), rate_workload("first", f"touch {mark}; " + SCRIPT))
    answer = here("suite", path, "--quiet")
    assert answer.status == 2
    assert "needs strace" in answer.message()
    assert not mark.exists()
    assert not store.exists()


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_count_that_fails_is_said_at_the_end_and_can_be_resumed(here, card, tmp_path, records):
    """The longer execution fails as long as the file `stop` exists; the trial is the short one, and succeeds."""
    stop = tmp_path / "stop"
    stop.touch()
    fails = f"[ {{ops}} = 600 ] && [ -e {stop} ] && exit 3; " + LOOP
    answer = here("suite", card(counted_workload(["/bin/sh", "-c", fails]), rate_workload("first")), "--quiet")
    assert answer.status == 3
    assert "could not be traced: exit status 3" in answer.message()
    assert len(records("block", ok=True)) == 8
    (header,) = records("header")
    assert f"hak runs resume {header['id']}" in answer.message()
    stop.unlink()
    assert here("resume", "last", "--quiet", "--json", "-").result()["final"]
    assert len(records("count")) == 8


def test_a_machine_that_was_never_checked_is_said_to_be(here, card, records):
    answer = here("suite", card(rate_workload("first", max_blocks=1)), "--json", "-")
    (event,) = records("event", what="fitness-unknown")
    assert event["text"] in answer.result()["warnings"]
    assert answer.err.count(event["text"]) == 1


@pytest.mark.parametrize(("metric", "verdict"), [(r"regex:ops (\d+)", "open"), ("wall", "pass")])
def test_an_aa_of_a_program_decides_about_its_workload(here, card, store, records, metric, verdict):
    """An A/A run with the workload's program failed, and a later one with another program passed. The first one decides
    only if it has the workload's metric."""
    facts, shell = machine.facts(), shutil.which("sh", path="/bin")
    for fit, program in ((False, shell), (True, "another")):
        header = {"machine": facts, "command": {"program": program}, "spec": {"metric": metric}}
        file = RunFile.create(store, "aa", header)
        file.append({"type": "result", "id": file.id, "aa": {"fit": fit}})
        file.close()
        file.path.rename(store / f"2026010{1 + fit}-000000-aa-0000.jsonl")
    path = card(rate_workload("first", bars=[{"against": "best", "at-least": 1.05}]))
    answer = here("suite", path, "--quiet", "--json", "-")
    assert answer.status == 0, answer.err
    found = answer.result()
    assert found["suite"]["rows"][0]["verdict"] == verdict
    assert found["answer"].startswith("No verdict on this machine") == (verdict == "open")


def test_a_program_that_changed_is_not_resumed(here, card, store, tmp_path, begin, until, records):
    script = tmp_path / "program"
    script.write_text("#!/bin/sh\nsleep 0.05\n" + SCRIPT + "\n", encoding="utf-8")
    script.chmod(0o755)
    path = card(table("workload", key="own", title="own", command=[str(script)], metric=r"regex:ops (\d+)", repeat=1))
    running = begin("suite", path, "--quiet")
    until(lambda: list(store.glob("*.jsonl")) and records("block"))
    running.send_signal(signal.SIGINT)
    assert running.wait() == 130
    script.write_text("#!/bin/sh\necho ops 1\n", encoding="utf-8")
    answer = here("resume", "last", "--quiet")
    assert answer.status == 2
    assert "start a new run" in answer.message()
