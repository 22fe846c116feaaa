"""The figures beside a verdict: how often a page with equal sides contains a false claim, and what figures cost."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

from hakmem_lab.judge.statistics import further
from hakmem_lab.judge.statistics.means import ratio_of_means
from hakmem_lab.judge.statistics.paired import Interval, as_log, difference, paired_interval
from hakmem_lab.judge.statistics.plan import Plan, planned_looks
from hakmem_lab.judge.statistics.verdict import Verdict, decide, sequential_verdict, settling_count
from hakmem_lab.judge.unseen import RUNS_FOR_ONE

ALPHA, MARGIN = 0.05, 0.01
PLAN = Plan(tuple(planned_looks(60)))
HEADLINES = ("wall", "cpu", "rss")
RUNS = pytest.mark.parametrize("runs", [60, pytest.param(3000, marks=pytest.mark.long)])


EXTRA = [pytest.param(*case, marks=pytest.mark.long) for case in ((2, 0.036), (4, 0.02), (4, 0.012), (9, 0.036))]


def bound(runs: int) -> float:
    """Of so many runs that each err with a probability of 5 %, more err once in 1,000 times."""
    return ALPHA * runs + 3.1 * np.sqrt(ALPHA * (1 - ALPHA) * runs)


def ended(d: np.ndarray) -> tuple[int, Verdict]:
    return settling_count(d, PLAN, MARGIN, ALPHA), sequential_verdict(d, PLAN, MARGIN, ALPHA)


def claims(d: np.ndarray, plan: Plan, alpha: float) -> bool:
    """Whether the interval of these blocks excludes 0."""
    above, below, _ = plan.shown(d, alpha, as_log(MARGIN))
    return bool(above[-1] or below[-1])


@RUNS
@pytest.mark.parametrize("alike", [0.0, 0.5, 0.9])
@pytest.mark.parametrize(("count", "sigma"), [(4, 0.036), *EXTRA])
def test_a_page_of_equal_metrics_claims_a_difference_in_at_most_alpha(runs, count, sigma, alike):
    """The verdict is counted too. Intervals of a single look would claim one in 11 % of pages with two more metrics,
    and in 17 % with four. alike: the correlation of the metrics."""
    rng, names = np.random.default_rng(21), [*HEADLINES[1:], *map(str, range(9))][:count]
    wrong = 0
    for _ in range(runs):
        common, own = rng.normal(size=60), rng.normal(size=(count + 1, 60))
        first, *others = sigma * (np.sqrt(alike) * common + np.sqrt(1 - alike) * own)
        blocks, word = ended(first)
        alphas = further.alphas(names, HEADLINES, ALPHA, word is not Verdict.INCONCLUSIVE)
        page = [claims(d[:blocks], further.plan_of(PLAN), alphas[n]) for d, n in zip(others, names, strict=True)]
        wrong += any(page) or (word is not Verdict.NEUTRAL and claims(first[:blocks], PLAN, ALPHA))
    assert wrong <= bound(runs)


@RUNS
def test_several_sides_share_alpha_as_well(runs):
    """Three sides against one, each with a verdict and two more metrics; every figure has its part of alpha."""
    rng, each, wrong = np.random.default_rng(22), ALPHA / 3, 0
    for _ in range(runs):
        found = False
        for _ in range(3):
            d = 0.036 * rng.normal(size=(3, 60))
            blocks, word = settling_count(d[0], PLAN, MARGIN, each), sequential_verdict(d[0], PLAN, MARGIN, each)
            alphas = further.alphas(["cpu", "rss"], HEADLINES, each, word is not Verdict.INCONCLUSIVE)
            found |= any(claims(d[i][:blocks], further.plan_of(PLAN), alphas[n]) for i, n in ((1, "cpu"), (2, "rss")))
            found |= word in (Verdict.GO, Verdict.NO_GO)
        wrong += found
    assert wrong <= bound(runs)


@pytest.mark.parametrize("decided", [True, False])
@pytest.mark.parametrize("metrics", [["cpu"], ["faults"], ["cpu", "rss"], ["cpu", "rss", "faults", "cycles", "pss"]])
def test_the_figures_use_all_of_alpha_and_headlines_most_of_it(metrics, decided):
    found = further.alphas(metrics, HEADLINES, 0.04, decided)
    assert list(found) != [] and set(found) == set(metrics)
    assert sum(found.values()) == pytest.approx(0.04 if decided else 0.01)
    loud, quiet = ([found[name] for name in metrics if (name in HEADLINES) is kind] for kind in (True, False))
    assert len(set(loud)) <= 1 and len(set(quiet)) <= 1
    if loud and quiet:
        assert sum(loud) == pytest.approx(9 * sum(quiet))


def test_the_first_blocks_that_end_a_run_show_what_a_headline_may_mention():
    """Soon after a run can end, two metrics of headlines have intervals, and the others later."""
    alphas = further.alphas(["cpu", "rss", "faults"], HEADLINES, ALPHA, True)
    least = {name: further.plan_of(PLAN).least_blocks(alpha) for name, alpha in alphas.items()}
    assert PLAN.least_blocks(ALPHA) == 7 and least == {"cpu": 8, "rss": 8, "faults": 10}


def test_a_plan_of_looks_alone_keeps_them():
    looks = Plan((20, 40), share=0.0)
    assert further.plan_of(looks) == looks
    assert further.plan_of(PLAN) == replace(PLAN, share=0.9)


def costs(rng, gain=0.0, slow=0.0, sigma=0.05):
    """(control, treatment, log-ratios) of 60 blocks of two runs; of the treatment's runs so many take 1.95 as long."""
    control, treatment = np.exp(rng.normal(0, sigma, (2, 60, 2)))
    treatment = treatment / (1 + gain) * np.where(rng.random((60, 2)) < slow, 1.95, 1.0)
    return control, treatment, (np.log(control) - np.log(treatment)).mean(axis=1)


