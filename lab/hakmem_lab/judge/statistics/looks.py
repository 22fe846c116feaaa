"""Planned looks and their O'Brien–Fleming levels.

Duty: when the data may be looked at, and how strict each look must be so that the whole procedure keeps its error rate.
May import NumPy and SciPy.

On the scale of a Brownian motion B(t), t the share of the planned blocks, the O'Brien–Fleming boundary is one constant
c: look k rejects when |B(t_k)| >= c, that is |z_k| >= c / sqrt(t_k). c is found by integrating the density of the paths
that have not crossed yet from look to look.
"""

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise

import numpy as np
from scipy.special import ndtr, ndtri

_NODES = 256
_FAR = -9.0


def planned_looks(max_blocks: int, looks: int = 3) -> list[int]:
    """Block counts at which to look: equal shares of `max_blocks`, distinct, increasing, the last one `max_blocks`."""
    if max_blocks < 1 or looks < 1:
        raise ValueError(f"at least one block and one look are needed, got {max_blocks} and {looks}")
    counts = {round(max_blocks * k / looks) for k in range(1, looks)} | {max_blocks}
    return sorted(count for count in counts if count > 0)


def obrien_fleming_levels(looks: int | Sequence[int], alpha: float, two_sided: bool = True) -> list[float]:
    """The nominal p-value that each look must reach.

    `looks` is a number of equally spaced looks, or the increasing block counts of each. Two-sided levels are compared
    with a two-sided p-value (interval level = 1 - value), one-sided ones with a one-sided p-value (interval level =
    1 - 2 * value). ValueError unless 0 < alpha < 0.5 and the counts increase from above 0.
    """
    counts = tuple(range(1, looks + 1)) if isinstance(looks, int) else tuple(looks)
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha must lie between 0 and 0.5, got {alpha}")
    if not counts or counts[0] <= 0 or any(b <= a for a, b in pairwise(counts)):
        raise ValueError(f"looks must be increasing block counts above 0, got {list(counts)}")
    return list(_levels(counts, alpha, two_sided))


@lru_cache(maxsize=1024)
def _levels(counts: tuple[int, ...], alpha: float, two_sided: bool) -> tuple[float, ...]:
    sides = 2 if two_sided else 1
    if len(counts) == 1:
        return (alpha,)
    from scipy.optimize import brentq  # loading it takes longer than all that a run with one look needs

    shares = [count / counts[-1] for count in counts]
    start = -float(ndtri(alpha / sides))
    constant = brentq(lambda c: _crossing(c, shares, two_sided) - alpha, start, 2 * start + 2, xtol=1e-10)
    return tuple(sides * float(ndtr(-constant / math.sqrt(share))) for share in shares)


@lru_cache(maxsize=1)
def _gauss_legendre() -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(_NODES)


def _crossing(constant: float, shares: Sequence[float], two_sided: bool) -> float:
    """P(the Brownian motion is beyond ±constant, or above it, at any look)."""
    floor = -constant if two_sided else _FAR
    nodes, weights = _gauss_legendre()
    nodes = (constant - floor) / 2 * nodes + (constant + floor) / 2
    weights = (constant - floor) / 2 * weights
    density = _normal_density(nodes, shares[0])
    for before, share in pairwise(shares):
        density = _normal_density(nodes[:, None] - nodes[None, :], share - before) @ (density * weights)
    return 1 - float(density @ weights)


def _normal_density(x: np.ndarray, variance: float) -> np.ndarray:
    return np.exp(-x * x / (2 * variance)) / math.sqrt(2 * math.pi * variance)
