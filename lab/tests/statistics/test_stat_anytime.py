"""The bet on signs: it is a fair game, its interval holds at all times, and it ends runs early enough."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import binom

from hakmem_lab.judge.statistics.paired import as_log
from hakmem_lab.judge.statistics.plan import SHARE, Bets, Plan, least_bets, log_capital, shown_after, spreads_before
from hakmem_lab.judge.statistics.verdict import settling_count

PLAN = Plan((20, 40, 60))


@pytest.mark.parametrize("sizes", [[1.0] * 8, [0.01, 5, 0.2, 0.2, 3, 0.001, 40, 0.5], [0.0, 0.0, *range(1, 7)]])
@pytest.mark.parametrize("above", [True, False])
def test_the_game_is_fair_whatever_the_sizes(sizes, above):
    """Averaged over all combinations of signs, the capital is exactly 1. This depends on no model of the noise."""
    sign = 1 if above else -1
    capitals = []
    for coins in itertools.product((-1.0, 1.0), repeat=len(sizes)):
        d = np.array(sizes) * coins
        capitals.append(math.exp(log_capital(sign * d, spreads_before(d))[-1]))
    assert np.mean(capitals) == pytest.approx(1.0)


def test_what_is_bet_is_known_before_the_coin_falls():
    d = np.random.default_rng(1).normal(0, 1, 40)
    other = d.copy()
    other[20] = -1000.0
    assert np.array_equal(spreads_before(d)[:21], spreads_before(other)[:21], equal_nan=True)


@pytest.mark.parametrize("noise", ["normal", "heavy"])
def test_the_confidence_sequence_covers_the_truth_at_all_times_at_once(noise):
    rng, simulations, truth = np.random.default_rng(2), 250, 0.02
    missed = 0
    for _ in range(simulations):
        d = truth + (rng.normal(0, 0.03, 200) if noise == "normal" else 0.02 * rng.standard_t(2, 200))
        low = shown_after(d, 0.025, truth, above=True)
        missed += low is not None or shown_after(d, 0.025, truth, above=False) is not None
    assert missed <= binom.ppf(0.999, simulations, 0.05)


def ends(d, tail: float = 0.025) -> tuple[float, float]:
    bets = Bets(d)
    return bets.bound(tail), bets.bound(tail, above=False)


@pytest.mark.parametrize("count", [12, 40])
def test_the_interval_inverts_the_test(count):
    d = np.random.default_rng(3).normal(0.01, 0.02, count)
    low, high = ends(d)
    width = high - low
    assert shown_after(d, 0.025, low - 1e-6 * width) is not None
    assert shown_after(d, 0.025, low + 1e-6 * width) is None
    assert shown_after(d, 0.025, high + 1e-6 * width, above=False) is not None
    mirrored = ends(-d)
    assert mirrored == pytest.approx((-high, -low))


def test_too_few_blocks_have_no_interval_and_equal_ones_a_point():
    least = least_bets(0.025)
    assert ends([0.1] * (least - 1)) == (-math.inf, math.inf)
    assert ends([0.1] * least) == pytest.approx((0.1, 0.1))


def test_one_disturbed_block_does_not_ruin_what_was_shown():
    d = np.random.default_rng(4).normal(0.02, 0.02, 40)
    after = shown_after(d, 0.01)
    d[5] = -3.0
    assert after is not None
    assert after < shown_after(d, 0.01) <= 40


@pytest.mark.parametrize(("effect", "most"), [(0.02, 18.0), (0.05, 9.0), (-0.02, 18.0)])
def test_blocks_to_a_verdict(effect, most):
    """The mean number of blocks at a spread of 2 %; planned looks alone take 28 (2 % effect) and 20 (5 %)."""
    rng = np.random.default_rng(5)
    counts = [settling_count(row, PLAN) for row in rng.normal(as_log(effect), 0.02, (150, 60))]
    assert np.mean(counts) <= most


@pytest.mark.parametrize(("looks", "share"), [((20, 40, 60), 1.0), ((20, 40, 60), -0.1), ((40, 20), SHARE)])
def test_a_senseless_plan_is_refused(looks, share):
    with pytest.raises(ValueError):
        Plan(looks, share)
