"""A/A: is this machine, with this workload, fit to measure?

Duty: judge runs of one and the same arm. May import NumPy, SciPy, `paired`, `plan`, `power`, `verdict`.

Every block of four runs (in order of execution) gets a random labelling ABBA or BAAB, and the whole planned procedure
is run on random windows and random subsets of the blocks. Every GO or NO-GO is then false. If the labels of the actual
execution are known, they are judged too: only they reveal a runner that treats its two arms differently. Equal
treatment has to be shown: the bias must lie inside half the margin, by an equivalence test.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hakmem_lab.judge.statistics.paired import Interval, Values, as_log, as_ratio, centred, paired_interval
from hakmem_lab.judge.statistics.plan import Plan, planned_looks
from hakmem_lab.judge.statistics.power import blocks_for, least_blocks, spread
from hakmem_lab.judge.statistics.special import bdtr
from hakmem_lab.judge.statistics.verdict import Verdict, sequential_verdict

LEAST_RESAMPLES = 200
_BOUND_LEVEL = 0.975
_BIAS_LEVEL = 0.999
_ABBA = np.array([-0.5, 0.5, 0.5, -0.5])
_SEQUENTIAL_RUNS = 10
FIT, OPEN, UNFIT = "fit", "open", "unfit"
_HIGH_AUTOCORRELATION = 0.3


@dataclass(frozen=True)
class AAResult:
    """Verdicts on resampled A/As and what they say about the machine.

    `rate` is the share of false verdicts, `bound` the largest share that chance explains when the true rate is alpha.
    `spread` is that of a block (log domain); `blocks_per_verdict` is the count after which a true zero is likely called
    NEUTRAL (None above 100,000). `sequential_rate` is the share of false verdicts that 10 runs of A followed by 10 of
    B, judged by their means, would have given on the same runs.

    `bias` is the interval for the executed labels (log domain), if they were given; its error is alpha on each side.
    `state`: fit if the bias is inside half the margin; unfit if there are too many false verdicts or a bias is shown;
    open if the bias may still be that large.
    """

    false_go: int
    false_no_go: int
    neutral: int
    inconclusive: int
    resamples: int
    rate: float
    bound: float
    state: str
    advice: list[str]
    blocks: int
    autocorrelation: float
    coefficient_of_variation: float
    spread: float
    blocks_per_verdict: int | None
    sequential_rate: float
    bias: Interval | None = None

    @property
    def fit(self) -> bool:
        return self.state == FIT


def autocorrelation(values: Values, lag: int = 1) -> float:
    """Sample autocorrelation at a lag, -1 … 1; 0 for a constant series. ValueError with fewer than lag + 2 values."""
    array = np.asarray(values, dtype=float)
    if lag < 1 or array.ndim != 1 or array.size < lag + 2:
        raise ValueError(f"an autocorrelation at lag {lag} needs at least {lag + 2} values")
    residue = centred(array)
    power = float(residue @ residue)
    return float(residue[lag:] @ residue[:-lag]) / power if power > 0 else 0.0


def coefficient_of_variation(values: Sequence[float]) -> float:
    """Standard deviation over mean of raw (not log) values above 0; at least 2 values."""
    array = np.asarray(values, dtype=float)
    if array.ndim != 1 or array.size < 2 or not (array > 0).all():
        raise ValueError("a coefficient of variation needs at least 2 values above 0")
    return float(array.std(ddof=1) / array.mean())


def sequential_false_rate(log_values: Values, margin: float = 0.01) -> float:
    """Share of windows of 10 runs of A then 10 of B in which the means of one arm differ by the margin or more."""
    array = np.asarray(log_values, dtype=float)
    if array.size < 2 * _SEQUENTIAL_RUNS:
        return float("nan")
    sums = np.convolve(np.exp(array - array.mean()), np.ones(_SEQUENTIAL_RUNS), mode="valid")
    differences = np.log(sums[_SEQUENTIAL_RUNS:] / sums[:-_SEQUENTIAL_RUNS])
    return float((np.abs(differences) >= as_log(margin)).mean())


def aa_false_verdicts(
    runs_by_block: Sequence[Sequence[float]],
    margin: float = 0.01,
    alpha: float = 0.05,
    resamples: int = 400,
    rng: np.random.Generator | int = 0,
    *,
    executed_abba: Sequence[bool] | None = None,
    plan: Plan | None = None,
) -> AAResult:
    """Judge an A/A run: rows are blocks, the four columns natural logs of a metric in order of execution.

    `executed_abba` says for each block whether it ran as ABBA (A first) or BAAB; `plan`: the rule for judging the bias,
    if the run could end early because of it. ValueError with fewer than 200 resamples or too few blocks for a verdict.
    """
    runs = np.asarray(runs_by_block, dtype=float)
    if runs.ndim != 2 or runs.shape[1] != 4 or not np.isfinite(runs).all():
        raise ValueError(f"expected finite rows of 4 runs, got an array of {runs.shape}")
    if resamples < LEAST_RESAMPLES:
        raise ValueError(f"at least {LEAST_RESAMPLES} resamples are needed, got {resamples}")
    least = 2 * least_blocks(alpha)
    if runs.shape[0] < least:
        raise ValueError(f"at least {least} blocks are needed, got {runs.shape[0]}")
    contrasts = runs @ _ABBA
    counts = _resampled_verdicts(contrasts, margin, alpha, resamples, np.random.default_rng(rng))
    bias = None
    if executed_abba is not None:
        signs = np.where(np.asarray(executed_abba, dtype=bool), 1.0, -1.0)
        bias = contrasts * signs
    return _result(runs, counts, None if bias is None else _Bias(bias, plan), margin, alpha)


@dataclass(frozen=True)
class _Bias:
    """Per-block log-ratios of the labels as they were run."""

    d: np.ndarray
    plan: Plan | None

    def interval(self, alpha: float) -> Interval:
        """Interval of the bias, with an error of alpha on each side."""
        if self.plan is None:
            return paired_interval(self.d, 1 - 2 * alpha)
        return self.plan.judged(self.d, alpha).equivalence


def _resampled_verdicts(
    contrasts: np.ndarray, margin: float, alpha: float, resamples: int, rng: np.random.Generator
) -> Counter[Verdict]:
    n = contrasts.size
    size = n // 2
    plan = Plan(tuple(planned_looks(size)))
    counts: Counter[Verdict] = Counter()
    for resample in range(resamples):
        if resample % 2:
            chosen = rng.choice(n, size, replace=False)
        else:
            start = int(rng.integers(0, n - size + 1))
            chosen = np.arange(start, start + size)
        d = contrasts[chosen] * rng.choice((-1.0, 1.0), size)
        counts[sequential_verdict(d, plan, margin, alpha)] += 1
    return counts


def _state(rate: float, bound: float, bias: _Bias | None, margin: float, alpha: float) -> str:
    """The state of the machine. A bias that is shown, but lies inside half the margin, is harmless."""
    if rate > bound:
        return UNFIT
    if bias is None:
        return FIT
    half, inner = as_log(margin / 2), bias.interval(alpha)
    if -half < inner.low and inner.high < half:
        return FIT
    return UNFIT if paired_interval(bias.d, _BIAS_LEVEL).excludes_zero() else OPEN


def _quantile(level: float, count: int, share: float) -> int:
    """A quantile of the binomial distribution. Importing scipy.stats would take a second."""
    return int(np.searchsorted(bdtr(np.arange(count + 1), count, share), level))


def _result(runs: np.ndarray, counts: Counter[Verdict], bias: _Bias | None, margin: float, alpha: float) -> AAResult:
    resamples = counts.total()
    rate = (counts[Verdict.GO] + counts[Verdict.NO_GO]) / resamples
    bound = _quantile(_BOUND_LEVEL, resamples, alpha) / resamples
    series, contrasts = runs.ravel(), runs @ _ABBA
    sigma = spread(np.concatenate([contrasts, -contrasts]))
    result = AAResult(
        false_go=counts[Verdict.GO],
        false_no_go=counts[Verdict.NO_GO],
        neutral=counts[Verdict.NEUTRAL],
        inconclusive=counts[Verdict.INCONCLUSIVE],
        resamples=resamples,
        rate=rate,
        bound=bound,
        state=_state(rate, bound, bias, margin, alpha),
        advice=[],
        blocks=contrasts.size,
        autocorrelation=autocorrelation(series),
        coefficient_of_variation=coefficient_of_variation(np.exp(series - series.mean())),
        spread=sigma,
        blocks_per_verdict=blocks_for(sigma, 0.0, margin, alpha),
        sequential_rate=sequential_false_rate(series, margin),
        bias=None if bias is None else bias.interval(alpha),
    )
    result.advice.extend(_advice(result, margin))
    return result


def _advice(result: AAResult, margin: float) -> list[str]:
    advice = []
    if result.rate > result.bound:
        advice.append(
            f"{result.rate:.1%} of the A/A comparisons gave a false verdict, more than the {result.bound:.1%} that "
            "chance explains: verdicts from this machine cannot be trusted."
        )
    elif result.bias is not None and result.state == UNFIT:
        advice.append(
            f"Two identical sides differ by {as_ratio(result.bias.estimate):+.2%}: they are not run alike. Check what "
            "differs between them (environment, paths, order)."
        )
    elif result.bias is not None and result.state == OPEN:
        advice.append(
            f"Two identical sides may differ by as much as half the margin of {margin:.2%} (between "
            f"{as_ratio(result.bias.low):+.2%} and {as_ratio(result.bias.high):+.2%}): that they are run alike is not "
            "shown yet. More blocks (--max-blocks) or a larger margin may."
        )
    if result.blocks_per_verdict is None:
        advice.append("The noise is too large to show that a difference is smaller than the margin.")
    elif result.blocks_per_verdict > result.blocks:
        advice.append(
            f"Plan about {result.blocks_per_verdict} blocks to show that a difference is smaller than {margin:.2%}. "
            "Longer runs or a quieter machine help too."
        )
    if result.autocorrelation > _HIGH_AUTOCORRELATION:
        advice.append(
            f"Neighbouring runs depend on each other (autocorrelation {result.autocorrelation:.2f}): compare only "
            f"interleaved runs; 10 runs of A, then 10 of B would be wrong {result.sequential_rate:.0%} of the time."
        )
    return advice
