"""Guardrails where several arms are held against the first one. Pure. Imports analysis, spec, statistics."""

from ..analysis import log_ratios
from ..blocks import Blocks
from ..spec import guardrails_of
from ..statistics import guardrails
from ..statistics.multiple import simultaneous_intervals
from ..statistics.verdict import Guardrail, GuardrailStatus, Verdict, percent


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


def rows(found: dict[str, list[Guardrail]]) -> list[dict]:
    return [guardrails.row(rail) | {"arm": name} for name, rails in found.items() for rail in rails]


def watch(result: dict, header: dict, blocks: Blocks) -> dict:
    """The result with its guardrails, and no GO for an arm that broke one, or may have: the headline says which."""
    found = judged(header, blocks)
    result["guardrails"] = rows(found)
    primary, said = header["spec"]["metric"], []
    for row in result["comparisons"]:
        if row["verdict"] != Verdict.GO or row["metric"] != primary:
            continue
        rails = found[row["treatment"]]
        row["verdict"] = str(guardrails.checked(Verdict.GO, rails))
        broken = [rail for rail in rails if rail.status is GuardrailStatus.FAILED]
        doubtful = [rail.name for rail in rails if rail.status is GuardrailStatus.UNCLEAR]
        if broken:
            texts = ", ".join(f"{rail.name} got worse ({percent(rail.interval.estimate)})" for rail in broken)
            said.append(f"{row['treatment']}: {texts}, beyond what is tolerated")
        elif doubtful:
            said.append(f"{row['treatment']}: {', '.join(doubtful)} may have got worse")
        if result["verdict"] == Verdict.GO:
            result["verdict"] = row["verdict"]
    if said:
        result["headline"] = f"{result['headline'].removesuffix('.')}. But {'; '.join(said)}."
    return result
