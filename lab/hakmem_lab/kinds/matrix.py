"""`hak matrix`: a 2^k design. It estimates the effect of each factor at each level of the others, by a contrast inside
every block, and is judged after every block until every question is answered.

The questions are the simple effects, each cell against the one with no factor on, the interactions and the main
effects. They share alpha: at any number of blocks, at most that share of runs has a wrong direction in any of them.
Main effects follow from the simple ones, so no run is prolonged for them.

A result shows the simple effects first. A main effect, the average over the other factors' levels, is shown only if no
interaction makes it misleading.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hakmem_lab.errors import LabError
from hakmem_lab.judge import failing, planning, two_arms, words
from hakmem_lab.judge.analysis import base_result, measured, metric_of, unfinished, values
from hakmem_lab.judge.explain import explained
from hakmem_lab.judge.statistics import factorial, verdict
from hakmem_lab.judge.statistics.factorial import Effect, Question
from hakmem_lab.judge.statistics.paired import as_log, as_ratio
from hakmem_lab.judge.statistics.plan import Plan
from hakmem_lab.judge.statistics.verdict import Decision, Verdict
from hakmem_lab.plan.arms import Arm, parse_arms
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.plan.spec import NO_FACTOR, MatrixSpec
from hakmem_lab.run.conduct import conduct, plan_detection
from hakmem_lab.run.session import Session
from hakmem_lab.store.query import Blocks, events


def logs(header: dict, blocks: Blocks) -> tuple[list[list[float]], list[list[int]]]:
    """For every block, a row of log values (higher is better) and a row of the places at which they ran."""
    metric = metric_of(header)
    sign = 1.0 if metric.higher_is_better else -1.0
    names = [arm["name"] for arm in header["arms"]]
    rows = [
        [sign * math.log(value) for name in names for value in values(block[name], metric.name) or ()]
        for block in blocks
    ]
    return rows, [[block[name][0]["position"] for name in names] for block in blocks]


def questions(header: dict, blocks: Blocks) -> tuple[list[Question], float]:
    """(all questions, the change from one place in a block to the next)."""
    freed, change = factorial.freed_as_known(*logs(header, blocks))
    return factorial.questions(freed.tolist(), list(header["spec"]["factors"])), change


def decide(question: Question, spec: dict, plan: Plan) -> verdict.Decision:
    alpha = spec["alpha"] / factorial.question_count(len(spec["factors"]))
    return verdict.decide(question.d.tolist(), spec["margin"], alpha, plan)


def settled(header: dict, blocks: Blocks, plan: Plan) -> bool:
    """Whether every question is answered: better, worse, or a difference smaller than the margin."""
    asked = (question for question in questions(header, blocks)[0] if question.kind != "main")
    return all(decide(q, header["spec"], plan).verdict is not verdict.Verdict.INCONCLUSIVE for q in asked)


@explained
def analyse(header: dict, records: list[dict]) -> dict:
    """Simple effects, and cells against the one with no factor on; interactions; main effects that do not mislead.

    The intervals of all of them hold at once, after any number of blocks. Runs that are planned with a single look have
    two families instead, simple effects and averages; the intervals of each hold at once after the last planned block.
    """
    spec, blocks, plan = header["spec"], measured(records), planning.plan_of(header, records)
    result = base_result(header, records, blocks) | {"effects": [], "hidden": [], "comparisons": [], "guardrails": []}
    if not blocks or (len(blocks) < plan.looks[-1] and not plan.share):
        result["withheld"] = unfinished(blocks, spec)
        return result
    found, change = (_after_every_block if plan.share else _at_the_end)(header, blocks, plan)
    if all(math.isinf(end) for one in found for end in (one.effect.interval.low, one.effect.interval.high)):
        result["withheld"] = f"No reading yet: {len(blocks)} of at most {result['max_blocks']} blocks are too few"
        return result
    averaged = [one.effect for one in found if one.effect.kind in ("interaction", "main")]
    hidden = factorial.misleading(averaged, as_log(spec["margin"]))
    kept = [one for one in found if not (one.effect.kind == "main" and one.effect.name in hidden)]
    failed = _failed(header, records)
    result["effects"] = [_row(one, failed) for one in sorted(kept, key=lambda one: one.effect.kind == "main")]
    result["hidden"] = [{"name": name, "by": by.name} for name, by in hidden.items()]
    result["warnings"] += _why(hidden, metric_of(header)) + _drift(change, spec, len(header["arms"]))
    result["guardrails"] = two_arms.guardrail_rows(
        two_arms.guardrails_judged(header, blocks, plan if plan.share else None)
    )
    result |= _ending(found, len(blocks), header, records)
    for event in events(records, "fitness"):
        result["withheld"] = f"No reading on this machine: {event['text']}"
        for row in result["effects"]:
            row["reading"] = None
    return result


@dataclass(frozen=True)
class _Judged:
    """decision: None in runs with a single look, which have no verdicts."""

    effect: Effect
    decision: Decision | None = None


def _after_every_block(header: dict, blocks: Blocks, plan: Plan) -> tuple[list[_Judged], float]:
    asked, change = questions(header, blocks)
    found = []
    for question in asked:
        decision = decide(question, header["spec"], plan)
        found.append(_Judged(Effect(question.name, decision.interval, question.kind, question.factors), decision))
    return found, change


def _at_the_end(header: dict, blocks: Blocks, _: Plan) -> tuple[list[_Judged], float]:
    freed, change = factorial.without_drift(*logs(header, blocks))
    level, factors, rows = 1 - header["spec"]["alpha"], list(header["spec"]["factors"]), freed.tolist()
    single = factorial.simple_effects(rows, factors, level, simultaneous=True)
    averaged = factorial.effects(rows, factors, level, simultaneous=True)
    return [_Judged(effect) for effect in (*single, *averaged)], change


def _ending(found: Sequence[_Judged], count: int, header: dict, records: list[dict]) -> dict:
    """The keys of the result about its end: whether the run is over, and the questions that are still open."""
    if any(one.decision is None for one in found):
        return {"final": True}
    still = {one.effect.name: one.decision for one in found if one.decision and one.effect.kind != "main"}
    still = {name: decision for name, decision in still.items() if decision.verdict is Verdict.INCONCLUSIVE}
    return planning.ending(header, records, count, not still) | {"open": list(still)}


def _failed(header: dict, records: Sequence[dict]) -> dict[str, int]:
    """Effect -> 1 if surely fewer runs fail with the factor, -1 if more, else 0. All effects share alpha."""
    names = [arm["name"] for arm in header["arms"]]
    lost = np.array([len(failing.failed_runs(records, name)) for name in names])
    begun = np.array([len(failing.compared_runs(records, name)) for name in names])
    asked = factorial.questions(np.eye(len(names)).tolist(), list(header["spec"]["factors"]))
    alpha, found = header["spec"]["alpha"] / len(asked), {}
    for question in asked:
        without, with_ = (np.asarray(question.d) * sign > 0 for sign in (-1, 1))
        failed, runs = ((int(n[without].sum()), int(n[with_].sum())) for n in (lost, begun))
        sure = failing.differ(failed, runs, alpha)
        found[question.name] = int(np.sign(failed[0] * runs[1] - failed[1] * runs[0])) if sure else 0
    return found


def _forbidden(reading: object, fewer: int) -> bool:
    """Whether the reading calls the setting that fails more often better or equal. Interactions are exempt."""
    return bool(fewer) and (reading, fewer) not in (("better", 1), ("worse", -1))


def _row(one: _Judged, failed: Mapping[str, int]) -> dict:
    effect = one.effect
    row = {"name": effect.name, "kind": effect.kind, **effect.interval.ends(), "reading": _reading(one)}
    if one.decision is not None:
        row |= {"settled": one.decision.verdict is not Verdict.INCONCLUSIVE}
        row |= {"uncorrected": as_ratio(one.decision.plain)}
    if _forbidden(row["reading"], fewer := failed[effect.name]):
        why = "its cells failed unequally often"
        if effect.kind != "interaction":
            why = f"failed {'less' if fewer > 0 else 'more'} often with it"
        row |= {"failed": True, "reading": f"not read, {why}"}
    return row


def _reading(one: _Judged) -> str:
    effect = one.effect
    if one.decision is not None and one.decision.verdict is Verdict.NEUTRAL:
        return "additive within the margin" if effect.kind == "interaction" else "the same within the margin"
    if effect.kind == "interaction":
        return str(factorial.classify_interaction(effect.interval))
    if not effect.interval.excludes_zero():
        return "undecided"
    return "better" if effect.interval.low > 0 else "worse"


def _why(hidden: dict[str, Effect], metric: Metric) -> list[str]:
    """A sentence for each interaction that hides main effects."""
    texts = []
    for by in dict.fromkeys(hidden.values()):
        names = [name for name, reason in hidden.items() if reason == by]
        effects, are = ("effects", "are") if len(names) > 1 else ("effect", "is")
        texts.append(
            f"the main {effects} of {' and '.join(names)} {are} left out: what one of {' and '.join(by.factors)} does "
            f"depends on the other{'s' if len(by.factors) > 2 else ''} ({_size(by, metric)}); an "
            "average over both levels says what nobody runs"
        )
    return texts


def _drift(change: float, spec: dict, cells: int) -> list[str]:
    """A note on the change within blocks, if it is at least the margin; random order and correction remove it."""
    across = as_ratio(change * (cells - 1))
    if abs(across) < spec["margin"]:
        return []
    side = "better" if across > 0 else "worse"
    return [
        f"within a block the last run was {abs(across) * 100:.2g} % {side} than the first, whatever the side: taken out"
    ]


def _size(effect: Effect, metric: Metric) -> str:
    ratio = effect.interval.ratio()
    return f"{effect.name} {words.effect(metric.record(), ratio.estimate, ratio.low, ratio.high)}"


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
        raise LabError("factors: two cells of the design are the same side; every factor must change something")
    return found


def run(spec: MatrixSpec, context) -> dict:
    plan, alpha = Plan((spec.max_blocks,)), spec.alpha / factorial.question_count(len(spec.factors))
    least = plan.least_blocks(alpha)
    if spec.max_blocks < least:
        raise LabError(
            f"{context.source}: max-blocks: {spec.max_blocks} blocks are too few for an interval: at least {least}"
        )
    return conduct(spec, context, arms(spec), (spec.max_blocks, least), measure, analyse)


def measure(session: Session[MatrixSpec]) -> None:
    """Run blocks of all cells until every question is answered, at most the planned number."""
    session.check_fitness()
    everyone, header = list(session.arms), session.file.header()
    plan_detection(
        session,
        everyone,
        factorial.question_count(len(session.spec.factors)),
        lambda blocks: [question.d.tolist() for question in questions(header, blocks)[0]],
    )
    records = session.records()
    plan, least = planning.plan_of(header, records), planning.least_blocks(records)
    for blocks in session.each_block("measure", lambda _: everyone, planning.most_blocks(header, records)):
        if plan.share and blocks and len(blocks) >= least and settled(header, blocks, plan):
            session.progress.say(f"{len(blocks)} blocks: every question is settled")
            return
