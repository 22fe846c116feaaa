"""`hak bench` with a command line of hyperfine, and runs exported in hyperfine's JSON format."""

import json
import math
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from hakmem_lab.cli import hyperfine
from hakmem_lab.cli.measure import expanded
from hakmem_lab.errors import LabError
from hakmem_lab.plan import schedule
from hakmem_lab.run import conduct

SMALL = ("-r", "14", "--quiet")


def test_two_commands_get_a_verdict_memory_and_hyperfine_s_json(here, fakes, tmp_path, records):
    out = tmp_path / "both.json"
    slow, quick = (f"{fakes.program} burn {ms}" for ms in (60, 15))
    answer = here("bench", "-w", "1", *SMALL, "--export-json", out, "--json", "-", slow, quick)
    found = answer.result()
    assert [row["verdict"] for row in found["comparisons"] if row["verdict"]] == ["GO"]
    assert found["arms"][0]["rss_peak_kib"] > 0
    assert len(records("run", phase="warm-up")) == 2
    rows = json.loads(out.read_text())["results"]
    assert [row["command"] for row in rows] == [slow, quick]
    for row in rows:
        assert len(row["times"]) == len(row["memory_usage_byte"]) == 14 and set(row["exit_codes"]) == {0}
        assert row["min"] <= row["median"] <= row["max"] and math.isclose(sum(row["times"]) / 14, row["mean"])
    judged = here("judge", out, "--only", "burn", "--json", "-").result()
    assert judged["estimate"] > 1, judged
    assert here("export", found["run"], "--format", "hyperfine").out == out.read_text()


def test_one_command_is_compared_on_hakmem(here, fakes):
    found = here("bench", *SMALL, "--json", "-", f"{fakes.program} burn 20").result()
    assert [arm["name"] for arm in found["arms"]] == ["default", "hakmem"]


def test_values_prepare_and_failures(here, fakes, tmp_path, records):
    log = tmp_path / "log"
    out, trial = tmp_path / "both.json", 1
    words = (
        "-L",
        "n",
        "1,3",
        "-i",
        "-p",
        f"echo x >> {log}",
        *SMALL,
        "--export-json",
        out,
        f"{fakes.program} exit {{n}}",
    )
    assert here("bench", *words).status == 0
    (header,) = records("header")
    assert header["spec"]["commands"] == [[str(fakes.program), "exit", n] for n in "13"]
    assert len(log.read_text().split()) == 2 * (trial + 14)
    assert [row["parameters"] for row in json.loads(out.read_text())["results"]] == [{"n": "1"}, {"n": "3"}]


def test_a_shell_runs_only_what_is_written_for_one():
    assert hyperfine._direct("sort big", None) == ["sort", "big"]
    assert hyperfine._direct("sort < big", None) == ["sh", "-c", "sort < big"]
    assert hyperfine._direct("sort '<' big", True) == ["sort", "<", "big"]
    with pytest.raises(LabError, match="empty"):
        hyperfine._direct(" ", None)


@pytest.mark.parametrize(
    ("words", "commands"), [(["redis"], False), (["redis", "sort big"], True), (["true"], True), (["mine.toml"], False)]
)
def test_commands_are_told_from_workloads(words, commands):
    assert hyperfine.is_for(words, {"runs": None}, ["redis", "sort"]) is commands
    assert hyperfine.is_for(words, {"runs": 3}, ["redis"]) and not hyperfine.is_for([], {"runs": 3}, [])


@pytest.mark.parametrize(
    ("count", "own", "blocks", "rare"),
    [(2, {}, 15, None), (2, {"runs": 20}, 10, "0.15"), (3, {"max_runs": 40}, 40, None),
     (2, {"min_runs": 60}, 30, "0.05")],
)  # fmt: skip
def test_executions_become_blocks(count, own, blocks, rare):
    given = dict.fromkeys(("runs", "min_runs", "max_runs")) | own
    assert hyperfine._blocks(count, given) == {"max_blocks": blocks, "rare": rare, "repeat": "1" if own else None}


@pytest.mark.parametrize(
    ("own", "said"),
    [({"runs": 5}, "-r 5: a verdict needs at least 12 executions of each command: -r 12"),
     ({"max_runs": 11}, "-M 11: a verdict needs at least 12 executions of each command: -M 12"),
     ({"runs": 15}, "-r 15: a verdict needs an even number, as two run in pairs: -r 16")],
)  # fmt: skip
def test_a_number_without_a_verdict_is_refused(own, said):
    with pytest.raises(LabError, match=f"^{said}$"):
        hyperfine._blocks(2, dict.fromkeys(("runs", "min_runs", "max_runs")) | own)


def test_all_executions_are_made():
    for count in range(12, 400, 2):
        found = hyperfine._blocks(2, {"runs": count, "min_runs": None, "max_runs": None})
        session = SimpleNamespace(
            spec=SimpleNamespace(rare=float(found["rare"])), arms="ab", confirms=False, records=list, tell=Mock(),
            runs_of_each=schedule.runs_of_each,
        )  # fmt: skip
        conduct.plan_rare(session)
        assert session.tell.call_args.kwargs["until"] * 2 == found["max_blocks"] * 2 == count


@pytest.mark.parametrize("words", [("echo 'a", "true"), ("true", "echo a\\"), ("-N", "echo 'a | b", "true")])
def test_an_unfinished_line_is_refused(here, words):
    answer = here("bench", *words)
    assert answer.status == 2 and len(answer.message().splitlines()) == 1
    assert "quotation mark is not closed: echo 'a" in answer.message() or "backslash ends it" in answer.message()


def test_a_comma_in_a_value():
    assert [*expanded(["echo {n}"], [r"n=a\,b,c\\,d\e"], "-L")] == ["echo a,b", "echo c\\", "echo d\\e"]
    with pytest.raises(LabError, match=r"^-L: 'n=a,,b'"):
        expanded(["echo {n}"], ["n=a,,b"], "-L")


def test_parameters_are_two_words():
    assert hyperfine.spread_parameters(["bench", "-L", "n", "1,2", "x"]) == ["bench", "-L", "n=1,2", "x"]
    assert hyperfine.spread_parameters(["ab", "-L", "n"]) == ["ab", "-L", "n"]
