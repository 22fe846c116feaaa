"""Verdicts repeated beside busy neighbours and on a used heap: the runs, the records and the sentences."""

import contextlib
import math
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from hakmem_lab.judge import conditions
from hakmem_lab.judge.explain import explain
from hakmem_lab.plan import peers
from hakmem_lab.plan.arms import parse_arm
from hakmem_lab.run.conditions import _LOOP, _neighbours
from hakmem_lab.run.used import library, on_used_heap
from hakmem_lab.show.conditions import table

RATE = r"regex:ops (\d+)"
FIXED = ("--metric", RATE, "--higher-is-better", "--repeat", "1", "--seed", "3", "--warm-up", "0", "--json", "-")
BOTH = ("--beside-load", "--precondition")


@pytest.fixture
def program(counted):
    return ("--", counted)


@pytest.mark.parametrize("kind", ["ab", "compare"])
def test_the_verdict_is_repeated_under_each_condition(here, program, records, kind):
    own = ("--control", "glibc", "--treatment", "glibc,RATE=1100")
    arms = {"ab": own, "compare": ("--allocators", "glibc,glibc,RATE=1100", "--baseline", "glibc")}[kind]
    found = here(kind, *arms, *FIXED, *BOTH, *program).result()
    assert [each["name"] for each in found["conditions"]] == ["beside-load", "precondition"]
    assert [each["verdict"] for each in (found, *found["conditions"])] == ["GO"] * 3
    assert found["final"] and all(each["blocks"] >= 7 for each in found["conditions"])
    assert {record["phase"] for record in records("block")} == {"measure", "beside-load", "precondition"}
    assert found["reasons"].count("The condition changes the effect by less than the margin of 1 %.") == 2
    # The verdict uses only blocks of its own condition.
    assert found["blocks"] == len(records("block", phase="measure"))
    assert not neighbours()
    again = here("show", "--json", "-").result()
    assert again["conditions"] == found["conditions"]
    columns, rows = table(found)
    assert columns[2:] == ["alone", "beside two busy neighbours", "on a used heap"]
    assert rows[0][2].startswith("GO") and rows[0][2] == rows[0][3] == rows[0][4]
    assert "on a used heap" in here("show").out


def neighbours():
    """The running neighbours. Children of earlier tests may be zombies, which raise errors when they are read."""
    found = []
    for each in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            found += [each] if _LOOP in each.cmdline() else []
    return found


def test_neighbours_are_busy_where_the_program_runs_and_end_with_the_block(fakes):
    class Spec:
        pin = [0]

    class Session:
        spec, warned_of_load = Spec(), False

    with _neighbours(Session()):
        found = neighbours()
        assert len(found) == 2 and all(each.cpu_affinity() == [0] for each in found)
        assert Session.warned_of_load is False
    assert not any(each.is_running() for each in found)


def test_a_neighbour_ends_with_whoever_started_it(until):
    starter = (
        "import os, subprocess, sys\nwords = [sys.executable, '-S', '-c', sys.argv[1], str(os.getpid())]\n"
        "print(subprocess.Popen(words, stdout=subprocess.DEVNULL).pid)"
    )
    words = [sys.executable, "-c", starter, _LOOP]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=600)
    pid = int(done.stdout)
    until(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)


SURVIVORS = 4 << 10  # KiB


@pytest.mark.parametrize("name", ["glibc", "hakmem", *peers.names()])
def test_a_used_heap_is_used_on_every_allocator(name, fakes):
    try:
        arm = parse_arm(name)
    except Exception:
        pytest.skip(f"{name} is not here")
    used = on_used_heap(arm)
    resident = {}
    for each in (arm, used):
        command = ["sh", "-c", "exec grep VmRSS /proc/self/status"]
        done = subprocess.run(command, env=each.environment({}), capture_output=True, text=True, check=True)
        resident[each is used] = int(done.stdout.split()[1])
    assert str(library()) in used.environment({"LD_PRELOAD": "/lib/x.so"})["LD_PRELOAD"]
    assert resident[True] > resident[False] + SURVIVORS


def _result(verdict, estimate=0.2, half=0.1, **more):
    row = {"treatment": "b", "control": "a", "metric": "wall", "verdict": verdict, "estimate": estimate}
    row |= {"ci_low": estimate - half, "ci_high": estimate + half}
    return {"verdict": verdict, "comparisons": [row], "blocks": 9, "final": True, "margin": 0.01} | more


@pytest.mark.parametrize(
    ("there", "said"),
    [
        (("NO-GO", -0.2, 0.1), "The effect depends on the condition (b a further 50 % slower [30, 75])."),
        (("GO", 0.03, 0.01), "The effect depends on the condition (b a further 17 % slower [7, 26])."),
        (
            ("GO", 0.2, 0.1),
            "Whether the effect depends on the condition is undecided (b undecided [-13, +13] %).",
        ),
        (("INCONCLUSIVE", 0.2, math.inf), "Whether the effect depends on the condition is undecided."),
    ],
)
def test_whether_the_effect_depends_on_the_condition_is_said(there, said):
    """Two verdicts of the same word may rest on different effects, and two different words on the same effect."""
    each = _result(*there, name="beside-load", title=conditions.TITLES["beside-load"], headline="x")
    found = explain(_result("GO", conditions=[each]))
    assert "Beside two busy neighbours (9 blocks): x." in found.reasons and said in found.reasons


def test_effects_that_differ_by_less_than_the_margin_are_said_to_be_alike():
    each = _result("GO", 0.2, 0.001, name="precondition", title=conditions.TITLES["precondition"], headline="x")
    found = explain(_result("GO", 0.201, 0.001, conditions=[each]))
    assert "The condition changes the effect by less than the margin of 1 %." in found.reasons


def test_the_library_of_a_used_heap_is_built_from_the_package():
    assert library().exists() and Path(library()).suffix
