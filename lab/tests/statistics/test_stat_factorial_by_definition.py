"""Contrasts computed cell by cell, drift pair by pair, and the limits at which an effect counts as misleading."""

import itertools

import numpy as np
import pytest

from hakmem_lab.judge.statistics import factorial
from hakmem_lab.judge.statistics.factorial import Effect, Interaction, classify_interaction, misleading, without_drift
from hakmem_lab.judge.statistics.paired import Interval, paired_interval

NAMES = ("a", "b", "c")


def cells(blocks=9):
    return np.random.default_rng(1).normal(0, 1, (blocks, 8))


def cell(row, on):
    return row[sum(1 << NAMES.index(name) for name in on)]


def contrast(row, members, others, fixed=()):
    """The difference of differences over the member factors, averaged over the levels of the other factors."""
    if members:
        first, *rest = members
        return contrast(row, rest, others, (*fixed, first)) - contrast(row, rest, others, fixed)
    every = [on for size in range(len(others) + 1) for on in itertools.combinations(others, size)]
    return np.mean([cell(row, (*fixed, *on)) for on in every])


@pytest.mark.parametrize("simultaneous", [False, True])
def test_main_effects_and_interactions(simultaneous):
    found = factorial.effects(cells(), NAMES, 0.9, simultaneous)
    members = [one for size in (1, 2, 3) for one in itertools.combinations(NAMES, size)]
    assert [effect.factors for effect in found] == members
    for effect, own in zip(found, members, strict=True):
        others = [name for name in NAMES if name not in own]
        level = 1 - 0.1 / 7 if simultaneous else 0.9
        expected = paired_interval([contrast(row, own, others) for row in cells()], level)
        assert vars(effect.interval) == pytest.approx(vars(expected))
        assert (effect.name, effect.kind) == ("×".join(own), "main" if len(own) == 1 else "interaction")


@pytest.mark.parametrize("simultaneous", [False, True])
def test_simple_and_combined_effects(simultaneous):
    found = {effect.name: effect for effect in factorial.simple_effects(cells(), NAMES, 0.9, simultaneous)}
    expected = {}
    for name in NAMES:
        others = [other for other in NAMES if other != name]
        for levels in itertools.product((False, True), repeat=2):
            on = [other for other, level in zip(others, levels, strict=True) if level]
            words = ", ".join(f"{other} is {'on' if other in on else 'off'}" for other in others)
            d = [cell(row, (name, *on)) - cell(row, on) for row in cells()]
            expected[f"{name} while {words}"] = (d, "simple", (name,))
    for on in (("a", "b"), ("a", "c"), ("b", "c"), NAMES):
        expected["+".join(on)] = ([cell(row, on) - cell(row, ()) for row in cells()], "combined", on)
    assert found.keys() == expected.keys()
    for name, (d, kind, factors) in expected.items():
        interval = paired_interval(d, 1 - 0.1 / 16 if simultaneous else 0.9)
        assert vars(found[name].interval) == pytest.approx(vars(interval))
        assert (found[name].kind, found[name].factors) == (kind, factors)


def test_one_factor_has_one_effect():
    (main,), (simple,) = (effects([[1.0, 3.0]], ["a"]) for effects in (factorial.effects, factorial.simple_effects))
    assert (main.name, main.kind, main.interval.estimate) == ("a", "main", 2.0)
    assert (simple.name, simple.kind, simple.interval.estimate) == ("a", "simple", 2.0)


def test_each_at_95_percent_where_nothing_else_is_said():
    for effects in (factorial.effects, factorial.simple_effects):
        assert effects(cells(), NAMES) == effects(cells(), NAMES, 0.95, False)
        assert {effect.interval.level for effect in effects(cells(), NAMES)} == {0.95}


@pytest.mark.parametrize("factors", [1, 2, 3])
def test_the_questions_are_all_effects_before_they_are_judged(factors):
    blocks, names = cells()[:, : 2**factors], NAMES[:factors]
    asked = factorial.questions(blocks, names)
    judged = factorial.simple_effects(blocks, names) + factorial.effects(blocks, names)
    for question, effect in zip(asked, judged, strict=True):
        assert (question.name, question.kind, question.factors) == (effect.name, effect.kind, effect.factors)
        assert paired_interval(question.d) == effect.interval
    assert factorial.question_count(factors) == len(asked)


def effect(name, low, estimate, high, kind="interaction"):
    return Effect(name, Interval(estimate, low, high, 0.95, 9), kind, tuple(name.split("×")))


