"""Sides at the same time on one processor: when that is chosen, how a round goes, and how it fails."""

import os
from collections import Counter

import pytest

from hakmem_lab.errors import LabError
from hakmem_lab.plan.arms import parse_arm
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.plan.model import build
from hakmem_lab.plan.schedule import ONE_BY_ONE, TOGETHER, TURNS
from hakmem_lab.plan.spec import AbSpec
from hakmem_lab.run import together
from hakmem_lab.run.demand import Demand
from hakmem_lab.run.runner import Runner
from hakmem_lab.run.together import MOVED, Together, choose, decides
from hakmem_lab.run.workload import Workload
from hakmem_lab.system import freezer, machine
from hakmem_lab.system.launcher import Launcher, Request

FREE = {"rss_peak_kib": 1024, "processors": 1.0, "arm": "a"}


def a_spec(metric="cpu", **keys):
    values = {"command": ["true"], "control": "glibc", "treatment": "default", "metric": metric}
    return build(AbSpec, values | keys, "test")


@pytest.fixture
def chosen(monkeypatch):
    """chosen(keys of the spec, changes of one trial, written): the schedule on a machine of four processors."""
    monkeypatch.setattr(machine, "separate_processors", lambda allowed, count: list(allowed)[:count])
    monkeypatch.setattr(machine, "available_kib", lambda: 10_000_000)
    monkeypatch.setattr(freezer, "lacking", lambda: "")

    def call(trial=(), written=(), possible=True, **keys):
        return choose(a_spec(**keys), [FREE, FREE | dict(trial)], [0, 1, 2, 3], written, possible)

    return call


@pytest.mark.parametrize("metric", ["cpu", "faults", "instructions"])
def test_one_busy_thread_runs_together(chosen, metric):
    found = chosen(metric=metric)
    assert (found.name, found.processors) == (TOGETHER, (0, 1)) and found.why


@pytest.mark.parametrize("metric", ["wall", "rss", "rss-mean", "pss", "tree-cpu", "cache-misses", r"regex:(\d+)"])
def test_what_has_no_meaning_together_is_measured_one_by_one(chosen, metric):
    assert chosen(metric=metric).name == ONE_BY_ONE
    assert chosen({"processors": 1.9}, metric=metric).name == ONE_BY_ONE


def test_a_further_metric_keeps_no_sides_apart(chosen):
    """Each block has runs one by one for it."""
    assert chosen(also=["wall"], guardrails={"rss": "5%"}).name == TOGETHER


SERVER = {"server": {"command": ["true"]}}


@pytest.mark.parametrize(
    ("trial", "keys"),
    [
        ({"processors": 1.9}, {"metric": "cpu"}),
        ({"processors": 1.9}, {"metric": "instructions"}),
        ({}, {"metric": "cpu"} | SERVER),
        ({}, {"metric": "server-cpu"} | SERVER),
    ],
)
def test_several_busy_threads_and_servers_take_turns(chosen, trial, keys):
    found = chosen(trial, **keys)
    assert (found.name, found.processors) == (TURNS, ()) and found.why


@pytest.mark.parametrize(
    ("trial", "keys", "why"),
    [
        ({"processors": 1.9}, {"prepare": "true"}, "'prepare'"),
        ({"rss_peak_kib": 1024, "server": {"rss_peak_kib": 6_000_000}}, SERVER, "too little memory"),
        ({}, {"server": {"command": ["true"], "port": 4000}}, "the server's port is fixed"),
        ({"rss_peak_kib": 6_000_000}, {}, "too little memory"),
        ({}, {"prepare": "true"}, "'prepare'"),
        ({}, {"written": ["data.db"]}, "writes data.db"),
    ],
)
def test_what_keeps_the_sides_apart(chosen, trial, keys, why):
    found = chosen(trial, **keys)
    assert found.name == ONE_BY_ONE and why in found.why


def test_the_schedule_can_be_asked_for(chosen):
    assert chosen(schedule=ONE_BY_ONE).name == ONE_BY_ONE
    assert chosen({"processors": 3.0}, schedule=TOGETHER).name == TOGETHER
    assert chosen(schedule=TURNS).name == TURNS
    with pytest.raises(LabError, match="cannot run at the same time"):
        chosen(schedule=TOGETHER, possible=False)


def test_without_control_groups_nothing_takes_turns(chosen, monkeypatch):
    monkeypatch.setattr(freezer, "lacking", lambda: "no groups")
    found = chosen({"processors": 1.9})
    assert (found.name, found.why) == (ONE_BY_ONE, "no groups")
    with pytest.raises(LabError, match=r"^no groups; use --schedule one-by-one$"):
        chosen(schedule=TURNS)


def test_with_little_memory_one_round_runs_after_the_other(chosen):
    assert chosen({"rss_peak_kib": 3_000_000}).processors == (0,)


def test_only_the_processors_asked_for_are_used(chosen):
    assert chosen(pin=[2]).processors == (2,)


def test_a_second_busy_thread_is_seen_on_a_busy_machine(fakes):
    """Two processes on one processor use one, but would use two."""
    both = f"{fakes.program} burn 150 & {fakes.program} burn 150; wait"
    with Launcher() as launcher:
        cpus = (min(os.sched_getaffinity(0)),)
        running = launcher.start(Request(["/bin/sh", "-c", both], {}, cpus=cpus))
        with Demand(running.pid) as demand:
            outcome = running.wait()
    assert demand.processors(outcome) > together.BUSY


