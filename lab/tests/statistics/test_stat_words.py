"""Simulates kinds of noise and true effects: no claim of a sentence is wrong more often than its error rate allows."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from hakmem_lab.judge.statistics.paired import as_log, hodges_lehmann
from hakmem_lab.judge.statistics.plan import Plan, planned_looks
from hakmem_lab.judge.statistics.stopping import corrected
from hakmem_lab.judge.statistics.verdict import Verdict, decide, guardrail, sequential_verdict, settling_count

_found = importlib.util.spec_from_file_location("noise_kinds", Path(__file__).parent / "noise_kinds.py")
noise_kinds = importlib.util.module_from_spec(_found)
_found.loader.exec_module(noise_kinds)

ALPHA, MARGIN, SIGMA = 0.05, 0.01, 0.02
PLAN = Plan((20, 40, 60))
MANY = 3000


def at_most(simulations, share):
    """The tolerated number of errors. With 3,000 runs, a true rate of 7.5 % instead of 5 % passes once in 200 tests;
    with 300 runs it would pass nine times in ten."""
    return binom.ppf(0.999, simulations, share)


def interval_at_the_end(row):
    """The interval at the block that ends the run."""
    return PLAN.judged(row[: settling_count(row, PLAN, MARGIN, ALPHA)], ALPHA).interval


def directions(data, plan=PLAN, alpha=ALPHA, centre=0.0):
    """(above, below): whether the interval is ever beyond the centre. It only shrinks, so then it is so at the end."""
    return noise_kinds.directions(data, plan, alpha, centre)


def inside(data, plan=PLAN, alpha=ALPHA):
    levels, delta = {count: (1 - one_sided) / 2 for count, _, one_sided in plan.levels(alpha)}, as_log(MARGIN)
    ends = [
        noise_kinds.shown_beyond(data, -delta, alpha * plan.share, levels),
        noise_kinds.shown_beyond(data, delta, alpha * plan.share, levels, False),
    ]
    return ends[0] & ends[1]


def test_what_is_simulated_of_many_is_what_is_said_of_one():
    data = np.random.default_rng(10).normal(0.004, 0.015, (150, 60))
    said = [[side.any() for side in PLAN.shown(row, ALPHA, as_log(MARGIN))] for row in data]
    simulated = np.array([*directions(data), inside(data)]).T
    assert (np.array(said) == simulated).mean() > 0.99  # except for rounding by the normal approximation


@pytest.mark.filterwarnings("ignore:invalid value")  # counts that never differ
@pytest.mark.parametrize("kind", noise_kinds.KINDS | noise_kinds.OF_MEASURES)
def test_a_direction_of_equal_arms_is_claimed_in_alpha_of_the_runs(kind):
    """Counts GO, NO-GO, and "surely better" or "surely worse" in an INCONCLUSIVE, after any block."""
    data = noise_kinds.blocks(kind, np.random.default_rng(11), MANY, 60)
    above, below = directions(data)
    assert (above | below).sum() <= at_most(MANY, ALPHA)


@pytest.mark.parametrize(("growth", "status"), [(0.0, "held"), (0.03, "failed")])
def test_a_gate_on_counts_is_sure_after_the_default_of_blocks(growth, status):
    data = noise_kinds.blocks("counts", np.random.default_rng(14), 100, 20) - growth
    plan = Plan(tuple(planned_looks(20)))
    assert {str(guardrail(row, 0.01, plan=plan).status) for row in data} == {status}


@pytest.mark.parametrize("kind", ["normal", "heavy tails", "neighbours alike", "rare and slow"])
def test_a_run_that_goes_on_for_ever_claims_no_more(kind):
    """With three times the planned blocks, as after resume --more, judged after every block."""
    above, below = directions(noise_kinds.blocks(kind, np.random.default_rng(12), MANY, 180))
    assert (above | below).sum() <= at_most(MANY, ALPHA)


@pytest.mark.parametrize(("effect", "sigma"), [(0.001, 0.02), (0.005, 0.036), (0.0099, 0.005), (0.0099, 0.02)])
def test_the_wrong_direction_and_the_margin_are_claimed_in_half_of_alpha(effect, sigma):
    """The true effect is positive and below the margin. Wrong claims are "surely worse", and "surely at least the
    margin", which a sentence makes if the interval begins beyond the margin."""
    data = np.random.default_rng(13).normal(as_log(effect), sigma, (MANY, 60))
    assert directions(data, centre=as_log(MARGIN))[0].sum() <= at_most(MANY, ALPHA / 2)
    assert directions(data)[1].sum() <= at_most(MANY, ALPHA / 2)


