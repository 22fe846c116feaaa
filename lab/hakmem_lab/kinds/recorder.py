"""A run of the kinds that have no blocks of arms to compare. Imports recorder and what is below it."""

from collections.abc import Sequence

from .. import recorder
from ..arms import Arm
from ..runner import Workload
from ..spec import CommonSpec
from . import Context


class Recorder(recorder.Recorder):
    """Keeps the records of a run that may be a new one or a continued one."""

    def __init__(self, spec: CommonSpec, arms: Sequence[Arm], workload: Workload, context: Context):
        super().__init__(spec, arms, workload, context.progress)
        self.context = context

    def begin(self) -> None:
        """Preflight and header of a new run, or the checks of one that is continued. Raises LabError."""
        if self.context.resume is not None:
            self.reopen(self.context.resume, self.context.resume.header())
            return
        self.check_arms()
        self.create(self.context.folder, self.context.source)
