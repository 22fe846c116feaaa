"""An A/B: is the treatment better than the control? ABBA blocks, judged after every one; guardrails; verdicts."""

import shlex

from hakmem_lab.errors import LabError
from hakmem_lab.judge import early, failing, planning, two_arms, words
from hakmem_lab.judge.analysis import arm_rows, base_result, beside, comparison, measured, metric_of
from hakmem_lab.judge.explain import explained
from hakmem_lab.judge.findings import decided_beside
from hakmem_lab.judge.repeated import repeated
from hakmem_lab.judge.statistics import verdict
from hakmem_lab.judge.statistics.plan import Plan, planned_looks
from hakmem_lab.kinds.ab import builds
from hakmem_lab.plan.arms import Arm, command_arms, parse_arms
from hakmem_lab.plan.spec import AbSpec, BlockSpec
from hakmem_lab.run import beside as wall
from hakmem_lab.run import conditions
from hakmem_lab.run.conduct import conduct, plan_detection
from hakmem_lab.run.early import estimated
from hakmem_lab.run.session import Session
from hakmem_lab.store.query import Blocks, events
from hakmem_lab.trace import history

Spec = AbSpec


def names(spec: AbSpec) -> tuple[str, str]:
    """The arms' names, as written; with a suffix if both are the same."""
    control, treatment = map(shlex.join, spec.commands) if spec.commands else (spec.control, spec.treatment)
    return (f"{control} (control)", f"{treatment} (treatment)") if control == treatment else (control, treatment)


def arms(spec: AbSpec) -> list[Arm]:
    control, treatment = names(spec)
    if spec.commands:
        return command_arms(dict(zip((control, treatment), spec.commands, strict=True)))
    where = {control: "control", treatment: "treatment"}
    return parse_arms({control: spec.control, treatment: spec.treatment}, where)


def check_blocks(spec: BlockSpec, source: str, plan: Plan, comparisons: int = 1) -> tuple[int, int]:
    """(the most blocks, the fewest blocks with which a verdict is possible). The comparisons share alpha.

    Raises LabError if no data could give a verdict.
    """
    least = plan.least_blocks(spec.alpha / comparisons)
    if plan.looks[-1] < least:
        raise LabError(
            f"{source}: max-blocks: {plan.looks[-1]} blocks are too few for any verdict: {comparisons + 1} sides "
            f"and an allowed error rate of {spec.alpha:g} take at least {least}"
        )
    return plan.looks[-1], min(plan.looks[0], least)


def run(spec: AbSpec, context) -> dict:
    if spec.builds > 1:
        raise LabError(f"{context.source}: builds: this version measures one build a side; leave the key out")
    blocks = check_blocks(spec, context.source, Plan(tuple(planned_looks(spec.max_blocks, spec.looks))))
    return conduct(spec, context, arms(spec), blocks, measure, analyse)


def measure(session: Session[AbSpec]) -> None:
    """Run blocks until there is a verdict, at most the planned number."""
    session.check_fitness()
    plan_detection(session, names(session.spec))
    pair, header = names(session.spec), session.file.header()
    conditions.in_turn(session, lambda phase: run_until_settled(session, phase, pair, header), history.write)
    wall.measure(session, pair)


def run_until_settled(session: Session, phase: str, pair: tuple[str, str], header: dict) -> None:
    """Run blocks of two arms, judged after each block. Planned looks, and the look that ended the run, are recorded."""
    records = session.records()
    plan, least = planning.plan_of(header, records), planning.least_blocks(records)
    judged = None
    every = session.each_block(phase, lambda _: pair, planning.most_blocks(header, records))
    for blocks in estimated(session, every, phase):
        if not blocks or (not plan.share and len(blocks) not in plan.looks):
            continue
        decision = two_arms.decide(header, blocks, pair, plan)
        settled = decision.verdict is not verdict.Verdict.INCONCLUSIVE
        if (settled and judged is not None) or len(blocks) in plan.looks:
            record_look(session, decision, pair, plan)
        judged = decision
        if settled and len(blocks) >= least:
            return


def record_look(session: Session, decision: verdict.Decision, pair: tuple[str, str], plan: Plan) -> None:
    count, last = decision.interval.n, plan.looks[-1]
    shown = comparison(decision.interval, *pair, session.spec.metric, str(decision.verdict))
    session.append({"type": "look", "look": count, "blocks": count, "of": last, "result": shown})
    session.progress.say(f"{count} blocks of at most {max(count, last)}: {decision.verdict}")