@pytest.mark.parametrize("effect", [0.01, -0.01 / 1.01, 0.02])
@pytest.mark.parametrize("sigma", [0.01, 0.03])
def test_smaller_than_the_margin_is_claimed_in_alpha_where_it_is_not(effect, sigma):
    rng = np.random.default_rng(14)
    assert inside(rng.normal(as_log(effect), sigma, (MANY, 60))).sum() <= at_most(MANY, ALPHA)


@pytest.mark.parametrize("effect", [0.0, 0.01, 0.03, 0.10])
@pytest.mark.parametrize("heavy", [False, True])
def test_the_interval_covers_wherever_the_run_ends(effect, heavy):
    rng = np.random.default_rng(15)
    noise = rng.standard_t(3, (MANY, 60)) if heavy else rng.normal(0, 1, (MANY, 60))
    above, below = directions(as_log(effect) + SIGMA * noise, centre=as_log(effect))
    assert (above | below).sum() <= at_most(MANY, ALPHA)


def test_an_interval_that_is_never_beyond_a_value_holds_it_at_the_end():
    """Checks on single runs the assumption of the tests above."""
    data = np.random.default_rng(20).normal(as_log(0.02), SIGMA, (100, 60))
    above, below = directions(data, centre=as_log(0.02))
    ends = [interval_at_the_end(row) for row in data]
    missed = np.array([not interval.low <= as_log(0.02) <= interval.high for interval in ends])
    assert not (missed & ~(above | below)).any()


@pytest.mark.parametrize("alpha", [0.01, 0.2])
def test_other_levels_are_kept_too(alpha):
    above, below = directions(np.random.default_rng(16).normal(0, SIGMA, (MANY, 60)), alpha=alpha)
    assert (above | below).sum() <= at_most(MANY, alpha)


@pytest.mark.parametrize(("effect", "most"), [(0.02, 18), (0.05, 9)])
def test_how_many_blocks_a_verdict_takes_on_average(effect, most):
    data = np.random.default_rng(19).normal(as_log(effect), SIGMA, (200, 60))
    assert np.mean([settling_count(row, PLAN) for row in data]) <= most
    assert all(sequential_verdict(row, PLAN) is Verdict.GO for row in data)


def test_an_early_stop_is_taken_out_of_the_estimate():
    """Runs end early if they are lucky, so plain estimates of +2 % are too large on average; corrected ones are not."""
    rng, truth = np.random.default_rng(17), as_log(0.02)
    plain, shown = [], []
    for row in rng.normal(truth, SIGMA, (80, 60)):
        ended = row[: settling_count(row, PLAN)]
        plain.append(hodges_lehmann(ended))
        shown.append(corrected(ended, PLAN, as_log(MARGIN), ALPHA))
    assert np.mean(plain) > np.mean(shown)
    assert np.mean(shown) == pytest.approx(truth, rel=0.07)
    assert abs(np.mean(shown) - truth) < abs(np.mean(plain) - truth)


def test_an_estimate_that_nothing_has_chosen_is_not_corrected():
    rng = np.random.default_rng(18)
    whole = rng.normal(0.004, SIGMA, 60)
    assert corrected(whole, PLAN, as_log(MARGIN), ALPHA) == decide(whole).plain
    row = rng.normal(0.05, SIGMA, 60)
    count = settling_count(row, PLAN)
    early, late = decide(row[:count], plan=PLAN), decide(row[: count + 5], plan=PLAN)
    assert 0 < early.interval.estimate < early.plain
    assert late.interval.estimate == late.plain
    assert decide(-row[:count], plan=PLAN).interval.estimate == pytest.approx(-early.interval.estimate)
