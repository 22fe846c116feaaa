"""The test after every block, the plan, the correction and the means, compared with computations by definition."""

import math

import numpy as np
import pytest
from scipy.stats import norm, t

from hakmem_lab.judge.statistics import means, stopping
from hakmem_lab.judge.statistics.paired import as_log, hodges_lehmann, paired_interval
from hakmem_lab.judge.statistics.plan import (
    Bets,
    Plan,
    least_bets,
    log_capital,
    obrien_fleming_levels,
    shown_after,
    spreads_before,
)
from hakmem_lab.judge.statistics.power import spread

STAKES = [(0.2, 0.4, 0.1), (0.5, 0.8, 0.2), (1.1, 0.97, 0.7)]
ALPHA, SHARE = 0.05, 0.35
INF = math.inf


def confidence_sequence(d, level=0.95):
    bets = Bets(d)
    return bets.bound((1 - level) / 2), bets.bound((1 - level) / 2, above=False)


def spread_of(known):
    """The standard deviation of fewer than 5 values, else the spread of a normal distribution with their quartiles."""
    if len(known) < 5:
        return float(np.std(known, ddof=1))
    ordered, quarter = sorted(known), (len(known) - 1) // 4
    return (ordered[len(known) - 1 - quarter] - ordered[quarter]) / 1.349


def capitals(d, centre=0.0, above=True):
    """The capital that three stakes make from 1, after every block. The spread is renewed after a tenth more blocks."""
    won, found, renewed, known = [share for _, _, share in STAKES], [], 0, None
    for index, value in enumerate(d):
        if index >= 2 and (not renewed or index >= max(renewed + 1, math.ceil(1.1 * renewed))):
            renewed, known = index, spread_of(d[:index])
        away = value - centre if above else centre - value
        if away == 0:
            z = 0.0
        elif known is None:
            z = math.copysign(1.0, away)
        else:
            z = away / known if known else math.copysign(INF, away)
        won = [
            capital * (1 + most * math.tanh(slope * z / most))
            for capital, (slope, most, _) in zip(won, STAKES, strict=True)
        ]
        found.append(sum(won))
    return found


def rows(seed, count, size, scale=0.03, effect=0.02):
    return np.random.default_rng(seed).normal(effect, scale, (count, size))


def test_the_spreads_of_rows_are_those_of_each():
    for shape in ((3, 12), (12, 3)):
        several = rows(1, *shape)
        assert np.array_equal(spreads_before(several), list(map(spreads_before, several)), equal_nan=True)


@pytest.mark.parametrize("above", [True, False])
@pytest.mark.parametrize("centre", [0.0, 0.02])
def test_the_capital(above, centre):
    for row in [*rows(1, 5, 45), np.array([0.02] * 3 + [0.5, 0.02, 0.0, 0.03, 0.0])]:
        most = np.maximum.accumulate(np.log(capitals(row, centre, above)))
        assert Bets(row).log_capital(centre, above) == pytest.approx(most)
        assert Bets(row).log_capital(centre) == pytest.approx(Bets(row).log_capital(centre, True))


@pytest.mark.parametrize("tail", [0.01, 0.3])
def test_the_first_block_that_shows_it(tail):
    for row in rows(4, 8, 40):
        for above in (True, False):
            reached = [count for count, won in enumerate(capitals(row, 0.01, above), 1) if won >= 1 / tail]
            assert shown_after(row, tail, 0.01, above) == (reached[0] if reached else None)
        assert shown_after(row, tail) == shown_after(row, tail, 0.0, True)


@pytest.mark.parametrize("level", [0.5, 0.95])
@pytest.mark.parametrize("scale", [1e-6, 0.03, 1e3])
def test_the_ends_are_where_the_capital_just_suffices(level, scale):
    tail = (1 - level) / 2
    for row in rows(5, 3, 25, scale, 3 * scale):
        low, high = confidence_sequence(row, level)
        step = 1e-9 * scale
        assert max(capitals(row, low, True)) >= (1 - 1e-9) / tail > max(capitals(row, low + step, True)) / (1 + 1e-6)
        assert max(capitals(row, high, False)) >= (1 - 1e-9) / tail
        assert max(capitals(row, low + 1e-4 * scale, True)) < 1 / tail
        assert max(capitals(row, high - 1e-4 * scale, False)) < 1 / tail


