"""The bias of an estimate from a run that stopped early, and its correction.

Duty: the corrected estimate of such a run. May import NumPy, SciPy, `paired`, `plan` and `power`.

A run that stops as soon as it shows a difference stops earlier if its first blocks are lucky, so on average its
estimate is too far from 0. The bias-adjusted estimate (Whitehead 1986) is the effect for which the procedure would on
average give the observed estimate. That average is simulated: the whole procedure runs on normal blocks of the same
spread, from a fixed seed. The interval needs no correction, since it holds at every look.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from hakmem_lab.judge.statistics.paired import hodges_lehmann
from hakmem_lab.judge.statistics.plan import Plan, log_capital, obrien_fleming_levels, spreads_before
from hakmem_lab.judge.statistics.power import spread
from hakmem_lab.judge.statistics.special import ndtri

_RUNS, _SEED, _STEPS = 200, 30, 5
_HORIZON = 3
_LEAST_HORIZON = 60


def corrected(d: Sequence[float], plan: Plan, margin_log: float, alpha: float) -> float:
    """The bias-adjusted estimate of blocks whose last one ended the run; never beyond the plain one, never beyond 0."""
    plain, sigma, last = hodges_lehmann(d), spread(d), plan.looks[-1]
    if len(d) >= last or sigma <= 1e-9 * abs(plain):
        return plain
    procedure = _procedure(plan, min(last, max(_LEAST_HORIZON, _HORIZON * len(d))), alpha)
    return _adjusted(procedure, plain, sigma, margin_log)


def corrected_at_look(plain: float, sigma: float, plan: Plan, margin_log: float, alpha: float) -> float:
    """The correction for a run that is judged only at the plan's looks, and ended at a look before the last one.

    sigma: the spread of a block, if the estimate (of any kind) varies like a mean of blocks.
    """
    if sigma <= 1e-9 * abs(plain):
        return plain
    return _adjusted(_procedure_of_looks(plan, alpha), plain, sigma, margin_log)


def _adjusted(procedure: "_Procedure", plain: float, sigma: float, margin_log: float) -> float:
    found = abs(plain)
    for _ in range(_STEPS):
        seen = procedure.mean_estimate(found / sigma, margin_log / sigma) * sigma
        found = min(abs(plain), max(0.0, found + abs(plain) - seen))
    return math.copysign(found, plain)


@lru_cache(maxsize=8)
def _procedure(plan: Plan, blocks: int, alpha: float) -> "_Procedure":
    return _Procedure(plan, blocks, alpha)


@lru_cache(maxsize=8)
def _procedure_of_looks(plan: Plan, alpha: float) -> "_Procedure":
    return _AtLooks(replace(plan, share=0.0), plan.looks[-1], alpha * (1 - plan.share))


class _Procedure:
    """Simulates the procedure, with the same noise for every effect. All values are in units of a block's spread."""

    def __init__(self, plan: Plan, blocks: int, alpha: float):
        rng = np.random.default_rng(_SEED)
        half = rng.normal(size=(_RUNS // 2, blocks))
        self._noise = np.concatenate([half, -half])  # so that the noise has mean 0
        self._spreads = spreads_before(self._noise)
        self._counts = np.arange(1, blocks + 1)
        self._plan, self._alpha = plan, alpha

    def mean_estimate(self, effect: float, margin: float) -> float:
        """Mean of the running estimates at which the procedure stops if this is the true effect."""
        d = self._noise + effect
        means = np.cumsum(d, axis=1) / self._counts
        up, down = self._shown(d, 0.0, 1, two_sided=True), self._shown(d, 0.0, -1, two_sided=True)
        neutral = self._shown(d, -margin, 1, two_sided=False) & self._shown(d, margin, -1, two_sided=False)
        ends = (up & (means >= margin)) | (down & (means <= -margin)) | neutral
        ends &= self._asked()
        ends[:, -1] = True
        return float(means[np.arange(len(d)), ends.argmax(axis=1)].mean())

    def _asked(self) -> np.ndarray:
        """Blocks after which there is a look."""
        return np.full(self._counts.shape, True)

    def _shown(self, d: np.ndarray, centre: float, side: int, two_sided: bool) -> np.ndarray:
        """[run, block]: whether the run has shown by then that the effect is on this side of the centre."""
        away, found = side * (d - centre), np.zeros(d.shape, dtype=bool)
        sides = 2 if two_sided else 1
        if self._plan.share:
            tail = self._alpha * self._plan.share / sides
            found = log_capital(away, self._spreads) >= -math.log(tail)
        levels = obrien_fleming_levels(self._plan.looks, self._alpha * (1 - self._plan.share), two_sided)
        for count, level in zip(self._plan.looks, levels, strict=True):
            if count <= d.shape[1]:
                z = away[:, :count].mean(axis=1) * math.sqrt(count)
                found[:, count - 1] |= z >= -float(ndtri(level / sides))
        return np.logical_or.accumulate(found, axis=1)


class _AtLooks(_Procedure):
    """A procedure that looks only at the planned looks."""

    def _asked(self) -> np.ndarray:
        return np.isin(self._counts, self._plan.looks)
