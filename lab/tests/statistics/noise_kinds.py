"""Kinds of noise for simulations: natural logs of single runs in order of execution, and the blocks made of them.

`KINDS[name](rng, simulations, runs)` gives rows of runs of a single arm. `blocks` makes a block of every four runs, at
random ABBA or BAAB, and gives the log-ratio of each block, as the laboratory does.
"""

import numpy as np
from scipy.signal import lfilter
from scipy.stats import wilcoxon

from hakmem_lab.judge.statistics.plan import log_capital, spreads_before

SCALE = 0.03


def _autocorrelated(rho):
    def runs(rng, simulations, count):
        return lfilter([1], [1, -rho], rng.normal(0, SCALE, (simulations, count + 100)))[:, 100:]

    return runs


def _rare(share, factor):
    def runs(rng, simulations, count):
        slow = rng.random((simulations, count)) < share
        return rng.normal(0, SCALE, (simulations, count)) + np.log(factor) * slow

    return runs


def _drifting(rng, simulations, count):
    return rng.normal(0, SCALE, (simulations, count)) + np.linspace(0, 1.0, count)


def _stepping(rng, simulations, count):
    at = rng.integers(0, count, (simulations, 1))
    return rng.normal(0, SCALE, (simulations, count)) + 0.2 * (np.arange(count) >= at)


def _periodic(rng, simulations, count):
    return rng.normal(0, SCALE / 3, (simulations, count)) + 0.05 * np.sin(np.arange(count) * np.pi / 2)


def _bursts(rng, simulations, count):
    busy = lfilter([1], [1, -0.95], rng.random((simulations, count)) < 0.02) > 0.3
    return rng.normal(0, SCALE, (simulations, count)) * np.where(busy, 6, 1) + 0.3 * busy


def _growing(rng, simulations, count):
    return rng.normal(0, SCALE, (simulations, count)) * np.linspace(0.2, 3, count)


KINDS = {
    "normal": lambda rng, s, n: rng.normal(0, SCALE, (s, n)),
    "heavy tails": lambda rng, s, n: SCALE * rng.standard_t(3, (s, n)),
    "no variance": lambda rng, s, n: SCALE / 4 * rng.standard_t(1.5, (s, n)),
    "Laplace": lambda rng, s, n: rng.laplace(0, SCALE, (s, n)),
    "skewed": lambda rng, s, n: rng.exponential(SCALE, (s, n)),
    "two modes": lambda rng, s, n: rng.normal(0, SCALE / 5, (s, n)) + 0.08 * (rng.random((s, n)) < 0.4),
    "whole ticks": lambda rng, s, n: np.round(rng.normal(0, SCALE, (s, n)), 2),
    "neighbours alike": _autocorrelated(0.41),
    "neighbours very alike": _autocorrelated(0.95),
    "rare and slow": _rare(0.02, 20),
    "now and then slow": _rare(0.1, 1.5),
    "drift": _drifting,
    "step": _stepping,
    "period of a block": _periodic,
    "bursts": _bursts,
    "growing": _growing,
}


def _arenas(rng, simulations, count):
    """Memory after load: some of the arenas stay, each whole."""
    return np.log(20 + 2 * rng.binomial(4, 0.4, (simulations, count))) + rng.normal(0, 0.002, (simulations, count))


def _counted(rng, simulations, count):
    """Counts: always the same, but in a few runs, where the program takes another path."""
    return 0.02 * (rng.random((simulations, count)) < 0.05)


OF_MEASURES = {"arenas that stay": _arenas, "counts": _counted}


def blocks(name, rng, simulations, count):
    """Rows of per-block log-ratios of two equal arms."""
    runs = (KINDS | OF_MEASURES)[name](rng, simulations, 4 * count).reshape(simulations, count, 4)
    return runs @ np.array([-0.5, 0.5, 0.5, -0.5]) * rng.choice((-1.0, 1.0), (simulations, count))


def shown_beyond(data, centre, tail, level, above=True):
    """For each of many runs, whether any block shows that the effect is above the centre (or below it). `Plan.shown`
    does this for one run. tail: that of the bets; level: look -> one-sided probability of the signed ranks."""
    away = data - centre if above else centre - data
    found = (log_capital(away, spreads_before(data)) >= -np.log(tail)).any(axis=1)
    for count, probability in level.items():
        if count <= data.shape[1]:
            found |= wilcoxon(away[:, :count], axis=1, alternative="greater", method="approx").pvalue <= probability
    return found


def directions(data, plan, alpha, centre=0.0):
    """(above, below) for many runs judged after every block: whether the run is ever shown to be beyond the centre."""
    levels = {count: (1 - two_sided) / 2 for count, two_sided, _ in plan.levels(alpha)}
    return [shown_beyond(data, centre, alpha * plan.share / 2, levels, above) for above in (True, False)]
