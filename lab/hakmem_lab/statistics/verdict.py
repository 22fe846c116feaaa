"""The verdict: GO, NEUTRAL, NO-GO or INCONCLUSIVE, and why.

Duty: the protocol's decision order, its planned looks and its guardrails. May import `paired`, `looks`, `power`.

Order: equivalence interval inside the margin -> NEUTRAL; interval above 0 and estimate at or above the margin -> GO;
the mirror image -> NO-GO; otherwise INCONCLUSIVE. With one look the intervals are those of 1 - alpha and 1 - 2 alpha;
with several, those of each look's O'Brien–Fleming levels, so that the error rates hold for the whole procedure.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from .looks import obrien_fleming_levels
from .paired import Interval, as_log, as_ratio, paired_intervals
from .power import least_blocks, more_blocks, more_blocks_for_guardrail

Look = tuple[int, Sequence[int]]


class Verdict(StrEnum):
    GO = "GO"
    NEUTRAL = "NEUTRAL"
    NO_GO = "NO-GO"
    INCONCLUSIVE = "INCONCLUSIVE"


class GuardrailStatus(StrEnum):
    HELD = "held"
    FAILED = "failed"
    UNCLEAR = "unclear"


@dataclass(frozen=True)
class Guardrail:
    """A second metric that must not get worse by more than `limit` (ratio minus one).

    `more_blocks` is given when unclear: further blocks that would likely show whether it holds.
    """

    name: str
    limit: float
    status: GuardrailStatus
    interval: Interval
    more_blocks: int | None = None


@dataclass(frozen=True)
class Decision:
    """A verdict with what it rests on.

    `interval` is at this look's level, `equivalence` the narrower one that NEUTRAL needs (90 % at a single look with
    alpha = 5 %); both are in the log domain. `final`: no further look follows. `more_blocks` is given for INCONCLUSIVE
    only: further blocks that would likely settle it, None when unknown or more than 100,000.
    """

    verdict: Verdict
    interval: Interval
    equivalence: Interval
    final: bool
    reason: str
    more_blocks: int | None
    vetoed_by: tuple[str, ...]
    margin: float
    guardrails: tuple[Guardrail, ...] = ()


def _levels(n: int, alpha: float, look: Look | None) -> tuple[float, float, bool]:
    """(level of the difference, level of the equivalence, whether this is the last look)."""
    if look is None:
        obrien_fleming_levels(1, alpha)
        return 1 - alpha, 1 - 2 * alpha, True
    index, planned = look
    if not 0 <= index < len(planned):
        raise ValueError(f"look {index} is not one of the {len(planned)} planned looks (counted from 0)")
    if n != planned[index]:
        raise ValueError(f"look {index} was planned at {planned[index]} blocks but there are {n}")
    difference = obrien_fleming_levels(planned, alpha)[index]
    equivalence = obrien_fleming_levels(planned, alpha, two_sided=False)[index]
    return 1 - difference, 1 - 2 * equivalence, index == len(planned) - 1


def guardrail(
    d: Sequence[float], limit: float, alpha: float = 0.05, name: str = "guardrail", look: Look | None = None
) -> Guardrail:
    """Judge a second metric from its per-block log-ratios (positive = treatment better).

    failed: the interval shows a worsening and the estimate is worse than `limit`; held: a worsening beyond `limit` is
    excluded (one-sided alpha); unclear otherwise. `limit` is the tolerated worsening as a ratio minus one, from 0.
    """
    if limit < 0:
        raise ValueError(f"a guardrail's limit is the tolerated worsening, at least 0, got {limit}")
    difference, one_sided, _ = _levels(len(d), alpha, look)
    interval, bound = paired_intervals(d, [difference, one_sided])
    tolerated = -as_log(limit)
    status = GuardrailStatus.UNCLEAR
    if interval.high < 0 and interval.estimate < tolerated:
        status = GuardrailStatus.FAILED
    elif bound.low >= tolerated:
        status = GuardrailStatus.HELD
    further = more_blocks_for_guardrail(d, limit, alpha) if status is GuardrailStatus.UNCLEAR else None
    return Guardrail(name, limit, status, interval, further)


def decide(
    d: Sequence[float],
    margin: float = 0.01,
    alpha: float = 0.05,
    look: Look | None = None,
    guardrails: Sequence[Guardrail] = (),
) -> Decision:
    """The verdict on per-block log-ratios (positive = treatment better).

    `margin` is the smallest difference that matters, as a ratio minus one above 0. `look` is (index from 0, planned
    block counts); None means a single look. ValueError when the number of blocks is not that look's: a run that had to
    stop early is judged with its plan truncated to the looks taken and the count reached, which is conservative.
    """
    verdict, interval, equivalence, last = _judged(d, margin, alpha, look)
    decision = Decision(verdict, interval, equivalence, True, "", None, (), margin, tuple(guardrails))
    decision = _with_guardrails(decision)
    if decision.verdict is Verdict.INCONCLUSIVE:
        further = more_blocks(d, margin, alpha) if verdict is Verdict.INCONCLUSIVE else _for_guardrails(guardrails)
        decision = replace(decision, final=last, more_blocks=further)
    return replace(decision, reason=_reason(decision, alpha))


def decide_sequentially(
    d: Sequence[float], planned: Sequence[int], margin: float = 0.01, alpha: float = 0.05
) -> Decision:
    """The verdict of the whole planned procedure on recorded blocks: that of the first look which settles it.

    `d` must hold at least the last planned count; blocks after the settling look are not used.
    """
    index = _settling_look(d, planned, margin, alpha)
    return decide(d[: planned[index]], margin, alpha, (index, planned))


def sequential_verdict(
    d: Sequence[float], planned: Sequence[int], margin: float = 0.01, alpha: float = 0.05
) -> Verdict:
    """The verdict alone of `decide_sequentially`, at a fraction of its cost: for simulations."""
    index = _settling_look(d, planned, margin, alpha)
    return _judged(d[: planned[index]], margin, alpha, (index, planned))[0]


def _settling_look(d: Sequence[float], planned: Sequence[int], margin: float, alpha: float) -> int:
    for index, count in enumerate(planned[:-1]):
        if _judged(d[:count], margin, alpha, (index, planned))[0] is not Verdict.INCONCLUSIVE:
            return index
    return len(planned) - 1


def _judged(
    d: Sequence[float], margin: float, alpha: float, look: Look | None
) -> tuple[Verdict, Interval, Interval, bool]:
    """(verdict before guardrails, interval of the difference, of the equivalence, whether this is the last look)."""
    if margin <= 0:
        raise ValueError(f"the margin is the smallest difference that matters and must be above 0, got {margin}")
    difference_level, equivalence_level, last = _levels(len(d), alpha, look)
    interval, equivalence = paired_intervals(d, [difference_level, equivalence_level])
    return judge(interval, equivalence, as_log(margin)), interval, equivalence, last


def _for_guardrails(guardrails: Sequence[Guardrail]) -> int | None:
    needed = [rail.more_blocks for rail in guardrails if rail.status is GuardrailStatus.UNCLEAR]
    return None if None in needed else max(needed)


def judge(interval: Interval, equivalence: Interval, delta: float) -> Verdict:
    """The protocol's order on given intervals; `delta` is the margin in the log domain."""
    if -delta < equivalence.low and equivalence.high < delta:
        return Verdict.NEUTRAL
    if interval.low > 0 and interval.estimate >= delta:
        return Verdict.GO
    if interval.high < 0 and interval.estimate <= -delta:
        return Verdict.NO_GO
    return Verdict.INCONCLUSIVE


