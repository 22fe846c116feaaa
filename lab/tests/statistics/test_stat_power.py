"""Planning: forecasts match their definitions, and planned numbers of blocks are the smallest that suffice."""

import math
from functools import lru_cache

import numpy as np
import pytest
from scipy.stats import norm, t

from hakmem_lab.judge.statistics import power
from hakmem_lab.judge.statistics.paired import as_log, paired_interval
from hakmem_lab.judge.statistics.plan import Plan, log_capital, obrien_fleming_levels, planned_looks, spreads_before

EFFICIENCY = math.sqrt(math.pi / 3)


def noise(count, scale=0.02, centre=0.0, seed=1):
    return np.random.default_rng(seed).normal(centre, scale, count)


def odds(centre, scatter, error, blocks, margin=0.01, alpha=0.05):
    """Probabilities of (GO, NEUTRAL, NO-GO) for an estimate from N(centre, scatter) with the standard error `error`."""
    half, narrow = (t.isf(tail, max(1, blocks - 1)) * error for tail in (alpha / 2, alpha))
    delta, estimate = as_log(margin), norm(centre, scatter)
    go, no_go = estimate.sf(max(delta, half)), estimate.cdf(-max(delta, half))
    neutral = estimate.cdf(delta - narrow) - estimate.cdf(narrow - delta)
    return go, max(0.0, neutral), no_go


@pytest.mark.parametrize("effect", [0.0, 0.005, 0.02, -0.03])
@pytest.mark.parametrize("blocks", [1, 2, 8, 60, 400])
@pytest.mark.parametrize(("margin", "alpha"), [(0.01, 0.05), (0.03, 0.2)])
def test_the_odds_of_every_verdict(effect, blocks, margin, alpha):
    error = EFFICIENCY * 0.03 / math.sqrt(blocks)
    found = power.predicted_verdicts(0.03, effect, blocks, margin, alpha)
    go, neutral, no_go = odds(as_log(effect), error, error, blocks, margin, alpha)
    assert (found.go, found.neutral, found.no_go) == pytest.approx((go, neutral, no_go), abs=1e-12)
    assert found.inconclusive == pytest.approx(max(0.0, 1 - go - neutral - no_go), abs=1e-12)
    assert power.standard_error(0.03, blocks) == pytest.approx(error)
    deserved = neutral if abs(effect) < margin else go if effect > 0 else no_go
    assert power.predicted_power(0.03, effect, blocks, margin, alpha) == pytest.approx(deserved)


def test_the_rule_that_is_taken_where_none_is_given():
    assert power.predicted_verdicts(0.03, 0.0, 50) == power.predicted_verdicts(0.03, 0.0, 50, 0.01, 0.05)
    assert power.predicted_power(0.01, 0.0, 50) == power.predicted_power(0.01, 0.0, 50, 0.01, 0.05)
    assert power.blocks_for(0.03, 0.02) == power.blocks_for(0.03, 0.02, 0.01, 0.05, 0.8)
    assert power.blocks_for(0.03, 0.0) == power.blocks_for(0.03, 0.0, 0.01, 0.05, 0.8)
    assert power.smallest_effect(0.03, 20) == power.smallest_effect(0.03, 20, 0.05, 0.8)
    assert power.blocks_to_detect(0.03, 0.02) == power.blocks_to_detect(0.03, 0.02, 0.05, 0.8)
    assert power.least_blocks() == power.least_blocks(0.05, 1) == 6
    # Five blocks of one sign have a two-sided probability of 2/32 = 0.0625, just enough if one look has all of alpha.
    assert power.least_blocks(0.0625) == 5 < power.least_blocks(0.0625, 2) == 6


@pytest.mark.parametrize("edge", [0.01, -0.01 / 1.01])
def test_at_the_margin_a_direction_is_deserved(edge):
    """At log(1.01) and -log(1.01), the deserved verdict changes from NEUTRAL to a direction."""
    found = power.predicted_verdicts(0.001, edge, 40)
    assert power.predicted_power(0.001, edge * 1.000001, 40) == pytest.approx(
        found.go if edge > 0 else found.no_go, abs=1e-3
    )
    assert power.predicted_power(0.001, edge * 0.999999, 40) == pytest.approx(found.neutral, abs=1e-3)
    assert power.predicted_power(0.001, 0.01, 40) == power.predicted_verdicts(0.001, 0.01, 40).go


@pytest.mark.parametrize("count", [2, 5, 6, 7, 40])
def test_the_spread_is_what_the_width_of_an_interval_implies(count):
    d = noise(count)
    shown = paired_interval(d, 0.8)
    implied = (shown.high - shown.low) / 2 / norm.isf(0.1) * math.sqrt(count) / EFFICIENCY
    assert power.spread(d) == pytest.approx(np.std(d, ddof=1) if count < 6 else implied)


def test_one_block_has_no_spread():
    with pytest.raises(ValueError, match="at least 2 blocks"):
        power.spread([0.1])
    assert power.spread([0.1, 0.1]) == 0.0