def test_an_end_may_lie_beyond_all_blocks():
    """Seven blocks just suffice at 5 %, so they exclude only centres far from all of them."""
    row = np.array([1.0, 1.02, 0.98, 1.01, 0.99, 1.03, 0.97, 1.0])
    low, high = confidence_sequence(row, 0.985)
    assert -math.inf < low < 0.97 and 1.03 < high < math.inf
    for end, above in ((low, True), (high, False)):
        assert max(capitals(row, end, above)) == pytest.approx(1 / 0.0075)
    assert high - 1 == pytest.approx(1 - low, rel=0.5)


@pytest.mark.parametrize("place", [0.0, 0.02, -5.0])
@pytest.mark.parametrize("ranges", [0.3, 1.5, 3.0])
def test_an_end_is_found_however_far_from_the_blocks_it_is(ranges, place):
    """The end is `ranges` times the blocks' range away from them; also for blocks symmetric around 0."""
    row = 0.01 * np.array([-1.0, 1.0, 0.3, -0.4, 0.8, -0.9, 0.1, -0.2])
    end = -0.01 - 0.02 * ranges
    tail = (1 + 1e-12) / capitals(row, end)[-1]
    assert Bets(row + place).bound(tail) == pytest.approx(end + place, abs=1e-5)
    assert Bets(-row - place).bound(tail, above=False) == pytest.approx(-end - place, abs=1e-5)


def test_equal_blocks_have_a_point_wherever_they_lie():
    for value in (0.0, 1e-3, 5.0):
        assert confidence_sequence([value] * 30) == pytest.approx((value, value), abs=1e-8)


@pytest.mark.parametrize("tail", [0.9, 0.4, 0.1, 0.025, 0.00875, 1e-4])
def test_fewest_blocks_of_a_bet(tail):
    """Equal blocks: the first two win the stake for one spread, all later ones the largest stake."""
    count = next(
        n
        for n in range(1, 99)
        if sum(
            share * (1 + most * math.tanh(slope / most)) ** min(n, 2) * (1 + most) ** max(0, n - 2)
            for slope, most, share in STAKES
        )
        >= 1 / tail
    )
    assert least_bets(tail) == count


def defined(d, looks, share):
    """(interval, equivalence): the intersection of the looks' intervals so far and the confidence sequence."""
    found = []
    for two_sided in (True, False):
        low, high = -INF, INF
        levels = obrien_fleming_levels(looks, ALPHA * (1 - share), two_sided)
        for count, level in zip(looks, levels, strict=True):
            if count <= len(d):
                look = paired_interval(d[:count], 1 - level if two_sided else 1 - 2 * level)
                low, high = max(low, look.low), min(high, look.high)
        if share:
            ends = confidence_sequence(d, 1 - (1 if two_sided else 2) * ALPHA * share)
            low, high = max(low, ends[0]), min(high, ends[1])
        found.append((low, high))
    return found


@pytest.mark.parametrize("share", [0.0, SHARE])
@pytest.mark.parametrize("count", [5, 9, 10, 14, 20, 27, 30, 35])
def test_the_intervals_of_a_plan(share, count):
    looks = (10, 20, 30)
    for row in rows(6, 3, count):
        interval, equivalence = defined(row, looks, share)
        judged = Plan(looks, share).judged(row, ALPHA)
        assert judged.consistent
        assert (judged.interval.low, judged.interval.high) == pytest.approx(interval)
        assert (judged.equivalence.low, judged.equivalence.high) == pytest.approx(equivalence)
        assert (judged.interval.level, judged.equivalence.level) == pytest.approx((0.95, 0.9))
        assert judged.interval.n == judged.equivalence.n == count
        estimate = min(max(hodges_lehmann(row), equivalence[0]), equivalence[1])
        assert judged.interval.estimate == judged.equivalence.estimate == pytest.approx(estimate)