@pytest.mark.parametrize(
    ("low", "estimate", "high", "misleads"),
    [
        (0.01, 0.5, 1, True),
        (-1, -0.5, -0.01, True),
        (0.01, 0.499, 1, False),
        (-0.01, 0.6, 1, False),
        (0, 0.6, 1, False),
    ],
)
def test_an_interaction_misleads_where_it_is_shown_and_at_least_the_margin(low, estimate, high, misleads):
    found = [effect("a", -1, 0, 1, "main"), effect("c", -1, 0, 1, "main"), effect("a×b", low, estimate, high)]
    assert misleading(found, 0.5) == ({"a": found[2]} if misleads else {})


def test_the_largest_of_several_is_named():
    found = [effect("a", 1, 2, 3, "main"), effect("a×b", 1, 2, 3), effect("a×c", -5, -4, -3), effect("b×c", 8, 9, 10)]
    assert misleading(found, 0.5) == {"a": found[2]}


def test_only_interactions_mislead_and_only_about_main_effects():
    simple = Effect("b while a is off", Interval(9, 8, 10, 0.95, 9), "simple", ("b",))
    found = [effect("a", 8, 9, 10, "main"), simple, effect("b", 8, 9, 10, "simple"), effect("a×b", 1, 2, 3)]
    assert misleading(found, 0.5) == {"a": found[3]}


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (1e-12, 1, Interaction.SUPER_ADDITIVE),
        (0, 1, Interaction.NOT_SHOWN),
        (-1, 0, Interaction.NOT_SHOWN),
        (-1, -1e-12, Interaction.SUB_ADDITIVE),
    ],
)
def test_where_an_interaction_is_shown(low, high, word):
    assert classify_interaction(Interval(0, low, high, 0.95, 9)) is word


@pytest.mark.parametrize("drift", [0.3, -0.2])
def test_the_drift_is_the_weighted_median_of_all_slopes_within_blocks(drift):
    rng = np.random.default_rng(2)
    places = np.array([rng.permutation(4) for _ in range(5)])
    values = rng.normal(0, 0.2, (5, 4)) + drift * places + rng.normal(0, 1, (5, 1))
    own = np.median([row - row.mean() for row in values], axis=0)
    slopes = []
    for row, place in zip(values, places, strict=True):
        for i, j in itertools.combinations(range(4), 2):
            apart = int(place[j] - place[i])
            slopes += [(row[j] - own[j] - row[i] + own[i]) / apart] * abs(apart)
    middle = sorted(slopes)[(len(slopes) - 1) // 2]
    moved, slope = without_drift(values, places)
    assert slope == pytest.approx(middle)
    for row, place, found in zip(values, places, moved, strict=True):
        assert found == pytest.approx([x - middle * (p - 1.5) for x, p in zip(row, place, strict=True)])


def test_half_of_all_weight_is_what_makes_the_middle_slope():
    """Three slopes of equal weight; their differences from the middle one are -1, 0 and 2."""
    assert without_drift([[0, 1], [0, 2], [0, 4]], [[0, 1]] * 3)[1] == 0.0


@pytest.mark.parametrize("count", [3, 4, 5, 40])
def test_a_block_is_freed_of_what_those_before_it_have_shown(count):
    """From the second square on, a block is corrected by the slope of earlier ones, renewed after a tenth more."""
    rng = np.random.default_rng(3)
    places = np.array([rng.permutation(4) for _ in range(count)])
    values = rng.normal(0, 0.2, (count, 4)) + 0.3 * places + rng.normal(0, 1, (count, 1))
    freed, slope = factorial.freed_as_known(values, places)
    known = 0
    for index, (row, place) in enumerate(zip(values, places, strict=True)):
        if index >= 4 and index >= max(known + 1, 1.1 * known):
            known = index
        shown = without_drift(values[:known], places[:known])[1] if known else 0.0
        assert freed[index] == pytest.approx(row - shown * (place - 1.5))
    assert slope == without_drift(values, places)[1]


@pytest.mark.parametrize("shape", [(3, 2), (2, 4), (12,)])
def test_every_value_has_a_position(shape):
    with pytest.raises(ValueError, match="a position for every value"):
        without_drift(np.zeros((3, 4)), np.zeros(shape))


@pytest.mark.parametrize(
    ("blocks", "names", "message"),
    [
        (np.zeros(4), ["a", "b"], "2 factors need rows of 4 cells"),
        (np.zeros((0, 4)), ["a", "b"], "2 factors need rows of 4 cells"),
        (np.zeros((3, 8)), ["a", "b"], "2 factors need rows of 4 cells"),
        (np.zeros((3, 1)), [], "0 factors need rows of 1 cells"),
        (np.zeros((3, 4)), ["a", "a"], "factor names must differ"),
    ],
)
def test_what_is_no_design_is_refused(blocks, names, message):
    with pytest.raises(ValueError, match=message):
        factorial.effects(blocks, names)
