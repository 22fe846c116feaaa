"""Error rates of tunings, by simulating whole tunings of equal candidates, and with one that is better.

A tuning's runs are one long simulated series in the order of the schedule. So noise that blocks or neighbours share,
and drift, affect the choice and the confirmation as on a real machine.
"""

import importlib.util
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from hakmem_lab.judge.analysis import log_ratios
from hakmem_lab.judge.statistics.paired import paired_interval
from hakmem_lab.judge.statistics.plan import Plan, planned_looks
from hakmem_lab.judge.statistics.verdict import Verdict, sequential_verdict
from hakmem_lab.judge.two_arms import shared
from hakmem_lab.kinds.tune import search
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.plan.schedule import block

_found = importlib.util.spec_from_file_location(
    "noise_kinds", Path(__file__).parents[1] / "statistics" / "noise_kinds.py"
)
noise_kinds = importlib.util.module_from_spec(_found)
_found.loader.exec_module(noise_kinds)

DEFAULT, METRIC = "default", Metric("wall")
ALPHA, MARGIN, BLOCKS = 0.05, 0.01, 40
PLAN = Plan(tuple(planned_looks(BLOCKS, 3)))
MACHINE = ("normal", "heavy tails", "neighbours alike", "neighbours very alike", "bursts", "drift", "now and then slow")


class Machine:
    """Simulates runs of arms one after another; effects: arm -> its advantage as a log-ratio."""

    def __init__(self, noise: np.ndarray, effects: dict[str, float], seed: int):
        self.noise, self.effects, self.seed, self.at = noise, effects, seed, 0

    def blocks(self, names: list[str], begin: int, end: int) -> list[dict]:
        found = []
        for index in range(begin, end):
            runs: dict[str, list[dict]] = {}
            for arm in block(names, self.seed, index).order:
                value = float(np.exp(self.noise[self.at] - self.effects.get(arm, 0.0)))
                runs.setdefault(arm, []).append({"metrics": {"wall": value}})
                self.at += 1
            found.append(runs)
        return found


def tuned(noise: np.ndarray, candidates: list[str], effects: dict[str, float], seed: int):
    """(chosen candidate, whether the choosing blocks alone would claim a win, verdict of the confirmation)."""
    machine, blocks = Machine(noise, effects, seed), []
    aim = search.Aim(DEFAULT, METRIC)
    while (state := search.course(candidates, blocks, aim, 2, {})).chosen is None:
        blocks += machine.blocks([DEFAULT, *state.alive], len(blocks), state.until)
    chosen = state.chosen
    assert chosen is not None
    own = log_ratios(shared(blocks, DEFAULT, chosen), DEFAULT, chosen, METRIC)
    assert own is not None
    fresh = machine.blocks([DEFAULT, chosen], 0, BLOCKS)
    d = log_ratios(fresh, DEFAULT, chosen, METRIC)
    assert d is not None
    return chosen, paired_interval(own, 1 - ALPHA).low > 0, sequential_verdict(d, PLAN, MARGIN, ALPHA)


def tunings(kind: str, count: int, candidates: int, effects: dict[str, float], seed: int) -> list[tuple]:
    names = [f"c{n}" for n in range(candidates)]
    runs = search.runs_of(candidates, 2) + 4 * BLOCKS
    rows = noise_kinds.KINDS[kind](np.random.default_rng(seed), count, runs)
    return [tuned(row, names, effects, seed + index) for index, row in enumerate(rows)]


@pytest.mark.parametrize("count", [40, pytest.param(3000, marks=pytest.mark.long)])
@pytest.mark.parametrize("kind", MACHINE)
def test_tunings_of_equal_candidates_have_no_false_win_beyond_alpha(kind, count):
    found = tunings(kind, count, 12, {}, 71)
    wins = sum(verdict is Verdict.GO for _, _, verdict in found)
    assert wins <= ALPHA * len(found)


@pytest.mark.parametrize("count", [30, pytest.param(1000, marks=pytest.mark.long)])
def test_over_all_kinds_of_noise_false_wins_are_as_rare_as_promised(count):
    """A false win is an error in one of two directions, so half of alpha is allowed for it."""
    found = [each for kind in MACHINE for each in tunings(kind, count, 6, {}, 72)]
    wins = sum(verdict is Verdict.GO for _, _, verdict in found)
    losses = sum(verdict is Verdict.NO_GO for _, _, verdict in found)
    assert wins <= binom.ppf(0.99, len(found), ALPHA / 2)
    assert losses <= binom.ppf(0.99, len(found), ALPHA / 2)


@pytest.mark.parametrize("count", [100, pytest.param(300, marks=pytest.mark.long)])
def test_without_fresh_runs_the_luckiest_candidate_would_win(count):
    """Shows why the confirmation needs fresh blocks: those that chose the candidate claim a win far more often."""
    found = tunings("heavy tails", count, 12, {}, 73)
    assert sum(claimed for _, claimed, _ in found) > 2.5 * ALPHA / 2 * len(found)


def test_a_candidate_that_is_better_is_found_and_confirmed():
    found = tunings("neighbours alike", 60, 12, {"c7": 0.05}, 74)
    chosen = Counter(name for name, _, _ in found)
    assert chosen["c7"] >= 0.9 * len(found)
    assert sum(verdict is Verdict.GO for name, _, verdict in found if name == "c7") >= 0.9 * chosen["c7"]
