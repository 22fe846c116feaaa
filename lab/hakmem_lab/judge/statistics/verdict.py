"""The verdict: GO, NEUTRAL, NO-GO or INCONCLUSIVE. `judge.explain` puts it into words.

Duty: the protocol's decision order, its guardrails, what holds a verdict back. May import `paired`, `plan`, `means`,
`stopping`.

Order: equivalence interval inside the margin -> NEUTRAL; interval above 0 and estimate at or above the margin -> GO;
the mirror image -> NO-GO; otherwise INCONCLUSIVE. GO and NO-GO claim a direction, and alpha bounds the error of that
claim. That the estimate is at least the margin is a condition, not a claim. With a plan the intervals are the plan's,
which hold after any number of blocks; without one they are those of a single look, at 1 - alpha and 1 - 2 alpha.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from hakmem_lab.judge.statistics import stopping
from hakmem_lab.judge.statistics.means import Means
from hakmem_lab.judge.statistics.paired import Interval, Row, as_log, hodges_lehmann, least_count, paired_intervals
from hakmem_lab.judge.statistics.plan import Judged, Plan


class Verdict(StrEnum):
    GO = "GO"
    NEUTRAL = "NEUTRAL"
    NO_GO = "NO-GO"
    INCONCLUSIVE = "INCONCLUSIVE"


class GuardrailStatus(StrEnum):
    HELD = "held"
    FAILED = "failed"
    OPEN = "open"


class GuardrailRow(Row):
    metric: str
    limit: float
    status: str


@dataclass(frozen=True)
class Guardrail:
    """A second metric that must not get worse by more than `limit` (ratio minus one).

    `interval` is the one that is judged; its error is alpha on each side.
    """

    name: str
    limit: float
    status: GuardrailStatus
    interval: Interval

    @classmethod
    def of(cls, name: str, interval: Interval, limit: float) -> "Guardrail":
        """Judge the metric's interval: failed if all of it is worse than `limit`, held if none of it is."""
        return cls(name, limit, status(interval, limit), interval)

    def row(self) -> GuardrailRow:
        """The row in a result's form: ratios minus one."""
        return {"metric": self.name, "limit": self.limit, **self.interval.row(), "status": str(self.status)}


@dataclass(frozen=True)
class Decision:
    """A verdict with its grounds.

    `interval` is at level 1 - alpha, `equivalence` is the narrower one that NEUTRAL needs (1 - 2 alpha); both in logs.
    `plain` is the estimate before the correction for an early stop. `final`: no more blocks are planned. `least`: the
    fewest blocks with which any verdict is possible. `means`: the other average, if the raw runs are known; `torn`: it
    contradicts the verdict and holds it back; `mean_open`: it does not support the verdict; `consistent`: some effect
    explains all blocks.
    """

    verdict: Verdict
    interval: Interval
    equivalence: Interval
    final: bool
    least: int
    vetoed_by: tuple[str, ...]
    margin: float
    guardrails: tuple[Guardrail, ...]
    plain: float
    means: Means | None
    torn: bool
    mean_open: bool
    consistent: bool


def _judged_intervals(d: Sequence[float], alpha: float, plan: Plan | None) -> Judged:
    if plan is not None:
        return plan.judged(d, alpha)
    if not 0 < alpha < 0.5:
        raise ValueError(f"alpha must lie between 0 and 0.5, got {alpha}")
    interval, equivalence = paired_intervals(d, [1 - alpha, 1 - 2 * alpha])
    return Judged(interval, equivalence, consistent=True)


def guardrail(
    d: Sequence[float], limit: float, alpha: float = 0.05, name: str = "guardrail", plan: Plan | None = None
) -> Guardrail:
    """Judge a second metric by its per-block log-ratios (positive = treatment better).

    failed: the whole interval is worse than `limit`; held: none of it is; open otherwise. Either word is wrong with
    a probability of at most alpha. `limit` is the tolerated worsening as a ratio minus one, from 0.
    """
    return Guardrail.of(name, _judged_intervals(d, alpha, plan).equivalence, limit)


