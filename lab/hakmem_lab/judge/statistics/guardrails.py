"""Guardrails: what must not get worse by more than a limit, judged by the interval that is shown.

Duty: held, failed or open from one interval; what failed and open ones do to a verdict. May import `paired` and
`verdict`.
"""

from collections.abc import Sequence

from hakmem_lab.judge.statistics.paired import Interval
from hakmem_lab.judge.statistics.verdict import Guardrail, GuardrailStatus, Verdict, status

__all__ = ["WORDS", "checked", "judged", "row", "status"]

WORDS = {GuardrailStatus.HELD: "held", GuardrailStatus.FAILED: "failed", GuardrailStatus.UNCLEAR: "open"}


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
    return {"metric": rail.name, "limit": rail.limit, **rail.interval.row(), "status": WORDS[rail.status]}
