"""Many hosts: the effect on average over a fleet, and how far hosts lie apart.

Duty: from the log-ratios of every host's blocks to the mean effect of the fleet that these hosts were drawn from, with
its interval, and to what a further host may expect. May import NumPy, SciPy and `paired`.

Model: a host's effect is the fleet's plus a part of its own, of variance tau², and what its blocks say of it has an
error: y = mu + u + e. tau² is estimated by restricted maximum likelihood. The interval of mu is Hartung's and Knapp's,
with Student's t of one degree of freedom less than there are hosts, and never narrower than tau² alone makes it (the
factor is at least 1). So it is the hosts that are counted, not the blocks: a thousand blocks on two hosts say little
about a third one.

A host's estimate is Hodges–Lehmann's. Its error is that of a mean, from the spread of its own blocks, drawn towards the
median spread of all hosts as if that were `PRIOR_BLOCKS` further blocks: of a few blocks the spread is hardly known.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hakmem_lab.judge.statistics.paired import Interval, checked, hodges_lehmann
from hakmem_lab.judge.statistics.special import chdtrc, stdtrit

LEAST_HOSTS = 3
PRIOR_BLOCKS = 4
NO_VARIANCE = 1e-18  # what never varied is given the error of rounding
LOOKED_AT, LOOKED_AT_DECADES, CLOSE = 200, 10, 1e-9


@dataclass(frozen=True)
class Host:
    """What one host says. variance: of the estimate's error; n: blocks."""

    estimate: float
    variance: float
    n: int

    def interval(self, level: float) -> Interval:
        """Interval of the effect on this host."""
        freedom = PRIOR_BLOCKS + self.n - 1
        return Interval.of_student(self.estimate, math.sqrt(self.variance), freedom, level, self.n)


def of_blocks(columns: Mapping[str, Sequence[float]]) -> dict[str, Host]:
    """Every host by its blocks' log-ratios, at least one each."""
    arrays = {name: checked(d) for name, d in columns.items()}
    own = [float(array.var(ddof=1)) for array in arrays.values() if array.size > 1]
    typical = float(np.median(own)) if own else 0.0
    found = {}
    for name, array in arrays.items():
        squares = float(((array - array.mean()) ** 2).sum())
        spread = (PRIOR_BLOCKS * typical + squares) / (PRIOR_BLOCKS + array.size - 1)
        found[name] = Host(hodges_lehmann(columns[name]), max(spread / array.size, NO_VARIANCE), array.size)
    return found


@dataclass(frozen=True)
class Fleet:
    """estimate: the mean effect (a log-ratio), error: the standard error of it. tau2: the variance of hosts' effects;
    q: Cochran's; variance: of hosts' estimates; i2: the share of it that is more than their errors explain."""

    estimate: float
    error: float
    tau2: float
    q: float
    i2: float
    variance: float
    hosts: int
    blocks: int

    def interval(self, level: float) -> Interval:
        """Interval of the mean effect over hosts; unlimited for one host."""
        if self.hosts < 2:
            return Interval(self.estimate, -math.inf, math.inf, level, self.blocks)
        return Interval.of_student(self.estimate, self.error, self.hosts - 1, level, self.blocks)

    def differ_p(self) -> float:
        """p-value of q under one common effect of all hosts."""
        return float(chdtrc(self.hosts - 1, self.q)) if self.hosts > 1 else 1.0

    def prediction(self, level: float) -> tuple[float, float]:
        """Where the effect on one further host lies; unlimited for fewer than three hosts."""
        if self.hosts < LEAST_HOSTS:
            return -math.inf, math.inf
        # Of few hosts likelihood sees less than they differ by; what they vary by, noise and all, is not too little.
        spread = max(self.tau2 + self.error**2, self.variance * (1 + 1 / self.hosts))
        half = -float(stdtrit(self.hosts - 2, (1 - level) / 2)) * math.sqrt(spread)
        return self.estimate - half, self.estimate + half


def fleet(hosts: Sequence[Host]) -> Fleet:
    """The mean over the fleet that these hosts, at least one, were drawn from."""
    if not hosts:
        raise ValueError("a fleet has at least one host")
    y, v = np.array([host.estimate for host in hosts]), np.array([host.variance for host in hosts])
    tau2 = _tau2(y, v) if len(hosts) > 1 else 0.0
    weights = 1 / (v + tau2)
    mean = float(weights @ y / weights.sum())
    freedom = max(len(hosts) - 1, 1)
    scale = max(1.0, float(weights @ (y - mean) ** 2) / freedom)
    fixed = 1 / v
    q = float(fixed @ (y - fixed @ y / fixed.sum()) ** 2)
    typical = _typical_variance(fixed) if len(hosts) > 1 else 0.0
    i2 = tau2 / (tau2 + typical) if tau2 > 0 else 0.0
    blocks = sum(host.n for host in hosts)
    variance = float(y.var(ddof=1)) if len(hosts) > 1 else 0.0
    return Fleet(mean, math.sqrt(scale / weights.sum()), tau2, q, i2, variance, len(hosts), blocks)


def _typical_variance(weights: np.ndarray) -> float:
    """Higgins's and Thompson's: what the errors of all hosts amount to."""
    return float((weights.size - 1) * weights.sum() / (weights.sum() ** 2 - (weights**2).sum()))


def _tau2(y: np.ndarray, v: np.ndarray) -> float:
    """Restricted maximum likelihood; never below 0. Looked for everywhere first: where errors are very unlike, steps
    along the slope may go to and fro for ever, or end at the lower one of two maxima."""
    from scipy.optimize import minimize_scalar  # loading it takes long, and most runs are on one host

    def deviance(tau2: np.ndarray | float) -> np.ndarray:
        spread = v + np.asarray(tau2)[..., np.newaxis]
        w = 1 / spread
        total = w.sum(axis=-1)
        mean = np.asarray(w @ y / total)[..., np.newaxis]
        return np.log(spread).sum(axis=-1) + np.log(total) + (w * (y - mean) ** 2).sum(axis=-1)

    most = float(np.ptp(y)) ** 2
    if most <= NO_VARIANCE:
        return 0.0
    tries = np.concatenate([[0.0], most * np.logspace(-LOOKED_AT_DECADES, 0, LOOKED_AT)])
    best = int(deviance(tries).argmin())
    around = tries[max(best - 1, 0)], tries[min(best + 1, LOOKED_AT)]
    found = float(minimize_scalar(deviance, bounds=around, method="bounded", options={"xatol": CLOSE * around[1]}).x)
    return found if deviance(found) < deviance(0.0) else 0.0


def together(hosts: Sequence[Host], level: float) -> Interval:
    """The mean effect on these hosts alone, whatever others would show: each weighs by its error."""
    weights = np.array([1 / host.variance for host in hosts])
    mean = float(weights @ np.array([host.estimate for host in hosts]) / weights.sum())
    return Host(mean, float(1 / weights.sum()), sum(host.n for host in hosts)).interval(level)
