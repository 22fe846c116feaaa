"""`hak compare`: several allocators on one program, each against a baseline, with simultaneous intervals."""

import shlex
from collections.abc import Callable
from functools import partial

from hakmem_lab.errors import LabError, nearest
from hakmem_lab.judge import early, failing, planning, two_arms
from hakmem_lab.judge.analysis import base_result, beside, measured, metric_of, unfinished
from hakmem_lab.judge.explain import explained
from hakmem_lab.judge.repeated import repeated
from hakmem_lab.judge.statistics import verdict
from hakmem_lab.judge.statistics.plan import Plan
from hakmem_lab.kinds.ab import blocked, check_blocks
from hakmem_lab.plan.arms import Arm, command_arms, parse_arms
from hakmem_lab.plan.spec import BaselineSpec, CompareSpec
from hakmem_lab.run import beside as wall
from hakmem_lab.run import conditions
from hakmem_lab.run.conduct import conduct, plan_detection
from hakmem_lab.run.early import estimated
from hakmem_lab.run.session import Session
from hakmem_lab.store.query import Blocks
from hakmem_lab.trace import history

Spec = CompareSpec


def baseline(spec: BaselineSpec) -> str:
    """The baseline that the spec names, else glibc if it takes part, else the first arm."""
    named = texts(spec)
    return spec.baseline or ("glibc" if "glibc" in named else named[0])


def texts(spec: BaselineSpec) -> list[str]:
    """The arms as they were written: allocators, or commands (of a compare)."""
    return [shlex.join(words) for words in getattr(spec, "commands", ())] or spec.allocators


def arms(spec: BaselineSpec) -> list[Arm]:
    """The baseline first."""
    first, named, own = baseline(spec), texts(spec), getattr(spec, "commands", ())
    key = "commands" if own else "allocators"
    if len(set(named)) != len(named):
        raise LabError(f"{key}: the same arm is named twice; for one arm against itself there is: hak doctor --machine")
    if first not in named:
        raise LabError(f"baseline: '{first}' is not among the {key}: {nearest(first, named)}")
    ordered = [first, *(text for text in named if text != first)]
    if own:
        return command_arms({text: own[named.index(text)] for text in ordered})
    return parse_arms({text: text for text in ordered}, dict.fromkeys(ordered, key))


def run(spec: CompareSpec, context) -> dict:
    blocks = check_blocks(spec, context.source, Plan((spec.max_blocks,)), len(texts(spec)) - 1)
    return conduct(spec, context, arms(spec), blocks, measure, analyse)


def measure(session: Session) -> None:
    """Run blocks of the baseline and of every arm without a verdict."""
    session.check_fitness()
    everyone = list(session.arms)
    plan_detection(session, everyone, len(everyone) - 1)
    conditions.in_turn(session, partial(until_all_are_settled, session), history.write)
    wall.measure(session, everyone)


def until_all_are_settled(session: Session, phase: str = "measure") -> None:
    """Run the blocks of a phase, and judge every arm after each of them."""
    header = session.file.header()
    plan = planning.plan_of(header, session.records())

    def settled(blocks: Blocks, name: str) -> verdict.Verdict | None:
        found = decisions(header, blocks, plan, name).get(name)
        return found.verdict if found and found.verdict is not verdict.Verdict.INCONCLUSIVE else None

    fewer_and_fewer(session, settled if plan.share else None, phase)


def fewer_and_fewer(
    session: Session, settled: Callable[[Blocks, str], verdict.Verdict | None] | None, phase: str = "measure"
) -> None:
    """Run blocks of the baseline and of every arm without a verdict. settled(blocks so far, arm): the verdict on the
    arm, or None; without `settled`, every block has all arms."""
    records, (first, *others) = session.records(), session.arms
    least, most = planning.least_blocks(records), planning.most_blocks(session.file.header(), records)
    gone: set[str] = set()

    def wanted(blocks: Blocks) -> list[str]:
        there = (name for name in others if name not in session.untried)
        return [first, *(name for name in there if len(blocks) < least or name not in gone)]

    for blocks in estimated(session, session.each_block(phase, wanted, most), phase):
        if not blocks or settled is None:
            continue
        gone |= {*session.gone}
        for name in (name for name in others if name not in gone):
            if (found := settled(blocks, name)) is not None:
                gone.add(name)
                session.progress.say(f"{len(blocks)} blocks: {name}: {found}")
        if len(gone) == len(others) and len(blocks) >= least:
            return


def decisions(header: dict, blocks: Blocks, plan: Plan, *only: str) -> dict[str, verdict.Decision]:
    """Compare every arm, or those in `only`, with the baseline, by the blocks in which both ran. The comparisons share
    alpha."""
    first, *others = (arm["name"] for arm in header["arms"])
    there = [name for name in only or others if two_arms.shared(blocks, first, name)]
    return {name: two_arms.decide(header, blocks, (first, name), plan, len(others)) for name in there}


@repeated
@explained
def analyse(header: dict, records: list[dict]) -> dict:
    """Every arm against the baseline: verdicts on the primary metric, intervals for the other standard metrics."""
    spec, blocks = header["spec"], measured(records)
    result = base_result(header, records, blocks) | {"comparisons": []}
    first, *others = (arm["name"] for arm in header["arms"])
    plan = planning.plan_of(header, records)
    if not blocks or (len(blocks) < plan.looks[-1] and not plan.share):
        result["withheld"] = unfinished(blocks, spec)
        return result
    if len(blocks) < early.LEAST:
        return early.ended(result | {"withheld": early.title(blocks)}, records)
    found = decisions(header, blocks, plan)
    result["failed"] = {}
    if len(others) > 1:
        alpha = spec["alpha"] / len(others)
        found, result["failed"] = failing.withheld_of(found, records, first, others, alpha)
        result |= failing.by_chance(records, first, found, alpha)
    result["comparisons"] = [
        two_arms.judged_row(decision, (first, name), spec["metric"]) for name, decision in found.items()
    ]
    result["comparisons"] += [
        two_arms.means_row(d.means, (first, name), metric_of(header))
        for name, d in found.items()
        if d.means is not None
    ]
    result["comparisons"] += two_arms.also_changed(header, blocks, found, plan, beside=beside(records))
    done = {*result["failed"], *failing.gone(records)}
    settled = all(d.verdict is not verdict.Verdict.INCONCLUSIVE or name in done for name, d in found.items())
    result |= planning.ending(header, records, len(blocks), settled)
    result["guardrails"] = two_arms.guardrail_rows({name: decision.guardrails for name, decision in found.items()})
    if len(others) == 1:
        result["verdict"] = str(found[others[0]].verdict)
        result = failing.withheld(result, records, first, others[0])
    return blocked(result, records)
