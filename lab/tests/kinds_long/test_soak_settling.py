"""Simulated soaks of an hour with an ordinary warm-up, or of a program that collects its garbage; budget 1 MiB/h."""

import numpy as np
import pytest
from scipy.signal import lfilter

from hakmem_lab.judge import course
from hakmem_lab.judge.statistics.drift import theil_sen
from hakmem_lab.kinds.soak.result import finding, passed

RUNS = pytest.mark.parametrize("runs", [25, pytest.param(3000, marks=pytest.mark.long)])
SAMPLES, MIB = 900, 1024.0
AT = np.linspace(0, 1, SAMPLES)


def more(runs: int, share: float) -> float:
    """Of so many runs that each err with this probability, more err once in 1,000 times."""
    return share * runs + 3.1 * np.sqrt(share * (1 - share) * runs)


def noise(rng, kib=100.0, alike=0.0):
    return kib * np.sqrt(1 - alike**2) * lfilter([1], [1, -alike], rng.normal(size=SAMPLES + 200))[200:]


def warm(tau, mib=30.0):
    return mib * MIB * (1 - np.exp(-AT / tau))


def collected(rng, count, mib=20.0):
    """Teeth of various lengths, which all rise as fast."""
    ends = np.cumsum(rng.uniform(0.8, 1.2, 3 * count + 3)) / count - rng.random() / count
    tooth = np.searchsorted(ends, AT)
    return mib * MIB * count * (AT - np.concatenate([[-1 / count], ends])[tooth])


def segment(y):
    keys = {"phase": None, "line_phase": None, "ops_per_s": None, "live_kib": None}
    samples = [keys | {"t_s": 3600 * float(at), "rss_kib": 1e5 + float(kib)} for at, kib in zip(AT, y, strict=True)]
    return course.analyse_segment(0, samples, 0.95)


def judged(runs, y, seed=31):
    """(shares of GO and of NO-GO, runs with a lasting step above the budget)."""
    rng = np.random.default_rng(seed)
    found = [segment(y(rng)) for _ in range(runs)]
    words = [passed(each, 1.0) for each in found]
    return words.count(True) / runs, words.count(False) / runs, sum(each.step_mib() > 1.0 for each in found)


@RUNS
@pytest.mark.parametrize(("tau", "mib"), [(1 / 8, 30.0), (1 / 8, 100.0), (1 / 20, 30.0), (1 / 12, 8.0)])
def test_an_ordinary_warm_up_is_go_and_no_step(runs, tau, mib):
    """Without the warm-up's model none was GO, and 80 to 100 % were said to have risen by 4 to 6 MiB at once."""
    go, no_go, steps = judged(runs, lambda rng: warm(tau, mib) + noise(rng))
    assert go > 0.8 and no_go == 0 and steps <= more(runs, 0.05)


@RUNS
def test_a_warm_up_in_two_parts_and_a_ramp_are_go(runs):
    assert judged(runs, lambda rng: warm(0.02, 20) + warm(0.1, 15) + noise(rng))[0] > 0.8
    assert judged(runs, lambda rng: 30 * MIB * np.minimum(1, AT / 0.15) + noise(rng))[0] > 0.8


@RUNS
@pytest.mark.parametrize(("kib", "alike"), [(100.0, 0.0), (200.0, 0.9), (300.0, 0.98)])
@pytest.mark.parametrize("tau", [1 / 4, 1 / 8, 1 / 12])
def test_a_leak_at_the_budget_behind_a_warm_up_is_called_neither_too_often(runs, tau, kib, alike):
    """With a time constant of a quarter, memory also grows by more than the budget in the second half."""
    go, no_go, _ = judged(runs, lambda rng: warm(tau) + MIB * AT + noise(rng, kib, alike))
    assert go * runs <= more(runs, 0.05) and (tau > 1 / 6 or no_go * runs <= more(runs, 0.05))


@RUNS
def test_a_leak_of_twice_the_budget_behind_a_warm_up_is_no_go(runs):
    assert judged(runs, lambda rng: warm(0.1) + 2 * MIB * AT + noise(rng))[1] > 0.9


@RUNS
@pytest.mark.parametrize("count", [15, 40, 80])
def test_a_sawtooth_without_a_leak_is_go_and_no_step(runs, count):
    """By all samples, the slope is between −10 and 10 MiB/h."""
    go, no_go, steps = judged(runs, lambda rng: collected(rng, count) + noise(rng, 50))
    assert go > 0.8 and no_go * runs <= more(runs, 0.05) and steps <= more(runs, 0.05)


@RUNS
@pytest.mark.parametrize("count", [15, 40])
def test_a_leak_below_teeth_is_seen_in_their_minima(runs, count):
    at_budget = judged(runs, lambda rng: collected(rng, count) + MIB * AT + noise(rng, 50))
    assert max(at_budget[:2]) * runs <= more(runs, 0.05)
    assert judged(runs, lambda rng: collected(rng, count) + 3 * MIB * AT + noise(rng, 50))[1] > 0.9


@RUNS
def test_few_teeth_are_no_step(runs):
    assert judged(runs, lambda rng: collected(rng, 7) + noise(rng, 50))[2] <= more(runs, 0.05)


@RUNS
@pytest.mark.parametrize("alike", [0.0, 0.5, 0.9])
def test_twice_the_time_narrows_the_interval_to_less_than_half(runs, alike):
    rng, narrower = np.random.default_rng(32), 0
    for _ in range(runs):
        y, t = np.concatenate([noise(rng, 100, alike), noise(rng, 100, alike)]), np.arange(2.0 * SAMPLES)
        once, twice = theil_sen(t[:SAMPLES], y[:SAMPLES]), theil_sen(t, y)
        narrower += twice.high - twice.low < (once.high - once.low) / 2
    assert narrower > 0.8 * runs


def said(y):
    found = segment(y)
    return finding(found, passed(found, 1.0), 1.0)


def test_the_answer_names_the_warm_up_the_teeth_and_what_grows():
    rng = np.random.default_rng(33)
    assert "of steady state, behind a warm-up with a time constant of" in said(warm(0.1) + noise(rng))
    teeth = collected(rng, 40) + noise(rng, 50)
    assert "of steady state by the minima of" in said(teeth) and "from first to last minimum" in said(teeth)
    assert "the maxima of its teeth grow by" in said((1 + AT) * collected(rng, 40) + noise(rng, 50))


def test_an_open_answer_promises_a_narrower_interval_and_no_verdict():
    text = said(MIB * AT + noise(np.random.default_rng(34)))
    assert text.endswith("; twice the time would likely narrow the interval to less than half.")