def look_rows(header: dict, blocks: Blocks, pair: tuple[str, str], plan: Plan) -> list[dict]:
    """The decisions at the planned looks so far, and after the last block if it lies between two looks."""
    counts = [count for count in plan.looks if count <= len(blocks)]
    if header.get("anytime"):
        counts = sorted({*counts, len(blocks)})
    rows: list[dict] = []
    for count in counts:
        decision = two_arms.decide(header, blocks[:count], pair, plan)
        row = comparison(decision.interval, *pair, header["spec"]["metric"], str(decision.verdict))
        rows.append({"look": len(rows) + 1, "blocks": count, "of": len(plan.looks), **row})
    return rows


def verdict_parts(header: dict, blocks: Blocks, pair: tuple[str, str], plan: Plan, decision: verdict.Decision) -> dict:
    """The result's keys with the verdict on two arms and its grounds."""
    rows = [two_arms.judged_row(decision, pair, header["spec"]["metric"])]
    rows += [] if decision.means is None else [two_arms.means_row(decision.means, pair, metric_of(header))]
    return {
        "verdict": str(decision.verdict),
        "settled": decision.verdict is not verdict.Verdict.INCONCLUSIVE,
        "final": decision.final,
        "blocks": len(blocks),
        "torn": decision.torn,
        "comparisons": rows,
        "looks": look_rows(header, blocks, pair, plan),
        "guardrails": [each.row() for each in decision.guardrails],
        "vetoed_by": list(decision.vetoed_by),
    }


def looked_at(blocks: Blocks, plan: Plan) -> Blocks:
    """Blocks that may be judged: with planned looks alone, those up to the last look."""
    if plan.share:
        return blocks
    return blocks[: max((count for count in plan.looks if count <= len(blocks)), default=0)]


def of_pair(header: dict, pair: tuple[str, str]) -> dict:
    """The header with only these two of its arms, as of an A/B."""
    return header | {"arms": [arm for arm in header["arms"] if arm["name"] in pair]}


def confirmation(header: dict, records: list[dict], pair: tuple[str, str], blocks: Blocks) -> dict:
    """The keys with the verdict on fresh blocks of the chosen arm and the default; empty before they may be judged."""
    plan = planning.plan_of(header, records)
    blocks = looked_at(blocks, plan)
    if not blocks:
        return {}
    own = of_pair(header, pair)
    parts = verdict_parts(own, blocks, pair, plan, two_arms.decide(own, blocks, pair, plan))
    return parts | planning.ending(header, records, len(blocks), parts["settled"])


@repeated
@explained
def analyse(header: dict, records: list[dict]) -> dict:
    """The verdict from all present blocks; a run with only planned looks has none before the first look."""
    if builds.KEY in header:
        return builds.analyse(header, records, analyse)
    blocks, plan = measured(records), planning.plan_of(header, records)
    result = base_result(header, records, blocks) | {"comparisons": [], "guardrails": [], "looks": []}
    blocks = looked_at(blocks, plan)
    if not blocks:
        result["withheld"] = f"No verdict yet: {result['blocks']} blocks, the first look is after {plan.looks[0]}"
        if plan.share:
            result["withheld"] = "No verdict yet: there are no finished blocks"
        return result
    if len(blocks) < early.LEAST:
        return early.ended(result | {"withheld": early.title(blocks)}, records)
    control, treatment = (arm["name"] for arm in header["arms"])
    pair = control, treatment
    decision = two_arms.decide(header, blocks, pair, plan)
    result |= verdict_parts(header, blocks, pair, plan, decision)
    result["arms"] = arm_rows(header, blocks, metric_of(header), beside(records))
    result["comparisons"] += two_arms.also_changed(header, blocks, {treatment: decision}, plan, beside=beside(records))
    if result["settled"] or len(blocks) >= planning.most_blocks(header, records):
        result["final"] = len(blocks) >= planning.least_blocks(records)
    return blocked(failing.withheld(result, records, *pair), records)


def blocked(result: dict, records: list[dict]) -> dict:
    """Withhold the verdict of a quick run, and the one on a metric for which the machine is unfit, whatever the
    interval. The other metrics keep what they show."""
    result = early.ended(result, records)
    reasons = [event["text"] for event in events(records, "fitness")]
    if not reasons or not any(row["verdict"] for row in (result, *result["comparisons"], *result.get("looks", []))):
        return result
    why = f"No verdict on {words.metric_name(result)}: {reasons[-1]}"
    return failing.undecided(result, why) | {"so_far": decided_beside(result)}
