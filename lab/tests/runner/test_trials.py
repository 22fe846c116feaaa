"""Trials of several sides at once."""

import time

import pytest

from hakmem_lab.plan.arms import parse_arm
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.plan.model import build
from hakmem_lab.plan.spec import AbSpec
from hakmem_lab.run.runner import Runner
from hakmem_lab.run.trials import tried
from hakmem_lab.run.workload import Workload
from hakmem_lab.system import signals

ARMS = [parse_arm("glibc", "a"), parse_arm("glibc", "b")]


@pytest.fixture
def runner():
    """runner(script): a runner of this shell script."""
    opened = []

    def make(script):
        spec = build(AbSpec, {"command": ["sh", "-c", script], "control": "glibc", "treatment": "default"}, "test")
        opened.append(Runner(Workload.of(spec), [Metric("cpu"), Metric("wall")]))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def test_both_run_at_once(runner, tmp_path):
    """Each waits until both have begun."""
    script = f"touch {tmp_path}/$$; n=0; until [ $(ls {tmp_path} | wc -l) -ge 2 ]; do n=$((n+1)); sleep 0.01; " + (
        "[ $n -lt 2000 ] || exit 7; done"
    )
    found = tried(runner(script), ARMS)
    assert [(arm.name, trial["arm"], trial["ok"]) for arm, trial, _ in found] == [("a", "a", True), ("b", "b", True)]
    assert all(trial["processors"] > 0 and besides_s > 0 for _, trial, besides_s in found)


def test_one_that_fails_beside_the_other_is_tried_alone(runner, tmp_path):
    script = f"mkdir {tmp_path}/lock || exit 9; sleep 0.2; rmdir {tmp_path}/lock"
    assert [trial["ok"] for _, trial, _ in tried(runner(script), ARMS)] == [True, True]
    assert [trial["why"] for _, trial, _ in tried(runner("exit 3"), ARMS)] == ["exit status 3"] * 2


def test_nothing_outlives_an_interrupt(runner, processes, monkeypatch):
    def interrupted(*_):
        time.sleep(0.3)  # both programs have begun
        raise signals.Interrupt(2)

    monkeypatch.setattr("hakmem_lab.run.trials.ThreadPoolExecutor.map", _begun(interrupted))
    began = time.monotonic()
    with pytest.raises(signals.Interrupt):
        tried(runner("sleep 1234.5678"), ARMS)
    assert time.monotonic() - began < 30 and not processes("1234.5678")


def _begun(then):
    """A `map` that begins the work and, in place of its results, does `then`."""

    def map_(pool, work, *columns):
        for row in zip(*columns, strict=True):
            pool.submit(work, *row)
        then()

    return map_
