"""Several arms: adjusted p-values, intervals that hold together, and the selection bias of a winner."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from hakmem_lab.judge.statistics.multiple import holm, select_best, simultaneous_intervals
from hakmem_lab.judge.statistics.paired import hodges_lehmann, paired_interval

p_values = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.02, 0.02, 0.5]) == pytest.approx([0.06, 0.06, 0.5])
    assert holm([0.0, 1.0]) == [0.0, 1.0]
    assert holm([]) == []
    for p in ([0.5, 1.2], [-0.1, 0.5]):
        with pytest.raises(ValueError, match="between 0 and 1"):
            holm(p)


@given(p_values)
@settings(deadline=None, derandomize=True)
def test_holm_keeps_order_and_only_raises(p):
    adjusted = holm(p)
    assert all(p_one <= a <= 1 for p_one, a in zip(p, adjusted, strict=True))
    assert [a for _, a in sorted(zip(p, adjusted, strict=True))] == sorted(adjusted)


def test_intervals_of_arms_that_share_a_baseline_hold_together():
    rng, simulations, arms = np.random.default_rng(71), 800, 6
    missed = 0
    for _ in range(simulations):
        cells = rng.standard_t(3, size=(24, arms + 1))
        columns = {str(arm): cells[:, arm] - cells[:, arms] for arm in range(arms)}
        missed += any(interval.excludes_zero() for interval in simultaneous_intervals(columns).values())
    assert missed <= binom.ppf(0.999, simulations, 0.05)


def test_one_arm_needs_no_adjustment():
    d = np.random.default_rng(72).normal(size=20)
    assert simultaneous_intervals({"only": d}) == {"only": paired_interval(d)}
    assert simultaneous_intervals({}) == {}


def test_each_of_three_has_a_third_of_what_may_go_wrong():
    columns = {name: np.random.default_rng(seed).normal(size=20) for seed, name in enumerate("abc")}
    assert simultaneous_intervals(columns, 0.9) == {
        name: paired_interval(d, 1 - 0.1 / 3) for name, d in columns.items()
    }
    assert simultaneous_intervals(columns) == simultaneous_intervals(columns, 0.95)


def test_selection_takes_the_highest_estimate_and_exaggerates_it():
    rng = np.random.default_rng(73)
    exaggeration = []
    for _ in range(200):
        columns = {str(arm): rng.normal(0, 0.03, 3) for arm in range(9)}
        winner = select_best(columns)
        assert all(hodges_lehmann(columns[winner]) >= hodges_lehmann(d) for d in columns.values())
        exaggeration.append(hodges_lehmann(columns[winner]))
    assert np.mean(exaggeration) > 0.02
    with pytest.raises(ValueError, match="no arms to select from"):
        select_best({})
