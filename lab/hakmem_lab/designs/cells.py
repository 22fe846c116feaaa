"""All cells of 2^k factors: the effect of each factor at each level of the others, by a contrast inside every block.

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

from hakmem_lab.designs.engine import Design, Rule
from hakmem_lab.errors import LabError
from hakmem_lab.judge import failing, planning, two_arms, words
from hakmem_lab.judge.analysis import base_result, comparable, doubling, measured, metric_of
from hakmem_lab.judge.statistics import factorial, verdict
from hakmem_lab.judge.statistics.factorial import Effect, Question
from hakmem_lab.judge.statistics.paired import as_log, as_ratio
from hakmem_lab.judge.statistics.plan import Plan
from hakmem_lab.judge.statistics.verdict import Decision, Verdict
from hakmem_lab.judge.warnings import Warn
from hakmem_lab.plan.arms import Arm, parse_arms
from hakmem_lab.plan.spec import NO_FACTOR, MatrixSpec
from hakmem_lab.run.session import Session
from hakmem_lab.store.query import Blocks, events
from hakmem_lab.store.records import Record
from hakmem_lab.store.results import EffectRow, MetricRow, Result


class CellSession(Session[MatrixSpec]):
    """A session that needs every cell: without one of them no effect is known."""

    loses_sides, picks_metric = False, False


class Cells(Design):
    Spec = MatrixSpec
    session = CellSession

    def sides(self, spec: MatrixSpec) -> list[Arm]:
        texts = cells(spec)
        found = parse_arms(texts, {name: "base" if name == NO_FACTOR else "factors" for name in texts})
        if len({(arm.library.path, *sorted(arm.environment({}).items())) for arm in found}) != len(found):
            raise LabError("factors: two cells of the design are the same side; every factor must change something")
        return found

    def questions(self, spec: MatrixSpec) -> int:
        return factorial.question_count(len(spec.factors))

    @staticmethod
    def columns(header: Record, blocks: Blocks) -> list[list[float]]:
        return [question.d.tolist() for question in questions(header, blocks)[0]]

    def rule(self, session: CellSession, phase: str) -> Rule:
        header, records = session.file.header(), session.records()
        plan, least, everyone = planning.plan_of(header, records), planning.least_blocks(records), list(session.arms)

        def left(blocks: Blocks) -> list[str]:
            if not blocks or len(blocks) < least or not settled(header, blocks, plan):
                return everyone
            session.progress.say(f"{len(blocks)} blocks: every question is settled")
            return []

        return left

    def found(self, header: Record, records: list[Record]) -> Result:
        """Simple effects, and cells against the one with no factor on; interactions; main effects that do not mislead.
        The intervals of all of them hold at once, after any number of blocks."""
        spec, blocks, plan = header["spec"], measured(records), planning.plan_of(header, records)
        result = base_result(header, records, blocks)
        result |= {"effects": [], "hidden": [], "comparisons": [], "guardrails": []}
        found, change = judged(header, blocks, plan) if blocks else ([], 0.0)
        if all(math.isinf(end) for one in found for end in (one.effect.interval.low, one.effect.interval.high)):
            result["withheld"] = f"No reading yet: {len(blocks)} of at most {result['max_blocks']} blocks are too few"
            return result
        averaged = [one.effect for one in found if one.effect.kind in ("interaction", "main")]
        hidden = factorial.misleading(averaged, as_log(spec["margin"]))
        kept = [one for one in found if not (one.effect.kind == "main" and one.effect.name in hidden)]
        failed = _failed(header, records)
        result["effects"] = [_row(one, failed) for one in sorted(kept, key=lambda one: one.effect.kind == "main")]
        result["hidden"] = [{"name": name, "by": by.name} for name, by in hidden.items()]
        result["warnings"] += _why(hidden, result["metric"]) + _drift(change, spec, len(header["arms"]))
        result["guardrails"] = two_arms.guardrail_rows(two_arms.guardrails_judged(header, blocks, plan))
        still = [one.effect.name for one in found if one.open and one.effect.kind != "main"]
        result |= planning.ending(header, records, len(blocks), not still) | {"open": still}
        for event in events(records, "fitness"):
            result["withheld"] = f"No reading on this machine: {event['text']}"
            for row in result["effects"]:
                row["reading"] = None
        return result


matrix = Cells()


def cells(spec: MatrixSpec) -> dict[str, str]:
    """Name -> side of every cell, in standard order: the first factor changes fastest."""
    found = {}
    for levels in itertools.product((False, True), repeat=len(spec.factors)):
        on = [name for name, level in zip(spec.factors, reversed(levels), strict=True) if level]
        settings = [spec.factors[name] for name in on]
        found["+".join(on) or NO_FACTOR] = ",".join([spec.base, *settings])
    return found


def logs(header: Record, blocks: Blocks) -> tuple[list[list[float]], list[list[int]]]:
    """For every block, a row of log values (higher is better) and a row of the places at which they ran."""
    metric, names = metric_of(header), [arm["name"] for arm in header["arms"]]
    sign, more = 1.0 if metric.higher_is_better else -1.0, doubling(blocks, names[0], metric)
    rows = [
        [sign * math.log(value) for name in names for value in comparable(block[name], metric, more) or ()]
        for block in blocks
    ]
    return rows, [[block[name][0]["position"] for name in names] for block in blocks]


def questions(header: Record, blocks: Blocks) -> tuple[list[Question], float]:
    """(all questions, the change from one place in a block to the next)."""
    freed, change = factorial.freed_as_known(*logs(header, blocks))
    return factorial.questions(freed.tolist(), list(header["spec"]["factors"])), change


def decide(question: Question, spec: Record, plan: Plan) -> verdict.Decision:
    alpha = spec["alpha"] / factorial.question_count(len(spec["factors"]))
    return verdict.decide(question.d.tolist(), spec["margin"], alpha, plan)


def settled(header: Record, blocks: Blocks, plan: Plan) -> bool:
    """Whether every question is answered: better, worse, or a difference smaller than the margin."""
    asked = (question for question in questions(header, blocks)[0] if question.kind != "main")
    return all(decide(q, header["spec"], plan).verdict is not verdict.Verdict.INCONCLUSIVE for q in asked)


@dataclass(frozen=True)
class Judged:
    effect: Effect
    decision: Decision

    @property
    def open(self) -> bool:
        return self.decision.verdict is Verdict.INCONCLUSIVE


def judged(header: Record, blocks: Blocks, plan: Plan) -> tuple[list[Judged], float]:
    """Every question with its decision, and the change from one place in a block to the next."""
    asked, change = questions(header, blocks)
    decisions = [decide(question, header["spec"], plan) for question in asked]
    return [
        Judged(Effect(question.name, decision.interval, question.kind, question.factors), decision)
        for question, decision in zip(asked, decisions, strict=True)
    ], change


def _failed(header: Record, records: Sequence[Record]) -> dict[str, int]:
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


def _row(one: Judged, failed: Mapping[str, int]) -> EffectRow:
    effect = one.effect
    row: EffectRow = {"name": effect.name, "kind": effect.kind, **effect.interval.ends(), "reading": _reading(one)}
    row |= {"settled": not one.open, "uncorrected": as_ratio(one.decision.plain)}
    if _forbidden(row["reading"], fewer := failed[effect.name]):
        why = "its cells failed unequally often"
        if effect.kind != "interaction":
            why = f"failed {'less' if fewer > 0 else 'more'} often with it"
        row |= {"failed": True, "reading": f"not read, {why}"}
    return row


def _reading(one: Judged) -> str:
    effect = one.effect
    if one.decision.verdict is Verdict.NEUTRAL:
        return "additive within the margin" if effect.kind == "interaction" else "the same within the margin"
    if effect.kind == "interaction":
        return str(factorial.classify_interaction(effect.interval))
    if not effect.interval.excludes_zero():
        return "undecided"
    return "better" if effect.interval.low > 0 else "worse"


def _why(hidden: dict[str, Effect], metric: MetricRow) -> list[str]:
    """A sentence for each interaction that hides main effects."""
    texts: list[str] = []
    for by in dict.fromkeys(hidden.values()):
        names = [name for name, reason in hidden.items() if reason == by]
        effects, are = ("effects", "are") if len(names) > 1 else ("effect", "is")
        said = (
            f"the main {effects} of {' and '.join(names)} {are} left out: {' and '.join(by.factors)} depend on each "
            f"other ({_size(by, metric)}), and an average over both levels is of no setting that anybody runs"
        )
        texts.append(Warn.HIDDEN.said(text=said))
    return texts


def _drift(change: float, spec: Record, cells: int) -> list[str]:
    """A note on the change within blocks, if it is at least the margin; random order and correction remove it."""
    across = as_ratio(change * (cells - 1))
    if abs(across) < spec["margin"]:
        return []
    side = "better" if across > 0 else "worse"
    return [Warn.DRIFT.said(size=abs(across) * 100, way=side)]


def _size(effect: Effect, metric: MetricRow) -> str:
    ratio = effect.interval.ratio()
    return f"{effect.name}: {words.effect(metric, ratio.estimate, ratio.low, ratio.high)}"
