"""Pooled quantiles: their values, their advantage over medians of runs, and their error rates."""

import math

import numpy as np
import pytest
from scipy.stats import binom

from hakmem_lab.judge.statistics.pooled import MEAN, Pool, Sampled, compared, flip_p, pool, spread

TAIL = 0.99


def arm(blocks: list[dict[float, int]], whats=(0.5, TAIL, 0.9999, MEAN)) -> Sampled:
    return Sampled.of(pool(blocks), whats)


def test_the_quantiles_of_known_requests():
    found = arm([{float(v): 1 for v in range(1, 101)}, {float(v): 1 for v in range(101, 201)}])
    assert found.pool.at(0.5) == 100 and found.pool.at(0.99) == 198 and found.pool.at(1.0) == 200
    assert found.pool.at(MEAN) == pytest.approx(100.5)


def test_a_rarely_slow_arm_is_not_better_for_its_usual_runs():
    """Two of a hundred runs stall: p99.99 of the median run is 2 % better, that of all requests 20 times as bad."""
    usual = {1.0: 9_000, 40.0: 1_000}
    faster = {0.98: 9_000, 39.2: 1_000}
    stalled = {0.98: 8_500, 39.2: 1_000, 800.0: 500}
    control = arm([usual] * 100)
    treatment = arm([stalled if block in (20, 70) else faster for block in range(100)])
    medians = [np.median([pool([run]).at(0.9999) for run in runs]) for runs in ([usual], [faster] * 98 + [stalled] * 2)]
    assert medians[1] < medians[0]
    assert treatment.pool.at(0.9999) == 800 and control.pool.at(0.9999) == 40
    (tail,) = compared(control, treatment, 0.9999, [0.95])
    assert tail.estimate == pytest.approx(math.log(40 / 800)) and tail.low < -2
    assert not tail.low > 0
    (middle,) = compared(control, treatment, 0.5, [0.95])
    assert middle.low > 0


def histograms(rng: np.random.Generator, blocks: int, factor: float, drift: np.ndarray) -> list[dict[float, int]]:
    """Log-normal requests whose scale differs from run to run; every tenth run, on average, has a stall."""
    found = []
    for block in range(blocks):
        scale = factor * math.exp(drift[block] + rng.normal(0, 0.2))
        values = scale * np.exp(rng.normal(0, 0.5, 400))
        if rng.random() < 0.1:
            values[:40] *= 20
        found.append(pool_of(values))
    return found


def pool_of(values: np.ndarray) -> dict[float, int]:
    binned, counts = np.unique(np.exp(np.round(np.log(values), 1)), return_counts=True)
    return dict(zip(binned.tolist(), counts.tolist(), strict=True))


NOISES = {
    "calm": lambda rng, blocks: rng.normal(0, 0.1, blocks),
    "heavy tails": lambda rng, blocks: 0.2 * rng.standard_t(2, blocks),
    "skewed": lambda rng, blocks: 0.5 * rng.exponential(1.0, blocks),
    "two states": lambda rng, blocks: 1.5 * (rng.random(blocks) < 0.2),
    "autocorrelated": lambda rng, blocks: 0.2 * np.convolve(rng.normal(size=blocks + 4), np.ones(5), "valid"),
}


@pytest.mark.parametrize("simulations", [40, pytest.param(120, marks=pytest.mark.long)])
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("blocks", [6, 12, 25])
def test_equal_arms_are_rarely_told_apart(blocks, noise, simulations):
    """Counts wrong claims in both directions, for every statistic and kind of noise; the order of arms is random."""
    rng, shown = np.random.default_rng(71), dict.fromkeys((0.5, TAIL, 0.999, MEAN), 0)
    for _ in range(simulations):
        pairs = rng.permuted(NOISES[noise](rng, 2 * blocks).reshape(blocks, 2), axis=1)
        arms = [arm(histograms(rng, blocks, 1.0, own), tuple(shown)) for own in pairs.T]
        for what in shown:
            shown[what] += compared(*arms, what, [0.95])[0].excludes_zero()
    assert max(shown.values()) <= binom.ppf(0.999, simulations, 0.05)


def test_a_true_difference_is_found_and_covered():
    rng, simulations, covered, found = np.random.default_rng(72), 100, 0, 0
    truth = math.log(1.5)
    for _ in range(simulations):
        drift = rng.normal(0, 0.3, 20)
        control = arm(histograms(rng, 20, 1.5, drift), (0.5,))
        treatment = arm(histograms(rng, 20, 1.0, drift), (0.5,))
        (interval,) = compared(control, treatment, 0.5, [0.95])
        covered += interval.low <= truth <= interval.high
        found += interval.low > 0
    assert covered >= binom.ppf(0.001, simulations, 0.95)
    assert found == simulations


def test_the_blocks_are_what_varies():
    """100,000 requests from two runs are as uncertain as two values."""
    runs = [{1.0: 50_000}, {2.0: 50_000}]
    value, low, high = arm(runs, (0.5,)).interval(0.5)
    assert (value, low, high) == (1.0, pytest.approx(1.0), pytest.approx(2.0))
    assert arm(runs[:1], (0.5,)).interval(0.5) == (1.0, 0.0, math.inf)


def test_an_interval_says_no_more_than_the_test_of_flipped_signs():
    control, treatment = arm([{2.0: 100}] * 4, (0.5,)), arm([{1.0: 100}] * 4, (0.5,))
    assert flip_p(control.pool, treatment.pool, 0.5) == 2 / 2**4
    wide, narrow = compared(control, treatment, 0.5, [0.95, 0.8])
    assert wide.low == 0 and narrow.low == pytest.approx(math.log(2))


def test_exchanged_arms_have_the_mirrored_interval():
    rng = np.random.default_rng(73)
    drift = np.zeros(10)
    control, treatment = (arm(histograms(rng, 10, f, drift), (0.5,)) for f in (1.0, 1.2))
    (there,), (back,) = compared(control, treatment, 0.5, [0.95]), compared(treatment, control, 0.5, [0.95])
    assert (there.estimate, there.low) == (pytest.approx(-back.estimate), pytest.approx(-back.high))


@pytest.mark.parametrize("counts", [[[1.0]], [[0.0, 0.0]], [1.0, 2.0]])
def test_bad_histograms_are_refused(counts):
    with pytest.raises(ValueError):
        Pool(np.array([1.0, 2.0]), np.array(counts))


def test_unequal_numbers_of_blocks_are_no_pairs():
    with pytest.raises(ValueError, match="cannot be paired"):
        compared(arm([{1.0: 1}]), arm([{1.0: 1}] * 2), 0.5, [0.95])


def test_the_spread_of_a_block_is_what_makes_the_ratio_uncertain():
    """For means of many blocks, the spread is that of the blocks' own ratios; for a single block it is unknown."""
    rng, sigma = np.random.default_rng(9), 0.01
    logs = rng.normal(0, sigma, (2, 150))
    control, treatment = (arm([{float(np.exp(x)): 1} for x in row], [MEAN]) for row in logs)
    assert spread(control, treatment, MEAN) == pytest.approx((logs[0] - logs[1]).std(ddof=1), rel=0.05)
    single = arm([{1.0: 5}], [MEAN])
    assert spread(single, single, MEAN) == math.inf
