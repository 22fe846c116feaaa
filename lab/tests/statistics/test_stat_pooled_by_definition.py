"""Pooled quantiles, compared with computations request by request, and both tests of differences by enumeration."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm, t

from hakmem_lab.judge.statistics import pooled
from hakmem_lab.judge.statistics.paired import Interval
from hakmem_lab.judge.statistics.pooled import MEAN, Pool, Sampled, compared, flip_p, pool

WHATS = (0.5, 0.9, MEAN)


def histograms(seed, blocks, factor=1.0):
    rng = np.random.default_rng(seed)
    found = []
    for block in range(blocks):
        requests = rng.lognormal(1, 0.6, 20 + 3 * block)
        values, counts = np.unique(np.round(factor * requests, 1) + 0.1, return_counts=True)
        found.append(dict(zip(values.tolist(), counts.tolist(), strict=True)))
    return found


def requests(blocks):
    return sorted(value for block in blocks for value, count in block.items() for _ in range(int(count)))


def statistic(blocks, what):
    """The mean, or the smallest request such that at least the share `what` of all requests are not larger."""
    every = requests(blocks)
    return np.mean(every) if what == MEAN else next(x for i, x in enumerate(every, 1) if i >= what * len(every) - 1e-6)


@pytest.mark.parametrize("what", [0.001, 0.25, 0.5, 0.9, 0.99, 1.0, MEAN])
def test_a_statistic_of_all_requests(what):
    blocks = histograms(1, 7)
    assert pool(blocks).at(what) == pytest.approx(statistic(blocks, what))


@pytest.mark.parametrize(("share", "value"), [(0.2, 1), (0.2 + 1e-6, 2), (0.4, 2), (0.6, 3), (0.3 * 2, 3), (1.0, 5)])
def test_a_share_that_is_just_reached(share, value):
    """0.3 * 2 is a little more than 0.6 as a float; this must not select the next request."""
    assert pool([{float(v): 1 for v in range(1, 6)}]).at(share) == value


def test_a_pool_is_a_row_of_counts_a_block():
    found = pool([{2.0: 3, 1.0: 4}, {5.0: 1}])
    assert found.values.tolist() == [1.0, 2.0, 5.0]
    assert found.counts.tolist() == [[4, 3, 0], [0, 0, 1]]
    assert found.blocks == 2


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([1.0, 1.0], "a row of 2 counts a block"),
        ([[1.0, 1.0, 1.0]], "a row of 2 counts a block"),
        (np.zeros((0, 2)), "a row of 2 counts a block"),
        ([[1.0, 1.0], [0.0, 0.0]], "at least one request"),
    ],
)
def test_what_is_no_pool_is_refused(counts, message):
    with pytest.raises(ValueError, match=message):
        Pool(np.array([1.0, 2.0]), np.array(counts))


def resampled(blocks, what):
    """Logarithms of a statistic in 2000 resamples, each of as many whole blocks as there are."""
    draws = np.random.default_rng([20_260_101, len(blocks)]).multinomial(
        len(blocks), [1 / len(blocks)] * len(blocks), 2000
    )
    drawn = {}
    for row in map(tuple, draws):
        if row not in drawn:
            each = [block for block, times in zip(blocks, row, strict=True) for _ in range(times)]
            drawn[row] = math.log(statistic(each, what))
    return np.array([drawn[tuple(row)] for row in draws])


def ends(replicates, blocks, level):
    """The percentile interval, with tails widened to those of Student's t, times sqrt(n / (n - 1))."""
    tail = norm.cdf(math.sqrt(blocks / (blocks - 1)) * t.ppf((1 - level) / 2, blocks - 1))
    return np.quantile(replicates, tail), np.quantile(replicates, 1 - tail)


@pytest.mark.parametrize("what", WHATS)
def test_the_interval_of_one_arm(what):
    blocks = histograms(2, 4)
    found = Sampled.of(pool(blocks), WHATS)
    for level in (0.8, 0.95):
        expected = [statistic(blocks, what), *np.exp(ends(resampled(blocks, what), 4, level))]
        assert found.interval(what, level) == pytest.approx(expected)
    assert found.interval(what) == found.interval(what, 0.95)
    assert found.replicates.shape == (3, 2000)


