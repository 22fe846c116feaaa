"""Schedules, by their properties."""

import itertools
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from hakmem_lab.plan import schedule

SEEDS = st.integers(min_value=0, max_value=2**31 - 1)
INDEXES = st.integers(min_value=0, max_value=100_000)
ARMS = st.lists(st.text(min_size=1, max_size=8), min_size=2, max_size=12, unique=True)
TAIL = 1e-6


def inside_binomial(successes: int, trials: int, share: float) -> bool:
    low, high = binom.interval(1 - TAIL, trials, share)
    return low <= successes <= high


@given(SEEDS, INDEXES)
def test_pair_block_holds_each_arm_twice_in_mirror_order(seed, index):
    order = schedule.pair_block("A", "B", seed, index).order
    assert Counter(order) == {"A": 2, "B": 2}
    assert order == order[::-1]
    assert order[0] != order[1]


@given(SEEDS, INDEXES, st.floats(-1e6, 1e6), st.floats(-1e3, 1e3))
def test_linear_drift_cancels_in_a_pair_block(seed, index, level, slope):
    order = schedule.pair_block("A", "B", seed, index).order
    positions = {name: [p for p, arm in enumerate(order) if arm == name] for name in "AB"}
    assert sum(positions["A"]) == sum(positions["B"])
    drift = {name: sum(level + slope * p for p in places) for name, places in positions.items()}
    assert drift["A"] == pytest.approx(drift["B"], rel=1e-12, abs=1e-6)


@given(SEEDS)
@settings(max_examples=20, deadline=None)
def test_both_orders_of_a_pair_are_equally_likely(seed):
    blocks = 2000
    first = sum(schedule.pair_block("A", "B", seed, index).order[0] == "A" for index in range(blocks))
    assert inside_binomial(first, blocks, 0.5)


@given(INDEXES)
@settings(max_examples=20, deadline=None)
def test_both_orders_are_equally_likely_over_seeds(index):
    seeds = 2000
    first = sum(schedule.pair_block("A", "B", seed, index).order[0] == "A" for seed in range(seeds))
    assert inside_binomial(first, seeds, 0.5)


def test_the_order_of_a_block_says_nothing_about_the_next():
    blocks = 4000
    first = [schedule.pair_block("A", "B", 11, index).order[0] == "A" for index in range(blocks + 1)]
    same = sum(a == b for a, b in itertools.pairwise(first))
    assert inside_binomial(same, blocks, 0.5)


@given(ARMS, SEEDS, st.integers(0, 5000))
@settings(max_examples=60)
def test_every_k_consecutive_rows_make_a_latin_square(arms, seed, square):
    k = len(arms)
    rows = [schedule.row_block(arms, seed, square * k + row).order for row in range(k)]
    assert all(sorted(row) == sorted(arms) for row in rows)
    assert all(sorted(column) == sorted(arms) for column in zip(*rows, strict=True))


@pytest.mark.parametrize("k", range(2, 13))
def test_latin_square_of_each_size(k):
    arms = [f"arm {i}" for i in range(k)]
    rows = schedule.latin_square(arms, random.Random(k))
    assert len(rows) == k
    assert all(set(line) == set(arms) for line in (*rows, *zip(*rows, strict=True)))


@pytest.mark.parametrize("k", [3, 5, 12])
def test_every_arm_is_equally_likely_at_every_position_of_one_row(k):
    arms, draws = [str(i) for i in range(k)], 3000
    counts = Counter((name, place) for seed in range(draws)
                     for place, name in enumerate(schedule.row_block(arms, seed, 1).order))  # fmt: skip
    assert all(inside_binomial(counts[name, place], draws, 1 / k) for name in arms for place in range(k))


@pytest.mark.parametrize("k", [3, 4, 6])
def test_every_arm_precedes_every_other_equally_often(k):
    """Otherwise the after-effects of one arm would always disturb the same other arm."""
    arms, squares = [str(i) for i in range(k)], 1500
    follows = Counter()
    for seed in range(squares):
        order = schedule.row_block(arms, seed, seed % k).order
        follows.update(itertools.pairwise(order))
    assert all(inside_binomial(follows[a, b], squares, 1 / k) for a in arms for b in arms if a != b)


@given(ARMS, SEEDS, INDEXES)
def test_the_same_seed_and_index_give_the_same_block(arms, seed, index):
    first = schedule.block(arms, seed, index)
    random.seed(index)
    schedule.block(arms, seed, index + 1)
    assert schedule.block(arms, seed, index) == first
    assert first.index == index


@given(ARMS, SEEDS, INDEXES)
def test_pads_are_drawn_for_every_run_within_their_range(arms, seed, index):
    block = schedule.block(arms, seed, index)
    assert len(block.pads) == len(block.order) == (4 if len(arms) == 2 else len(arms))
    assert all(0 <= pad < schedule.PAD_BYTES for pad in block.pads)


def test_pads_use_their_whole_range_and_differ():
    pads = [pad for index in range(500) for pad in schedule.pair_block("A", "B", 5, index).pads]
    assert min(pads) < schedule.PAD_BYTES * 0.01
    assert max(pads) > schedule.PAD_BYTES * 0.99
    assert len(set(pads)) > 1000


def test_different_seeds_give_different_schedules():
    orders = {tuple(schedule.pair_block("A", "B", seed, i).order[0] for i in range(64)) for seed in range(200)}
    assert len(orders) == 200


@pytest.mark.parametrize("arms", [[], ["A"], ["A", "A"], ["A", "B", "A"]])
def test_fewer_than_two_different_arms_are_refused(arms):
    with pytest.raises(ValueError, match="two or more"):
        schedule.block(arms, 1, 0)


@given(ARMS, SEEDS, INDEXES)
def test_a_block_of_arms_together_is_two_rounds_of_every_arm(arms, seed, index):
    block = schedule.block(arms, seed, index, schedule.TOGETHER)
    first, second = block.order[: len(arms)], block.order[len(arms) :]
    assert sorted(first) == sorted(second) == sorted(arms)
    assert len(block.pads) == len(block.order) == len(arms) * schedule.runs_of_each(len(arms), schedule.TOGETHER)
    assert block == schedule.block(arms, seed, index, schedule.TOGETHER)


def test_every_arm_is_started_equally_often_at_every_place_together():
    blocks = 3000
    at = Counter()
    for index in range(blocks):
        order = schedule.block("abc", 7, index, schedule.TOGETHER).order
        at.update((name, place % 3) for place, name in enumerate(order))
    assert len(at) == 9
    assert all(inside_binomial(count, 2 * blocks, 1 / 3) for count in at.values())
