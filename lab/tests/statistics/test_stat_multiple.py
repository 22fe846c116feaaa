"""Several arms: intervals that hold together, and the selection bias of a winner."""

import numpy as np
import pytest
from scipy.stats import binom

from hakmem_lab.judge.statistics.paired import hodges_lehmann, paired_interval, select_best, simultaneous_intervals


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
    with pytest.raises(ValueError, match="no sides to select from"):
        select_best({})
