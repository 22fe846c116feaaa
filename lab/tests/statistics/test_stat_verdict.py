"""The decision order, guardrails, planned looks and the sentences."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from hakmem_lab.judge.statistics.paired import Interval, as_log
from hakmem_lab.judge.statistics.plan import SHARE, Plan, least_bets
from hakmem_lab.judge.statistics.verdict import (
    GuardrailStatus,
    Verdict,
    at_least_margin,
    decide,
    guardrail,
    judge,
    sequential_verdict,
    settling_count,
    within,
)

MIRROR = {Verdict.GO: Verdict.NO_GO, Verdict.NO_GO: Verdict.GO}
blocks = st.lists(st.floats(-0.1, 0.1), min_size=1, max_size=40)


def around(centre, spread, n=40, seed=1):
    """n values exactly symmetric about log(1 + centre)."""
    rng = np.random.default_rng(seed)
    half = rng.normal(0, spread, n // 2)
    return rng.permutation(np.concatenate([half, -half])) + as_log(centre)


@pytest.mark.parametrize(
    ("centre", "spread", "verdict"),
    [
        (0.02, 0.01, Verdict.GO),
        (-0.02, 0.01, Verdict.NO_GO),
        (0.0, 0.01, Verdict.NEUTRAL),
        (0.005, 0.005, Verdict.NEUTRAL),
        (0.0, 0.1, Verdict.INCONCLUSIVE),
        (0.009, 0.01, Verdict.INCONCLUSIVE),
        (0.02, 0.2, Verdict.INCONCLUSIVE),
    ],
)
def test_order_of_the_verdict(centre, spread, verdict):
    decision = decide(around(centre, spread))
    assert decision.verdict is verdict
    assert decision.interval.level == 0.95 and decision.equivalence.level == pytest.approx(0.90)
    assert decision.final and decision.vetoed_by == ()


@given(blocks)
@settings(deadline=None, derandomize=True)
def test_swapping_the_arms_mirrors_the_verdict(d):
    there, back = decide(d), decide([-x for x in d])
    assert back.verdict is MIRROR.get(there.verdict, there.verdict)
    assert (back.interval.low, back.interval.high) == (-there.interval.high, -there.interval.low)


@given(blocks, st.floats(0.001, 0.05))
@settings(deadline=None, derandomize=True)
def test_verdict_and_intervals_agree(d, margin):
    decision, delta = decide(d, margin), as_log(margin)
    interval = decision.interval
    match decision.verdict:
        case Verdict.GO:
            assert interval.low > 0 and interval.estimate >= delta
        case Verdict.NO_GO:
            assert interval.high < 0 and interval.estimate <= -delta
        case Verdict.NEUTRAL:
            assert -delta < decision.equivalence.low and decision.equivalence.high < delta
        case _:
            assert not (interval.low > 0 and interval.estimate >= delta)
            assert not (interval.high < 0 and interval.estimate <= -delta)


def test_the_margin_is_claimed_only_where_the_interval_is_beyond_it():
    near, far = decide(around(0.02, 0.06)), decide(around(0.02, 0.01))
    assert near.interval.low < as_log(0.01) < far.interval.low
    assert near.verdict is far.verdict is Verdict.GO
    assert (at_least_margin(near), at_least_margin(far)) == (False, True)


TINY = 1e-9


@pytest.mark.parametrize(
    ("low", "high", "claimed"),
    [(0.01, 0.5, True), (0.01 - TINY, 0.5, False), (-0.5, -0.02, True), (-0.5, -0.005, False), (-0.02, 0.02, False)],
)
def test_the_margin_is_claimed_from_the_end_of_the_interval(low, high, claimed):
    found = replace(decide(around(0.02, 0.01)), interval=Interval(0.0, as_log(low), as_log(high), 0.95, 20))
    assert at_least_margin(found) is claimed


def test_failed_guardrail_vetoes_go():
    memory = guardrail(around(-0.10, 0.01), limit=0.05, name="peak memory")
    decision = decide(around(0.02, 0.01), guardrails=[memory])
    assert memory.status is GuardrailStatus.FAILED
    assert (decision.verdict, decision.vetoed_by, decision.final) == (Verdict.NO_GO, ("peak memory",), True)


def test_unclear_guardrail_holds_back_go():
    memory = guardrail(around(-0.03, 0.2), limit=0.05, name="peak memory")
    decision = decide(around(0.02, 0.01), guardrails=[memory])
    assert memory.status is GuardrailStatus.OPEN
    assert (decision.verdict, decision.vetoed_by) == (Verdict.INCONCLUSIVE, ())


def test_held_guardrail_changes_nothing_and_a_veto_needs_a_go():
    held = guardrail(around(-0.02, 0.01), limit=0.05, name="memory")
    failed = guardrail(around(-0.10, 0.01), limit=0.05, name="latency")
    assert held.status is GuardrailStatus.HELD
    assert decide(around(0.02, 0.01), guardrails=[held]).verdict is Verdict.GO
    neutral = decide(around(0.0, 0.01), guardrails=[failed])
    assert neutral.verdict is Verdict.NEUTRAL and neutral.vetoed_by == ()


@pytest.mark.parametrize("n", [1, 4])
def test_guardrail_with_few_blocks_is_unclear(n):
    assert guardrail([-0.5] * n, limit=0.05).status is GuardrailStatus.OPEN
    assert guardrail([0.0] * n, limit=0.05).status is GuardrailStatus.OPEN


def test_guardrail_that_counts_exactly():
    assert guardrail([0.0] * 20, limit=0.0).status is GuardrailStatus.HELD
    assert guardrail([-0.1] * 20, limit=0.0).status is GuardrailStatus.FAILED


def test_guardrail_errors_stay_below_alpha():
    rng = np.random.default_rng(31)
    limit, simulations = 0.05, 1500
    at_limit = [guardrail(row, limit).status for row in rng.normal(-as_log(limit), 0.03, (simulations, 20))]
    assert at_limit.count(GuardrailStatus.HELD) <= binom.ppf(0.999, simulations, 0.05)
    no_change = [guardrail(row, 0.0).status for row in rng.normal(0, 0.03, (simulations, 20))]
    assert no_change.count(GuardrailStatus.FAILED) <= binom.ppf(0.999, simulations, 0.05)
    beyond = [guardrail(row, limit).status for row in rng.normal(-as_log(limit), 0.03, (simulations, 20))]
    assert beyond.count(GuardrailStatus.FAILED) <= binom.ppf(0.999, simulations, 0.05)


def test_between_looks_the_interval_is_wider_and_the_verdict_not_final():
    d, plan = around(0.012, 0.027, n=60), Plan((20, 40, 60))
    single, interim = decide(d[:20]), decide(d[:20], plan=plan)
    assert interim.interval.level == 0.95 and interim.equivalence.level == pytest.approx(0.90)
    assert interim.interval.high - interim.interval.low > single.interval.high - single.interval.low
    assert interim.verdict is Verdict.INCONCLUSIVE and not interim.final
    assert decide(d[:33], plan=plan).interval.n == 33
    assert decide(d, plan=plan).final


def test_a_plan_without_a_test_after_every_block_knows_its_looks_alone():
    plan = Plan((20, 40, 60), share=0.0)
    d = around(0.05, 0.01, n=60)
    assert decide(d[:19], plan=plan).verdict is Verdict.INCONCLUSIVE
    assert decide(d[:20], plan=plan).verdict is Verdict.GO
    assert decide(d[:30], plan=plan).interval.low == decide(d[:20], plan=plan).interval.low


@given(st.lists(st.floats(-0.05, 0.05), min_size=2, max_size=40), st.integers(1, 39))
@settings(deadline=None, derandomize=True, max_examples=50)
def test_what_was_shown_stays_shown(d, count):
    plan = Plan((12, 24, 36))
    early, late = plan.judged(d[:count], 0.05), plan.judged(d, 0.05)
    assert not late.consistent or (
        early.interval.low <= late.interval.low + 1e-9 and late.interval.high <= early.interval.high + 1e-9
    )


def test_an_effect_that_changes_during_the_run_gives_no_verdict():
    d = [*around(0.3, 0.01, 20), *around(-0.3, 0.01, 100)]
    decision = decide(d, plan=Plan((20, 40, 60)))
    assert decision.verdict is Verdict.INCONCLUSIVE and not decision.consistent


@pytest.mark.parametrize("arguments", [{"margin": 0}, {"margin": -0.01}, {"alpha": 0}, {"alpha": 0.7}])
def test_senseless_parameters_are_refused(arguments):
    with pytest.raises(ValueError):
        decide([0.01] * 10, **arguments)


def test_sequential_procedure_stops_at_the_settling_block():
    plan = Plan((20, 40, 60))
    assert sequential_verdict([0.05] * 60, plan) is Verdict.GO
    assert settling_count([0.05] * 60, plan) == least_bets(0.05 * SHARE / 2)
    noisy = np.random.default_rng(2).normal(0, 0.2, 60)
    assert settling_count(noisy, plan) == 60
    assert sequential_verdict(noisy, plan) is decide(noisy, plan=plan).verdict


@pytest.mark.parametrize("simulations", [5, pytest.param(15, marks=pytest.mark.long)])
@pytest.mark.parametrize("effect", [0.0, 0.01, 0.03])
def test_the_fast_procedure_says_what_the_intervals_say(effect, simulations):
    rng, plan = np.random.default_rng(3), Plan((12, 24, 36))
    for _ in range(simulations):
        d = rng.normal(effect, 0.02, 36)
        slowly = (plan.judged(d[:n], 0.05) for n in range(1, 37))
        words = (each.consistent and judge(each.interval, each.equivalence, as_log(0.01)) for each in slowly)
        settled = (n for n, word in enumerate(words, 1) if word and word is not Verdict.INCONCLUSIVE)
        assert settling_count(d, plan) == next(settled, 36)


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [(0.5, 0.9, "GO"), (0.5, 1.0, "GO"), (1.0, 1.0, "GO"), (1.0, 1.1, "INCONCLUSIVE"), (0.5, 1.1, "INCONCLUSIVE"),
     (1.1, 1.2, "NO-GO"), (-np.inf, np.inf, "INCONCLUSIVE")],
)  # fmt: skip
def test_a_cost_is_held_against_a_limit(low, high, word):
    assert within(low, high, 1.0) == word
