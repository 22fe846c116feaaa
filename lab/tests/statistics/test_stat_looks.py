"""Planned looks: O'Brien–Fleming constants and the error rate they keep."""

import math

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import binom

from hakmem_lab.judge.statistics.plan import obrien_fleming_levels, planned_looks

# Two-sided constants C_B(K, alpha) from Jennison & Turnbull, Group Sequential Methods (2000), table 2.3.
PUBLISHED = {
    0.01: [2.576, 2.580, 2.595, 2.609, 2.621],
    0.05: [1.960, 1.977, 2.004, 2.024, 2.040],
    0.10: [1.645, 1.678, 1.710, 1.733, 1.751],
}


@pytest.mark.parametrize("alpha", PUBLISHED)
@pytest.mark.parametrize("looks", range(1, 6))
def test_published_constants(alpha, looks):
    levels = obrien_fleming_levels(looks, alpha)
    constant = PUBLISHED[alpha][looks - 1]
    expected = [constant * math.sqrt(looks / k) for k in range(1, looks + 1)]
    assert [-float(ndtri(level / 2)) for level in levels] == pytest.approx(expected, abs=2.5e-3)


def test_one_sided_levels_are_half_the_two_sided_of_twice_alpha():
    one_sided = obrien_fleming_levels(3, 0.05, two_sided=False)
    assert [2 * level for level in one_sided] == pytest.approx(obrien_fleming_levels(3, 0.10), abs=1e-5)


@pytest.mark.parametrize("counts", [[7, 13, 20], [10, 50, 60], [5, 90, 100, 101]])
@pytest.mark.parametrize("two_sided", [True, False])
def test_unequal_looks_keep_alpha(counts, two_sided):
    rng = np.random.default_rng(21)
    paths, alpha = 40_000, 0.05
    steps = np.sqrt(np.diff([0, *counts])) * rng.normal(size=(paths, len(counts)))
    z = steps.cumsum(axis=1) / np.sqrt(counts)
    levels = np.array(obrien_fleming_levels(counts, alpha, two_sided))
    boundary = -ndtri(levels / 2) if two_sided else -ndtri(levels)
    crossed = ((np.abs(z) if two_sided else z) >= boundary).any(axis=1).sum()
    assert binom.ppf(0.0005, paths, alpha) <= crossed <= binom.ppf(0.9995, paths, alpha)


def test_early_looks_are_stricter():
    levels = obrien_fleming_levels(5, 0.05)
    assert levels == sorted(levels) and levels[-1] < 0.05
    assert obrien_fleming_levels(1, 0.05) == [0.05]


@pytest.mark.parametrize(
    ("blocks", "looks", "expected"),
    [(60, 3, [20, 40, 60]), (10, 3, [3, 7, 10]), (2, 3, [1, 2]), (1, 3, [1]), (9, 1, [9])],
)
def test_planned_looks(blocks, looks, expected):
    assert planned_looks(blocks, looks) == expected


@pytest.mark.parametrize("looks", [[], [0, 5], [5, 5], [9, 4], 0])
def test_bad_plans_are_refused(looks):
    with pytest.raises(ValueError):
        obrien_fleming_levels(looks, 0.05)


@pytest.mark.parametrize("alpha", [0, -0.1, 0.5, 2])
def test_bad_alpha_is_refused(alpha):
    with pytest.raises(ValueError):
        obrien_fleming_levels(3, alpha)
