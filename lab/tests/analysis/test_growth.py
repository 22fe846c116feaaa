"""Growth of one run: of ramps and of steps, behind a warm-up; and how often equal sides seem to differ."""

import functools

import numpy as np
import pytest
from scipy.signal import lfilter
from scipy.stats import binom

from hakmem_lab.judge.growth import TOO_SHORT, growth
from hakmem_lab.judge.statistics.plan import Plan, planned_looks
from hakmem_lab.judge.statistics.verdict import Verdict, sequential_verdict
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.plan.model import build
from hakmem_lab.plan.spec import AbSpec

POINTS, SECOND_MS, MIB_KIB = 64, 1000, 1024.0
HOURS = (POINTS - 1) / 3600
TIMES = np.arange(POINTS)


def course(kib_per_h=0.0, noise_kib=0.0, rng=None, warm_up_kib=0.0):
    """A minute of memory, one point a second; its noise depends on the point before."""
    noise = lfilter([1], [1, -0.5], rng.normal(0, noise_kib, POINTS)) if noise_kib else 0
    level = 50 * MIB_KIB + TIMES / 3600 * kib_per_h - warm_up_kib * np.exp(-TIMES / 2) + noise
    return [(int(at) * SECOND_MS, int(kib)) for at, kib in zip(TIMES, level, strict=True)]


def found(points, requests=None):
    return growth(points, requests)["growth_kib"]


def test_a_ramp_is_its_slope_whatever_its_warm_up():
    assert found(course(60 * MIB_KIB)) == pytest.approx(60 * MIB_KIB, rel=0.02)
    assert found(course(60 * MIB_KIB, warm_up_kib=20 * MIB_KIB)) == pytest.approx(60 * MIB_KIB, rel=0.2)


def test_steps_count_where_the_median_of_slopes_sees_none():
    points = [(at, kib + (2048 if at >= 30 * SECOND_MS else 0)) for at, kib in course()]
    assert found(points) >= 2048 / HOURS / 2


def test_a_step_of_the_warm_up_is_no_growth():
    points = [
        (at, kib - (0 if at >= 12 * SECOND_MS else 20 * 1024)) for at, kib in course(0, 20, np.random.default_rng(3))
    ]
    assert found(points) <= 2 * 64 / HOURS


def test_no_growth_is_the_least_that_could_be_seen():
    assert found(course()) == found(course(-600 * MIB_KIB)) == pytest.approx(64 / HOURS)


def test_growth_of_1000_requests():
    assert found(course(60 * MIB_KIB), 5000) == pytest.approx(found(course(60 * MIB_KIB)) * HOURS / 5)
    for keys, unit in (({}, "KiB/h"), ({"requests": 5000}, "KiB/1,000 requests")):
        spec = build(
            AbSpec, {"command": "x", "control": "glibc", "treatment": "hakmem", "metric": "growth"} | keys, "t"
        )
        assert spec.primary_metric().unit == unit
    assert Metric("growth").unit == "KiB/h"


def test_in_a_run_of_days_less_than_a_kib_an_hour_can_be_told():
    days = [(at * 7200, kib) for at, kib in course()]
    assert found(days) == pytest.approx(64 / HOURS / 7200)


@pytest.mark.parametrize("points", [[], course()[:1], course()[:6]])
def test_a_short_run_says_so(points):
    assert growth(points) == {"why": TOO_SHORT}
    assert "eight samples" in TOO_SHORT


@functools.cache
def runs(kib_per_h, noise_kib):
    rng = np.random.default_rng(7)
    return np.log([found(course(kib_per_h, noise_kib, rng)) for _ in range(200)])


@pytest.mark.parametrize("kib_per_h", [0.0, 20 * MIB_KIB, 200 * MIB_KIB])
@pytest.mark.parametrize("noise_kib", [20.0, 500.0])
@pytest.mark.parametrize("simulations", [100, pytest.param(600, marks=pytest.mark.long)])
def test_equal_sides_are_seldom_told_apart(kib_per_h, noise_kib, simulations):
    """Whether growth is far above the noise, hidden in it, or none."""
    rng, plan = np.random.default_rng(8), Plan(tuple(planned_looks(20)))
    sides = rng.choice(runs(kib_per_h, noise_kib), (simulations, 20, 2, 2)).mean(axis=3)
    verdicts = [sequential_verdict(d, plan) for d in sides[:, :, 0] - sides[:, :, 1]]
    wrong = sum(verdict in (Verdict.GO, Verdict.NO_GO) for verdict in verdicts)
    assert wrong <= binom.ppf(0.999, simulations, 0.05)


def test_a_leak_is_told_from_none():
    rng, plan = np.random.default_rng(9), Plan(tuple(planned_looks(20)))
    leaks, none = (rng.choice(runs(each * MIB_KIB, 20.0), 20) for each in (200.0, 0.0))
    assert sequential_verdict(leaks - none, plan) is Verdict.GO
