"""The ratio of means, which shows rare slow runs that the typical block does not show."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from hakmem_lab.judge.statistics.means import lasting_level, ratio_of_means
from hakmem_lab.judge.statistics.paired import Interval, as_ratio
from hakmem_lab.judge.statistics.plan import Plan
from hakmem_lab.judge.statistics.verdict import Verdict, contradicts, decide, sequential_verdict

PLAN = Plan((20, 40, 60))


def arms(rng, blocks, gain=0.0, slow_share=0.0, factor=20.0, sigma=0.01):
    """(control, treatment, log-ratios), with two runs of each arm in every block."""
    control, treatment = np.exp(rng.normal(0, sigma, (2, blocks, 2)))
    treatment = treatment * np.exp(-gain) * np.where(rng.random((blocks, 2)) < slow_share, factor, 1.0)
    return control, treatment, np.log(control).mean(axis=1) - np.log(treatment).mean(axis=1)


def with_slow_runs(rng, count, factor, **keys):
    """Like `arms`, with `count` slow runs of the treatment, each in another block."""
    control, treatment, _ = arms(rng, 60, **keys)
    treatment[: 7 * count : 7, 0] *= factor
    return control, treatment, np.log(control).mean(axis=1) - np.log(treatment).mean(axis=1)


def judged(rng, **keys):
    control, treatment, d = arms(rng, 60, **keys)
    means = ratio_of_means(control, treatment)
    return decide(d, plan=PLAN, means=means), means


def test_usually_faster_rarely_but_badly_slower_is_no_go_and_no_no_go():
    """2 % of the runs take 20 times as long, the others are 2 % faster. The typical block alone would give GO."""
    rng = np.random.default_rng(1)
    words, alone = [], 0
    for _ in range(60):
        decision, means = judged(rng, gain=0.02, slow_share=0.02)
        if means.far[1]:
            words.append(decision.verdict)
            alone += sequential_verdict(arms(rng, 60, 0.02, 0.02)[2], PLAN) is Verdict.GO
    assert set(words) == {Verdict.INCONCLUSIVE} and len(words) > 40
    assert alone > 0.95 * len(words)


def test_a_verdict_that_rare_slow_runs_contradict_is_held_back():
    control, treatment, d = with_slow_runs(np.random.default_rng(2), 3, 20, gain=0.02)
    means = ratio_of_means(control, treatment)
    decision = decide(d, plan=PLAN, means=means)
    assert decision.torn and means.far == (0, 3)
    assert decision.interval.low > 0 > means.ratio.estimate


def test_the_mirror_image_and_the_neutral_one():
    rng = np.random.default_rng(3)
    control, treatment, d = arms(rng, 60, 0.02, 0.05)
    mirrored = decide(-d, plan=PLAN, means=ratio_of_means(treatment, control))
    assert mirrored.torn
    control, treatment, d = with_slow_runs(rng, 6, 3, sigma=0.002)
    neutral = decide(d, plan=PLAN, means=ratio_of_means(control, treatment))
    assert decide(d, plan=PLAN).verdict is Verdict.NEUTRAL
    assert neutral.torn


@pytest.mark.parametrize("gain", [0.0, 0.02])
def test_averages_that_agree_change_nothing(gain):
    rng = np.random.default_rng(4)
    for _ in range(6):
        decision, means = judged(rng, gain=gain)
        assert not decision.torn and decision.verdict is (Verdict.GO if gain else Verdict.NEUTRAL)
        assert means.ratio.estimate == pytest.approx(gain, abs=0.01)


def test_a_rate_is_read_the_other_way_round():
    control, treatment, _ = arms(np.random.default_rng(5), 30, 0.05, 0.02)
    cost, rate = ratio_of_means(control, treatment), ratio_of_means(1 / control, 1 / treatment, True)
    assert cost.far == rate.far
    assert ratio_of_means([[1.0]] * 8, [[0.5]] * 8).ratio.estimate == pytest.approx(np.log(2))
    assert ratio_of_means([[1.0]] * 8, [[0.5]] * 8, True).ratio.estimate == pytest.approx(-np.log(2))


@pytest.mark.parametrize(("slow_share", "blocks", "least"), [(0.0, 8, 0.93), (0.0, 60, 0.93), (0.02, 60, 0.80)])
def test_the_interval_of_the_means_covers_and_falls_short_where_a_few_runs_carry_it(slow_share, blocks, least):
    rng, truth = np.random.default_rng(6), -np.log(1 + slow_share * 19)
    covered = 0
    for _ in range(200):
        ratio = ratio_of_means(*arms(rng, blocks, 0.0, slow_share, sigma=0.05)[:2]).ratio
        covered += ratio.low <= truth <= ratio.high
    assert covered / 200 >= least


def test_an_interval_that_a_single_block_carries_reaches_to_where_it_would_be_without():
    """A third of the resamples lack the slow block, so the interval reaches 0; a normal interval would not."""
    even, slow = [[1.0]] * 12, [[1.0]] * 11 + [[100.0]]
    assert ratio_of_means(slow, even).ratio.low == ratio_of_means(even, slow).ratio.high == pytest.approx(0.0)


@pytest.mark.parametrize("n", [4, 30])
def test_a_cost_that_is_a_multiple_shifts_the_interval_alone(n):
    control, treatment, _ = arms(np.random.default_rng(7), n, 0.05, 0.02)
    found, shifted = (ratio_of_means(control, np.asarray(treatment) * factor).ratio for factor in (1, 3))
    ends = [(each.low, each.estimate, each.high) for each in (found, shifted)]
    assert ends[1] == pytest.approx([end - math.log(3) for end in ends[0]])


def test_too_few_blocks_and_unequal_arms():
    assert ratio_of_means([[1.0]] * 3, [[1.0]] * 3) is None
    with pytest.raises(ValueError, match="same blocks"):
        ratio_of_means([[1.0]] * 5, [[1.0]] * 4)
    assert as_ratio(ratio_of_means([[2.0]] * 4, [[1.0]] * 4).ratio.estimate) == pytest.approx(1.0)


def test_neutral_is_withheld_where_rare_slow_runs_were_seen():
    """3,000 runs of 60 blocks; 2 % of the treatment's executions take five times as long. NEUTRAL stays only if hardly
    any slow ones were seen. For equal arms it stays nearly always."""
    rng, blocks, delta = np.random.default_rng(11), 60, math.log1p(0.01)
    neutral = {0.0: 0, 0.02: 0}
    for share in neutral:
        costs = np.exp(rng.normal(0, 0.01, (2, 3000, blocks, 2)))
        costs[1] *= np.where(rng.random((3000, blocks, 2)) < share, 5.0, 1.0)
        d = (np.log(costs[0]) - np.log(costs[1])).mean(axis=2)
        mean = np.log(costs[0].mean(axis=(1, 2)) / costs[1].mean(axis=(1, 2)))
        far = (costs > 2).sum(axis=(2, 3))
        for run in range(3000):
            typical = np.median(d[run])
            if abs(typical) < delta / 2:  # then the interval of so many calm blocks is inside the margin
                ratio = Interval(mean[run], -np.inf, np.inf, 0.95, blocks)
                neutral[share] += not contradicts(Verdict.NEUTRAL, ratio, delta, tuple(far[:, run]))
    assert neutral[0.0] > 0.95 * 3000
    assert neutral[0.02] < 0.15 * 3000


@pytest.mark.parametrize(("n", "z"), [(8, 3.656), (60, 3.035)])
def test_the_lasting_interval_has_the_level_of_the_mixture(n, z):
    """z = sqrt((1 + 8 / n) log((1 + n / 8) / 0.05^2))"""
    exact = np.sqrt((1 + 8 / n) * np.log((1 + n / 8) / 0.0025))
    assert norm.isf((1 - lasting_level(n, 0.95)) / 2) == pytest.approx(exact, rel=1e-7) == pytest.approx(z, abs=0.002)
    control, treatment, _ = arms(np.random.default_rng(6), n, 0.05, 0.02)
    found, wide = ratio_of_means(control, treatment), ratio_of_means(control, treatment, level=lasting_level(n, 0.95))
    assert (found.lasting.low, found.lasting.high) == (wide.ratio.low, wide.ratio.high)
    assert (found.lasting.level, found.lasting.n) == (0.95, n)
