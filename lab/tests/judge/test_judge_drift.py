"""Autocorrelated runs, with all of one side before the other: a drift must not be called a difference."""

import numpy as np
import pytest

from hakmem_lab.judge.statistics import unpaired
from hakmem_lab.kinds import judge


def noise(rng, count, rho, runs):
    """Rows of autoregressive noise with standard deviation 1."""
    found = np.empty((runs, count))
    found[:, 0] = rng.normal(size=runs)
    for at in range(1, count):
        found[:, at] = rho * found[:, at - 1] + np.sqrt(1 - rho**2) * rng.normal(size=runs)
    return found


@pytest.mark.parametrize(("rho", "most"), [(0.0, 0.05), (0.3, 0.06), (0.6, 0.08), (0.9, 0.06)])
@pytest.mark.parametrize("count", [10, 20])
def test_sequential_runs_that_resemble_each_other_are_rarely_called_different(count, rho, most):
    """3,000 pairs of samples of equal programs; the treatment's values follow the control's."""
    false = 0
    for row in noise(np.random.default_rng(5), 2 * count, rho, 3000):
        control, treatment = row[:count], row[count:]
        apart = unpaired.shift(control, treatment, 0.95).excludes_zero()
        false += apart and unpaired.alike(control, treatment) <= judge.DRIFTING
    assert false / 3000 <= most


def test_independent_runs_are_seldom_taken_for_drifting_ones():
    rows = noise(np.random.default_rng(6), 20, 0.0, 3000)
    drifting = sum(unpaired.alike(row[:10], row[10:]) > judge.DRIFTING for row in rows)
    assert drifting / 3000 < 0.1
