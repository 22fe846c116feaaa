"""Candidates and then a confirmation: blocks of all sides choose one, fresh pairs of it and the default confirm it.

The choice bounds no error, and its estimates favour luck. The verdict rests on blocks that had no part in it, by the
rule of a pair at the spec's alpha, so more candidates do not make a false win more likely. Only it is quoted.
"""

from abc import abstractmethod
from typing import Any

from hakmem_lab.designs.contrasts import until_decided
from hakmem_lab.designs.engine import Design, Rule
from hakmem_lab.errors import LabError
from hakmem_lab.judge import verdicts
from hakmem_lab.judge.analysis import base_result, judged_ratios, metric_of
from hakmem_lab.judge.statistics import paired
from hakmem_lab.plan import schedule
from hakmem_lab.plan.arms import Arm, parse_arms
from hakmem_lab.plan.spec import SweepSpec
from hakmem_lab.run.session import Session
from hakmem_lab.store.query import Blocks, finished_blocks
from hakmem_lab.store.records import Record
from hakmem_lab.store.results import Candidate, Result

DEFAULT, SELECT, CONFIRM = "default", "select", "confirm"


class Candidates(Design):
    """A design of two phases; a single one says how its blocks choose."""

    @abstractmethod
    def choose(self, session: Any) -> None:
        """Runs the blocks that choose."""

    @abstractmethod
    def chosen(self, header: Record, records: list[Record]) -> str:
        """The side that these blocks choose. Pure."""

    def questions(self, spec: Any) -> int:
        return 1

    def measure(self, session: Any) -> None:
        session.check_fitness()
        self.choose(session)
        session.progress.say(f"chosen for confirmation: {self.chosen(session.file.header(), session.records())}")
        self.follow(session, CONFIRM)

    def rule(self, session: Any, phase: str) -> Rule:
        header = session.file.header()
        pair = DEFAULT, self.chosen(header, session.records())
        return until_decided(session, pair, verdicts.of_pair(header, pair))

    def confirmed(self, result: Result, header: Record, records: list[Record], chosen: str) -> Result:
        """The result with the verdict on the chosen side, from the blocks that confirm it."""
        own, blocks = verdicts.of_pair(header, (DEFAULT, chosen)), finished_blocks(records, CONFIRM)
        if not blocks:
            return result | {"withheld": f"{chosen} was chosen; its confirmation is not finished"}
        result = verdicts.with_verdicts(result, own, records, blocks)
        result["selection"]["confirmation"] = result["comparisons"][0]
        return result


class SweepSession(Session[SweepSpec]):
    """A session with blocks of all sides for the choice, then blocks of two for the confirmation."""

    confirms, may_together, picks_metric = True, False, False

    def runs_until(self, blocks: int) -> int:
        return super().runs_until(self.spec.select_blocks) + 2 * schedule.runs_of_each(2) * blocks


class Sweep(Candidates):
    Spec = SweepSpec
    session = SweepSession

    def sides(self, spec: SweepSpec) -> list[Arm]:
        if DEFAULT in spec.candidates:
            raise LabError("candidates: the name 'default' is that of the side they are compared with")
        texts = {DEFAULT: spec.default, **spec.candidates}
        return parse_arms(texts, {name: "default" if name == DEFAULT else f"candidates.{name}" for name in texts})

    def choose(self, session: SweepSession) -> None:
        session.run_blocks(SELECT, list(session.arms), session.spec.select_blocks)

    def chosen(self, header: Record, records: list[Record]) -> str:
        return paired.select_best(_columns(header, finished_blocks(records, SELECT)))

    def found(self, header: Record, records: list[Record]) -> Result:
        """Candidates from the selection, for information, and the verdict of the confirmation."""
        spec, choosing = header["spec"], finished_blocks(records, SELECT)
        result = base_result(header, records, choosing) | {"comparisons": [], "looks": []}
        result["blocks"] = len(finished_blocks(records, CONFIRM))
        if len(choosing) < spec["select-blocks"]:
            result["withheld"] = f"The selection is not finished: {len(choosing)} of {spec['select-blocks']} blocks"
            return result
        chosen = self.chosen(header, records)
        intervals = paired.simultaneous_intervals(_columns(header, choosing), 1 - spec["alpha"])
        ranked = sorted(intervals, key=lambda n: -intervals[n].estimate)
        rows: list[Candidate] = [{"arm": name, **intervals[name].ends()} for name in ranked]
        result["selection"] = {"chosen": chosen, "candidates": rows, "confirmation": None}
        return self.confirmed(result, header, records, chosen)


sweep = Sweep()


def _columns(header: Record, blocks: Blocks) -> dict[str, list[float]]:
    """The log-ratios to the default of every candidate that finished every block."""
    names = [arm["name"] for arm in header["arms"] if arm["name"] != DEFAULT]
    there = [name for name in names if all(name in block for block in blocks)]
    return {name: judged_ratios(blocks, DEFAULT, name, metric_of(header)) for name in there}
