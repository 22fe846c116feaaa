"""Runs whose sides are measured together: what is kept, shown, resumed, and when they part."""

import json
import random

import pytest

from hakmem_lab.designs import itself as aa
from hakmem_lab.plan.schedule import ONE_BY_ONE, TOGETHER
from hakmem_lab.run.together import MOVED

ARMS = ("--control", "glibc", "--treatment", "default")
CHEAP = ("--metric", "cpu", "--repeat", "1", "--looks", "1", "--margin", "40%", "--max-blocks", "7", "--quiet")


@pytest.fixture
def burn(modelled):
    """A program that keeps one thread busy for 60 ms, some per cent more or less."""
    noise = random.Random(1)

    def model(_):
        used_s = noise.gauss(0.06, 0.001)
        return {"wall_s": used_s, "user_s": used_s, "system_s": 0.0}

    return (modelled(model, "burn"),)


@pytest.mark.parametrize("real", [False, True])
def test_processor_time_of_one_thread_is_measured_together(here, records, request, fakes, real):
    program = (fakes.program, "burn", "20") if real else request.getfixturevalue("burn")
    result = here("ab", *ARMS, *CHEAP, "--json", "-", "--", *program).result()
    assert result["schedule"] == TOGETHER
    schedules = {row["metric"]: row["schedule"] for row in result["comparisons"]}
    assert schedules["cpu"] == schedules["faults"] == TOGETHER and schedules["wall"] == schedules["rss"] == ONE_BY_ONE
    runs = records("run", phase="measure")
    assert {run["schedule"] for run in runs} == {TOGETHER} and len(runs) == 4 * result["blocks"]
    assert not records("run", phase="warm-up")
    shown = here("show").out
    assert "schedule" in shown and TOGETHER in shown


def test_the_schedule_goes_on_when_a_run_is_resumed(here, records, burn):
    here("ab", *ARMS, *CHEAP, "--", *burn)
    more = here("resume", "last", "--more", "1", "--quiet", "--json", "-").result()
    assert more["schedule"] == TOGETHER
    assert {run["schedule"] for run in records("run", phase="measure")} == {TOGETHER}


@pytest.mark.parametrize("flags", [("--schedule", ONE_BY_ONE), ("--metric", "wall")])
def test_one_by_one_as_asked_or_as_the_metric_needs(here, records, burn, flags):
    result = here("ab", *ARMS, *CHEAP, *flags, "--json", "-", "--", *burn).result()
    assert result["schedule"] == ONE_BY_ONE
    assert not any("schedule" in run for run in records("run"))
    assert TOGETHER not in here("show").out


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--metric", "wall"), "'wall' cannot be measured while the other sides run"),
        (("--prepare", "true"), "'prepare' runs before each execution"),
        (("--server", "true"), "a [server] and its client cannot run 'together'"),
    ],
)
def test_what_cannot_run_together_is_refused(here, burn, flags, said):
    assert said in here("ab", *ARMS, "--metric", "cpu", "--schedule", TOGETHER, *flags, "--", *burn).message()


def test_an_unknown_schedule_is_refused(here, burn):
    assert "schedule" in here("ab", *ARMS, "--schedule", "twogether", "--", *burn).message()


def test_sides_that_disturb_each_other_go_on_one_by_one(here, records, fakes, tmp_path):
    """The program takes a lock that only one execution can hold, as one that uses a fixed port does."""
    lock = tmp_path / "lock"
    script = f"mkdir {lock} || exit 9; trap 'rmdir {lock}' EXIT; {fakes.program} burn 20"
    answer = here("ab", *ARMS, *CHEAP, "--json", "-", "--", "sh", "-c", script)
    result = answer.result()
    assert (result["schedule"], result["blocks"] > 0, result.get("failed")) == (ONE_BY_ONE, True, None)
    events = records("event", what="schedule")
    assert [event["schedule"] for event in events] == [TOGETHER, ONE_BY_ONE]
    assert "exit status 9" in events[1]["text"]


