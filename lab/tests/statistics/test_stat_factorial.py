"""Two-level designs: contrasts of data with known effects."""

import numpy as np
import pytest
from scipy.stats import binom

from hakmem_lab.statistics.factorial import (
    Interaction,
    classify_interaction,
    effects,
    simple_effects,
)


def design(rng, blocks, main, interactions, noise=0.005):
    """Cells in Yates order: a level per block, noise per cell, effects of factors and of sets of factors."""
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
        {"a": 0.1, "b": 0.2, "a+b": 0.35}
    )


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


@pytest.mark.parametrize(
    ("cells", "names"), [([[0.0] * 3], ["a", "b"]), ([[0.0] * 4], ["a", "a"]), ([[0.0]], []), ([0.0] * 4, ["a", "b"])]
)
def test_bad_designs_are_refused(cells, names):
    with pytest.raises(ValueError):
        effects(cells, names)
