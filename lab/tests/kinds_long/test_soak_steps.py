"""3,000 simulated courses a case: growth in steps must not pass as within the budget; memory that falls is no leak."""

import numpy as np
import pytest
from tests.kinds_long.test_soak_analysis import ended, make

from hakmem_lab.judge import course

RUNS, SAMPLES, BUDGET_KIB = 3000, 600, 1024.0
RNG = np.random.default_rng(11)
TIME = np.linspace(0, 1, SAMPLES)
# If each of 3,000 runs errs with a probability of 5 %, more than 180 do so once in 100 times.
MOST = 180


@pytest.fixture
def analyse(soak_header):
    from hakmem_lab.kinds.soak import soak

    return lambda records, **keys: soak.analyse(soak_header(**keys), records)


@pytest.mark.parametrize("noise_kib", [0.0, 20.0, 100.0])
def test_a_leak_that_comes_in_one_step_is_seen_wherever_it_comes(noise_kib: float) -> None:
    """A soak of an hour with one step of 4 MiB, and a budget of 1 MiB/h."""
    y = 4096.0 * (RNG.random((RUNS, 1)) < TIME) + RNG.normal(0, noise_kib, (RUNS, SAMPLES))
    assert (course.lasting_step(y) <= BUDGET_KIB).sum() <= MOST


def test_what_a_program_takes_gradually_or_gives_back_is_no_step() -> None:
    warm_up = 30_000 * np.minimum(1, TIME / 0.15) + RNG.normal(0, 40, (RUNS, SAMPLES))
    burst = 9_000 * ((TIME > 0.3) & (TIME < 0.6)) + RNG.normal(0, 40, (RUNS, SAMPLES))
    for y in (warm_up, burst, RNG.normal(0, 200, (RUNS, SAMPLES))):
        assert (course.lasting_step(y) <= BUDGET_KIB).all()


def slopes(y: np.ndarray) -> np.ndarray:
    """The total rise of a straight line fitted to each row."""
    away = TIME - TIME.mean()
    return y @ away / (away @ away)


@pytest.mark.parametrize("cycles", [1.0, 1.3, 2, 3, 7, 13, 30, 40, 70])
def test_a_sawtooth_that_leaks_nothing_is_no_leak(cycles: float) -> None:
    y = 20_000 * ((cycles * TIME + RNG.random((RUNS, 1))) % 1) + RNG.normal(0, 50, (RUNS, SAMPLES))
    rise = slopes(y)
    assert ((rise > BUDGET_KIB) & course.stays_risen(y, rise, BUDGET_KIB)).sum() <= MOST


@pytest.mark.parametrize(
    ("leak_kib", "noise_kib", "saw_kib"), [(3_000, 100, 0), (9_000, 1_000, 0), (20_000, 50, 5_000)]
)
def test_a_leak_is_one_with_noise_and_with_teeth(leak_kib: float, noise_kib: float, saw_kib: float) -> None:
    teeth = saw_kib * ((40 * TIME + RNG.random((RUNS, 1))) % 1)
    y = leak_kib * TIME + teeth + RNG.normal(0, noise_kib, (RUNS, SAMPLES))
    assert course.stays_risen(y, slopes(y), BUDGET_KIB).mean() > 0.95


@pytest.mark.parametrize("at", [100, 300, 450, 700, 890])
def test_a_soak_with_a_step_in_it_is_not_go_and_says_why(analyse, at: int) -> None:
    samples = make(noise_kib=5.0)
    for sample in samples[at:]:
        sample["rss_kib"] += 4096
    result = analyse([*samples, ended()])
    assert result["verdict"] != "GO"
    assert "4.0 MiB" in result["answer"]


def test_a_soak_whose_memory_comes_back_is_not_no_go(analyse) -> None:
    samples = make(noise_kib=5.0)
    for i, sample in enumerate(samples):
        sample["rss_kib"] += 20_000 * (i / 600 % 1)
    assert analyse([*samples, ended()])["verdict"] == "INCONCLUSIVE"


def test_go_says_what_it_cannot_have_seen(analyse) -> None:
    result = analyse([*make(), ended()])
    assert result["verdict"] == "GO"
    assert "Growth in steps rarer than one in 5 min" in result["answer"]
    assert "MiB from first to last sample" in result["answer"]