def test_a_program_that_chooses_its_processors_is_measured_alone(here, records, fakes):
    here("ab", *ARMS, *CHEAP, "--", fakes.program, "move", "40")
    first, second = records("event", what="schedule")
    assert (first["schedule"], second["schedule"]) == (TOGETHER, ONE_BY_ONE)
    assert MOVED in second["text"]


def test_an_aa_runs_as_the_verdict_that_it_checks(here, burn):
    words = ("aa", "--metric", "cpu", "--margin", "40%", "--max-blocks", "12", "--repeat", "1", "--quiet")
    result = here(*words, "--json", "-", "--", *burn).result()
    assert result["schedule"] == TOGETHER and result["aa"]["bias"] is not None


def test_the_runs_of_a_round_have_no_order_between_them():
    """However the rounds began, an A/A reads a block as ABBA or BAAB."""
    for order in ("ABAB", "ABBA", "BABA", "BAAB"):
        block = {name: [{"position": n, "value": 1.0 + n} for n in range(4) if order[n] == name] for name in "AB"}
        (row,), (abba,) = aa._in_order([block], 0.0)
        assert abba == (order[0] == "A")
        assert len(row) == 4


def test_a_suite_measures_each_workload_by_its_own_schedule(here, records, burn, tmp_path):
    spec = tmp_path / "suite.toml"
    rows = "".join(
        f"[[workload]]\nkey = '{key}'\ntitle = '{key}'\ncommand = ['{burn[0]}']\nmetric = '{key}'\nmemory = false\n"
        for key in ("cpu", "wall")
    )
    spec.write_text(
        f"kind = 'suite'\nallocators = ['glibc', 'default']\nsubject = 'default'\nreference = 'glibc'\n"
        f"max-blocks = 2\n{rows}"
    )
    answer = here("suite", spec, "--quiet", "--json", "-")
    assert answer.status == 0, answer.err
    for key, wanted in (("cpu", TOGETHER), ("wall", None)):
        assert {run.get("schedule") for run in records("run", phase="measure", workload=key)} == {wanted}


FREE = ("--repeat", "1", "--looks", "1", "--margin", "40%", "--max-blocks", "7", "--quiet")


def test_without_a_metric_processor_time_decides_and_wall_time_stands_beside_it(here, records, burn):
    result = here("ab", *ARMS, *FREE, "--json", "-", "--", *burn).result()
    assert (result["metric"]["name"], result["schedule"]) == ("cpu", TOGETHER)
    schedules = {row["metric"]: row["schedule"] for row in result["comparisons"]}
    assert schedules["wall"] == schedules["rss"] == ONE_BY_ONE and schedules["cpu"] == TOGETHER
    assert all(arm["wall_s"] > 0.05 for arm in result["arms"])
    beside = records("run", phase="beside")
    assert len(beside) == 2 * 8 and not any("schedule" in run for run in beside)
    rows = json.loads(here("export", "last", "--format", "hyperfine").out)["results"]
    assert [len(row["times"]) for row in rows] == [8, 8]
    here("resume", "last", "--more", "1", "--quiet")
    assert len(records("run", phase="beside")) == 2 * 8
    assert records("header")[0]["spec"]["metric"] == "cpu"


def test_a_program_that_waits_is_judged_by_wall_time(here, modelled):
    waits = modelled(lambda _: {"wall_s": 0.04, "user_s": 0.001})
    result = here("ab", *ARMS, *FREE, "--json", "-", "--", waits).result()
    assert (result["metric"]["name"], result["schedule"]) == ("wall", ONE_BY_ONE)


def test_a_first_estimate_comes_after_three_blocks(here, burn):
    result = here("ab", *ARMS, "--repeat", "1", "--quick", "--json", "-", "--", *burn).result()
    assert result["blocks"] == 3 and result["metric"]["name"] == "cpu"
    assert not any(row["metric"] == "wall" for row in result["comparisons"])