def status(interval: Interval, limit: float) -> GuardrailStatus:
    """Status of an interval in the log domain, positive = better. limit: a ratio minus one."""
    if limit < 0:
        raise ValueError(f"a guardrail's limit is the tolerated worsening, at least 0, got {limit}")
    if interval.high < -as_log(limit):
        return GuardrailStatus.FAILED
    return GuardrailStatus.HELD if interval.low >= -as_log(limit) else GuardrailStatus.OPEN


def decide(
    d: Sequence[float],
    margin: float = 0.01,
    alpha: float = 0.05,
    plan: Plan | None = None,
    guardrails: Sequence[Guardrail] = (),
    means: Means | None = None,
) -> Decision:
    """The verdict on per-block log-ratios (positive = treatment better).

    `margin` is the smallest difference that matters, as a ratio minus one above 0. `plan` allows a verdict after any
    number of blocks; without one, these blocks are assumed to be all that were planned. `means` is the other average of
    the same runs: if it points the other way, there is no verdict.
    """
    delta = _margin_log(margin)
    judged = _judged_intervals(d, alpha, plan)
    word = _word(judged, delta)
    torn = means is not None and contradicts(word, means.ratio, delta, means.far)
    word, vetoed_by = with_guardrails(Verdict.INCONCLUSIVE if torn else word, guardrails)
    decision = Decision(
        verdict=word,
        interval=judged.interval,
        equivalence=judged.equivalence,
        final=True,
        least=plan.least_blocks(alpha) if plan else least_count(alpha / 2),
        vetoed_by=vetoed_by,
        margin=margin,
        guardrails=tuple(guardrails),
        plain=judged.interval.estimate,
        means=means,
        torn=torn,
        mean_open=means is not None and not vetoed_by and unsupported(word, means.ratio, delta),
        consistent=judged.consistent,
    )
    if decision.verdict is Verdict.INCONCLUSIVE:
        return replace(decision, final=plan is None or len(d) >= plan.looks[-1])
    return decision if plan is None else _corrected(decision, d, delta, alpha, plan)


def at_once(columns: Mapping[str, Sequence[float]], margin: float = 0.01, alpha: float = 0.05) -> dict[str, Decision]:
    """The verdict on every column of per-block log-ratios. Their intervals hold all at once.

    The number of blocks must not depend on the estimates: it is planned, or `narrow` ended the blocks.
    """
    return {name: decide(d, margin, alpha / len(columns)) for name, d in columns.items()}


FIRST, EVERY = 15, 3  # blocks before the first look at the widths, and between two


def narrow(found: Sequence[Interval], within: float) -> bool:
    """Whether blocks may end: all these intervals lie within this share around their estimates.

    It sees the widths alone, never the estimates. At 95 %, all nine intervals of ten sides then hold in 95 to 97 % of
    simulations, and that of two sides in 94 to 95 %: tests/statistics/test_stat_settled.py.
    """
    if not found or found[0].n < FIRST or found[0].n % EVERY:
        return False
    return all(max(each.high - each.estimate, each.estimate - each.low) <= as_log(within) for each in found)


def _margin_log(margin: float) -> float:
    if margin <= 0:
        raise ValueError(f"the margin is the smallest difference that matters and must be above 0, got {margin}")
    return as_log(margin)


def _word(judged: Judged, delta: float) -> Verdict:
    return judge(judged.interval, judged.equivalence, delta) if judged.consistent else Verdict.INCONCLUSIVE


def contradicts(word: Verdict, ratio: Interval, delta: float, far: tuple[int, int] = (0, 0)) -> bool:
    """Whether the ratio of the means contradicts the verdict: by its sign, or, for NEUTRAL, by more than the margin.

    far: runs of each arm that were far off. If the arm with more of them has the worse mean, the interval of the mean
    need not exclude 0 to contradict NEUTRAL: rare far-off runs always make that interval wide."""
    match word:
        case Verdict.GO:
            return ratio.estimate < 0
        case Verdict.NO_GO:
            return ratio.estimate > 0
        case Verdict.NEUTRAL:
            more = (far[0] - far[1]) * ratio.estimate > 0
            return abs(ratio.estimate) >= delta and (more or ratio.excludes_zero())
        case _:
            return False


