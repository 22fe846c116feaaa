"""A/A checks: false verdicts, noise figures, and detection of a runner that treats its arms differently."""

from collections import Counter

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import binom

from hakmem_lab.judge.statistics import aa
from hakmem_lab.judge.statistics.aa import (
    aa_false_verdicts,
    autocorrelation,
    coefficient_of_variation,
    sequential_false_rate,
)
from hakmem_lab.judge.statistics.verdict import Verdict


def machine(rng, blocks=120, rho=0.41, scale=0.03):
    return lfilter([1], [1, -rho], rng.normal(0, scale, 4 * blocks + 100))[100:].reshape(blocks, 4)


def test_a_noisy_machine_is_fit_when_runs_are_interleaved():
    rng = np.random.default_rng(101)
    result = aa_false_verdicts(machine(rng), 0.01, 0.05, 400, rng, executed_abba=rng.random(120) < 0.5)
    assert result.state != "unfit" and result.rate <= result.bound
    assert result.false_go + result.false_no_go + result.neutral + result.inconclusive == result.resamples == 400
    assert result.rate == (result.false_go + result.false_no_go) / 400
    assert result.bound == pytest.approx(0.0725)
    assert result.autocorrelation == pytest.approx(0.41, abs=0.12)
    assert result.sequential_rate > 0.3
    assert any("10 runs of A, then 10 of B" in line for line in result.advice)


def test_a_drifting_machine_is_fit_too():
    rng = np.random.default_rng(102)
    runs = machine(rng) + np.linspace(0, 0.5, 480).reshape(120, 4)
    assert aa_false_verdicts(runs, rng=rng).fit


def test_a_runner_that_favours_one_arm_is_found():
    rng = np.random.default_rng(103)
    abba = rng.random(120) < 0.5
    second_arm = np.where(abba[:, None], [0, 1, 1, 0], [1, 0, 0, 1])
    result = aa_false_verdicts(machine(rng) + 0.02 * second_arm, rng=rng, executed_abba=abba)
    assert not result.fit
    assert result.bias.estimate == pytest.approx(0.02, abs=0.008)
    assert any("not run alike" in line for line in result.advice)


def labelled(rng, blocks, scale, bias=0.0):
    """An A/A in which the second arm is favoured by `bias` (log)."""
    abba = rng.random(blocks) < 0.5
    second_arm = np.where(abba[:, None], [0, 1, 1, 0], [1, 0, 0, 1])
    runs = machine(rng, blocks, 0.0, scale) + bias * second_arm
    return aa_false_verdicts(runs, resamples=200, rng=rng, executed_abba=abba)


@pytest.mark.parametrize("checks", [12, pytest.param(40, marks=pytest.mark.long)])
def test_a_fair_runner_is_not_accused(checks):
    rng = np.random.default_rng(104)
    assert sum(labelled(rng, 40, 0.03).state == "unfit" for _ in range(checks)) <= 1


def test_a_quiet_fair_runner_is_fit_and_a_noisy_one_open():
    rng = np.random.default_rng(111)
    assert {labelled(rng, 60, 0.005).state for _ in range(10)} == {"fit"}
    noisy = labelled(rng, 20, 0.05)
    assert noisy.state == "open"
    assert any("is not shown yet" in line for line in noisy.advice)


@pytest.mark.parametrize("bias", [0.005, 0.01])
def test_a_bias_of_half_the_margin_or_more_passes_in_alpha_of_all_checks(bias, monkeypatch):
    """A bias must be shown to be small, however few blocks there are. Only this can fail the check here, since the
    resampled verdicts, which take nearly all of its time, are replaced by right ones."""
    monkeypatch.setattr(aa, "_resampled_verdicts", lambda *_: Counter({Verdict.NEUTRAL: 200}))
    rng, checks = np.random.default_rng(112), 400
    passed = sum(labelled(rng, 40, 0.015, np.log1p(bias)).fit for _ in range(checks))
    assert passed <= binom.ppf(0.999, checks, 0.05)


def test_wrong_verdicts_make_the_machine_unfit(monkeypatch):
    rng = np.random.default_rng(105)
    monkeypatch.setattr(
        aa, "sequential_verdict", lambda *_: Verdict.GO if rng.random() < 0.15 else Verdict.INCONCLUSIVE
    )
    result = aa_false_verdicts(machine(rng), rng=rng)
    assert not result.fit and result.rate > result.bound
    assert any("cannot be trusted" in line for line in result.advice)


def test_advice_says_how_many_blocks():
    rng = np.random.default_rng(106)
    noisy, quiet = (aa_false_verdicts(machine(rng, 60, 0.0, scale), rng=rng) for scale in (0.08, 0.002))
    assert noisy.blocks_per_verdict > 60 and quiet.blocks_per_verdict <= 10
    assert any(f"Plan about {noisy.blocks_per_verdict} blocks" in line for line in noisy.advice)
    assert quiet.advice == [] and quiet.neutral == quiet.resamples


def test_same_seed_same_result():
    runs = machine(np.random.default_rng(107), 40)
    assert aa_false_verdicts(runs, rng=5) == aa_false_verdicts(runs, rng=5)


@pytest.mark.parametrize(
    ("runs", "resamples"), [(np.zeros((20, 3)), 200), (np.zeros((20, 4)), 100), (np.zeros((5, 4)), 200)]
)
def test_bad_data_are_refused(runs, resamples):
    with pytest.raises(ValueError):
        aa_false_verdicts(runs, resamples=resamples)


def test_autocorrelation():
    rng = np.random.default_rng(108)
    series = lfilter([1], [1, -0.6], rng.normal(size=20_000))
    assert autocorrelation(series) == pytest.approx(0.6, abs=0.02)
    assert autocorrelation(series, 2) == pytest.approx(0.36, abs=0.03)
    assert autocorrelation(1e-3 * series) == pytest.approx(autocorrelation(series))
    assert autocorrelation([3.0] * 10) == 0.0
    with pytest.raises(ValueError):
        autocorrelation([1.0, 2.0])


def test_coefficient_of_variation():
    assert coefficient_of_variation([9.0, 10.0, 11.0]) == pytest.approx(0.1)
    with pytest.raises(ValueError):
        coefficient_of_variation([1.0, 0.0])


def test_sequential_rate_needs_twenty_runs():
    assert np.isnan(sequential_false_rate([0.0] * 19))
    assert sequential_false_rate([0.0] * 10 + [0.02] * 10) == 1.0


def test_figures_in_a_small_unit_are_as_noisy():
    """In a tiny unit the figures are huge: their logs are larger by 1000, and the noise must be the same."""
    runs = machine(np.random.default_rng(109), 12)
    near, far = aa_false_verdicts(runs, resamples=200, rng=1), aa_false_verdicts(runs + 1000, resamples=200, rng=1)
    assert far.coefficient_of_variation == pytest.approx(near.coefficient_of_variation)
    assert far.sequential_rate == near.sequential_rate > 0
