"""Guardrails where several arms are held against the first one. Pure."""

from collections.abc import Mapping, Sequence

from hakmem_lab.judge.analysis import log_ratios
from hakmem_lab.judge.statistics import verdict
from hakmem_lab.judge.statistics.paired import simultaneous_intervals
from hakmem_lab.judge.statistics.plan import Plan
from hakmem_lab.judge.statistics.verdict import Guardrail
from hakmem_lab.plan.spec import guardrails_of
from hakmem_lab.store.query import Blocks


def judged(header: dict, blocks: Blocks, plan: Plan | None = None) -> dict[str, list[Guardrail]]:
    """Arm -> its guardrails against the first arm; the intervals of one metric hold for all arms at once, and leave
    alpha on each side: after any number of blocks where there is a plan, else after all of them. An arm is judged by
    the blocks in which it took part."""
    first, *others = (arm["name"] for arm in header["arms"])
    alpha = header["spec"]["alpha"]
    found: dict[str, list[Guardrail]] = {name: [] for name in others}
    for metric, limit in guardrails_of(header["spec"]).items():
        columns = {}
        for name in others:
            shared = [block for block in blocks if name in block and first in block]
            if d := log_ratios(shared, first, name, metric):
                columns[name] = d
        if plan is not None:
            for name, d in columns.items():
                found[name].append(verdict.guardrail(d, limit, alpha / len(columns), metric.name, plan))
            continue
        for name, interval in simultaneous_intervals(columns, 1 - 2 * alpha).items():
            found[name].append(Guardrail.of(metric.name, interval, limit))
    return found


def rows(found: Mapping[str, Sequence[Guardrail]]) -> list[dict]:
    """As a result states them, each with its arm."""
    return [each.row() | {"arm": name} for name, own in found.items() for each in own]