@pytest.mark.parametrize(
    ("effect", "margin", "alpha", "share"), [(0.02, 0.01, 0.05, 0.8), (0.0, 0.01, 0.05, 0.8), (-0.05, 0.02, 0.1, 0.9)]
)
def test_the_fewest_blocks_that_will_do(effect, margin, alpha, share):
    count = power.blocks_for(0.03, effect, margin, alpha, share)
    assert power.predicted_power(0.03, effect, count, margin, alpha) >= share
    assert power.predicted_power(0.03, effect, count - 1, margin, alpha) < share
    pilot = noise(20)
    assert power.blocks_for(pilot, effect, margin, alpha, share) == power.blocks_for(
        power.spread(pilot), effect, margin, alpha, share
    )


def test_no_fewer_blocks_than_any_verdict_needs_and_no_more_than_a_hundred_thousand():
    assert power.blocks_for(1e-6, 0.5) == power.least_blocks(0.05) == 6
    sigma = next(s for s in np.geomspace(0.5, 5, 2000) if power.predicted_power(s, 0.0, power.MOST_BLOCKS) < 0.8)
    assert power.blocks_for(sigma, 0.0) is None
    assert 99_000 < power.blocks_for(sigma / 1.003, 0.0) <= power.MOST_BLOCKS == 100_000


@pytest.mark.parametrize("looks", [1, 3, (20, 40)])
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.3])
def test_fewest_blocks_of_the_last_look(looks, alpha):
    """A direction needs at least as many blocks as NEUTRAL."""
    two_sided, one_sided = (obrien_fleming_levels(looks, alpha, sides)[-1] for sides in (True, False))
    shown = [
        next(n for n in range(1, 99) if paired_interval([1.0] * n, 1 - x).low > 0) for x in (two_sided, 2 * one_sided)
    ]
    assert power.least_blocks(alpha, looks) == max(shown)


@pytest.mark.parametrize(
    ("start", "wanted", "most"),
    [(6, 6, 10), (6, 7, 10), (6, 10, 10), (6, 11, 10), (6, 95, 100), (1, 1, 1), (1, 64, 99)],
)
def test_the_first_count_is_found(start, wanted, most):
    asked = []
    found = power._first(lambda n: asked.append(n) or n >= wanted, start, most)
    assert found == (wanted if wanted <= most else None)
    assert start <= min(asked) and max(asked) <= most and len(asked) == len(set(asked))


def test_a_detectable_effect():
    error = EFFICIENCY * 0.03 / math.sqrt(20)
    assert power.smallest_effect(0.03, 20, 0.1, 0.9) == pytest.approx(
        math.expm1((norm.isf(0.05) + norm.isf(0.1)) * error)
    )
    assert power.smallest_effect(noise(20), 20) == power.smallest_effect(power.spread(noise(20)), 20)
    for effect in (0.02, -0.02):
        for sigma in (0.03, 0.003):
            assert power.blocks_to_detect(sigma, effect, 0.1, 0.9) == power.blocks_for(sigma, effect, 0.01, 0.1, 0.9)
    assert power.blocks_to_detect(noise(20), 0.02) == power.blocks_to_detect(power.spread(noise(20)), 0.02)


def shows_better(rows, plan, alpha):
    """Which rows of blocks show by their end that the treatment is better, by the plan's looks or bets."""
    found = np.zeros(len(rows), dtype=bool)
    for count, level, _ in plan.levels(alpha):
        d = rows[:, :count]
        ranks = np.abs(d).argsort(axis=1).argsort(axis=1) + 1
        against = np.where(d < 0, ranks, 0).sum(axis=1)  # of the signed-rank statistic
        found |= against < critical(count, level)
    capital = log_capital(rows, spreads_before(rows)).max(axis=-1)
    return found | (capital >= -math.log(alpha * plan.share / 2))


@lru_cache
def critical(count, level):
    """The smallest sum of ranks of opposite sign with which a look does not show the direction."""
    ways = np.ones(1)
    for rank in range(1, count + 1):
        ways = np.convolve(ways, [1, *[0] * (rank - 1), 1])
    return int(np.searchsorted(np.cumsum(ways) / ways.sum(), (1 - level) / 2 * (1 + 1e-9), side="right"))


NOISES = {
    "normal": lambda rng, shape: rng.normal(0, 1, shape),
    "heavy": lambda rng, shape: rng.standard_t(3, shape) / math.sqrt(3),
    "even": lambda rng, shape: rng.uniform(-1, 1, shape) * math.sqrt(3),
}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("spread", [0.05, 0.3, 0.5, 0.7, 1.0, 1.7])
def test_what_is_to_be_detected_is_shown_in_four_runs_of_five(noise, spread):
    """3,000 runs; with little noise, the smallest possible number of blocks decides. spread: in units of the effect."""
    effect, rng = math.log1p(0.05), np.random.default_rng(7)
    count = power.planned_to_detect(spread * effect, 0.05)
    plan = Plan(tuple(planned_looks(count, 3)))
    assert count >= plan.least_blocks(0.05)
    rows = effect + spread * effect * NOISES[noise](rng, (3000, count))
    assert shows_better(rows, plan, 0.05).mean() >= 0.785
