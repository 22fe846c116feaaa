"""Two-level designs: contrasts of data with known effects."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from hakmem_lab.judge.statistics.factorial import (
    Interaction,
    classify_interaction,
    effects,
    misleading,
    simple_effects,
    without_drift,
)


def design(rng, blocks, main, interactions, noise=0.005):
    """Cells in Yates order, with a level for each block, noise in each cell, main effects, and interactions."""
    cells = np.arange(2 ** len(main))
    truth = sum(effect * (cells >> bit & 1) for bit, effect in enumerate(main))
    for members, effect in interactions.items():
        truth = truth + effect * np.all([cells >> bit & 1 for bit in members], axis=0)
    return truth + rng.normal(0, 0.5, (blocks, 1)) + rng.normal(0, noise, (blocks, cells.size))


def test_contrasts_of_one_noiseless_block():
    found = effects([[0.0, 0.1, 0.2, 0.35]], ["a", "b"])
    assert [(effect.name, effect.kind) for effect in found] == [("a", "main"), ("b", "main"), ("a×b", "interaction")]
    assert [effect.interval.estimate for effect in found] == pytest.approx([0.125, 0.225, 0.05])
    simple = simple_effects([[0.0, 0.1, 0.2, 0.35]], ["a", "b"])
    assert {effect.name: effect.interval.estimate for effect in simple} == pytest.approx(
        {
            "a while b is off": 0.1,
            "a while b is on": 0.15,
            "b while a is off": 0.2,
            "b while a is on": 0.25,
            "a+b": 0.35,
        }
    )
    assert [effect.kind for effect in simple] == ["simple"] * 4 + ["combined"]


def test_known_effects_of_two_factors_are_found():
    cells = design(np.random.default_rng(61), 40, [0.02, -0.03], {(0, 1): 0.015})
    found = {effect.name: effect.interval for effect in effects(cells, ["x", "y"])}
    for name, truth in {"x": 0.02 + 0.0075, "y": -0.03 + 0.0075, "x×y": 0.015}.items():
        assert found[name].low <= truth <= found[name].high
        assert found[name].excludes_zero()
    assert classify_interaction(found["x×y"]) is Interaction.SUPER_ADDITIVE


def test_three_factors():
    cells = design(np.random.default_rng(62), 60, [0.02, 0.0, 0.01], {(0, 2): -0.02}, noise=0.002)
    found = {effect.name: effect for effect in effects(cells, ["a", "b", "c"])}
    assert list(found) == ["a", "b", "c", "a×b", "a×c", "b×c", "a×b×c"]
    assert found["a×c"].interval.estimate == pytest.approx(-0.02, abs=0.002)
    assert found["a"].interval.estimate == pytest.approx(0.01, abs=0.002)
    assert classify_interaction(found["a×c"].interval) is Interaction.SUB_ADDITIVE
    assert classify_interaction(found["a×b×c"].interval) is Interaction.NOT_SHOWN


def test_additive_data_show_no_interaction_more_than_alpha_allows():
    rng, simulations = np.random.default_rng(63), 1500
    shown = 0
    for _ in range(simulations):
        interaction = effects(design(rng, 12, [0.05, 0.03], {}), ["a", "b"])[2]
        shown += classify_interaction(interaction.interval) is not Interaction.NOT_SHOWN
    assert shown <= binom.ppf(0.999, simulations, 0.05)


def test_simultaneous_intervals_hold_together():
    rng, simulations = np.random.default_rng(64), 800
    missed = 0
    for _ in range(simulations):
        found = effects(design(rng, 20, [0.0, 0.0], {}), ["a", "b"], 0.95, simultaneous=True)
        missed += any(effect.interval.excludes_zero() for effect in found)
    assert missed <= binom.ppf(0.999, simulations, 0.05)


def test_exchanging_the_factors_exchanges_their_effects():
    cells = design(np.random.default_rng(65), 15, [0.02, -0.01], {(0, 1): 0.01})
    there = {effect.name: effect.interval for effect in effects(cells, ["a", "b"])}
    back = {effect.name: effect.interval for effect in effects(cells[:, [0, 2, 1, 3]], ["b", "a"])}
    assert there["a"].estimate == pytest.approx(back["a"].estimate)
    assert there["a×b"].low == pytest.approx(back["b×a"].low)


def test_every_level_of_three_factors():
    found = simple_effects([[float(cell) for cell in range(8)]], ["a", "b", "c"])
    assert [effect.name for effect in found if effect.kind == "combined"] == ["a+b", "a+c", "b+c", "a+b+c"]
    sizes = {effect.name: effect.interval.estimate for effect in found}
    assert sizes["b while a is on, c is off"] == 2.0 and sizes["a+b+c"] == 7.0
    assert len(found) == 3 * 4 + 4


def test_a_main_effect_misleads_where_its_interaction_is_shown_and_matters():
    rng = np.random.default_rng(66)
    crossed = effects(design(rng, 30, [0.3, -0.3, 0.1], {(0, 1): -0.6}), ["a", "b", "c"])
    assert {name: by.name for name, by in misleading(crossed, 0.01).items()} == {"a": "a×b", "b": "a×b"}
    small = effects(design(rng, 30, [0.3, -0.3], {(0, 1): 0.005}, noise=0.001), ["a", "b"])
    assert small[2].interval.excludes_zero() and not misleading(small, 0.01)
    noisy = effects(design(rng, 30, [0.3, -0.3], {(0, 1): 0.05}, noise=1.0), ["a", "b"])
    assert not noisy[2].interval.excludes_zero() and not misleading(noisy, 0.01)


def flipped_p(d, value):
    """Two-sided p-value of the signed-rank test, over all combinations of the blocks' signs."""
    ranks = np.argsort(np.argsort(np.abs(d - value))) + 1.0
    signs = np.array(list(itertools.product([-1, 1], repeat=len(d))))
    sums = signs @ ranks
    return 2 * min((sums <= ranks @ np.sign(d - value)).mean(), (sums >= ranks @ np.sign(d - value)).mean())


