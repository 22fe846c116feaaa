"""The engine: sides x contrasts x a rule to stop. A design says what is compared; the engine runs and judges it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from hakmem_lab.errors import LabError
from hakmem_lab.judge import money, planning
from hakmem_lab.judge.conditions import MEASURE
from hakmem_lab.judge.explain import explained
from hakmem_lab.judge.repeated import repeated
from hakmem_lab.judge.statistics.plan import Plan, planned_looks
from hakmem_lab.plan.arms import Arm
from hakmem_lab.run import beside, conditions
from hakmem_lab.run.conduct import Context, conduct, plan_detection
from hakmem_lab.run.early import estimated
from hakmem_lab.run.session import Session
from hakmem_lab.store.query import Blocks
from hakmem_lab.store.records import Record
from hakmem_lab.store.results import Result
from hakmem_lab.trace import history

# The blocks so far -> the sides of the next one; none: the phase is over. Against a limit: see `designs.limit`.
Rule = Callable[[Any], Sequence[Any]]


class Design(ABC):
    """What is compared, and when it is enough. Spec: the model of its keys. session: how its sides are run. checked: an
    A/A should precede it. columns: where no A/A knows how the judged numbers spread, (header, blocks) -> these numbers.
    """

    Spec: Any
    session: Callable[..., Any] = Session
    checked: ClassVar[bool] = True
    columns: Callable[[Record, Blocks], Sequence[Sequence[float]]] | None = None

    @abstractmethod
    def sides(self, spec: Any) -> list[Arm]:
        """The sides; the others are compared with the first one."""

    @abstractmethod
    def rule(self, session: Any, phase: str) -> Rule:
        """The rule to stop a phase. Pure but for lines about its progress."""

    @abstractmethod
    def found(self, header: Record, records: list[Record]) -> Result:
        """The facts that these records show. Pure."""

    def questions(self, spec: Any) -> int:
        """The number of contrasts, which share alpha."""
        return len(self.sides(spec)) - 1

    def least(self, spec: Any, plan: Plan) -> int:
        """The fewest blocks with which the run can end."""
        return plan.least_blocks(spec.alpha / self.questions(spec))

    def analyse(self, header: Record, records: list[Record]) -> Result:
        """The result: facts under each condition of the run, and these in words."""

        def found(header: Record, records: list[Record]) -> Result:
            return money.priced(self.found(header, records), header, records)

        return repeated(explained(found))(header, records)

    def run(self, spec: Any, context: Context) -> Result:
        """The result, which is also the run's last record. Raises LabError, Stopped or Interrupted."""
        return self.conducted(spec, context, self.sides(spec), self.session)

    def conducted(self, spec: Any, context: Context, sides: list[Arm], session: Callable[..., Session[Any]]) -> Result:
        blocks = self.planned(spec, context.source)
        return conduct(spec, context, sides, blocks, self.measure, self.analyse, session)

    def planned(self, spec: Any, source: str) -> tuple[int, int]:
        """(the most blocks, the fewest until the run can end). Raises LabError if no data could give a verdict."""
        plan = Plan(tuple(planned_looks(spec.max_blocks, spec.looks)))
        least, most = self.least(spec, plan), plan.looks[-1]
        if most < least:
            raise LabError(
                f"{source}: max-blocks: {most} blocks are too few for any verdict: {self.questions(spec) + 1} sides "
                f"and an allowed error rate of {spec.alpha:g} need at least {least}"
            )
        return most, min(plan.looks[0], least)

    def measure(self, session: Any) -> None:
        """Runs the blocks, alone and under each condition."""
        if self.checked:
            session.check_fitness()
        columns = self.columns and partial(self.columns, session.file.header())
        plan_detection(session, list(session.arms), self.questions(session.spec), columns)
        conditions.in_turn(session, lambda phase: self.follow(session, phase), history.write)
        beside.measure(session, list(session.arms))

    def follow(self, session: Any, phase: str = MEASURE) -> None:
        """Runs blocks until the rule ends the phase, at most as many as are planned."""
        most = planning.most_blocks(session.file.header(), session.records())
        for _ in estimated(session, session.each_block(phase, self.rule(session, phase), most), phase):
            pass
