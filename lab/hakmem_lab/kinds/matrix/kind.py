"""`hak matrix`: a 2^k design. What each factor does at each level of the others, a contrast inside every block; judged
after every one, until every question has its answer."""

import itertools

from hakmem_lab.errors import LabError
from hakmem_lab.judge import planning
from hakmem_lab.judge.statistics import factorial
from hakmem_lab.judge.statistics.plan import Plan
from hakmem_lab.kinds.matrix import decisions
from hakmem_lab.kinds.matrix.result import analyse
from hakmem_lab.plan.arms import Arm
from hakmem_lab.plan.spec import NO_FACTOR, MatrixSpec
from hakmem_lab.run import detection
from hakmem_lab.run.conduct import conduct
from hakmem_lab.run.session import Session, parse_arms

__all__ = ["Spec", "analyse", "run"]

Spec = MatrixSpec


def cells(spec: MatrixSpec) -> dict[str, str]:
    """Name -> arm of every cell, in standard order: the first factor changes fastest."""
    found = {}
    for levels in itertools.product((False, True), repeat=len(spec.factors)):
        on = [name for name, level in zip(spec.factors, reversed(levels), strict=True) if level]
        settings = [spec.factors[name] for name in on]
        found["+".join(on) or NO_FACTOR] = ",".join([spec.base, *settings])
    return found


def arms(spec: MatrixSpec) -> list[Arm]:
    texts = cells(spec)
    found = parse_arms(texts, {name: "base" if name == NO_FACTOR else "factors" for name in texts})
    builds = {(arm.library.path, tuple(sorted(arm.environment({}).items()))): arm.name for arm in found}
    if len(builds) != len(found):
        raise LabError("factors: two cells of the design are the same arm; every factor must change something")
    return found


def run(spec: MatrixSpec, context) -> dict:
    plan, alpha = Plan((spec.max_blocks,)), spec.alpha / factorial.question_count(len(spec.factors))
    least = plan.least_blocks(alpha)
    if spec.max_blocks < least:
        raise LabError(
            f"{context.source}: max-blocks: {spec.max_blocks} blocks are too few for an interval: at least {least}"
        )
    most, first = (2 ** len(spec.factors) * (count + spec.warm_up) for count in (spec.max_blocks, least))
    return conduct(spec, context, arms(spec), lambda _: (most, first), measure, analyse)


def measure(session: Session) -> None:
    """Blocks of all cells until every question is settled, at most those that are planned."""
    session.check_fitness()
    everyone, header = list(session.arms), session.file.header()
    detection.plan_detection(
        session,
        everyone,
        factorial.question_count(len(session.spec.factors)),
        lambda blocks: [question.d for question in decisions.questions(header, blocks)[0]],
    )
    records = session.records()
    plan, least = planning.plan_of(header, records), planning.least_blocks(records)
    for blocks in session.each_block("measure", lambda _: everyone, planning.most_blocks(header, records)):
        if plan.share and blocks and len(blocks) >= least and decisions.settled(header, blocks, plan):
            session.progress.say(f"{len(blocks)} blocks: every question is settled")
            return
