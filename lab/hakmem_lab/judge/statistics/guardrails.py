"""Guardrails: what must not get worse by more than a limit, judged by the interval that is shown.

Duty: held, failed or open from one interval; what failed and open ones do to a verdict. May import `paired` and
`verdict`.
"""

from collections.abc import Sequence

from hakmem_lab.judge.statistics.paired import Interval, as_log
from hakmem_lab.judge.statistics.verdict import Guardrail, GuardrailStatus, Verdict

WORDS = {GuardrailStatus.HELD: "held", GuardrailStatus.FAILED: "failed", GuardrailStatus.UNCLEAR: "open"}


def status(interval: Interval, limit: float) -> GuardrailStatus:
    """held: the whole interval is on the good side of the limit; failed: all of it is beyond; open where the interval
    holds the limit. `limit`: the tolerated worsening as a ratio minus one, from 0; the interval is in the log domain,
    positive = better."""
    if limit < 0:
        raise ValueError(f"a guardrail's limit is the tolerated worsening, at least 0, got {limit}")
    tolerated = -as_log(limit)
    if interval.low >= tolerated:
        return GuardrailStatus.HELD
    if interval.high < tolerated:
        return GuardrailStatus.FAILED
    return GuardrailStatus.UNCLEAR


def judged(name: str, interval: Interval, limit: float) -> Guardrail:
    """A guardrail from the interval of its metric."""
    return Guardrail(name, limit, status(interval, limit), interval)


def checked(verdict: Verdict, rails: Sequence[Guardrail]) -> Verdict:
    """A GO that a failed guardrail forbids is a NO-GO, one that an open guardrail leaves in doubt is INCONCLUSIVE."""
    found = {rail.status for rail in rails}
    if verdict is not Verdict.GO or found <= {GuardrailStatus.HELD}:
        return verdict
    return Verdict.NO_GO if GuardrailStatus.FAILED in found else Verdict.INCONCLUSIVE


def row(rail: Guardrail) -> dict:
    """As a result states it: ratios minus one."""
    ratio = rail.interval.ratio()
    return {
        "metric": rail.name,
        "limit": rail.limit,
        "estimate": ratio.estimate,
        "ci_low": ratio.low,
        "ci_high": ratio.high,
        "level": ratio.level,
        "status": WORDS[rail.status],
    }