def test_an_estimate_outside_what_is_left_over_is_at_its_end():
    """The first look's interval is above the level of the later blocks."""
    d = np.concatenate([rows(7, 1, 20, 0.001, 0.05)[0], rows(8, 1, 25, 0.02, 0.03)[0]])
    for sign in (1, -1):
        judged = Plan((20, 60), 0.0).judged(sign * d, ALPHA)
        assert sign * hodges_lehmann(sign * d) < min(sign * judged.equivalence.low, sign * judged.equivalence.high)
        assert judged.interval.estimate == (judged.equivalence.low if sign > 0 else judged.equivalence.high)


def test_parts_that_no_effect_explains_leave_no_interval():
    d = [*rows(9, 1, 20, 0.001, 0.3)[0], *rows(9, 1, 20, 0.001, -0.3)[0]]
    judged = Plan((20, 40), 0.0).judged(d, ALPHA)
    assert not judged.consistent
    for found in (judged.interval, judged.equivalence):
        assert (found.low, found.high, found.estimate) == (-INF, INF, hodges_lehmann(d))


def test_one_effect_that_explains_all_is_enough_and_both_intervals_must_have_one():
    point = Plan((20,), 0.0).judged([0.05] * 20, ALPHA)
    assert point.consistent and point.interval.low == point.interval.high == 0.05
    seen = set()
    for apart in np.linspace(0, 0.2, 60):
        d = np.concatenate([rows(9, 1, 20, 0.02, 0.0)[0], rows(9, 1, 20, 0.02, -apart)[0]])
        (low, high), (lower, higher) = defined(d, (20, 40), 0.0)
        assert Plan((20, 40), 0.0).judged(d, ALPHA).consistent is (low <= high and lower <= higher)
        seen.add((low <= high, lower <= higher))
    assert seen == {(True, True), (True, False), (False, False)}


@pytest.mark.parametrize("share", [0.0, SHARE])
@pytest.mark.parametrize("effect", [0.0, 0.02, -0.02])
def test_what_is_shown_is_what_the_intervals_leave_out(share, effect):
    plan, delta = Plan((8, 16, 24), share), as_log(0.015)
    for row in rows(10, 2, 26, 0.01, effect):
        shown = np.array(plan.shown(row, ALPHA, delta)).T.tolist()
        for count, found in enumerate(shown, 1):
            judged = plan.judged(row[:count], ALPHA)
            inside = -delta < judged.equivalence.low and judged.equivalence.high < delta
            assert found == [judged.interval.low > 0, judged.interval.high < 0, inside]


@pytest.mark.parametrize("looks", [(20, 40, 60), (4,), (9,)])
@pytest.mark.parametrize("alpha", [0.01, 0.02, 0.05, 0.1, 0.2, 0.4])
def test_fewest_blocks_of_a_plan(looks, alpha):
    """The smallest number of equal blocks that shows a direction, by the last look at that count or by a bet."""

    def fewest(shows):
        return next(n for n in range(1, 99) if shows([1.0] * n))

    by_looks = fewest(lambda d: paired_interval(d, 1 - obrien_fleming_levels(looks, alpha)[-1]).low > 0)
    assert Plan(looks, 0.0).least_blocks(alpha) == by_looks
    for share in (SHARE, 0.9):
        level = obrien_fleming_levels(looks, alpha * (1 - share))[-1]
        by_bets = fewest(lambda d, share=share: confidence_sequence(d, 1 - alpha * share)[0] > 0)
        by_looks = fewest(lambda d, level=level: paired_interval(d, 1 - level).low > 0)
        assert Plan(looks, share).least_blocks(alpha) == min(by_bets, by_looks)


def test_a_look_at_the_last_block_counts_and_its_end_is_not_beyond_itself():
    plan, row = Plan((8, 16, 24), 0.0), rows(10, 1, 26, 0.01, 0.02)[0]
    for one, other in zip(plan.shown(row[:24], ALPHA, 0.01), plan.shown(row, ALPHA, 0.01), strict=True):
        assert one.tolist() == other[:24].tolist()
    assert plan.shown(row[:8], ALPHA, 0.01)[0].tolist() == [False] * 8
    assert Plan((8,), 0.0).shown(row[:8], ALPHA, 0.01)[0].tolist() == [False] * 7 + [True]
    for value in (-0.01, 0.0, 0.01):
        above, below, inside = Plan((20,), 0.0).shown([value] * 20, ALPHA, 0.01)
        assert (above.any(), below.any(), inside.any()) == (value > 0, value < 0, value == 0)