def unsupported(word: Verdict, ratio: Interval, delta: float) -> bool:
    """Whether the ratio of the means does not show the verdict's direction either, or, for NEUTRAL, is beyond the
    margin. The verdict stands, but whoever reads it must know."""
    match word:
        case Verdict.GO:
            return ratio.low <= 0
        case Verdict.NO_GO:
            return ratio.high >= 0
        case Verdict.NEUTRAL:
            return abs(ratio.estimate) >= delta
        case _:
            return False


def _corrected(decision: Decision, d: Sequence[float], delta: float, alpha: float, plan: Plan) -> Decision:
    """Correct the estimate if the last block ended the run; after further blocks it needs no correction."""
    if _word(plan.judged(d[:-1], alpha), delta) is not Verdict.INCONCLUSIVE:
        return decision
    interval = decision.interval
    estimate = min(max(stopping.corrected(d, plan, delta, alpha), interval.low), interval.high)
    return replace(decision, interval=replace(interval, estimate=estimate))


def sequential_verdict(d: Sequence[float], plan: Plan, margin: float = 0.01, alpha: float = 0.05) -> Verdict:
    """The verdict of the whole procedure on recorded blocks: that of the first count which settles it."""
    return _settled(d, plan, margin, alpha)[1]


def settling_count(d: Sequence[float], plan: Plan, margin: float = 0.01, alpha: float = 0.05) -> int:
    """The number of blocks after which a run would have ended; all of them if it stays undecided."""
    return _settled(d, plan, margin, alpha)[0]


def _settled(d: Sequence[float], plan: Plan, margin: float, alpha: float) -> tuple[int, Verdict]:
    delta = _margin_log(margin)
    above, below, inside = plan.shown(d, alpha, delta)
    for index in ((above ^ below) | inside).nonzero()[0].tolist():
        if inside[index]:
            return index + 1, Verdict.NEUTRAL
        estimate = hodges_lehmann(d[: index + 1])
        if abs(estimate) >= delta and (estimate > 0) == bool(above[index]):
            return index + 1, Verdict.GO if estimate > 0 else Verdict.NO_GO
    return len(d), Verdict.INCONCLUSIVE


def judge(interval: Interval, equivalence: Interval, delta: float) -> Verdict:
    """The protocol's order on given intervals; `delta` is the margin in the log domain."""
    if -delta < equivalence.low and equivalence.high < delta:
        return Verdict.NEUTRAL
    if interval.low > 0 and interval.estimate >= delta:
        return Verdict.GO
    if interval.high < 0 and interval.estimate <= -delta:
        return Verdict.NO_GO
    return Verdict.INCONCLUSIVE


def within(low: float, high: float, limit: float) -> Verdict:
    """On the interval of a cost with a limit: GO if all of it is at most the limit, NO-GO if all of it is above."""
    return Verdict.NO_GO if low > limit else Verdict.GO if high <= limit else Verdict.INCONCLUSIVE


def with_guardrails(word: Verdict, guardrails: Sequence[Guardrail]) -> tuple[Verdict, tuple[str, ...]]:
    """A failed guardrail makes a GO a NO-GO, vetoed by it; an open one makes it INCONCLUSIVE."""
    if word is not Verdict.GO:
        return word, ()
    failed = tuple(each.name for each in guardrails if each.status is GuardrailStatus.FAILED)
    if failed:
        return Verdict.NO_GO, failed
    doubtful = any(each.status is GuardrailStatus.OPEN for each in guardrails)
    return Verdict.INCONCLUSIVE if doubtful else word, ()


def at_least_margin(decision: Decision) -> bool:
    """Whether a direction is shown, and all of the interval is at least the margin away from 0."""
    return max(decision.interval.low, -decision.interval.high) >= as_log(decision.margin)