def test_an_interval_is_what_flipping_the_blocks_does_not_refuse():
    d = np.random.default_rng(67).normal(0.02, 0.03, 9)
    interval = effects([[0.0, 0.0, 0.0, value] for value in d], ["a", "b"], 0.95)[2].interval
    step = 1e-6
    for end, inwards in ((interval.low, step), (interval.high, -step)):
        assert flipped_p(d, end + inwards) > 0.05 >= flipped_p(d, end - inwards)


def places(rng, blocks, cells):
    """Rows of randomised Latin squares."""
    rows = []
    while len(rows) < blocks:
        base = rng.permutation(cells)
        rows += [(base + shift) % cells for shift in rng.permutation(cells)]
    return np.array(rows[:blocks])


def test_what_the_place_in_the_block_does_is_taken_out():
    rng = np.random.default_rng(68)
    order = places(rng, 30, 4)
    cells = design(rng, 30, [0.02, 0.0], {}, noise=0.001)
    freed, change = without_drift(cells + 0.01 * order, order)
    assert change == pytest.approx(0.01, abs=5e-4)
    drifted = simple_effects(cells + 0.01 * order, ["a", "b"])[0].interval
    clean = simple_effects(freed, ["a", "b"])[0].interval
    assert clean.high - clean.low < (drifted.high - drifted.low) / 5
    assert clean.low <= 0.02 <= clean.high
    still, none = without_drift(cells, order)
    assert none == pytest.approx(0, abs=5e-4) and still == pytest.approx(cells, abs=2e-3)


def test_equal_cells_in_drifting_blocks_show_nothing_more_often_than_alpha():
    rng, simulations = np.random.default_rng(69), 1000
    shown = {"simple": 0, "interaction": 0}
    for _ in range(simulations):
        order = places(rng, 10, 4)
        drift = rng.normal(0.02, 0.01, (10, 1)) * order
        heavy = rng.standard_t(3, (10, 4)) * 0.01
        freed, _ = without_drift(drift + heavy, order)
        shown["simple"] += simple_effects(freed, ["a", "b"])[0].interval.excludes_zero()
        shown["interaction"] += effects(freed, ["a", "b"])[2].interval.excludes_zero()
    assert max(shown.values()) <= binom.ppf(0.999, simulations, 0.05)


def test_positions_belong_to_values():
    with pytest.raises(ValueError, match="position"):
        without_drift([[0.0] * 4], [[0, 1, 2]])


@pytest.mark.parametrize(
    ("cells", "names"), [([[0.0] * 3], ["a", "b"]), ([[0.0] * 4], ["a", "a"]), ([[0.0]], []), ([0.0] * 4, ["a", "b"])]
)
def test_bad_designs_are_refused(cells, names):
    with pytest.raises(ValueError):
        effects(cells, names)