def test_one_block_says_nothing_about_others():
    value, low, high = Sampled.of(pool(histograms(3, 1)), WHATS).interval(0.5)
    assert (low, high) == (0.0, math.inf) and value > 0
    two = Sampled.of(pool(histograms(3, 2)), WHATS).interval(0.5)
    assert 0 < two[1] <= two[0] <= two[2] < math.inf


def signed_differences(control, treatment, what):
    if what == MEAN:
        return np.array([statistic([a], MEAN) - statistic([b], MEAN) for a, b in zip(control, treatment, strict=True)])
    border = statistic([*control, *treatment], what)
    above = [
        [np.mean([(x > border) + (x == border) / 2 for x in requests([b])]) for b in arm]
        for arm in (control, treatment)
    ]
    return np.subtract(*above)


@pytest.mark.parametrize("what", WHATS)
@pytest.mark.parametrize("blocks", [3, 8, 12])
def test_every_flip_of_few_blocks_is_counted(what, blocks):
    control, treatment = histograms(4, blocks), histograms(5, blocks, 0.9)
    differences = signed_differences(control, treatment, what)
    flips = np.array(list(itertools.product((-1, 1), repeat=blocks)))
    expected = (np.abs(flips @ differences) >= abs(differences.sum()) - 1e-9).mean()
    assert flip_p(pool(control), pool(treatment), what) == pytest.approx(expected)
    assert expected < 1


@pytest.mark.parametrize("what", WHATS)
def test_of_many_blocks_those_given_and_1999_random_flips(what):
    control, treatment = histograms(6, 13), histograms(7, 13, 0.85)
    differences = signed_differences(control, treatment, what)
    random = np.random.default_rng([20_260_101, 13, 1]).integers(0, 2, (1999, 13))
    flips = np.vstack([np.ones(13), 1 - 2 * random])
    expected = (np.abs(flips @ differences) >= abs(differences.sum()) - 1e-9).mean()
    assert flip_p(pool(control), pool(treatment), what) == pytest.approx(expected)


@pytest.mark.parametrize("what", WHATS)
@pytest.mark.parametrize("factor", [0.5, 0.97])
def test_a_difference_is_shown_where_both_tests_say_so(what, factor):
    control, treatment = histograms(8, 5), histograms(9, 5, factor)
    first, second = Sampled.of(pool(control), (MEAN, 0.9, 0.5)), Sampled.of(pool(treatment), WHATS)
    estimate = math.log(statistic(control, what) / statistic(treatment, what))
    p = flip_p(pool(control), pool(treatment), what)
    for found, level in zip(compared(first, second, what, [0.8, 0.9999]), [0.8, 0.9999], strict=True):
        low, high = ends(resampled(control, what) - resampled(treatment, what), 5, level)
        if p > 1 - level:
            low, high = min(low, 0.0), max(high, 0.0)
        assert found.excludes_zero() == (p <= 1 - level and (low > 0 or high < 0))
        expected = Interval(estimate, min(low, estimate), max(high, estimate), level, 5)
        assert vars(found) == pytest.approx(vars(expected))


def test_requests_on_the_common_quantile_count_half():
    """The common median is 2. With requests at 2 counted half, both blocks lean to one side, the second by 1/40."""
    control = pool([{1.0: 4, 2.0: 8, 3.0: 8}, {1.0: 3, 2.0: 13, 3.0: 4}])
    treatment = pool([{1.0: 8, 2.0: 8, 3.0: 4}, {1.0: 8, 2.0: 4, 3.0: 8}])
    assert flip_p(control, treatment, 0.5) == 0.5


def test_every_row_is_flipped_for_itself():
    rows = np.array([[1.0, 2.0, 3.0], [-1.0, -2.0, -3.0], [1.0, -2.0, 3.0], [0.0, 0.0, 0.0]])
    assert pooled.flip_p_of(rows).tolist() == [0.25, 0.25, 0.75, 1.0]


