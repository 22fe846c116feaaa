"""The speeds of a processor, from made-up probes of which the speeds are known."""

import math
import random

import pytest

from hakmem_lab.judge.statistics import speeds

WORK_NS = 160_000


def probe(ratio=1.45, stay_s=0.3, length_s=5.0, noise=0.01, seed=1, share=1.0):
    """Samples of a processor that keeps each speed for `stay_s` on average. share: of its time that the probe gets."""
    draw = random.Random(seed)
    at_s, until_s, slow, samples = 0.0, 0.0, False, []
    while at_s < length_s:
        while at_s >= until_s:
            slow, until_s = not slow, until_s + draw.expovariate(1 / stay_s)
        took = WORK_NS * (ratio if slow else 1.0) * math.exp(draw.gauss(0, noise))
        at_s += took * 1e-9 / share
        samples.append((round(at_s * 1e6), round(took)))
    return samples


@pytest.mark.parametrize("ratio", [1.2, 1.45, 1.9])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_two_speeds_are_found(ratio, seed):
    found = speeds.found(probe(ratio, seed=seed))
    assert found.ratio == pytest.approx(ratio, rel=0.02)
    assert 0.1 < found.stay_s < 0.9
    assert 0.1 < found.slow < 0.9


def test_a_shared_processor_is_probed_in_what_is_left():
    assert speeds.found(probe(share=0.2, seed=5)).ratio == pytest.approx(1.45, rel=0.02)


@pytest.mark.parametrize("noise", [0.001, 0.01, 0.05])
def test_one_speed_is_not_taken_for_two(noise):
    found = speeds.found(probe(ratio=1.0, noise=noise))
    assert (found.ratio, found.slow) == (None, 0.0)
    assert found.spread == pytest.approx(noise, rel=0.2)


def test_short_disturbances_are_no_second_speed():
    samples = probe(ratio=1.0)
    samples[50::50] = [(at, 3 * took) for at, took in samples[50::50]]
    assert speeds.found(samples).ratio is None


@pytest.mark.parametrize("seed", range(1, 6))
def test_what_runs_together_meets_the_same_speeds(seed):
    found = speeds.found(probe(seed=seed))
    assert found.apart > 3 * found.together
    steady = speeds.found(probe(ratio=1.0, seed=seed))
    assert steady.apart < 0.002 and steady.together < 0.002


def test_too_few_samples_say_nothing():
    with pytest.raises(ValueError, match="too little processor time"):
        speeds.found(probe()[:100])
