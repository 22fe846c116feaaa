"""Verdicts on the least memory: searches on programs that fail by chance, judged like every other metric."""

import math
from collections import Counter

import numpy as np
import pytest
from scipy.stats import binom

from hakmem_lab.judge.statistics.paired import block_log_ratio
from hakmem_lab.judge.statistics.plan import Plan, planned_looks
from hakmem_lab.judge.statistics.verdict import Verdict, sequential_verdict
from hakmem_lab.run.limits import FIRST_STEP, STEP, kib_at, least

BLOCKS, ALPHA, MARGIN = 12, 0.05, 0.03
NEED = 300.0
FAR = 1000
SIMULATED = pytest.mark.parametrize("simulations", [150, pytest.param(1500, marks=pytest.mark.long)])


class Side:
    """Its need varies from execution to execution by `spread` points of the grid, and the share `crashes` of its
    executions fails for another reason, as long as the limit is at most `near` points above the need."""

    def __init__(self, rng, need, spread, crashes, near):
        self.rng, self.need, self.spread, self.crashes, self.near = rng, need, spread, crashes, near
        self.at, self.step = int(need) + 20, FIRST_STEP

    def lives(self, point):
        need = self.need + self.spread * self.rng.standard_normal()
        crashed = point < self.need + self.near and self.rng.random() < self.crashes
        return point >= need and not crashed

    def run(self):
        found = least(self.lives, self.at, self.step, FAR)
        assert found is not None
        self.at, self.step = found, STEP
        return kib_at(found)


def verdicts(simulations, apart, spread, crashes, near):
    rng, plan, found = np.random.default_rng(7), Plan(tuple(planned_looks(BLOCKS))), Counter()
    for _ in range(simulations):
        first, second = (Side(rng, NEED + more, spread, crashes, near) for more in (0, apart))
        ratios = []
        for _ in range(BLOCKS):
            one, two, also, last = first.run(), second.run(), second.run(), first.run()
            ratios.append(block_log_ratio([one, last], [two, also], higher_is_better=False))
        found[sequential_verdict(np.array(ratios), plan, MARGIN, ALPHA)] += 1
    return found


@SIMULATED
@pytest.mark.parametrize(
    ("spread", "crashes", "near"), [(0, 0, 0), (1, 0, 0), (10, 0, 0), (2, 0.05, 5), (2, 0.05, FAR)]
)
def test_equal_sides_are_rarely_called_different(spread, crashes, near, simulations):
    found = verdicts(simulations, 0, spread, crashes, near)
    assert found[Verdict.GO] + found[Verdict.NO_GO] <= binom.ppf(0.999, simulations, ALPHA)


@pytest.mark.parametrize("spread", [0, 2, 10])
def test_a_quarter_less_is_shown(spread):
    found = verdicts(40, math.log(0.75) / math.log(1.01), spread, 0.05, 5)
    assert found[Verdict.GO] >= 38


def test_equal_sides_are_called_equal():
    assert verdicts(40, 0, 1, 0.05, 5)[Verdict.NEUTRAL] >= 30