def _with_guardrails(decision: Decision) -> Decision:
    if decision.verdict is not Verdict.GO:
        return decision
    failed = tuple(rail.name for rail in decision.guardrails if rail.status is GuardrailStatus.FAILED)
    if failed:
        return replace(decision, verdict=Verdict.NO_GO, vetoed_by=failed)
    if any(rail.status is GuardrailStatus.UNCLEAR for rail in decision.guardrails):
        return replace(decision, verdict=Verdict.INCONCLUSIVE)
    return decision


def percent(log_ratio: float) -> str:
    """A log-ratio as a signed percentage for people: "+2.05 %"; "no limit" where unbounded."""
    if math.isinf(log_ratio):
        return "no limit"
    return f"{as_ratio(log_ratio) * 100:+.2f} %".replace("-", "−")


def _reason(decision: Decision, alpha: float) -> str:
    interval, matters = decision.interval, f"{decision.margin * 100:g} %"
    between = f"between {percent(interval.low)} and {percent(interval.high)}"
    size = percent(interval.estimate).lstrip("+−")
    failed = [rail for rail in decision.guardrails if rail.status is GuardrailStatus.FAILED]
    broken = "; ".join(f"{rail.name} got worse ({percent(rail.interval.estimate)})" for rail in failed)
    match decision.verdict:
        case Verdict.GO:
            return f"The treatment is better by about {size} ({between}), at least the {matters} that matters."
        case Verdict.NO_GO if decision.vetoed_by:
            return f"The treatment is better by about {size}, but {broken}, beyond what was tolerated."
        case Verdict.NO_GO:
            return f"The treatment is worse by about {size} ({between}), at least the {matters} that matters."
        case Verdict.NEUTRAL:
            low, high = percent(decision.equivalence.low), percent(decision.equivalence.high)
            also = f"; but {broken}, beyond what was tolerated" if broken else ""
            return f"Any difference is smaller than the {matters} that matters (between {low} and {high}){also}."
        case _:
            return _inconclusive_reason(decision, alpha, between, matters)


def _inconclusive_reason(decision: Decision, alpha: float, between: str, matters: str) -> str:
    interval = decision.interval
    unclear = [rail.name for rail in decision.guardrails if rail.status is GuardrailStatus.UNCLEAR]
    least = least_blocks(alpha)
    if interval.n < least:
        return f"{interval.n} blocks are too few for a verdict: at least {least} are needed."
    if math.isinf(interval.low):
        return f"{interval.n} blocks are too few for a verdict at this early look."
    if decision.more_blocks is None:
        outlook = "more blocks are unlikely to settle it"
    else:
        outlook = f"about {decision.more_blocks} more blocks would likely settle it"
    if interval.low > 0 and interval.estimate >= as_log(decision.margin):
        return f"The treatment is better ({between}), but {', '.join(unclear)} may have got worse; {outlook}."
    if interval.excludes_zero():
        side = "better" if interval.low > 0 else "worse"
        return f"The treatment is {side} ({between}), but whether by the {matters} that matters is open; {outlook}."
    return f"The difference lies {between}: better, equal and worse are all still possible; {outlook}."
