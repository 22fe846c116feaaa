"""A pair, and many against one: every other side against the first, until each contrast is decided."""

import shlex
from collections.abc import Callable, Sequence
from typing import Any

from hakmem_lab.designs.engine import Design, Rule
from hakmem_lab.errors import LabError, nearest
from hakmem_lab.judge import early, planning, two_arms, verdicts
from hakmem_lab.judge.analysis import base_result, measured
from hakmem_lab.judge.statistics.verdict import Verdict
from hakmem_lab.plan.arms import Arm, command_arms, parse_arms
from hakmem_lab.plan.spec import AbSpec, BaselineSpec, CompareSpec
from hakmem_lab.run.session import Session
from hakmem_lab.store.query import Blocks
from hakmem_lab.store.records import Record
from hakmem_lab.store.results import Result

Decide = Callable[[Blocks, str], Verdict]  # (the blocks of both sides, the name of the other one)


class UntilDecided:
    """The rule: the first side, and every other one that is not decided yet. decide: raises no error from one block
    on."""

    def __init__(self, session: Session[Any], names: Sequence[str], decide: Decide):
        header, records = session.file.header(), session.records()
        self._session, self._decide, self._judged = session, decide, session.judged
        self._first, *self._others = names
        self._looks = planning.plan_of(header, records).looks
        self._least, self._most = planning.least_blocks(records), planning.most_blocks(header, records)
        self._decided: set[str] = set()

    def __call__(self, blocks: Blocks) -> list[str]:
        for name in self._others:
            there = two_arms.shared(blocks, self._first, name)
            if there and name not in self._decided | {*self._session.gone}:
                self._judge(blocks, there, name)
        left = [name for name in self._others if name not in self._decided | {*self._session.gone}]
        if len(blocks) < self._least:
            left = self._others
        return [self._first, *(name for name in left if name not in self._session.untried)] if left else []

    def _judge(self, blocks: Blocks, there: Blocks, name: str) -> None:
        found = self._decide(there, name)
        if found is not Verdict.INCONCLUSIVE:
            self._decided.add(name)
        if found is not Verdict.INCONCLUSIVE or len(blocks) in self._looks:
            most = max(len(blocks), self._most)
            self._session.progress.say(f"{len(blocks)} blocks of at most {most}: {name}: {found}{self._judged}")


class Contrasts(Design):
    """spec: the model of the keys. sides: the sides of a spec, the first one first."""

    def __init__(self, spec: Any, sides: Callable[[Any], list[Arm]], texts: Callable[[Any], Sequence[str]]):
        self.Spec, self._sides, self._texts = spec, sides, texts

    def sides(self, spec: Any) -> list[Arm]:
        return self._sides(spec)

    def questions(self, spec: Any) -> int:
        return len(self._texts(spec)) - 1

    def rule(self, session: Any, phase: str) -> Rule:
        names, header = list(session.arms), session.file.header()
        return until_decided(session, names, header)

    def found(self, header: Record, records: list[Record]) -> Result:
        blocks = measured(records)
        result = base_result(header, records, blocks) | {"comparisons": [], "guardrails": [], "looks": []}
        if len(blocks) >= early.LEAST:
            return verdicts.with_verdicts(result, header, records, blocks)
        title = early.title(blocks) if blocks else "No verdict yet: there are no finished blocks"
        return early.ended(result | {"withheld": title}, records)


def until_decided(session: Session[Any], names: Sequence[str], header: Record) -> UntilDecided:
    """The rule by which sides are compared, as their result will be."""
    plan, others = planning.plan_of(header, session.records()), len(names) - 1
    return UntilDecided(
        session, names, lambda blocks, name: two_arms.decide(header, blocks, (names[0], name), plan, others).verdict
    )


def pair_names(spec: AbSpec) -> tuple[str, str]:
    """The names of the two sides, as written; with a suffix if both are the same."""
    control, treatment = map(shlex.join, spec.commands) if spec.commands else (spec.control, spec.treatment)
    return (f"{control} (control)", f"{treatment} (treatment)") if control == treatment else (control, treatment)


def pair(spec: AbSpec) -> list[Arm]:
    control, treatment = pair_names(spec)
    if spec.builds > 1:
        raise LabError("builds: each side has one build in this version; leave the key out")
    if spec.commands:
        return command_arms(dict(zip((control, treatment), spec.commands, strict=True)))
    where = {control: "control", treatment: "treatment"}
    return parse_arms({control: spec.control, treatment: spec.treatment}, where)


def many_texts(spec: BaselineSpec) -> list[str]:
    """The sides as they were written: allocators, or commands (of a compare)."""
    commands = [shlex.join(words) for words in getattr(spec, "commands", ())]
    return (commands and getattr(spec, "names", [])) or commands or spec.allocators


def many(spec: BaselineSpec) -> list[Arm]:
    """The baseline first: the one that the spec names, else glibc if it takes part, else the first side."""
    named, own = many_texts(spec), getattr(spec, "commands", ())
    first, key = spec.baseline or ("glibc" if "glibc" in named else named[0]), "commands" if own else "allocators"
    if len(set(named)) != len(named):
        raise LabError(f"{key}: the same side is named twice; to compare a side with itself: hak doctor --machine")
    if first not in named:
        raise LabError(f"baseline: '{first}' is not among the {key}: {nearest(first, named)}")
    ordered = [first, *(text for text in named if text != first)]
    if own:
        return command_arms({text: own[named.index(text)] for text in ordered})
    return parse_arms({text: text for text in ordered}, dict.fromkeys(ordered, key))


ab = Contrasts(AbSpec, pair, pair_names)
compare = Contrasts(CompareSpec, many, many_texts)
