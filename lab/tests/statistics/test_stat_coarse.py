"""Values of a coarse clock are recognised, and others are not."""

import numpy as np
import pytest

from hakmem_lab.judge.analysis import coarse
from hakmem_lab.judge.statistics.coarse import step
from hakmem_lab.judge.statistics.plan import Plan, planned_looks
from hakmem_lab.judge.statistics.verdict import Verdict, sequential_verdict

RUNS = pytest.mark.parametrize("runs", [200, pytest.param(3000, marks=pytest.mark.long)])


def times(rng, clock, mean=0.065, spread=0.03, count=80):
    """Runs of 65 ms in seconds, by a clock with these steps that ticks at any time of the run."""
    exact = mean * np.exp(rng.normal(0, spread, count))
    return np.round(np.floor(exact / clock + rng.random(count)) * clock, 9)


@RUNS
@pytest.mark.parametrize("clock", [0.01, 0.004])
def test_a_coarse_clock_is_recognised(runs, clock):
    rng = np.random.default_rng(41)
    found = [step(times(rng, clock)) for _ in range(runs)]
    right = [each is not None and abs(each * 0.065 / clock - 1) < 0.2 for each in found]
    assert sum(right) > 0.95 * runs


@RUNS
@pytest.mark.parametrize(("clock", "count"), [(1e-6, 80), (1e-6, 8), (1e-4, 30), (1e-9, 200)])
def test_a_fine_clock_is_not_called_coarse(runs, clock, count):
    rng = np.random.default_rng(42)
    named = sum(bool(coarse([times(rng, clock, count=count)], 0.01, "wall")) for _ in range(runs))
    assert named <= 0.05 * runs


def test_coarse_times_lose_power():
    """2 % more work is shown by a fine clock in nearly all runs, but not by one of 10 ms."""
    rng, plan, shown = np.random.default_rng(43), Plan(tuple(planned_looks(60))), {}
    for clock in (1e-6, 0.01):
        pairs = [[times(rng, clock, 0.065 * work, 0.02, 60) for work in (1.0, 1.02)] for _ in range(40)]
        words = [sequential_verdict(np.log(a) - np.log(b), plan) for a, b in pairs]
        shown[clock] = words.count(Verdict.NO_GO)
    assert shown[1e-6] >= 38 and shown[0.01] <= 10


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([0.06, 0.07] * 4, 0.01 / 0.065),
        ([0.06, 0.07, 0.06, 0.07, 0.06, 0.07, 0.06], None),
        ([0.07] * 20, None),
        ([6, 8, 12, 6, 8, 12, 6, 6], 2 / 7),
        ([6, 8, 12, 14, 6, 8, 12, 14], 0.2),
        ([6, 8, 12, 14, 16, 8, 12, 14], None),
        ([6, 8, 11, 6, 8, 11, 6, 6], None),
        ([6, 8, 12.03, 6, 8, 12.03, 6, 6], 2 / 7),
        ([6, 8, 12.05, 6, 8, 12.05, 6, 6], None),
    ],
)
def test_a_step_by_definition(values, found):
    """Half of the values or more are ties, and all are multiples of the smallest distance between two of them."""
    assert step(values) == (found if found is None else pytest.approx(found))


def test_only_steps_beyond_the_margin_are_named():
    steps = [1.0, 1.02] * 10
    assert coarse([[1.0] * 9, steps, []], 0.01, "wall")[0].startswith("wall comes in steps of 2 % of a run")
    assert "--repeat" in coarse([steps], 0.01, "wall")[0]
    assert coarse([steps], 0.021, "wall") == [] and coarse([], 0.01, "wall") == []
