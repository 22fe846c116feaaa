"""Rates of counted events and their budget."""

import numpy as np
import pytest
from scipy.stats import chi2

from hakmem_lab.judge.statistics.paired import rate_interval


def test_interval_is_garwood_s():
    rate = rate_interval(7, 100.0)
    assert rate.estimate == 0.07
    assert rate.low == pytest.approx(chi2.ppf(0.025, 14) / 200)
    assert rate.high == pytest.approx(chi2.ppf(0.975, 16) / 200)


def test_no_events():
    rate = rate_interval(0, 1000.0)
    assert (rate.estimate, rate.low) == (0.0, 0.0)
    assert rate.high == pytest.approx(3.689 / 1000, rel=1e-3)


@pytest.mark.parametrize("mean", [0.5, 3.0, 40.0])
def test_coverage(mean):
    counts = np.random.default_rng(111).poisson(mean, 2000)
    covered = sum(rate.low <= mean <= rate.high for rate in (rate_interval(int(count), 1.0) for count in counts))
    assert covered / 2000 >= 0.94


@pytest.mark.parametrize(("count", "exposure"), [(-1, 1.0), (1, 0.0)])
def test_bad_counts_are_refused(count, exposure):
    with pytest.raises(ValueError):
        rate_interval(count, exposure)


@pytest.mark.parametrize(
    ("count", "exposure", "level"), [(-1, 1, 0.95), (1, 0, 0.95), (1, 1, 0.0), (1, 1, 1.0), (1, 1, 1.5)]
)
def test_each_senseless_argument_is_refused_by_name(count, exposure, level):
    with pytest.raises(ValueError, match="expected a count >= 0"):
        rate_interval(count, exposure, level)