@RUNS
def test_the_mean_of_equal_sides_differs_in_at_most_alpha_whenever_the_run_ends(runs):
    rng, once, always = np.random.default_rng(23), 0, 0
    for _ in range(runs):
        control, treatment, d = costs(rng)
        blocks = settling_count(d, PLAN, MARGIN, ALPHA)
        means = ratio_of_means(control[:blocks], treatment[:blocks])
        once, always = once + means.ratio.excludes_zero(), always + means.lasting.excludes_zero()
    assert always <= bound(runs) and always < once


@RUNS
@pytest.mark.parametrize("early", [False, True])
def test_a_go_that_the_mean_does_not_share_says_so(runs, early):
    """Typically 3 % faster, but 5 % of the runs take 1.95 times as long: the mean is 1.6 % worse. GO is possible, since
    it is about the typical run, but not without a word on the mean. A run that ends early may not have met a slow run:
    it says that runs rarer than 1 in so many would not have been seen."""
    rng, silent, go = np.random.default_rng(24), 0, 0
    for _ in range(runs):
        control, treatment, d = costs(rng, 0.03, 0.05)
        blocks = settling_count(d, PLAN, MARGIN, ALPHA) if early else 60
        means = ratio_of_means(control[:blocks], treatment[:blocks])
        decision = decide(d[:blocks], MARGIN, ALPHA, PLAN, means=means)
        go += decision.verdict is Verdict.GO
        silent += decision.verdict is Verdict.GO and not decision.mean_open and 2 * blocks / RUNS_FOR_ONE > 20
    assert go > 0.1 * runs and silent <= ALPHA * runs


@RUNS
def test_a_go_that_the_mean_shares_seldom_speaks_of_it(runs):
    rng, spoken = np.random.default_rng(25), 0
    for _ in range(runs):
        control, treatment, d = costs(rng, 0.03)
        blocks = settling_count(d, PLAN, MARGIN, ALPHA)
        means = ratio_of_means(control[:blocks], treatment[:blocks])
        spoken += decide(d[:blocks], MARGIN, ALPHA, PLAN, means=means).mean_open
    assert spoken <= 0.02 * runs


def run_of(rng, effect: float, sigma: float) -> Interval:
    d = rng.normal(effect, sigma, 60)
    return PLAN.judged(d[: settling_count(d, PLAN, MARGIN, ALPHA)], ALPHA).interval


@RUNS
@pytest.mark.parametrize(("effect", "sigma"), [(0.0, 0.036), (0.03, 0.036), (0.2, 0.03), (0.0, 0.01)])
def test_equal_effects_under_two_conditions_differ_in_at_most_alpha(runs, effect, sigma):
    rng = np.random.default_rng(26)
    pairs = (difference(run_of(rng, effect, sigma), run_of(rng, effect, sigma)) for _ in range(runs))
    assert sum(found.excludes_zero() for found in pairs) <= bound(runs)


@RUNS
def test_an_effect_of_a_fifth_and_one_of_a_thirtieth_differ(runs):
    """Both are GO, so that their verdicts are the same word."""
    rng = np.random.default_rng(27)
    pairs = (difference(run_of(rng, as_log(0.2), 0.02), run_of(rng, as_log(0.03), 0.02)) for _ in range(runs))
    assert sum(found.high < 0 for found in pairs) > 0.97 * runs


@RUNS
def test_effects_that_differ_by_the_margin_are_not_called_alike(runs):
    rng, alike, delta = np.random.default_rng(28), 0, as_log(MARGIN)
    for _ in range(runs):
        found = difference(*(paired_interval(rng.normal(effect, 0.01, 60), 0.95) for effect in (0.0, delta)))
        alike += -delta < found.low and found.high < delta
    assert alike <= bound(runs)


def test_a_difference_adds_the_variances_of_each_side():
    first, second = Interval(0.1, 0.06, 0.15, 0.95, 9), Interval(0.5, 0.47, 0.62, 0.95, 7)
    found = difference(first, second)
    assert (found.estimate, found.level, found.n) == (pytest.approx(0.4), 0.95, 7)
    assert (found.low, found.high) == pytest.approx((0.4 - np.hypot(0.03, 0.05), 0.4 + np.hypot(0.12, 0.04)))
    for end, other in itertools.permutations((first, second)):
        assert difference(end, other).low == pytest.approx(-difference(other, end).high)
