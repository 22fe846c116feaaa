"""A run of the kinds that have no blocks of arms to compare."""

from collections.abc import Sequence
from pathlib import Path

from hakmem_lab.plan import project
from hakmem_lab.plan.arms import Arm
from hakmem_lab.plan.spec import CommonSpec
from hakmem_lab.run import recorder
from hakmem_lab.run.context import Context
from hakmem_lab.run.runner import Workload
from hakmem_lab.store.runs import now_utc


class Recorder(recorder.Recorder):
    """Keeps the records of a run that may be a new one or a continued one."""

    def __init__(self, spec: CommonSpec, arms: Sequence[Arm], workload: Workload, context: Context):
        super().__init__(spec, arms, workload, context.progress)
        self.context = context
        self._watch = recorder.Watch(recorder.files_under_test(workload, arms))
        self._told = 0

    def begin(self) -> None:
        """Preflight and header of a new run, or the checks of one that is continued. Raises LabError."""
        if self.context.resume is not None:
            self.reopen(self.context.resume, self.context.resume.header())
            return
        self.check_arms()
        self.create(self.context.folder, self.context.source)

    def changed_file(self) -> Path | None:
        """Which file under test has changed; to be asked after every execution. Records what the program writes."""
        changed = self._watch.changed()
        if new := [project.shown(path) for path in self._watch.written[self._told :]]:
            self._told += len(new)
            text = f"written by the program, so not watched: {', '.join(new)}"
            self.append({"type": "event", "time": now_utc(), "what": recorder.WRITTEN, "text": text, "files": new})
        return changed