@pytest.fixture
def rounds(fakes):
    """rounds(behaviour of each side, keys of the spec): the records of a block of these sides."""

    def call(*modes, repeat=1, processors=(), metric="cpu", **keys):
        spec = a_spec(metric, **({"command": [str(fakes.program)], "timeout": 5} | keys))
        names = [f"side {number}" for number in range(len(modes))]
        arms = [
            parse_arm(f"glibc,FAKE_MODE={mode},FAKE_ARGUMENT={argument}", name)
            for name, (mode, argument) in zip(names, modes, strict=True)
        ]
        with Runner(Workload.of(spec), [Metric(metric)]) as runner:
            gang = Together(runner, processors or sorted(os.sched_getaffinity(0))[:2])
            try:
                return gang.block([*arms, *arms[::-1]], range(2 * len(arms)), repeat, 1)
            finally:
                gang.close()

    return call


def test_every_side_runs_in_both_rounds(rounds):
    records = rounds(("burn", "30"), ("burn", "60"), ("burn", "30"))
    assert [record["arm"] for record in records] == ["side 0", "side 1", "side 2", "side 2", "side 1", "side 0"]
    assert [record["pad_bytes"] for record in records] == list(range(6))
    assert all(record["ok"] and record["schedule"] == TOGETHER for record in records)
    for record in records:
        least = 0.06 if record["arm"] == "side 1" else 0.03
        assert least <= record["cpu_s"] == record["value"] < 3 * least


def test_figures_that_depend_on_the_neighbours_are_left_out(rounds):
    for record in rounds(("burn", "30"), ("burn", "30")):
        assert record["elapsed_s"] > 0
        assert [record[name] for name in together.TIMED] == [None] * len(together.TIMED)


def test_a_side_that_ends_first_runs_on_for_the_other(rounds, fakes, tmp_path):
    """Its further executions are ended, and are no runs."""
    log = tmp_path / "log"
    script = f'echo "$FAKE_ARGUMENT" >> {log}; exec "$0"'
    command = ["/bin/sh", "-c", script, str(fakes.program)]
    records = rounds(("burn", "30"), ("burn", "200"), command=command)
    assert len(records) == 4 and all(record["ok"] for record in records)
    lines = log.read_text().split()
    assert lines.count("200") >= 2 and lines.count("30") > 4


def test_the_sides_share_one_processor(rounds):
    """Both burn 100 ms of processor time, so neither can end before the other has had about as much."""
    for record in rounds(("burn", "100"), ("burn", "100"), processors=[min(os.sched_getaffinity(0))]):
        assert record["elapsed_s"] > 0.15


def test_short_programs_are_executed_several_times(rounds):
    records = rounds(("burn", "2"), ("burn", "2"), repeat=5)
    assert [len(record["executions"]) for record in records] == [5] * 4
    assert all(record["repeat"] == 5 and record["ok"] for record in records)


@pytest.mark.parametrize(
    ("behaviour", "why"),
    [
        (("exit", "3"), "exit status 3"),
        (("crash", "0"), "SIGSEGV"),
        (("signal", "9"), "SIGKILL"),
        (("signal", "19"), "still running"),  # it stops itself
        (("sleep", "60000"), "still running"),
    ],
)
def test_a_side_that_fails_ends_the_round(rounds, behaviour, why):
    records = rounds(("burn", "20"), behaviour, timeout=1)
    *well, first, second = records
    assert [record["arm"] for record in well] == ["side 0"] * 2
    for failed in (first, second):
        assert failed["arm"] == "side 1" and not failed["ok"] and why in failed["why"]


def test_each_round_has_its_processor_and_more_time_than_a_side_alone(rounds, monkeypatch):
    """Three sides share a processor, so each takes three times as long, and is looked at as often as alone."""
    asked, start = [], Launcher.start
    monkeypatch.setattr(Launcher, "start", lambda self, request: asked.append(request) or start(self, request))
    two = sorted(os.sched_getaffinity(0))[:2]
    rounds(*[("burn", "1")] * 3, timeout=7, processors=two)
    held = [request for request in asked if request.held]
    assert [request.cpus for request in held] == [(two[number * len(two) // 6],) for number in range(6)]
    assert {(request.timeout_s, request.sample_ms) for request in held} == {(21, 30)}


def test_a_side_that_leaves_its_processor_fails(rounds):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is only one processor to choose")
    records = rounds(("burn", "100"), ("move", "100"))
    assert [record["why"] for record in records if not record["ok"]] == [MOVED] * 2


def test_nothing_outlives_a_round(rounds, fakes, marker, processes):
    command = ["/bin/sh", "-c", f"sleep {marker} & exec {fakes.program}"]
    assert all(record["ok"] for record in rounds(("burn", "20"), ("burn", "60"), command=command))
    assert not processes(marker)


def test_what_cannot_be_started_is_a_failed_run(rounds, tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/no/interpreter\n")
    script.chmod(0o755)
    records = rounds(("burn", "1"), ("burn", "1"), command=[str(script)])
    assert Counter(record["why"] for record in records) == {"cannot be started: No such file or directory (program)": 4}


@pytest.mark.parametrize(
    ("trial", "keys", "metric"),
    [
        ({}, {}, "cpu"),
        ({"processors": 0.5}, {}, "wall"),  # it waits
        ({"processors": 1.5}, {}, "wall"),  # several threads
        ({"wall_s": 0.004}, {}, "wall"),  # too short to tell
        ({}, {"metric": "wall"}, "wall"),  # as asked
        ({}, {"unit": "s"}, "wall"),
    ],
)
def test_processor_time_decides_where_no_metric_is_named(trial, keys, metric):
    values = {"command": ["true"], "control": "glibc", "treatment": "default"}
    trials = [FREE | {"wall_s": 0.5}, FREE | {"wall_s": 0.5} | trial]
    assert decides(build(AbSpec, values | keys, "test"), trials) == metric
