"""The verdicts of a result, by one function: each side against the first one, and what holds a verdict back. Pure."""

from collections.abc import Mapping, Sequence

from hakmem_lab.judge import early, failing, planning, two_arms, words
from hakmem_lab.judge.analysis import beside, comparison, metric_of
from hakmem_lab.judge.findings import decided_beside
from hakmem_lab.judge.statistics.plan import Plan
from hakmem_lab.judge.statistics.verdict import Decision, Verdict
from hakmem_lab.store.query import Blocks, events
from hakmem_lab.store.records import Record
from hakmem_lab.store.results import Comparison, Result


def with_verdicts(result: Result, header: Record, records: list[Record], blocks: Blocks) -> Result:
    """The result with the verdict on every other side of the header against the first one, by the blocks in which both
    ran. The contrasts share alpha."""
    first, *others = (arm["name"] for arm in header["arms"])
    plan, alpha = planning.plan_of(header, records), header["spec"]["alpha"] / len(others)
    there = [name for name in others if two_arms.shared(blocks, first, name)]
    found: Mapping[str, Decision] = {
        name: two_arms.decide(header, blocks, (first, name), plan, len(others)) for name in there
    }
    result, found = without_failing(result, found, records, (first, *others), alpha)
    result["comparisons"] = [*_rows(header, first, found)]
    result["comparisons"] += two_arms.also_changed(header, blocks, found, plan, beside=beside(records))
    if len(others) == 1:
        (decision,) = found.values()
        result |= {"torn": decision.torn, "vetoed_by": list(decision.vetoed_by)}
        result["looks"] = look_rows(header, blocks, (first, others[0]), plan)
    return concluded(result, header, records, found, len(blocks))


def _rows(header: Record, first: str, found: Mapping[str, Decision]) -> list[Comparison]:
    """The decision on each side; then the other average of each."""
    metric, means = metric_of(header), {name: each.means for name, each in found.items()}
    rows = [two_arms.judged_row(each, (first, name), header["spec"]["metric"]) for name, each in found.items()]
    return rows + [two_arms.means_row(each, (first, name), metric) for name, each in means.items() if each is not None]


def without_failing(
    result: Result, found: Mapping[str, Decision], records: Sequence[Record], names: Sequence[str], alpha: float
) -> tuple[Result, Mapping[str, Decision]]:
    """The result and the decisions without verdicts that failures forbid; of two sides, `concluded` does it."""
    first, *others = names
    failed: dict[str, str] = {}
    if len(others) > 1:
        found, failed = failing.withheld_of(found, records, first, others, alpha)
        result |= failing.by_chance(records, first, found, alpha)
    return result | {"failed": failed}, found


def concluded(
    result: Result, header: Record, records: list[Record], found: Mapping[str, Decision], count: int
) -> Result:
    """The result with its end, its limits and, of two sides, the verdict of the whole. count: finished blocks."""
    first, *others = (arm["name"] for arm in header["arms"])
    done = {*result["failed"], *failing.gone(records)}
    settled = all(each.verdict is not Verdict.INCONCLUSIVE or name in done for name, each in found.items())
    result |= planning.ending(header, records, count, settled)
    result["guardrails"] = two_arms.guardrail_rows({name: each.guardrails for name, each in found.items()})
    if len(others) == 1:
        result["verdict"] = str(found[others[0]].verdict)
        result = failing.withheld(result, records, first, others[0])
    return blocked(result, records)


def look_rows(header: Record, blocks: Blocks, pair: tuple[str, str], plan: Plan) -> list[Comparison]:
    """The decisions at the planned looks so far, and after the last block if it lies between two looks."""
    counts = sorted({*(count for count in plan.looks if count <= len(blocks)), len(blocks)})
    rows: list[Comparison] = []
    for count in counts:
        decision = two_arms.decide(header, blocks[:count], pair, plan)
        row = comparison(decision.interval, *pair, header["spec"]["metric"], str(decision.verdict))
        rows.append({"look": len(rows) + 1, "blocks": count, "of": len(plan.looks), **row})
    return rows


def of_pair(header: Record, pair: tuple[str, str]) -> Record:
    """The header with only these two of its sides, as of a pair."""
    return header | {"arms": [arm for arm in header["arms"] if arm["name"] in pair]}


def blocked(result: Result, records: list[Record]) -> Result:
    """Withholds the verdict of a quick run, and the one on a metric for which the machine is unfit, whatever the
    interval. The other metrics keep what they show."""
    result = early.ended(result, records)
    reasons = [event["text"] for event in events(records, "fitness")]
    if not reasons or not any(row["verdict"] for row in (result, *result["comparisons"], *result.get("looks", []))):
        return result
    why = f"No verdict on {words.metric_name(result)}: {reasons[-1]}"
    return failing.undecided(result, why) | {"so_far": decided_beside(result)}
