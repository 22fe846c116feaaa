"""Guardrails where several arms are held against the first one. Pure. Imports analysis, spec, statistics."""

from collections.abc import Mapping, Sequence

from ..analysis import log_ratios
from ..blocks import Blocks
from ..spec import guardrails_of
from ..statistics import guardrails
from ..statistics.multiple import simultaneous_intervals
from ..statistics.verdict import Guardrail


def judged(header: dict, blocks: Blocks) -> dict[str, list[Guardrail]]:
    """Arm -> its guardrails against the first arm; the intervals of one metric hold for all arms at once, and leave
    alpha on each side. An arm is judged by the blocks in which it took part."""
    first, *others = (arm["name"] for arm in header["arms"])
    found: dict[str, list[Guardrail]] = {name: [] for name in others}
    for metric, limit in guardrails_of(header["spec"]).items():
        columns = {}
        for name in others:
            shared = [block for block in blocks if name in block and first in block]
            if d := log_ratios(shared, first, name, metric):
                columns[name] = d
        for name, interval in simultaneous_intervals(columns, 1 - 2 * header["spec"]["alpha"]).items():
            found[name].append(guardrails.judged(metric.name, interval, limit))
    return found


def rows(found: Mapping[str, Sequence[Guardrail]]) -> list[dict]:
    """As a result states them, each with its arm."""
    return [guardrails.row(rail) | {"arm": name} for name, rails in found.items() for rail in rails]
