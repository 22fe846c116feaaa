"""Many hosts: the average effect over a fleet, and how much the effect differs between hosts.

Duty: from the log-ratios of every host's blocks, estimate the mean effect over the fleet that these hosts were drawn
from, with its interval, and predict the effect on a further host. May import NumPy, SciPy and `paired`.

Model: y = mu + u + e. A host's estimate y is the fleet's mean effect mu, plus the host's own deviation u, of variance
tau², plus an estimation error e. tau² is estimated by restricted maximum likelihood. The interval of mu is that of
Hartung and Knapp, with Student's t of (hosts - 1) degrees of freedom. Their factor is kept at 1 or more, so the
interval is never narrower than tau² alone makes it. So the number of hosts matters more than the number of blocks: a
thousand blocks on two hosts say little about a third one.

A host's effect is estimated by Hodges–Lehmann. Its error is the standard error of a mean, from the spread of its own
blocks. A few blocks hardly determine that spread, so it is shrunk towards the median spread of all hosts, which weighs
as much as `PRIOR_BLOCKS` blocks.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hakmem_lab.judge.statistics.paired import Interval, checked, hodges_lehmann
from hakmem_lab.judge.statistics.special import chdtrc, stdtrit

LEAST_HOSTS = 3
PRIOR_BLOCKS = 4
NO_VARIANCE = 1e-18  # smallest variance: that of rounding, for values that never vary
LOOKED_AT, LOOKED_AT_DECADES, CLOSE = 200, 10, 1e-9


@dataclass(frozen=True)
class Host:
    """The estimate of one host. variance: of the estimate's error; n: number of blocks."""

    estimate: float
    variance: float
    n: int

    def interval(self, level: float) -> Interval:
        """Interval of the effect on this host."""
        freedom = PRIOR_BLOCKS + self.n - 1
        return Interval.of_student(self.estimate, math.sqrt(self.variance), freedom, level, self.n)


def of_blocks(columns: Mapping[str, Sequence[float]]) -> dict[str, Host]:
    """The estimate of every host, from the log-ratios of its blocks: at least one for each host."""
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
    """estimate: the mean effect (a log-ratio); error: its standard error. tau2: the variance of the hosts' effects;
    variance: of their estimates; q: Cochran's Q; i2: the share of the variance that their errors do not explain."""

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
        """p-value of q, if all hosts had the same effect."""
        return float(chdtrc(self.hosts - 1, self.q)) if self.hosts > 1 else 1.0

    def prediction(self, level: float) -> tuple[float, float]:
        """The range in which the effect on one further host lies; unlimited for fewer than three hosts."""
        if self.hosts < LEAST_HOSTS:
            return -math.inf, math.inf
        # With few hosts, likelihood underestimates tau². The variance of the estimates, which includes noise, does not.
        spread = max(self.tau2 + self.error**2, self.variance * (1 + 1 / self.hosts))
        half = -float(stdtrit(self.hosts - 2, (1 - level) / 2)) * math.sqrt(spread)
        return self.estimate - half, self.estimate + half


def fleet(hosts: Sequence[Host]) -> Fleet:
    """The mean over the fleet that these hosts were drawn from. hosts: at least one."""
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
    """The typical variance of a host's error, after Higgins and Thompson."""
    return float((weights.size - 1) * weights.sum() / (weights.sum() ** 2 - (weights**2).sum()))


def _tau2(y: np.ndarray, v: np.ndarray) -> float:
    """tau² by restricted maximum likelihood; never below 0. A grid over the whole range is searched first: if the
    hosts' errors are very unequal, following the slope may oscillate, or end at the lower of two maxima."""
    from scipy.optimize import minimize_scalar  # slow to load, and most runs are on one host

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
    """The mean effect on these hosts only, without a claim about others. The weight of a host is 1/variance."""
    weights = np.array([1 / host.variance for host in hosts])
    mean = float(weights @ np.array([host.estimate for host in hosts]) / weights.sum())
    return Host(mean, float(1 / weights.sum()), sum(host.n for host in hosts)).interval(level)
