"""The correction of estimates from runs that a planned look ended, compared with its definition."""

import math

import numpy as np
import pytest
from scipy.stats import norm

from hakmem_lab.judge.statistics import stopping
from hakmem_lab.judge.statistics.plan import Plan, obrien_fleming_levels

ALPHA, LOOKS = 0.05, (6, 9, 12)


def ends_at(row, alpha, margin):
    """The mean at the first look that settles the run, or at the last one. Anything that a look shows stays shown."""
    shown = dict.fromkeys(("up", "down", "more", "less"), False)
    questions = {"up": (0.0, 1, 2), "down": (0.0, -1, 2), "more": (-margin, 1, 1), "less": (margin, -1, 1)}
    for place, count in enumerate(LOOKS):
        mean = row[:count].mean()
        for name, (centre, side, sides) in questions.items():
            level = obrien_fleming_levels(LOOKS, alpha, sides == 2)[place]
            shown[name] |= side * (mean - centre) * math.sqrt(count) >= norm.isf(level / sides)
        if (shown["up"] and mean >= margin) or (shown["down"] and mean <= -margin) or (shown["more"] and shown["less"]):
            break
    return mean


def mean_estimate(effect, margin, share):
    half = np.random.default_rng(30).normal(size=(stopping._RUNS // 2, LOOKS[-1]))
    return np.mean([ends_at(row + effect, ALPHA * (1 - share), margin) for row in np.concatenate([half, -half])])


@pytest.mark.parametrize("share", [0.0, 0.1, 0.6])
@pytest.mark.parametrize(("effect", "margin"), [(0.8, 0.1), (-0.8, 0.1), (0.1, 0.9), (1.1, 1.2)])
def test_the_mean_estimate_of_looks_alone(share, effect, margin):
    procedure = stopping._procedure_of_looks(Plan(LOOKS, share), ALPHA)
    assert procedure.mean_estimate(effect, margin) == pytest.approx(mean_estimate(effect, margin, share))


@pytest.mark.parametrize("sign", [1, -1])
def test_five_steps_from_the_plain_estimate(sign):
    plain, sigma, margin, share = 0.03, 0.025, 0.005, 0.1
    found = plain
    for _ in range(5):
        seen = sigma * mean_estimate(found / sigma, margin / sigma, share)
        found = min(plain, max(0.0, found + plain - seen))
    assert 0 < found < plain
    corrected = stopping.corrected_at_look(sign * plain, sigma, Plan(LOOKS, share), margin, ALPHA)
    assert corrected == pytest.approx(sign * found)


class Double:
    """A stand-in for a procedure whose mean estimate is twice the effect."""

    def mean_estimate(self, effect, margin):
        return 2 * effect


@pytest.mark.parametrize(
    ("plain", "sigma", "corrected"),
    [(1.0, 0.0, False), (-1.0, 1e-12, False), (1.0, 0.7e-9, False), (-1.0, 1e-9, False), (0.0, 0.0, False),
     (1.0, 1.5e-9, True), (-1.0, 1.5e-9, True)],
)  # fmt: skip
def test_what_does_not_vary_is_not_corrected(monkeypatch, plain, sigma, corrected):
    """No correction if sigma is at most 1e-9 of the estimate."""
    monkeypatch.setattr(stopping, "_procedure_of_looks", lambda *_: Double())
    found = stopping.corrected_at_look(plain, sigma, Plan(LOOKS), 0.01, ALPHA)
    assert (found != plain) == corrected and abs(found) <= abs(plain)
