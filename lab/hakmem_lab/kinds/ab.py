"""`hak ab`: is the treatment better than the control? ABBA blocks, planned looks, guardrails, one of four verdicts."""

from ..analysis import COMPARED, arm_rows, base_result, comparison, log_ratios, measured, metric_of, withheld
from ..arms import Arm
from ..blocks import Blocks
from ..conduct import conduct
from ..errors import LabError
from ..metrics import Metric
from ..session import Session, parse_arms
from ..spec import AbSpec, guardrails_of
from ..statistics import looks, power, verdict
from ..statistics.paired import paired_interval
from . import build_pairs

Spec = AbSpec
RUNS_PER_BLOCK = 4


def names(spec: AbSpec) -> tuple[str, str]:
    """The arms' names: as written, told apart where both are the same."""
    if spec.control == spec.treatment:
        return f"{spec.control} (control)", f"{spec.treatment} (treatment)"
    return spec.control, spec.treatment


def arms(spec: AbSpec) -> list[Arm]:
    control, treatment = names(spec)
    where = {control: "control", treatment: "treatment"}
    return parse_arms({control: spec.control, treatment: spec.treatment}, where)


def check_blocks(spec, source: str, plan: list[int], comparisons: int = 1) -> None:
    """Raises LabError where no data whatever could give a verdict; the comparisons share alpha."""
    least = power.least_blocks(spec.alpha / comparisons, plan)
    if plan[-1] < least:
        raise LabError(
            f"{source}: max-blocks: {plan[-1]} blocks are too few for any verdict at alpha {spec.alpha:g} with "
            f"{len(plan)} look{'s' if len(plan) > 1 else ''} and {comparisons + 1} arms: at least {least}"
        )


def run(spec: AbSpec, context) -> dict:
    if spec.builds > 1:
        return build_pairs.run(spec, context, arms(spec), measure, analyse)
    plan = looks.planned_looks(spec.max_blocks, spec.looks)
    check_blocks(spec, context.source, plan)
    return conduct(
        spec,
        context,
        arms(spec),
        lambda _: (RUNS_PER_BLOCK * plan[-1] + 2 * spec.warm_up, RUNS_PER_BLOCK * plan[0] + 2 * spec.warm_up),
        measure,
        analyse,
    )


def measure(session: Session) -> None:
    """Blocks up to each planned look, until one of them settles it."""
    spec, header = session.spec, build_pairs.unit_header(session.file.header())
    session.check_fitness()
    plan = looks.planned_looks(header["spec"]["max-blocks"], spec.looks)
    for index, count in enumerate(plan):
        blocks = session.run_blocks("measure", names(spec), count)
        decision = decide(header, blocks, index, plan)
        shown = comparison(decision.interval, *names(spec), spec.metric, str(decision.verdict))
        session.append({"type": "look", "look": index + 1, "blocks": count, "of": len(plan), "result": shown})
        session.progress.say(f"look {index + 1} of {len(plan)}, {count} {session.counted}: {decision.verdict}")
        if decision.final:
            return


def decide(header: dict, blocks: Blocks, index: int, plan: list[int]) -> verdict.Decision:
    """The verdict at a planned look, on exactly the blocks that it is planned for."""
    spec = header["spec"]
    control, treatment = (arm["name"] for arm in header["arms"])
    blocks = blocks[: plan[index]]
    look = (index, plan)
    rails = []
    for metric, limit in guardrails_of(spec).items():
        d = log_ratios(blocks, control, treatment, metric)
        rails.append(verdict.guardrail(d, limit, spec["alpha"], metric.name, look))
    d = log_ratios(blocks, control, treatment, metric_of(header))
    return verdict.decide(d, spec["margin"], spec["alpha"], look, rails)


def rail_rows(decision: verdict.Decision) -> dict:
    """The result's keys about guardrails."""
    rows = []
    for rail in decision.guardrails:
        ratio = rail.interval.ratio()
        rows.append({"metric": rail.name, "limit": rail.limit, "estimate": ratio.estimate, "ci_low": ratio.low,
                     "ci_high": ratio.high, "status": str(rail.status)})  # fmt: skip
    return {"guardrails": rows, "vetoed_by": list(decision.vetoed_by)}


def analyse(header: dict, records: list[dict]) -> dict:
    """The result at the last planned look that was reached; before the first one there is no verdict."""
    if build_pairs.KEY in header:
        return build_pairs.analyse(header, records, analyse)
    spec = header["spec"]
    blocks = measured(records)
    plan = looks.planned_looks(spec["max-blocks"], spec["looks"])
    reached = [index for index, count in enumerate(plan) if count <= len(blocks)]
    result = base_result(header, records, blocks)
    result |= {"comparisons": [], "guardrails": [], "looks": []}
    if not reached:
        result["headline"] = (
            f"No verdict yet: the first look is planned after {plan[0]} blocks, there are {len(blocks)}."
        )
        return result
    control, treatment = (arm["name"] for arm in header["arms"])
    for index in reached:
        decision = decide(header, blocks, index, plan)
        row = comparison(decision.interval, control, treatment, spec["metric"], str(decision.verdict))
        result["looks"].append({"look": index + 1, "blocks": plan[index], "of": len(plan), **row})
        if decision.final:
            break
    used = blocks[: plan[index]]
    equivalence = decision.equivalence.ratio()
    row |= {"equivalence_low": equivalence.low, "equivalence_high": equivalence.high}
    result |= {
        "verdict": str(decision.verdict),
        "headline": decision.reason,
        "final": decision.final,
        "blocks": len(used),
        "more_blocks": decision.more_blocks,
        "arms": arm_rows(header, used, metric_of(header)),
        "comparisons": [row, *secondary(used, control, treatment, spec, decision.interval.level)],
        **rail_rows(decision),
    }
    return blocked(withheld(result, records, control, treatment), records)


def blocked(result: dict, records: list[dict]) -> dict:
    """An unfit machine gives no verdict, whatever the interval says."""
    reasons = [record["text"] for record in records if record["type"] == "event" and record["what"] == "fitness"]
    judged = [row for row in (result, *result["comparisons"], *result.get("looks", [])) if row["verdict"]]
    if reasons and judged:
        for row in judged:
            row["verdict"] = str(verdict.Verdict.INCONCLUSIVE)
        result["headline"] = f"No verdict on this machine: {reasons[-1]}"
    return result


def secondary(blocks: Blocks, control: str, treatment: str, spec: dict, level: float) -> list[dict]:
    """What else changed: the standard metrics that are not the primary one, for information."""
    rows = []
    for name in COMPARED:
        d = log_ratios(blocks, control, treatment, Metric(name)) if name != spec["metric"] else None
        if d:
            rows.append(comparison(paired_interval(d, level), control, treatment, name))
    return rows
