"""Sides in turns: one group of processes runs, and the groups of the other sides stand still."""

import itertools
import os
import signal
from pathlib import Path

import pytest

from hakmem_lab.plan.arms import parse_arm
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.plan.model import build
from hakmem_lab.plan.schedule import TURNS
from hakmem_lab.plan.spec import AbSpec
from hakmem_lab.run import turns
from hakmem_lab.run.runner import Runner
from hakmem_lab.run.shared import Shared
from hakmem_lab.run.together import TIMED, Chosen
from hakmem_lab.run.workload import Workload
from hakmem_lab.system import freezer, signals

needs_groups = pytest.mark.skipif(bool(freezer.lacking()), reason="no control group can be made here")
# Each line of the file is of the side that ran when it was written.
LINES = 'i=0; while [ $i -lt 8000 ]; do echo "$FAKE_ARGUMENT"; i=$((i+1)); done'


@pytest.fixture
def rounds(fakes):
    """rounds(behaviour of each side, keys of the spec): the records of a block of these sides."""

    def call(*modes, metrics=("cpu",), **keys):
        values = {"command": [str(fakes.program)], "timeout": 20, "metric": metrics[0]}
        spec = build(AbSpec, values | {"control": "glibc", "treatment": "default"} | keys, "test")
        arms = [
            parse_arm(f"glibc,FAKE_MODE={mode},FAKE_ARGUMENT={argument}", f"side {number}")
            for number, (mode, argument) in enumerate(modes)
        ]
        with Runner(Workload.of(spec), [Metric(metric) for metric in metrics]) as runner:
            gang = Shared(runner, Chosen(TURNS))
            try:
                return list(gang.block([*arms, *arms[::-1]], range(2 * len(arms)), 1, 1))
            finally:
                gang.close()

    return call


@needs_groups
def test_every_side_runs_in_both_rounds(rounds):
    records = rounds(("burn", "30"), ("burn", "600"), ("burn", "30"))
    assert [record["arm"] for record in records] == ["side 0", "side 1", "side 2", "side 2", "side 1", "side 0"]
    for record in records:
        least, of_another = (0.6, 6) if record["arm"] == "side 1" else (0.03, 0.6)
        assert record["ok"] and record["schedule"] == TURNS
        assert least <= record["cpu_s"] == record["value"] < of_another
        assert {record[name] for name in (*TIMED, "minor_faults")} == {None} and record["elapsed_s"] > 0


@needs_groups
@pytest.mark.parametrize("background", ["", "setsid "], ids=["children", "daemons"])
def test_one_side_runs_at_a_time(rounds, tmp_path, background):
    """Two processes of a side write at once. Were both sides running, nearly every line would differ from the next."""
    log = tmp_path / "log"
    script = f"({LINES}) >> {log} & {background}sh -c '{LINES}' >> {log}; wait"
    records = rounds(("burn", "a"), ("burn", "b"), command=["/bin/sh", "-c", script])
    assert [record["why"] for record in records] == [None] * 4
    lines = log.read_text().split()
    changes = sum(first != second for first, second in itertools.pairwise(lines))
    assert 2 <= changes < len(lines) / 40


@needs_groups
def test_a_server_takes_its_turns_with_its_client(rounds, fakes):
    server = {"command": [str(fakes.server), "{port}", "prefork"]}
    command = [str(fakes.server), "{port}", "client"]
    records = rounds(("", ""), ("", ""), command=command, server=server)
    assert [record["why"] for record in records] == [None] * 4
    for record in records:
        assert record["value"] == record["server"]["cpu_s"] > 0
        assert record["server"]["rss_peak_kib"] is None


@needs_groups
def test_what_turns_would_change_is_measured_one_by_one(rounds):
    records = rounds(("burn", "20"), ("fill", "30"), metrics=("cpu", "rss", "wall"))
    assert [record["schedule"] for record in records] == [TURNS] * 4
    for record in records:
        filled = record["arm"] == "side 1"
        assert (record["rss_peak_kib"] > 30_000) == (record["metrics"]["rss"] > 30_000) == filled
        assert record["metrics"]["wall"] == record["wall_s"] > 0
        assert record["metrics"]["cpu"] == record["cpu_s"] != record["wall_s"]


@needs_groups
@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        (("exit", "3"), "exit status 3"),
        (("signal", "9"), "SIGKILL"),
        (("signal", "19"), "still running"),  # it stops itself
        (("sleep", "60000"), "still running"),
    ],
)
def test_a_side_that_fails_ends_the_round(rounds, behaviour, why):
    *well, failed = rounds(("burn", "20"), behaviour, timeout=1)
    assert all(record["ok"] for record in well)
    assert failed["arm"] == "side 1" and not failed["ok"] and why in failed["why"]


@needs_groups
def test_nothing_outlives_a_round(rounds, fakes, marker, processes):
    command = ["/bin/sh", "-c", f"setsid sleep {marker} & exec {fakes.program}"]
    assert all(record["ok"] for record in rounds(("burn", "20"), ("burn", "60"), command=command))
    assert not processes(marker)


@needs_groups
def test_an_interrupt_leaves_no_process_that_stands_still(rounds, fakes, marker, processes, monkeypatch):
    def interrupted(sides, order):
        sides[1].freezer.go()
        while not processes(marker):
            pass
        sides[1].freezer.stop()
        raise signals.Interrupt(signal.SIGINT)

    monkeypatch.setattr(turns.Turns, "_take_turns", staticmethod(interrupted))
    command = ["/bin/sh", "-c", f"sleep {marker} & exec {fakes.program}"]
    with pytest.raises(signals.Interrupt):
        rounds(("sleep", "60000"), ("sleep", "60000"), command=command)
    assert not processes(marker)


@needs_groups
def test_a_killed_laboratory_leaves_no_process_that_stands_still(begin, processes, marker, until):
    """Those of one side stand still when hak is killed: in their group, or before their first instruction."""
    script = f"setsid sleep {marker} & exec sleep 0.3"
    process = begin("ab", "--control", "glibc", "--treatment", "default", "--metric", "cpu", "--schedule", TURNS,
                    "--repeat", "1", "--max-blocks", "7", "--quiet", "--", "/bin/sh", "-c", script)  # fmt: skip
    until(lambda: len(processes(marker)) >= 2)  # a trial has one
    process.kill()
    process.wait()
    until(lambda: not processes(marker))
    assert process.returncode == -signal.SIGKILL


@needs_groups
def test_groups_of_a_killed_process_are_removed():
    child = os.fork()
    if child == 0:
        freezer.Freezer()
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(child, 0)
    own = freezer.Freezer()
    try:
        groups = Path(own.processes).parents[2]
        assert not list(groups.glob(f"{freezer.PREFIX}{child}-*"))
        assert list(groups.glob(f"{freezer.PREFIX}{os.getpid()}-*"))
    finally:
        own.close()