def test_the_share_of_the_bets():
    assert Plan((20,)).share == SHARE
    assert Plan((20,), 0.0).share == 0.0
    with pytest.raises(ValueError, match="the share of alpha"):
        Plan((20,), 1.0)
    with pytest.raises(ValueError, match="increasing block counts"):
        Plan((40, 20))


def ends_at(row, spreads_of, looks, share, margin):
    """The mean of the blocks (in spreads) when the procedure ends on this row."""
    shown = {"up": False, "down": False, "more": False, "less": False}
    questions = {"up": (0.0, 1, 2), "down": (0.0, -1, 2), "more": (-margin, 1, 1), "less": (margin, -1, 1)}
    for count in range(1, len(row) + 1):
        mean = row[:count].mean()
        for name, (centre, side, sides) in questions.items():
            won = log_capital(side * (row[:count] - centre), spreads_of[:count])[-1]
            shown[name] |= bool(share) and won >= -math.log(ALPHA * share / sides)
            if count in looks:
                level = obrien_fleming_levels(looks, ALPHA * (1 - share), sides == 2)[looks.index(count)]
                shown[name] |= side * (mean - centre) * math.sqrt(count) >= norm.isf(level / sides)
        if (shown["up"] and mean >= margin) or (shown["down"] and mean <= -margin) or (shown["more"] and shown["less"]):
            break
    return mean


@pytest.mark.parametrize("share", [0.0, SHARE])
@pytest.mark.parametrize(
    ("effect", "margin"), [(0.0, 0.5), (1.2, 0.5), (-0.8, 0.4), (0.3, 0.9), (1.2, 1.5), (-1.2, 1.5)]
)
def test_the_mean_estimate_of_the_procedure(monkeypatch, share, effect, margin):
    monkeypatch.setattr(stopping, "_RUNS", 20)
    looks = (6, 12, 17, 30)
    half = np.random.default_rng(30).normal(size=(10, 14))
    noise = np.concatenate([half, -half])
    expected = np.mean([ends_at(row + effect, spreads_before(row), looks, share, margin) for row in noise])
    procedure = stopping._Procedure(Plan(looks, share), 14, ALPHA)
    assert procedure.mean_estimate(effect, margin) == pytest.approx(expected)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_corrected_estimate_is_the_effect_whose_mean_estimate_was_seen(sign):
    """Starts at the plain estimate, and five times adds the plain estimate minus the mean estimate at that effect."""
    row, plan, margin = sign * rows(11, 1, 9, 0.02, 0.03)[0], Plan((20, 40, 60)), as_log(0.01)
    plain, sigma = hodges_lehmann(row), spread(row)
    procedure = stopping._Procedure(plan, 60, ALPHA)
    found = abs(plain)
    for _ in range(5):
        found = min(abs(plain), found + abs(plain) - sigma * procedure.mean_estimate(found / sigma, margin / sigma))
    assert 0 < found < abs(plain)
    assert stopping.corrected(row, plan, margin, ALPHA) == pytest.approx(sign * found)


@pytest.mark.parametrize(("count", "last", "simulated"), [(9, 500, 60), (30, 500, 90), (30, 70, 70), (9, 50, 50)])
def test_how_far_the_procedure_is_simulated(monkeypatch, count, last, simulated):
    """Simulates three times the present blocks, at least 60, and at most the planned number."""

    class Fixed:
        def mean_estimate(self, effect, margin):
            return 0.0

    asked = []
    monkeypatch.setattr(
        stopping, "_procedure", lambda plan, blocks, alpha: asked.append((plan, blocks, alpha)) or Fixed()
    )
    row, plan = rows(12, 1, count)[0], Plan((last,))
    assert stopping.corrected(row, plan, 0.01, ALPHA) == hodges_lehmann(row)
    assert asked == [(plan, simulated, ALPHA)]


@pytest.mark.parametrize(
    "d", [[0.05] * 9, [-0.05] * 9, [0.0] * 9, [-0.01, 0.01] * 5, list(rows(12, 1, 20)[0]), list(rows(12, 1, 25)[0])]
)
def test_what_no_stop_has_chosen_or_nothing_varies_is_not_corrected(d):
    assert stopping.corrected(d, Plan((20,)), 0.01, ALPHA) == hodges_lehmann(d)


