"""The verdict on one arm of a latency run: a percentile of all its requests, guardrails, the mean. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hakmem_lab.judge.analysis import log_ratios
from hakmem_lab.judge.statistics import guardrails, verdict
from hakmem_lab.judge.statistics.paired import Interval, as_log, paired_interval
from hakmem_lab.judge.statistics.pooled import MEAN
from hakmem_lab.judge.statistics.verdict import Guardrail, GuardrailStatus, Verdict, percent
from hakmem_lab.kinds.latency.histogram import METRICS, PREFIXES
from hakmem_lab.kinds.latency.pool import LEAST_REQUESTS_BEYOND, Requests
from hakmem_lab.plan.spec import guardrails_of
from hakmem_lab.store.blocks import Blocks

# A better middle must not be bought with a worse tail: watched whether or not a spec asks for it.
BUILT_IN = {"p99.9": 0.25}
MOST_BLOCKS = 100_000


@dataclass(frozen=True)
class Decision:
    """interval: of the chosen percentile; equivalence: the narrower one that NEUTRAL needs. more_blocks: None where it
    is unknown or the verdict is not INCONCLUSIVE."""

    verdict: Verdict
    interval: Interval
    equivalence: Interval
    rails: tuple[Guardrail, ...]
    reason: str
    more_blocks: int | None


def limits(spec: dict, arms: Sequence[Requests]) -> dict[str, float]:
    """Percentile -> tolerated worsening. The built-in one only where there are requests enough to know it by."""
    own = {metric.name: limit for metric, limit in guardrails_of(spec).items() if metric.name in METRICS}
    steady = {
        name: limit
        for name, limit in BUILT_IN.items()
        if name != spec["metric"] and all(arm.beyond(name) >= LEAST_REQUESTS_BEYOND for arm in arms)
    }
    return steady | own


def rails(blocks: Blocks, control: Requests, treatment: Requests, spec: dict, alpha: float) -> tuple[Guardrail, ...]:
    """Percentiles of all requests, and what else the spec's guardrails watch, run by run."""
    found = []
    for name, limit in limits(spec, (control, treatment)).items():
        if control.known(name) and treatment.known(name):
            (interval,) = treatment.against(control, name, [1 - 2 * alpha])
            found.append(guardrails.judged(name, interval, limit))
    for metric, limit in guardrails_of(spec).items():
        if metric.name not in METRICS:
            d = log_ratios(blocks, control.name, treatment.name, metric) or []
            found.append(guardrails.judged(metric.name, paired_interval(d, 1 - 2 * alpha), limit))
    return tuple(found)


def decide(blocks: Blocks, control: Requests, treatment: Requests, spec: dict, alpha: float) -> Decision:
    """Better only where neither a guardrail nor the mean of all requests says otherwise."""
    metric, delta = spec["metric"], as_log(spec["margin"])
    interval, equivalence = treatment.against(control, metric, [1 - alpha, 1 - 2 * alpha])
    watched = rails(blocks, control, treatment, spec, alpha)
    (mean,) = treatment.against(control, PREFIXES[_series(metric)] + MEAN, [1 - alpha])
    plain = verdict.judge(interval, equivalence, delta)
    word = guardrails.checked(plain, watched)
    contrary = (word is Verdict.GO and mean.high < 0) or (word is plain is Verdict.NO_GO and mean.low > 0)
    undecided = word is plain is Verdict.INCONCLUSIVE
    word = Verdict.INCONCLUSIVE if contrary else word
    reason = _sentence(metric, word, interval, equivalence, watched, mean if contrary else None, spec["margin"])
    return Decision(
        word, interval, equivalence, watched, reason, _more(interval, equivalence, delta) if undecided else None
    )


def _series(metric: str) -> str:
    return "service" if metric.startswith(PREFIXES["service"]) else "response"


def _more(interval: Interval, equivalence: Interval, delta: float) -> int | None:
    """About how many further blocks: an interval's width falls with their square root."""
    size = abs(interval.estimate)
    if not all(math.isfinite(end) for end in (interval.low, interval.high)):
        return None
    ways = [((interval.high - interval.low) / 2, size)] if size >= delta else []
    ways += [((equivalence.high - equivalence.low) / 2, delta - size)] if size < delta else []
    needed = [interval.n * (half / room) ** 2 for half, room in ways if room > 0]
    further = math.ceil(min(needed)) - interval.n if needed else MOST_BLOCKS + 1
    return max(1, further) if further <= MOST_BLOCKS else None


def _sentence(
    metric: str,
    word: Verdict,
    interval: Interval,
    equivalence: Interval,
    watched: Sequence[Guardrail],
    mean: Interval | None,
    margin: float,
) -> str:
    matters = f"{margin * 100:g} % that matters"
    between = f"between {percent(interval.low)} and {percent(interval.high)}"
    if word is Verdict.NEUTRAL:
        ends = f"between {percent(equivalence.low)} and {percent(equivalence.high)}"
        return f"{metric} of all requests differs by less than the {matters} ({ends})."
    side = "better" if interval.estimate > 0 else "worse"
    text = f"{metric} of all requests is {side} by about {percent(interval.estimate).lstrip('+−')} ({between})"
    if mean is not None:
        other = "worse" if side == "better" else "better"
        return f"{text}, but their mean is {other} ({percent(mean.estimate)}): a few requests outweigh the others."
    failed = [rail for rail in watched if rail.status is GuardrailStatus.FAILED]
    unclear = [rail.name for rail in watched if rail.status is GuardrailStatus.UNCLEAR]
    if interval.excludes_zero() and side == "better" and failed:
        broken = "; ".join(f"{rail.name} got worse ({percent(rail.interval.estimate)})" for rail in failed)
        return f"{text}, but {broken}, beyond what is tolerated."
    if word is Verdict.INCONCLUSIVE and interval.excludes_zero():
        doubt = (
            f"{', '.join(unclear)} may have got worse"
            if unclear and side == "better"
            else f"whether by the {matters} is open"
        )
        return f"{text}, but {doubt}."
    if word is Verdict.INCONCLUSIVE:
        return f"{metric} of all requests: better, equal and worse are all still possible ({between})."
    nearest = min(abs(interval.low), abs(interval.high))
    return f"{text}, by at least the {matters}." if nearest >= as_log(margin) else f"{text}."
