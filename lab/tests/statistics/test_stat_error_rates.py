"""Error rates and power of the whole procedure, on simulated data with known effects.

`SIGMA` is the standard deviation of a block's log-ratio for which the protocol gives its table of power.
"""

from collections import Counter

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import binom

from hakmem_lab.judge.statistics.paired import as_log
from hakmem_lab.judge.statistics.plan import Plan, planned_looks
from hakmem_lab.judge.statistics.power import (
    blocks_for,
    least_blocks,
    predicted_power,
    predicted_verdicts,
    smallest_effect,
    spread,
)
from hakmem_lab.judge.statistics.verdict import Verdict, decide, sequential_verdict

SIGMA = 0.036
MARGIN = 0.01
ALPHA = 0.05
SIMULATED = pytest.mark.parametrize("simulations", [1000, pytest.param(3000, marks=pytest.mark.long)])


def normal_blocks(rng, simulations, blocks):
    return rng.normal(0, SIGMA, (simulations, blocks))


def machine_blocks(rng, simulations, blocks):
    """Heavy-tailed runs with lag-1 autocorrelation 0.41, in randomised ABBA/BAAB blocks."""
    shocks = 0.03 * rng.standard_t(3, size=(simulations, 4 * blocks + 100))
    runs = lfilter([1], [1, -0.41], shocks)[:, 100:].reshape(simulations, blocks, 4)
    return runs @ np.array([-0.5, 0.5, 0.5, -0.5]) * rng.choice((-1.0, 1.0), (simulations, blocks))


def verdicts(data, max_blocks):
    plan = Plan(tuple(planned_looks(max_blocks)))
    return Counter(sequential_verdict(row, plan, MARGIN, ALPHA) for row in data)


def false_share_bound(simulations, alpha=ALPHA):
    return binom.ppf(0.999, simulations, alpha)


@SIMULATED
@pytest.mark.parametrize("generate", [normal_blocks, machine_blocks])
@pytest.mark.parametrize("max_blocks", [18, 60])
def test_false_verdicts_after_any_block_stay_within_alpha(generate, max_blocks, simulations):
    rng = np.random.default_rng(41)
    counts = verdicts(generate(rng, simulations, max_blocks), max_blocks)
    assert counts[Verdict.GO] + counts[Verdict.NO_GO] <= false_share_bound(simulations)


@SIMULATED
def test_any_difference_claimed_after_any_block_stays_within_alpha(simulations):
    """Counts how often a true effect of 0 is excluded after any of 60 blocks, whatever the margin."""
    rng, plan = np.random.default_rng(42), Plan(tuple(planned_looks(60)))
    wrong = 0
    for row in normal_blocks(rng, simulations, 60):
        above, below, _ = plan.shown(row, ALPHA, as_log(MARGIN))
        wrong += above.any() or below.any()
    assert 0.03 * simulations <= wrong <= false_share_bound(simulations)


@SIMULATED
@pytest.mark.parametrize("effect", [MARGIN, -MARGIN / (1 + MARGIN)])
def test_false_neutral_after_any_block_stays_within_alpha(effect, simulations):
    rng = np.random.default_rng(43)
    data = rng.normal(as_log(effect), 0.01, (simulations, 60))
    assert verdicts(data, 60)[Verdict.NEUTRAL] <= false_share_bound(simulations)


@SIMULATED
def test_the_seeds_method_is_wrong_most_of_the_time_on_the_same_noise(simulations):
    """10 runs of A, then 10 of B, compared by means with a threshold of 1 %: interleaving avoids these errors."""
    rng = np.random.default_rng(44)
    runs = lfilter([1], [1, -0.41], rng.normal(0, 0.03, (simulations, 120)))[:, 100:]
    difference = runs[:, 10:].mean(axis=1) - runs[:, :10].mean(axis=1)
    assert (np.abs(difference) >= as_log(MARGIN)).mean() > 0.4


POWER_TABLE = [
    # effect, blocks, verdict, share that the protocol states, tolerance
    (0.02, 60, Verdict.GO, 0.98, 0.02),
    (0.0, 60, Verdict.GO, 0.015, 0.012),
    (0.0, 60, Verdict.NEUTRAL, 0.35, 0.05),
    (0.0, 120, Verdict.NEUTRAL, 0.80, 0.04),
    (0.0, 180, Verdict.NEUTRAL, 0.95, 0.03),
]


