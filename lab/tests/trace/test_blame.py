"""Choosing the stacks that are tested by a replay without them, and the answers, with made-up replays."""

import json
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from hakmem_lab.errors import LabError
from hakmem_lab.trace import blame

STACKS = [{"frames": ("keep", "main"), "nodes": [2, 4]}, {"frames": ("pass", "main"), "nodes": [3]},
          {"frames": ("keep", "other"), "nodes": [5]}, {"frames": ("few",), "nodes": [6]},
          {"frames": ("more",), "nodes": [7]}]  # fmt: skip
# [group, blocks, bytes, predicted KiB]: group 0 has no stack, and 63 KiB are too few to be tested.
KEPT = [[0, 9, 9, 999], [1, 5, 50, 64], [2, 4, 40, 200], [3, 3, 30, 300], [4, 2, 20, 63], [5, 1, 10, 100]]
ARM = SimpleNamespace(name="glibc", environment=dict)
LESS = {1: 64, 2: 174, 3: 0, 5: 125}


@pytest.fixture
def asked(monkeypatch):
    """asked(…): (result of by_pages with the figures above, arguments that the replays got)."""
    calls = []

    class Replays:
        def __init__(self, path, process, arm, until_ns, groups):
            calls.append((process, until_ns, groups.read_text(encoding="utf-8")))
            self.known = {int(line.split()[1]) for line in groups.read_text(encoding="utf-8").splitlines()}

        def run(self, without=0):
            kept = [each for each in KEPT if each[0] in self.known | {0}]
            return {"settled_kib": 1000 - LESS.get(without, 0), "live_kib": 900, "kept": kept}

    monkeypatch.setattr(blame, "_Replays", Replays)
    monkeypatch.setattr(blame, "check_arm", lambda arm, workload: None)
    monkeypatch.setattr(blame, "replayer", lambda: Path("/bin/true"))
    monkeypatch.setattr(blame.stacks, "mean_bytes", lambda path: 1)
    monkeypatch.setattr(blame.stacks, "without_plumbing", list)
    monkeypatch.setattr(
        blame.stacks,
        "by_stack",
        lambda path, process: ({"process": 7, "about": {}, "others": [], "stacks": STACKS}, None),
    )
    monkeypatch.setattr(blame, "counts", lambda path, process: {"processes": [{"peak_time_ns": 12 * process}]})

    def ask(without=None, at="end"):
        return blame.by_pages(Path("t"), None, ARM, without, at), calls

    return ask


def test_the_stacks_with_the_most_pages_are_tested(asked):
    result, calls = asked()
    assert [(each["frames"], each["predicted_kib"], each["observed_kib"]) for each in result["tested"]] == [
        (["keep", "other"], 300, 0), (["pass", "main"], 200, 174), (["more"], 100, 125)]  # fmt: skip
    assert [each["error"] for each in result["tested"]] == [None, 200 / 174 - 1, 100 / 125 - 1]
    assert (result["tested"][1]["blocks"], result["tested"][1]["bytes"], result["untested"]) == (4, 40, 1)
    assert calls == [(7, 0, "2 1\n4 1\n3 2\n5 3\n6 4\n7 5\n")]
    assert {key: result[key] for key in ("process", "allocator", "moment", "settled_kib", "live_kib")} == {
        "process": 7, "allocator": "glibc", "moment": "at its end", "settled_kib": 1000, "live_kib": 900}  # fmt: skip
    assert result["answer"].startswith("The survivors of keep keep 0.3 MiB")


def test_those_of_a_function_are_tested_together(asked):
    result, calls = asked("ke", "peak")
    assert calls == [(7, 84, "2 1\n4 1\n5 1\n")] and result["moment"] == "when most was live"
    assert [(each["frames"], each["predicted_kib"]) for each in result["tested"]] == [(["ke"], 64)]
    with pytest.raises(LabError, match="no stack of t has a function with 'nobody'"):
        asked("nobody")


def test_moments(asked):
    assert asked(at="1.5")[0]["moment"] == "after 1.5 s" and asked(at="1.5")[1][-1][1] == 1_500_000_000
    for at in ("0", "-1", "nan", "1e9", "noon"):
        with pytest.raises(LabError, match=f"'{at}' is not a moment"):
            asked(at=at)


def test_every_call_needs_its_stack(asked, monkeypatch):
    monkeypatch.setattr(blame.stacks, "mean_bytes", lambda path: 2)
    with pytest.raises(LabError, match="--rate 1 -o t"):
        asked()


@pytest.mark.parametrize(
    ("error", "right"), [(0.15, True), (-0.15, True), (0.151, False), (-0.151, False), (None, False)]
)
def test_a_prediction_within_fifteen_percent_is_confirmed(error, right):
    row = {"frames": ["keep"], "predicted_kib": 2048, "observed_kib": 1024, "error": error}
    assert blame.confirmed(row) is right
    said = "confirms" if right else "does not confirm"
    assert blame.answer([row, {}], "at its end") == (
        "The survivors of keep keep 2.0 MiB resident at its end; a replay without them holds 1.0 MiB "
        f"less, which {said} it"
    )


def test_nothing_to_test_is_said():
    assert blame.answer([], "at its end") == "No stack's survivors keep 64 KiB resident at its end"


def replays(monkeypatch, settled, status=0, until_ns=0):
    """(command lines, result) of three replays with these settled sizes."""
    calls, answers = [], iter(settled)

    def run(words, **keywords):
        calls.append(words)
        said = json.dumps({"settled_kib": next(answers)})
        return subprocess.CompletedProcess(words, status, f"{said}\nmore\n", "bad\n")

    monkeypatch.setattr(blame, "replayer", lambda: Path("replay"))
    monkeypatch.setattr(subprocess, "run", run)
    found = blame._Replays(Path("t"), 3, ARM, until_ns, Path("g")).run(2)
    return calls, found


def test_the_median_of_three_replays_counts(monkeypatch):
    calls, found = replays(monkeypatch, [30, 10, 20])
    assert found["settled_kib"] == 20
    assert calls == 3 * [["replay", "--processes=3", "--groups=g", "--without=2", "t"]]
    calls, _ = replays(monkeypatch, [1, 1, 1], until_ns=1)
    assert calls[0] == ["replay", "--processes=3", "--groups=g", "--until=1", "--without=2", "t"]


def test_a_replay_that_fails_is_said(monkeypatch):
    with pytest.raises(LabError, match="bad"):
        replays(monkeypatch, [1], status=1)
