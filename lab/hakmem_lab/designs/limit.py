"""Sides against a limit, and not against each other: `within` holds the interval of one cost of each against it."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from hakmem_lab.designs.engine import Design
from hakmem_lab.judge.conditions import MEASURE
from hakmem_lab.run.conduct import Context, Recorder
from hakmem_lab.run.workload import Workload
from hakmem_lab.store.results import Result


class AgainstLimit(Design):
    """The rule gets the records so far, and names what is to be measured next; none: the run is over."""

    session: Callable[..., Any] = Recorder

    @abstractmethod
    def execute(self, session: Any, named: Any) -> None:
        """Measures what the rule has named, and stores it."""

    def run(self, spec: Any, context: Context) -> Result:
        with self.session(spec, self.sides(spec), Workload.of(spec), context) as session:
            session.begin()
            self.measure(session)
            return session.finish(self.analyse(session.file.header(), session.records()))

    def measure(self, session: Any) -> None:
        rule = self.rule(session, MEASURE)
        try:
            while named := rule(session.records()):
                self.execute(session, named[0])
        finally:
            session.progress.restart()