@SIMULATED
@pytest.mark.parametrize(("effect", "blocks", "verdict", "share", "tolerance"), POWER_TABLE)
def test_power_of_the_protocol(effect, blocks, verdict, share, tolerance, simulations):
    rng = np.random.default_rng(45)
    data = normal_blocks(rng, simulations, blocks) + as_log(effect)
    observed = Counter(decide(row, MARGIN, ALPHA).verdict for row in data)[verdict]
    assert observed / simulations == pytest.approx(share, abs=tolerance)
    odds = predicted_verdicts(SIGMA, effect, blocks, MARGIN, ALPHA)
    predicted = {Verdict.GO: odds.go, Verdict.NEUTRAL: odds.neutral}[verdict]
    assert binom.ppf(0.0005, simulations, max(0, predicted - 0.02)) <= observed
    assert observed <= binom.ppf(0.9995, simulations, min(1, predicted + 0.02))


@SIMULATED
@pytest.mark.parametrize(("effect", "blocks"), [(0.02, 25), (-0.03, 15), (0.0, 118), (0.015, 60)])
def test_predicted_power_is_simulated_power(effect, blocks, simulations):
    rng = np.random.default_rng(46)
    data = normal_blocks(rng, simulations, blocks) + as_log(effect)
    deserved = Verdict.NEUTRAL if effect == 0 else Verdict.GO if effect > 0 else Verdict.NO_GO
    observed = Counter(decide(row, MARGIN, ALPHA).verdict for row in data)[deserved]
    predicted = predicted_power(SIGMA, effect, blocks, MARGIN, ALPHA)
    assert observed / simulations == pytest.approx(predicted, abs=0.03)


@pytest.mark.parametrize("effect", [0.0, 0.02, -0.02, 0.05])
def test_blocks_for_is_the_fewest_with_that_power(effect):
    needed = blocks_for(SIGMA, effect, MARGIN, ALPHA, 0.8)
    assert predicted_power(SIGMA, effect, needed) >= 0.8
    assert needed == least_blocks(ALPHA) or predicted_power(SIGMA, effect, needed - 1) < 0.8


def test_blocks_for_accepts_a_pilot_and_knows_the_impossible():
    pilot = np.random.default_rng(47).normal(0.0, SIGMA, 400)
    assert blocks_for(pilot, 0.02) == pytest.approx(blocks_for(SIGMA, 0.02), rel=0.25)
    assert blocks_for(SIGMA, MARGIN) is None
    assert blocks_for(50.0, 0.0) is None


@SIMULATED
def test_smallest_effect_is_shown_four_times_in_five(simulations):
    rng = np.random.default_rng(50)
    pilot = rng.normal(0, SIGMA, 2000)
    effect = smallest_effect(pilot, 40, ALPHA, 0.8)
    data = normal_blocks(rng, simulations, 40) + as_log(effect)
    shown = sum(decide(row).interval.low > 0 for row in data)
    assert shown / simulations == pytest.approx(0.8, abs=0.05)


@pytest.mark.parametrize("scale", [1e-4, 1.0])
def test_spread_is_the_standard_deviation_of_normal_noise_and_ignores_an_outlier(scale):
    d = np.random.default_rng(51).normal(0, scale, 1000)
    assert spread(d) == pytest.approx(scale, rel=0.1)
    assert spread([*d, 1000 * scale]) == pytest.approx(spread(d), rel=0.02)


@pytest.mark.parametrize(("alpha", "looks", "least"), [(0.05, 1, 6), (0.05, 3, 6), (0.01, 1, 8), (0.10, 1, 5)])
def test_least_blocks(alpha, looks, least):
    assert least_blocks(alpha, looks) == least
    certain = decide([0.5] * least, MARGIN, alpha)
    assert certain.verdict is Verdict.GO
    assert decide([0.5] * (least - 1), MARGIN, alpha).verdict is Verdict.INCONCLUSIVE
    assert decide([0.0] * least, MARGIN, alpha).verdict is Verdict.NEUTRAL
