"""The A/A check, part by part: its draws, its advice, and the exact limits at which a machine is fit."""

import math
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.stats import binom

from hakmem_lab.judge.statistics import aa
from hakmem_lab.judge.statistics.aa import AAResult, aa_false_verdicts, autocorrelation, sequential_false_rate
from hakmem_lab.judge.statistics.paired import Interval, as_log, paired_interval
from hakmem_lab.judge.statistics.plan import Plan, planned_looks
from hakmem_lab.judge.statistics.power import blocks_for, spread
from hakmem_lab.judge.statistics.verdict import Verdict

TINY = 1e-12


def machine(blocks=30, scale=0.01, seed=1):
    return np.random.default_rng(seed).normal(3, scale, (blocks, 4))


def contrasts(runs):
    return np.array([(b + c - a - d) / 2 for a, b, c, d in runs])


@pytest.mark.parametrize(("blocks", "size"), [(30, 15), (31, 15), (12, 6), (13, 6)])
def test_windows_and_subsets_of_half_of_the_blocks_get_random_signs(monkeypatch, blocks, size):
    """Every other draw is a window of neighbouring blocks, and windows begin at every possible place."""
    seen, runs = [], machine(blocks)
    monkeypatch.setattr(aa, "sequential_verdict", lambda *words: seen.append(words) or Verdict.NEUTRAL)
    result = aa_false_verdicts(runs, 0.02, 0.04, 300, 5)
    assert result.neutral == len(seen) == 300
    places = [[int(np.argmin(abs(abs(contrasts(runs)) - abs(x)))) for x in d] for d, *_ in seen]
    windows, subsets = places[::2], places[1::2]
    assert all(place == list(range(place[0], place[0] + size)) for place in windows)
    assert {place[0] for place in windows} == set(range(blocks - size + 1))
    assert all(len(set(place)) == size for place in subsets)
    assert sum(place != sorted(place) or place[-1] - place[0] > size for place in subsets) > 100
    signs = Counter(
        x * contrasts(runs)[i] > 0
        for (d, *_), place in zip(seen, places, strict=True)
        for x, i in zip(d, place, strict=True)
    )
    assert signs[True] / (300 * size) == pytest.approx(0.5, abs=0.05)
    assert {words[1:] for words in seen} == {(Plan(tuple(planned_looks(size))), 0.02, 0.04)}


def test_half_of_the_blocks_but_no_fewer_than_a_verdict_needs():
    """At an alpha of 1 %, a verdict needs 8 blocks, so 16 are needed in all."""
    for runs, alpha, least in ((machine(11), 0.05, 12), (machine(15), 0.01, 16)):
        with pytest.raises(ValueError, match=f"at least {least} blocks are needed, got {len(runs)}"):
            aa_false_verdicts(runs, alpha=alpha)


@pytest.mark.parametrize("runs", [np.zeros(4), np.zeros((30, 3)), np.full((30, 4), math.nan)])
def test_runs_that_are_no_blocks_of_four_are_refused(runs):
    with pytest.raises(ValueError, match="finite rows of 4 runs"):
        aa_false_verdicts(runs)


def test_fewer_than_200_resamples_are_refused():
    with pytest.raises(ValueError, match="at least 200 resamples"):
        aa_false_verdicts(machine(), resamples=199)
    assert aa_false_verdicts(machine(12), resamples=200).resamples == 200


def test_what_is_taken_where_nothing_is_said():
    assert aa_false_verdicts(machine(30, 0.05)) == aa_false_verdicts(machine(30, 0.05), 0.01, 0.05, 400, 0)
    assert aa_false_verdicts(machine(30, 0.05)) != aa_false_verdicts(machine(30, 0.05), 0.01, 0.05, 400, 1)


@pytest.mark.parametrize("plan", [None, Plan((10, 20, 30))])
def test_every_figure_of_a_result(monkeypatch, plan):
    words = [Verdict.GO] * 3 + [Verdict.NO_GO] * 5 + [Verdict.NEUTRAL] * 90 + [Verdict.INCONCLUSIVE] * 102
    monkeypatch.setattr(aa, "sequential_verdict", lambda *_: words.pop())
    runs, abba = machine(), np.arange(30) % 3 == 0
    result = aa_false_verdicts(runs, 0.02, 0.04, 200, executed_abba=abba, plan=plan)
    assert (result.false_go, result.false_no_go, result.neutral, result.inconclusive) == (3, 5, 90, 102)
    assert (result.rate, result.bound) == (0.04, binom.ppf(0.975, 200, 0.04) / 200)
    d = contrasts(runs)
    sigma = spread([*d, *-d])
    assert result.spread == pytest.approx(sigma)
    assert result.blocks_per_verdict == blocks_for(sigma, 0.0, 0.02, 0.04)
    assert result.autocorrelation == autocorrelation(runs.ravel(), 1)
    costs = np.exp(runs.ravel())
    assert result.coefficient_of_variation == pytest.approx(costs.std(ddof=1) / costs.mean())
    assert result.sequential_rate == sequential_false_rate(runs.ravel(), 0.02)
    labelled = np.where(abba, d, -d)
    expected = plan.judged(labelled, 0.04).equivalence if plan else paired_interval(labelled, 0.92)
    assert vars(result.bias) == pytest.approx(vars(expected))
    assert (result.blocks, result.resamples) == (30, 200)
    assert result.advice == aa._advice(result, 0.02)


def test_without_labels_there_is_no_bias():
    assert aa_false_verdicts(machine(), resamples=200).bias is None
    assert aa_false_verdicts(machine(12, 0.1), resamples=200).advice != []


@dataclass
class Bias:
    low: float
    high: float
    d: list

    def interval(self, alpha):
        return Interval(0.0, self.low, self.high, 1 - 2 * alpha, 20)