@pytest.mark.parametrize("sign", [1, -1])
def test_five_steps_towards_the_effect(monkeypatch, sign):
    """If the mean estimate is 1.25 times the effect, each step multiplies the error by -0.25."""

    class Linear:
        def mean_estimate(self, effect, margin):
            assert margin == pytest.approx(0.01 / spread(row))
            return 1.25 * effect

    monkeypatch.setattr(stopping, "_procedure", lambda *_: Linear())
    row = sign * rows(12, 1, 9, 0.02, 0.05)[0]
    plain = abs(hodges_lehmann(row))
    expected = plain / 1.25 + (plain - plain / 1.25) * (-0.25) ** 5
    assert stopping.corrected(row, Plan((20,)), 0.01, ALPHA) == pytest.approx(sign * expected)


def test_a_correction_does_not_go_beyond_0(monkeypatch):
    class Huge:
        def mean_estimate(self, effect, margin):
            return 1e6

    monkeypatch.setattr(stopping, "_procedure", lambda *_: Huge())
    assert stopping.corrected(rows(12, 1, 9)[0], Plan((20,)), 0.01, ALPHA) == 0.0


@pytest.mark.parametrize("higher", [False, True])
@pytest.mark.parametrize("level", [0.9, 0.95])
def test_the_interval_of_the_means_is_the_wider_of_two_at_each_end(higher, level):
    """Takes the wider end of 2000 resamples of whole blocks and of Student's t on the linearised ratio."""
    rng = np.random.default_rng(13)
    for skewed in (0.05, 1.5):
        control, treatment = np.exp(rng.normal(0, skewed, (2, 9, 3)))
        first, second = control.mean(axis=1), treatment.mean(axis=1)
        sign = 1 if higher else -1
        estimate = sign * math.log(second.mean() / first.mean())
        draws = np.random.default_rng(20).multinomial(9, [1 / 9] * 9, 2000)
        logs = [sign * math.log((row * second).sum() / (row * first).sum()) for row in draws]
        parts = second / second.mean() - first / first.mean()
        half = t.isf((1 - level) / 2, 8) * parts.std(ddof=1) / 3
        low, high = np.quantile(logs, [(1 - level) / 2, (1 + level) / 2])
        found = means.ratio_of_means(control, treatment, higher, level)
        assert found.ratio.estimate == pytest.approx(estimate)
        assert (found.ratio.low, found.ratio.high) == pytest.approx(
            (min(low, estimate - half), max(high, estimate + half))
        )
        assert found.spreads == pytest.approx(tuple(np.std(x, ddof=1) / np.mean(x) for x in (control, treatment)))
        assert (found.runs, found.ratio.n, found.ratio.level) == ((27, 27), 9, level)


def test_what_is_far_off_is_more_than_twice_as_bad_as_the_median():
    control, treatment = (
        [[1.0, 1.0], [1.0, 2.0], [1.0, 2.001], [1.0, 0.4]],
        [[1.0, 0.5], [1.0, 0.499], [1.0, 9.0], [1.0, 1.0]],
    )
    assert means.ratio_of_means(control, treatment).far == (1, 1)
    assert means.ratio_of_means(control, treatment, True).far == (1, 1)
    assert means.ratio_of_means(treatment[::-1], control, True).far == (1, 1)
    assert means.ratio_of_means([[1.0, 3.0], [1.0, 3.0], [1.0], [1.0]], [[1.0, 0.4], [1.0, 0.4], [1.0], [1.0]]).far == (
        2,
        0,
    )
    assert means.ratio_of_means(
        [[1.0, 3.0], [1.0, 3.0], [1.0], [1.0]], [[1.0, 0.4], [1.0, 0.4], [1.0], [1.0]], True
    ).far == (0, 2)
    assert means.ratio_of_means([[1.0, 3.0]] * 4, [[1.0]] * 4).runs == (8, 4)


def test_the_means_that_are_taken_where_nothing_else_is_said():
    control, treatment = np.exp(np.random.default_rng(14).normal(0, 0.3, (2, 6, 2)))
    assert means.ratio_of_means(control, treatment).ratio.level == 0.95