@pytest.mark.parametrize(
    ("one", "other", "both"), [((-1, 2), (-2, 1), (-2, 2)), ((-3, 4), (-2, 5), (-3, 5)), ((-1, 1), (-2, 2), (-2, 2))]
)
def test_a_widened_interval_leaves_out_what_both_do(one, other, both):
    found = pooled.widened(Interval(0.5, *one, 0.9, 9), Interval(0.7, *other, 0.95, 8))
    assert found == Interval(0.5, *both, 0.9, 9)


def given(estimate, replicates, blocks=3):
    """An arm with given resamples instead of random ones."""
    return Sampled(pool(histograms(1, blocks)), (0.5,), np.array([estimate]), np.array([replicates]))


def test_the_spread_of_a_block_is_that_of_resamples_times_the_root_of_their_number():
    """The spread is corrected by sqrt(n / (n - 1)), since resamples of few blocks vary less than blocks do."""
    one, other = np.linspace(-1, 1, 99), np.linspace(-1, 2, 99) ** 2
    for blocks in (2, 3):
        expected = np.std(one - other) * math.sqrt(blocks) * math.sqrt(blocks / (blocks - 1))
        assert pooled.spread(given(0.1, one, blocks), given(0.2, other, blocks), 0.5) == pytest.approx(expected)
    assert pooled.spread(given(0.1, one, 1), given(0.2, other, 1), 0.5) == math.inf
    first = Sampled.of(pool(histograms(8, 4)), (MEAN, 0.9, 0.5))
    assert pooled.spread(first, given(0.0, np.zeros(2000), 4), 0.5) == pytest.approx(
        2 * np.std(first.replicates[2]) * math.sqrt(4 / 3)
    )


def test_unequal_numbers_of_blocks_are_no_pairs():
    with pytest.raises(ValueError, match="2 and 3 blocks cannot be paired"):
        compared(given(0.0, np.zeros(99), 2), given(0.0, np.zeros(99)), 0.5, [0.95])


@pytest.mark.parametrize("estimate", [-5.0, 5.0])
def test_an_estimate_beyond_its_resamples_is_the_end(estimate):
    (found,) = compared(given(estimate, np.linspace(-1, 1, 99)), given(0.0, np.zeros(99)), 0.5, [0.9])
    assert found.estimate == estimate == (found.low if estimate < 0 else found.high)


@pytest.mark.parametrize(("p", "level", "shown"), [(0.05, 0.95, True), (0.0501, 0.95, False), (0.5, 0.5, True)])
@pytest.mark.parametrize("sign", [1, -1])
def test_flips_that_are_as_rare_as_alpha_show_it(monkeypatch, p, level, shown, sign):
    monkeypatch.setattr(pooled, "flip_p", lambda *_: p)
    (found,) = compared(given(sign, sign * np.linspace(0.5, 1.5, 99)), given(0.0, np.zeros(99)), 0.5, [level])
    assert found.excludes_zero() is shown
    assert shown or 0.0 in (found.low, found.high)


@pytest.mark.parametrize("blocks", [2, 7, 40])
@pytest.mark.parametrize("what", [0.9, MEAN])
def test_the_spread_of_a_block_is_that_of_the_resampled_ratio(blocks, what):
    arms = [Sampled.of(pool(histograms(seed, blocks)), WHATS) for seed in (3, 4)]
    control, treatment = (arm.replicates[WHATS.index(what)] for arm in arms)
    mean = (control - treatment).mean()
    variance = ((control - treatment - mean) ** 2).mean() * blocks / (blocks - 1)
    assert pooled.spread(*arms, what) == pytest.approx(math.sqrt(variance * blocks))


def test_a_single_block_has_no_known_spread():
    single = Sampled.of(pool(histograms(5, 1)), WHATS)
    assert pooled.spread(single, single, MEAN) == math.inf
