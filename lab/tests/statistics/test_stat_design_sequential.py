"""A design judged after every block: the error rate of all its questions together, and how soon they are answered."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from hakmem_lab.judge.statistics.factorial import freed_as_known, question_count, questions, without_drift
from hakmem_lab.judge.statistics.paired import as_log
from hakmem_lab.judge.statistics.plan import Plan
from hakmem_lab.judge.statistics.verdict import Verdict, sequential_verdict, settling_count
from hakmem_lab.plan import schedule

_found = importlib.util.spec_from_file_location("noise_kinds", Path(__file__).parent / "noise_kinds.py")
noise_kinds = importlib.util.module_from_spec(_found)
_found.loader.exec_module(noise_kinds)

ALPHA, MARGIN, BLOCKS, NAMES = 0.05, 0.02, 40, ["a", "b"]
CELLS = ["none", "a", "b", "ab"]
PLAN = Plan((BLOCKS,))
EACH = ALPHA / question_count(len(NAMES))


def at_most(simulations, share):
    return binom.ppf(0.999, simulations, share)


def places(seed, count):
    """The place of every cell in every block, as the laboratory draws them."""
    orders = [schedule.block(CELLS, seed, index).order for index in range(count)]
    return np.array([[order.index(name) for name in CELLS] for order in orders])


def designs(kind, simulations, count, seed):
    """Designs of equal cells: runs in the order of execution are assigned to the cells at these places."""
    runs = noise_kinds.KINDS[kind](np.random.default_rng(seed), simulations, 4 * count)
    for number, row in enumerate(runs.reshape(simulations, count, 4)):
        where = places(number, count)
        yield np.take_along_axis(row, where, axis=1), where


def claims_a_direction(cells, where):
    """Whether any question is answered with a direction after any block: better, worse, super- or sub-additive."""
    freed, _ = freed_as_known(cells, where)
    found = (PLAN.shown(question.d, EACH, as_log(MARGIN))[:2] for question in questions(freed, NAMES))
    return any(side.any() for sides in found for side in sides)


KINDS = ["normal", "heavy tails", "no variance", "two modes", "drift", "step", "neighbours alike", "rare and slow"]
MANY = pytest.param(3000, marks=pytest.mark.long)


@pytest.mark.parametrize("simulations", [50, MANY])
@pytest.mark.parametrize("kind", KINDS)
def test_all_questions_together_claim_a_direction_of_equal_cells_in_alpha_of_the_runs(kind, simulations):
    """Counts claims after any block, so the result holds however the run ends."""
    claimed = sum(claims_a_direction(*made) for made in designs(kind, simulations, BLOCKS, 31))
    assert claimed <= at_most(simulations, ALPHA)


@pytest.mark.parametrize("simulations", [25, MANY])
@pytest.mark.parametrize("kind", ["normal", "heavy tails", "drift"])
def test_a_design_that_goes_on_beyond_its_plan_claims_no_more(kind, simulations):
    """With three times the planned blocks, as after resume --more."""
    claimed = sum(claims_a_direction(*made) for made in designs(kind, simulations, 3 * BLOCKS, 32))
    assert claimed <= at_most(simulations, ALPHA)


@pytest.mark.parametrize("simulations", [40, MANY])
@pytest.mark.parametrize("interaction", [0.0, 0.04])
def test_large_effects_are_answered_before_the_plan_is_used(interaction, simulations):
    """Both factors gain 5 %. A run ends when each factor has an answer at both levels, and so has the interaction."""
    rng, ends, wrong = np.random.default_rng(33), [], 0
    truth = as_log(0.05) * np.array([0, 1, 1, 2]) + np.array([0, 0, 0, interaction])
    for cells in truth + rng.normal(0, 0.01, (simulations, BLOCKS, 4)):
        asked = [question for question in questions(cells, NAMES) if question.kind != "main"]
        ends.append(max(settling_count(question.d, PLAN, MARGIN, EACH) for question in asked))
        simple = [sequential_verdict(q.d, PLAN, MARGIN, EACH) for q in asked if q.kind == "simple"]
        wrong += any(word in (Verdict.NO_GO, Verdict.NEUTRAL) for word in simple)
    assert np.mean(ends) < 0.8 * BLOCKS
    assert wrong <= at_most(simulations, ALPHA)


def test_what_was_known_of_a_block_stays():
    """Later blocks do not change the contrasts of earlier ones; otherwise looks after every block would be invalid."""
    cells = np.random.default_rng(34).normal(0, 0.01, (30, 4)) + 0.05 * places(3, 30)
    whole, change = freed_as_known(cells, places(3, 30))
    for count in (3, 5, 12, 29):
        assert np.array_equal(freed_as_known(cells[:count], places(3, 30)[:count])[0], whole[:count])
    assert change == without_drift(cells, places(3, 30))[1] == pytest.approx(0.05, abs=2e-3)


def test_a_change_from_place_to_place_is_taken_out_after_the_first_square():
    rng, where = np.random.default_rng(35), places(5, 40)
    noise = rng.normal(0, 0.005, (40, 4))
    freed, _ = freed_as_known(noise + 0.1 * where, where)
    spread = {q.name: np.std(q.d[8:]) for q in questions(freed, NAMES)}
    still = {q.name: np.std(q.d[8:]) for q in questions(noise, NAMES)}
    assert all(spread[name] < 1.25 * still[name] for name in still)


@pytest.mark.parametrize("factors", [2, 3, 5])
def test_as_many_questions_share_alpha_as_are_asked(factors):
    names = list("abcde")[:factors]
    assert question_count(factors) == len(questions(np.zeros((1, 2**factors)), names))
