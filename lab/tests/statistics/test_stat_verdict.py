"""The decision order, guardrails, planned looks and the sentences."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from hakmem_lab.statistics.looks import planned_looks
from hakmem_lab.statistics.paired import as_log
from hakmem_lab.statistics.verdict import (
    GuardrailStatus,
    Verdict,
    decide,
    decide_sequentially,
    guardrail,
    sequential_verdict,
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
    assert (decision.more_blocks is None) == (verdict is not Verdict.INCONCLUSIVE)
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


def test_sentences_need_no_statistics():
    assert decide(around(0.02, 0.001)).reason.startswith("The treatment is better by about 2.00 % (between +1.9")
    assert decide(around(-0.5, 0.001)).reason.startswith("The treatment is worse by about 50.00 % (between −50.0")
    assert "smaller than the 1 % that matters" in decide(around(0.0, 0.001)).reason
    assert decide([0.1, 0.1]).reason == "2 blocks are too few for a verdict: at least 6 are needed."
    assert "whether by the 1 % that matters is open" in decide(around(0.009, 0.01)).reason
    assert "more blocks would likely settle it" in decide(around(0.0, 0.1)).reason
    assert "too few for a verdict at this early look" in decide([0.1] * 8, look=(0, [8, 16, 24])).reason


def test_failed_guardrail_vetoes_go():
    memory = guardrail(around(-0.10, 0.01), limit=0.05, name="peak memory")
    decision = decide(around(0.02, 0.01), guardrails=[memory])
    assert memory.status is GuardrailStatus.FAILED
    assert (decision.verdict, decision.vetoed_by, decision.final) == (Verdict.NO_GO, ("peak memory",), True)
    assert "peak memory got worse (−10.0" in decision.reason


def test_unclear_guardrail_holds_back_go():
    memory = guardrail(around(-0.03, 0.2), limit=0.05, name="peak memory")
    decision = decide(around(0.02, 0.01), guardrails=[memory])
    assert memory.status is GuardrailStatus.UNCLEAR and memory.more_blocks > 0
    assert (decision.verdict, decision.vetoed_by) == (Verdict.INCONCLUSIVE, ())
    assert decision.more_blocks == memory.more_blocks
    assert "peak memory" in decision.reason


def test_held_guardrail_changes_nothing_and_a_veto_needs_a_go():
    held = guardrail(around(-0.02, 0.01), limit=0.05, name="memory")
    failed = guardrail(around(-0.10, 0.01), limit=0.05, name="latency")
    assert held.status is GuardrailStatus.HELD
    assert decide(around(0.02, 0.01), guardrails=[held]).verdict is Verdict.GO
    neutral = decide(around(0.0, 0.01), guardrails=[failed])
    assert neutral.verdict is Verdict.NEUTRAL and neutral.vetoed_by == ()
    assert "latency got worse" in neutral.reason


@pytest.mark.parametrize("n", [1, 4])
def test_guardrail_with_few_blocks_is_unclear(n):
    assert guardrail([-0.5] * n, limit=0.05).status is GuardrailStatus.UNCLEAR
    assert guardrail([0.0] * n, limit=0.05).status is GuardrailStatus.UNCLEAR


def test_guardrail_that_counts_exactly():
    assert guardrail([0.0] * 20, limit=0.0).status is GuardrailStatus.HELD
    assert guardrail([-0.1] * 20, limit=0.0).status is GuardrailStatus.FAILED


def test_guardrail_errors_stay_below_alpha():
    rng = np.random.default_rng(31)
    limit, simulations = 0.05, 1500
    at_limit = [guardrail(row, limit).status for row in rng.normal(-as_log(limit), 0.03, (simulations, 20))]
    assert at_limit.count(GuardrailStatus.HELD) <= binom.ppf(0.999, simulations, 0.05)
    no_change = [guardrail(row, 0.0).status for row in rng.normal(0, 0.03, (simulations, 20))]
    assert no_change.count(GuardrailStatus.FAILED) <= binom.ppf(0.999, simulations, 0.025)


def test_interim_looks_are_stricter_and_not_final():
    d, planned = around(0.012, 0.027, n=60), [20, 40, 60]
    single = decide(d[:20], look=None)
    interim = decide(d[:20], look=(0, planned))
    assert interim.interval.level > 0.999 and interim.equivalence.level > 0.99
    assert interim.interval.high - interim.interval.low > single.interval.high - single.interval.low
    assert interim.verdict is Verdict.INCONCLUSIVE and not interim.final
    assert decide(d, look=(2, planned)).final


def test_peeking_is_refused():
    with pytest.raises(ValueError, match="planned at 20 blocks but there are 25"):
        decide([0.01] * 25, look=(0, [20, 40, 60]))
    with pytest.raises(ValueError, match="not one of the 3 planned looks"):
        decide([0.01] * 60, look=(3, [20, 40, 60]))


@pytest.mark.parametrize("arguments", [{"margin": 0}, {"margin": -0.01}, {"alpha": 0}, {"alpha": 0.7}])
def test_senseless_parameters_are_refused(arguments):
    with pytest.raises(ValueError):
        decide([0.01] * 10, **arguments)


def test_sequential_procedure_stops_at_the_settling_look():
    planned = planned_looks(60)
    decision = decide_sequentially([0.05] * 60, planned)
    assert (decision.verdict, decision.interval.n) == (Verdict.GO, 20)
    noisy = np.random.default_rng(2).normal(0, 0.2, 60)
    assert decide_sequentially(noisy, planned).interval.n == 60
    assert sequential_verdict(noisy, planned) is decide_sequentially(noisy, planned).verdict
