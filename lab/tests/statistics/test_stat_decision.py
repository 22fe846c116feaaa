"""The exact limits of each verdict, and how the ratio of means changes it."""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest

from hakmem_lab.judge.statistics import stopping, verdict
from hakmem_lab.judge.statistics.means import Means
from hakmem_lab.judge.statistics.paired import Interval, as_log, hodges_lehmann, paired_intervals
from hakmem_lab.judge.statistics.plan import Plan
from hakmem_lab.judge.statistics.verdict import (
    GuardrailStatus,
    Verdict,
    decide,
    guardrail,
    judge,
    sequential_verdict,
    settling_count,
)

PLAN = Plan((20, 40, 60))
DELTA = as_log(0.01)
TINY = 1e-12


def interval(low, high, estimate=None, level=0.95):
    return Interval((low + high) / 2 if estimate is None else estimate, low, high, level, 20)


def symmetric(n=20, seed=1):
    """n values around 0 whose Hodges–Lehmann estimate is 0."""
    half = np.random.default_rng(seed).normal(0, 1, n // 2)
    return np.random.default_rng(seed).permutation(np.concatenate([half, -half]))


def means(estimate, low=-1.0, high=1.0):
    return Means(*2 * (interval(low, high, estimate),), (40, 40), (0, 0), (0.1, 0.1))


WIDE = interval(-1, 1)


@pytest.mark.parametrize(
    ("shown", "equivalence", "word"),
    [
        (WIDE, interval(-DELTA + TINY, DELTA - TINY), Verdict.NEUTRAL),
        (WIDE, interval(-DELTA, 0.0), Verdict.INCONCLUSIVE),
        (WIDE, interval(0.0, DELTA), Verdict.INCONCLUSIVE),
        (interval(-DELTA / 2, DELTA / 2), WIDE, Verdict.INCONCLUSIVE),
        (interval(TINY, 1.0, DELTA), WIDE, Verdict.GO),
        (interval(0.0, 1.0, DELTA), WIDE, Verdict.INCONCLUSIVE),
        (interval(TINY, 1.0, DELTA - TINY), WIDE, Verdict.INCONCLUSIVE),
        (WIDE, interval(TINY, 1.0, DELTA), Verdict.INCONCLUSIVE),
        (interval(-1.0, -TINY, -DELTA), WIDE, Verdict.NO_GO),
        (interval(-1.0, 0.0, -DELTA), WIDE, Verdict.INCONCLUSIVE),
        (interval(-1.0, -TINY, -DELTA + TINY), WIDE, Verdict.INCONCLUSIVE),
        (WIDE, interval(-1.0, -TINY, -DELTA), Verdict.INCONCLUSIVE),
        (interval(TINY, DELTA / 2, DELTA), interval(TINY, DELTA / 2), Verdict.NEUTRAL),
    ],
)
def test_where_each_word_begins(shown, equivalence, word):
    assert judge(shown, equivalence, DELTA) is word


def test_neutral_takes_the_narrower_interval_and_a_direction_the_wider_one():
    wide, narrow = paired_intervals(symmetric(), [0.95, 0.90])
    between = math.sqrt(max(wide.high, -wide.low) * max(narrow.high, -narrow.low))
    assert max(narrow.high, -narrow.low) < between < max(wide.high, -wide.low)
    assert decide(symmetric() * DELTA / between).verdict is Verdict.NEUTRAL
    shifted = symmetric() + math.sqrt(wide.low * narrow.low)
    assert decide(shifted, margin=1e-9).verdict is Verdict.INCONCLUSIVE
    assert decide(symmetric() - 1.01 * wide.low, margin=1e-9).verdict is Verdict.GO


@pytest.mark.parametrize("alpha", [0.0, 0.5, -0.1])
def test_alpha_of_a_single_look(alpha):
    with pytest.raises(ValueError, match="alpha must lie between 0 and"):
        decide([0.01] * 10, alpha=alpha)


def test_alpha_may_be_nearly_a_half():
    assert decide([0.05] * 3, alpha=0.49).verdict is Verdict.GO


def test_the_rule_that_is_taken_where_none_is_given():
    """The defaults are alpha 5 % and a margin of 1 %; other values would change the verdicts on these rows."""
    rows = np.random.default_rng(1).normal(0.008, 0.02, (12, 60))
    counts = [settling_count(row, PLAN) for row in rows]
    words = [sequential_verdict(row, PLAN) for row in rows]
    assert counts == [settling_count(row, PLAN, 0.01, 0.05) for row in rows]
    assert words == [sequential_verdict(row, PLAN, 0.01, 0.05) for row in rows]
    for margin, alpha in ((0.02, 0.05), (0.005, 0.05), (0.01, 0.1), (0.01, 0.025)):
        assert counts != [settling_count(row, PLAN, margin, alpha) for row in rows]
        assert words != [sequential_verdict(row, PLAN, margin, alpha) for row in rows]
    for row in rows:
        default, explicit = decide(row), decide(row, 0.01, 0.05)
        assert (default.verdict, default.interval, default.margin) == (explicit.verdict, explicit.interval, 0.01)


def test_a_guardrail_leaves_alpha_on_each_side():
    d = symmetric()
    rail = guardrail(d, 0.05)
    assert rail.interval == paired_intervals(d, [0.90])[0]
    assert rail == guardrail(d, 0.05, 0.05, "guardrail")
    assert guardrail(d, 0.05, 0.01).interval.level == pytest.approx(0.98)
    with pytest.raises(ValueError, match="tolerated worsening"):
        guardrail(d, -0.01)


def test_a_guardrail_at_its_limit_is_held():
    at_limit = [-as_log(0.05)] * 20
    assert guardrail(at_limit, 0.05).status is GuardrailStatus.HELD
    assert guardrail([x - TINY for x in at_limit], 0.05).status is GuardrailStatus.FAILED


NEUTRAL = symmetric() * DELTA / 5
TORN = [
    (0.05, -TINY, -1.0, True),
    (0.05, 0.0, -1.0, False),
    (0.05, 0.5, 0.4, False),
    (-0.05, TINY, -1.0, True),
    (-0.05, 0.0, -1.0, False),
    (-0.05, -0.5, -1.0, False),
    (0.0, DELTA, TINY, True),
    (0.0, DELTA, -1.0, False),
    (0.0, DELTA - TINY, TINY, False),
]


@pytest.mark.parametrize(("effect", "mean", "low", "torn"), TORN)
def test_the_other_average_holds_back_what_it_contradicts(effect, mean, low, torn):
    """The mean contradicts GO and NO-GO by its sign; NEUTRAL if it is shown and is at least the margin."""
    alone = decide(NEUTRAL + effect)
    decision = decide(NEUTRAL + effect, means=means(mean, low))
    assert alone.verdict is not Verdict.INCONCLUSIVE
    assert decision.torn is torn
    assert decision.verdict is (Verdict.INCONCLUSIVE if torn else alone.verdict)


def test_a_mean_that_is_surely_lower_contradicts_neutral_too():
    assert decide(NEUTRAL, means=means(-DELTA, -1.0, -TINY)).torn
    assert not decide(NEUTRAL, means=means(-DELTA, -1.0, TINY)).torn


@pytest.mark.parametrize(
    ("estimate", "far", "torn"),
    [
        (DELTA, (1, 0), True),
        (DELTA, (0, 1), False),
        (DELTA, (1, 1), False),
        (-DELTA, (0, 1), True),
        (-DELTA, (2, 1), False),
        (DELTA - TINY, (3, 0), False),
        (0.0, (1, 0), False),
    ],
)
def test_runs_far_off_on_the_side_with_the_worse_mean_contradict_neutral(estimate, far, torn):
    """The interval of the mean contains 0."""
    wide = interval(-1.0, 1.0, estimate)
    assert verdict.contradicts(Verdict.NEUTRAL, wide, DELTA, far) is torn
    assert not verdict.contradicts(Verdict.NEUTRAL, wide, DELTA)
    assert decide(NEUTRAL, means=replace(means(estimate), far=far)).torn is torn


def test_the_mean_is_open_where_it_does_not_support_the_word_that_stands():
    assert decide(NEUTRAL + 0.05, means=means(0.05, -1.0)).mean_open
    assert not decide(NEUTRAL + 0.05, means=means(0.05, 0.01)).mean_open
    assert not decide(NEUTRAL + 0.05).mean_open
    vetoed = decide(NEUTRAL + 0.05, means=means(0.05, -1.0), guardrails=[guardrail(NEUTRAL - 1.0, 0.1)])
    assert vetoed.verdict is Verdict.NO_GO and vetoed.vetoed_by and not vetoed.mean_open


def test_nothing_is_torn_where_nothing_is_decided():
    decision = decide(symmetric(), means=means(5.0, 4.0, 6.0))
    assert decision.verdict is Verdict.INCONCLUSIVE and not decision.torn


@pytest.mark.parametrize(
    ("count", "final"), [(19, False), (20, False), (40, False), (59, False), (60, True), (61, True)]
)
def test_an_open_verdict_is_final_with_the_last_planned_block(count, final):
    decision = decide(symmetric(62)[:count], plan=PLAN)
    assert decision.verdict is Verdict.INCONCLUSIVE
    assert decision.final is final


def test_a_decision_knows_the_blocks_that_its_rule_needs():
    assert decide([0.1] * 3, plan=PLAN).least == PLAN.least_blocks(0.05) != 6
    assert decide([0.1] * 3).least == 6
    assert [decide([0.1] * 3, alpha=alpha).least for alpha in (0.04, 0.03, 0.02)] == [6, 7, 7]


def test_only_the_block_that_ends_a_run_has_its_estimate_corrected():
    row = np.random.default_rng(18).normal(0.03, 0.02, 60)
    count = settling_count(row, PLAN)
    ended, later = (decide(row[:n], plan=PLAN) for n in (count, count + 1))
    assert ended.verdict is later.verdict is Verdict.GO and count > 2
    assert 0 < ended.interval.estimate < ended.plain == pytest.approx(hodges_lehmann(row[:count]))
    assert later.interval.estimate == later.plain == pytest.approx(hodges_lehmann(row[: count + 1]))


@pytest.mark.parametrize("far", [-1.0, 1.0])
def test_a_corrected_estimate_stays_inside_the_interval(monkeypatch, far):
    row = np.random.default_rng(18).normal(0.03, 0.02, 60)
    row = row[: settling_count(row, PLAN)]
    monkeypatch.setattr(stopping, "corrected", lambda *_: far)
    found = decide(row, plan=PLAN).interval
    assert found.low < found.high
    assert found.estimate == (found.low if far < 0 else found.high)


@dataclass
class Shown:
    """A stand-in for a plan, with fixed answers after every block."""

    above: list
    below: list
    inside: list

    def shown(self, d, alpha, delta):
        return tuple(np.array(side, dtype=bool) for side in (self.above, self.below, self.inside))


@pytest.mark.parametrize(
    ("d", "above", "below", "inside", "expected"),
    [
        ([0.0, 0.05, 0.05], [0, 0, 1], [0, 0, 0], [0, 0, 0], (3, Verdict.GO)),
        ([0.0, -0.05, -0.05], [0, 0, 0], [0, 1, 1], [0, 0, 0], (2, Verdict.NO_GO)),
        ([0.0, 0.0, 0.0], [0, 0, 0], [0, 0, 0], [0, 1, 1], (2, Verdict.NEUTRAL)),
        ([0.05] * 3, [1, 1, 1], [0, 0, 0], [1, 1, 1], (1, Verdict.NEUTRAL)),
        ([0.0, 0.0, 0.0], [1, 1, 1], [0, 0, 0], [0, 0, 0], (3, Verdict.INCONCLUSIVE)),
        ([0.05] * 3, [1, 1, 1], [1, 1, 1], [0, 0, 0], (3, Verdict.INCONCLUSIVE)),
        ([0.05] * 3, [0, 0, 0], [0, 1, 1], [0, 0, 0], (3, Verdict.INCONCLUSIVE)),
        ([-0.05] * 3, [1, 1, 1], [0, 0, 0], [0, 0, 0], (3, Verdict.INCONCLUSIVE)),
        ([DELTA] * 3, [0, 1, 1], [0, 0, 0], [0, 0, 0], (2, Verdict.GO)),
        ([-DELTA] * 3, [0, 0, 0], [0, 1, 1], [0, 0, 0], (2, Verdict.NO_GO)),
        ([DELTA, 0.0, 0.0], [1, 1, 1], [0, 0, 0], [0, 0, 0], (1, Verdict.GO)),
    ],
)
def test_a_run_ends_where_one_thing_is_shown_and_the_estimate_agrees(d, above, below, inside, expected):
    plan = Shown(above, below, inside)
    assert (settling_count(d, plan), sequential_verdict(d, plan)) == expected


@pytest.mark.parametrize(
    ("word", "low", "high", "estimate", "found"),
    [
        (Verdict.GO, 0.0, 1.0, 0.5, True),
        (Verdict.GO, 0.01, 1.0, 0.5, False),
        (Verdict.NO_GO, -1.0, 0.0, -0.5, True),
        (Verdict.NO_GO, -1.0, -0.01, -0.5, False),
        (Verdict.NEUTRAL, -1.0, 1.0, 0.1, True),
        (Verdict.NEUTRAL, -1.0, 1.0, -0.1, True),
        (Verdict.NEUTRAL, -1.0, 1.0, 0.09, False),
        (Verdict.INCONCLUSIVE, -1.0, 1.0, 0.5, False),
    ],
)
def test_a_mean_that_does_not_support_the_verdict(word, low, high, estimate, found):
    assert verdict.unsupported(word, interval(low, high, estimate), 0.1) is found