HALF = as_log(0.005)
SHOWN, HIDDEN = [0.1] * 20, [0.1, -0.1] * 10


@pytest.mark.parametrize(
    ("rate", "bias", "state"),
    [
        (0.08, None, "fit"),
        (0.08 + TINY, None, "unfit"),
        (0.0, Bias(-HALF + TINY, HALF - TINY, SHOWN), "fit"),
        (0.0, Bias(-HALF, 0.0, HIDDEN), "open"),
        (0.0, Bias(0.0, HALF, HIDDEN), "open"),
        (0.0, Bias(0.0, HALF, SHOWN), "unfit"),
        (0.0, Bias(-HALF, 0.0, SHOWN), "unfit"),
        (0.0, Bias(-1.0, 1.0, [0.1] * 10), "open"),
        (0.0, Bias(-1.0, 1.0, [0.1] * 11), "unfit"),
        (0.09, Bias(-TINY, TINY, HIDDEN), "unfit"),
    ],
)
def test_where_a_machine_is_fit(rate, bias, state):
    """A bias is shown at 99.9 %, which needs at least 11 equal blocks, since 2^-10 is above half of 0.1 %."""
    assert aa._state(rate, 0.08, bias, 0.01, 0.05) == state


RESULT = AAResult(
    false_go=0, false_no_go=0, neutral=400, inconclusive=0, resamples=400, rate=0.0, bound=0.0725, state="fit",
    advice=[], blocks=60, autocorrelation=0.3, coefficient_of_variation=0.02, spread=0.02,
    blocks_per_verdict=60, sequential_rate=0.42, bias=Interval(as_log(0.02), as_log(0.01), as_log(-0.03), 0.9, 60),
)  # fmt: skip


@pytest.mark.parametrize(
    ("changed", "advice"),
    [
        ({}, []),
        ({"rate": 0.0725}, []),
        (
            {"rate": 0.08, "state": "unfit"},
            "8.0% of the A/A comparisons gave a false verdict, more than the 7.2% that chance explains: verdicts from "
            "this machine cannot be trusted.",
        ),
        (
            {"state": "unfit"},
            "Two identical sides differ by +2.00%: they are not run alike. Check what differs between them "
            "(environment, "
            "paths, order).",
        ),
        (
            {"state": "open"},
            "Two identical sides may differ by as much as half the margin of 1.00% (between +1.00% and "
            "-3.00%): that they "
            "are run alike is not shown yet. More blocks (--max-blocks) or a larger margin may.",
        ),
        (
            {"blocks_per_verdict": None},
            "The noise is too large to show that a difference is smaller than the margin.",
        ),
        (
            {"blocks_per_verdict": 61},
            "Plan about 61 blocks to show that a difference is smaller than 1.00%. "
            "Longer runs or a "
            "quieter machine help too.",
        ),
        (
            {"autocorrelation": 0.301},
            "Neighbouring runs depend on each other (autocorrelation 0.30): compare only interleaved runs; 10 "
            "runs of A, "
            "then 10 of B would be wrong 42% of the time.",
        ),
    ],
)  # fmt: skip
def test_the_advice(changed, advice):
    assert aa._advice(replace(RESULT, **changed), 0.01) == ([advice] if advice else [])
    assert replace(RESULT, **changed).fit is (changed.get("state", "fit") == "fit")


def test_the_share_of_windows_whose_means_differ_by_the_margin():
    values = np.random.default_rng(2).normal(0, 0.04, 60)
    for margin in (0.01, 0.02):
        windows = [values[start : start + 20] for start in range(41)]
        apart = [abs(math.log(np.exp(w[10:]).mean() / np.exp(w[:10]).mean())) for w in windows]
        expected = np.mean([x >= as_log(margin) for x in apart])
        assert sequential_false_rate(values + 5, margin) == pytest.approx(expected) and 0 < expected < 1
    assert sequential_false_rate(values) == sequential_false_rate(values, 0.01) != sequential_false_rate(values, 0.02)
    assert sequential_false_rate([0.0] * 20) == 0.0
    for beside, rate in ((1e-9, 1.0), (-1e-9, 0.0)):
        assert sequential_false_rate([0.0] * 10 + [math.log(1.01) + beside] * 10, 0.01) == rate
    assert sequential_false_rate([0.0] * 10 + [0.5] * 10) == 1.0


@pytest.mark.parametrize("lag", [1, 2, 3])
def test_the_autocorrelation(lag):
    x = np.random.default_rng(3).normal(5, 1, 12)
    m = x.mean()
    expected = sum((x[i] - m) * (x[i + lag] - m) for i in range(12 - lag)) / sum((x - m) ** 2)
    assert autocorrelation(x, lag) == pytest.approx(expected)
    assert autocorrelation(x) == autocorrelation(x, 1)
    assert autocorrelation([2.0] * (lag + 2), lag) == 0.0


@pytest.mark.parametrize(
    ("values", "lag"), [([1.0, 2.0], 1), ([1.0, 2.0, 4.0], 2), ([1.0] * 5, 0), ([[1.0] * 5] * 5, 1)]
)
def test_too_few_values_for_a_lag(values, lag):
    with pytest.raises(ValueError, match=f"at lag {lag} needs at least {lag + 2} values"):
        autocorrelation(values, lag)


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 0.0], [[1.0, 2.0]] * 2])
def test_what_has_no_coefficient_of_variation(values):
    with pytest.raises(ValueError, match="at least 2 values above 0"):
        aa.coefficient_of_variation(values)


def test_two_values_have_a_coefficient_of_variation():
    assert aa.coefficient_of_variation([1.0, 3.0]) == pytest.approx(math.sqrt(2) / 2)
