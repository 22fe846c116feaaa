"""The rate of a leak in steps: steps an hour times their size, with an interval that is right often enough."""

import numpy as np
import pytest
from tests.kinds_long.test_soak_analysis import ended, make

from hakmem_lab.judge.steps import WARM_UP, steps

SAMPLES, SIZE_KIB = 1200, 8192.0
RUNS = pytest.mark.parametrize("runs", [300, pytest.param(3000, marks=pytest.mark.long)])
TIME = np.linspace(0, 1, SAMPLES)


def course(rng, rate, size=lambda rng, n: np.full(n, SIZE_KIB), noise_kib=40.0):
    """An hour with random steps; `rate` is their mean number."""
    count = rng.poisson(rate)
    at, sizes = rng.random(count), size(rng, count)
    return (sizes * (TIME[:, None] > at)).sum(axis=1) + rng.normal(0, noise_kib, SAMPLES)


def alike(rng, n):
    return np.full(n, SIZE_KIB)


def various(rng, n):
    return SIZE_KIB * rng.choice((0.25, 1.0, 1.75), n)


@RUNS
@pytest.mark.parametrize("rate", [2, 6, 15])
@pytest.mark.parametrize(("size", "most"), [(alike, 0.065), (various, 0.14)])
def test_the_interval_of_the_leak_holds(runs, rate, size, most):
    """The true rate is rarely outside the interval; more often above it if a few steps of various sizes came. If the
    budget equals the true rate, the run rarely says that it is exceeded."""
    rng, outside, broken, known = np.random.default_rng(rate), 0, 0, 0
    for _ in range(runs):
        found = steps(course(rng, rate, size), 1.0).rate()
        if found is not None:
            known += 1
            outside += not found.low <= rate * SIZE_KIB <= found.high
            broken += found.low > rate * SIZE_KIB
    assert known > 0.8 * runs and outside <= most * runs and broken <= 0.04 * runs


@RUNS
def test_steps_are_counted_wherever_they_come(runs):
    rng, right = np.random.default_rng(3), 0
    for _ in range(runs):
        at = WARM_UP + 0.03 + 0.9 * (np.arange(5) + rng.random(5)) / 5
        y = (SIZE_KIB * (TIME[:, None] > at)).sum(axis=1) + rng.normal(0, 100, SAMPLES)
        found = steps(y, 2.0)
        right += found.sizes.size == 5 and np.allclose(found.sizes, SIZE_KIB, rtol=0.05)
    assert right > 0.9 * runs  # two steps may be so close that they count as one


@RUNS
def test_a_leak_ten_times_the_budget_is_shown(runs):
    rng, shown = np.random.default_rng(4), 0
    for _ in range(runs):
        found = steps(course(rng, 10), 1.0).rate()
        shown += found is not None and found.low > SIZE_KIB
    assert shown > 0.95 * runs


@RUNS
@pytest.mark.parametrize(
    "y",
    [
        lambda rng: rng.normal(0, 200, SAMPLES),
        lambda rng: 40_000 * TIME + rng.normal(0, 100, SAMPLES),
        lambda rng: 30_000 * (1 - np.exp(-TIME / 0.1)) + rng.normal(0, 60, SAMPLES),
        lambda rng: 20_000 * ((7 * TIME + rng.random()) % 1) + rng.normal(0, 50, SAMPLES),
        lambda rng: 9_000 * ((TIME > 0.3) & (TIME < 0.6)) + rng.normal(0, 40, SAMPLES),
    ],
    ids=["noise", "ramp", "warm-up", "sawtooth", "burst"],
)
def test_nothing_else_is_a_step(runs, y):
    rng = np.random.default_rng(7)
    assert sum(steps(y(rng), 1.0).sizes.size > 0 for _ in range(runs)) <= 0.05 * runs


def test_steps_of_the_first_half_alone_are_a_warm_up():
    y = (SIZE_KIB * (TIME[:, None] > np.linspace(0.06, 0.4, 12))).sum(axis=1)
    assert steps(y, 1.0).sizes.size == 12 and steps(y, 1.0).rate() is None


@pytest.fixture
def analyse(soak_header):
    from hakmem_lab.kinds.soak import soak

    return lambda records: soak.analyse(soak_header(), records)


def stepping(at, kib):
    samples = make(noise_kib=5.0)
    for i, sample in enumerate(samples):
        sample["rss_kib"] += kib * sum(i >= each for each in at)
    return [*samples, ended()]


def test_a_soak_that_grows_in_steps_is_no_go_and_says_how_many(analyse):
    result = analyse(stepping((130, 290, 400, 555, 700, 820), 8192))
    assert result["verdict"] == "NO-GO"
    assert "grows in 6 steps of 8.0 MiB on average that stayed, as a rate between +" in result["answer"]
    found = result["soak"]
    assert found["steps"] == 6 and found["steps_mib_per_h"]["low"] > 1 < found["steps_mib_per_h"]["estimate"]


def test_one_step_is_not_decided_and_says_between_which_rates(analyse):
    result = analyse(stepping((450,), 4096))
    assert result["verdict"] == "INCONCLUSIVE"
    assert "one step of 4.0 MiB that stayed, as a rate between" in result["answer"]
