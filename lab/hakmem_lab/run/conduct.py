"""The course of a run in blocks, the same for every block kind: begin or resume, measure, analyse, keep the result.

Its context is where it is kept, and whom it tells what it does. And a run of the kinds that have no blocks of arms to
compare.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hakmem_lab.errors import LabError
from hakmem_lab.judge import planning
from hakmem_lab.plan import project
from hakmem_lab.plan.arms import Arm, callers_environment
from hakmem_lab.plan.project import find_program
from hakmem_lab.plan.spec import BlockSpec, CommonSpec
from hakmem_lab.run import detection, recorder
from hakmem_lab.run.endings import Progress
from hakmem_lab.run.runner import Workload
from hakmem_lab.run.served import failure
from hakmem_lab.run.session import Session
from hakmem_lab.store.runs import RunFile, now_utc
from hakmem_lab.system import signals
from hakmem_lab.system.launcher import Launcher, Request


@dataclass(frozen=True)
class Context:
    """Where a kind writes and whom it tells. resume: the stored run to continue; more: by so many further blocks."""

    folder: Path
    source: str
    progress: Progress
    resume: RunFile | None = None
    more: int = 0


def conduct(
    spec: BlockSpec,
    context,
    arms: Sequence[Arm],
    runs_of: Callable[[int], tuple[int, int]],
    measure: Callable[..., None],
    analyse: Callable[[dict, list[dict]], dict],
    session_type: Callable[..., Session] = Session,
) -> dict:
    """The result, which is also the run's last record. Raises LabError, Stopped or Interrupted."""
    with _around(spec, context.progress), session_type(spec, arms, context.progress) as session:
        if context.resume:
            session.resume(context.resume, context.resume.header())
            if context.more:
                _prolong(session, context.more, analyse)
        else:
            session.begin(context.folder, context.source, runs_of)
        detection.plan_rare(session)
        measure(session)
        return session.finish(analyse(session.file.header(), session.records()))


@contextlib.contextmanager
def _around(spec: BlockSpec, progress) -> Iterator[None]:
    """`setup` before everything, for it may make the program; `cleanup` after it, however it ended."""
    if spec.setup and (why := _done(spec, spec.setup)):
        raise LabError(f"setup: {why}")
    try:
        yield
    finally:
        with signals.held():
            if spec.cleanup and (why := _done(spec, spec.cleanup)):
                progress.say(f"warning: cleanup: {why}")


def _done(spec: BlockSpec, command: Sequence[str]) -> str | None:
    """Runs it, on no arm; why it failed."""
    env = callers_environment() | spec.env
    request = Request([str(find_program(command[0])), *command[1:]], env, spec.cwd, spec.pin, spec.timeout, 0)
    try:
        with Launcher() as launcher:
            return failure(launcher.run(request))
    except OSError as error:
        return f"{command[0]} cannot be started: {error.strerror}"


def _prolong(session: Session, more: int, analyse: Callable[[dict, list[dict]], dict]) -> None:
    """Records that further blocks are wanted: beyond those that there are, where a verdict or the plan has ended it."""
    header, records = session.file.header(), session.records()
    found, most = analyse(header, records), planning.most_blocks(header, records)
    settled = bool(found.get("settled"))
    until = (found["blocks"] if found["final"] else most) + more
    session.event(planning.MORE, f"{more} more blocks wanted, {until} in all", until=until, settled=settled)


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
