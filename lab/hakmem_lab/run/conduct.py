"""The course of a run in blocks, the same for every block kind: begin or resume, plan the number of blocks for the
wanted effect, measure, analyse, keep the result.

`Context` says where the run is kept and where messages go. `Recorder` is for the kinds without blocks of arms to
compare.
"""

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hakmem_lab.errors import LabError
from hakmem_lab.judge import fitness, planning
from hakmem_lab.judge.analysis import judged_ratios, metric_of
from hakmem_lab.judge.repeated import Analyse
from hakmem_lab.judge.statistics import power
from hakmem_lab.judge.unseen import RUNS_FOR_ONE
from hakmem_lab.plan import project
from hakmem_lab.plan.arms import Arm, callers_environment
from hakmem_lab.plan.project import find_program
from hakmem_lab.plan.spec import BlockSpec
from hakmem_lab.run import endings, recorder
from hakmem_lab.run.endings import Progress
from hakmem_lab.run.recorder import AnySpec
from hakmem_lab.run.session import Session
from hakmem_lab.run.workload import Workload, failure
from hakmem_lab.store.query import Blocks, events
from hakmem_lab.store.results import Result
from hakmem_lab.store.runs import RunFile, now_utc
from hakmem_lab.system import signals
from hakmem_lab.system.launcher import Launcher, Request

PILOT_BLOCKS = 6
ROUNDING = 1e-9  # of a quotient that may be a whole number of blocks


def plan_rare(session: Session) -> None:
    """Plans enough blocks to see an event that affects the share `rare` of the runs, even where the verdict comes
    earlier."""
    compared = 2 if session.confirms else len(session.arms)
    rare, runs_of_a_block = session.spec.rare, session.runs_of_each(compared)
    if rare is not None and not events(session.records(), planning.MORE):
        blocks = math.ceil(RUNS_FOR_ONE / rare / runs_of_a_block - ROUNDING)
        text = f"to see what happens to {rare * 100:.2g} % of the runs: {blocks} blocks at least"
        session.tell(planning.MORE, text, until=blocks, settled=True)


def plan_detection(
    session: Session,
    names: Sequence[str],
    comparisons: int = 1,
    columns_of: Callable[[Blocks], Sequence[Sequence[float]]] | None = None,
) -> None:
    """Plans the number of blocks needed to detect the effect `detect`, and reports how long they take. The spread comes
    from the last A/A of the same program and metric, or from the first six blocks. Without `detect` it does nothing.

    columns_of: gives the judged log-ratios where they are not those of two arms. No A/A has measured their spread.
    """
    header, records = session.file.header(), session.records()
    detect = getattr(session.spec, "detect", None)
    if detect is None or planning.is_planned(records):
        return
    known = None if columns_of else fitness.spread_of(session.file.path.parent, header)
    if known is None:
        session.progress.say(f"the first {PILOT_BLOCKS} blocks say how many are needed")
        blocks = session.run_blocks("measure", names, PILOT_BLOCKS)
        left = min(blocks, key=len)  # arms that failed too often are missing
        pairs = [(names[0], name) for name in names[1:] if name in left]
        metric = metric_of(header)
        columns = columns_of(blocks) if columns_of else [judged_ratios(blocks, *pair, metric) for pair in pairs]
        known = max(power.spread(column) for column in columns), f"the first {PILOT_BLOCKS} blocks"
    _fix_plan(session, names, detect, known, comparisons)


def _fix_plan(
    session: Session, names: Sequence[str], detect: float, known: tuple[float, str], comparisons: int
) -> None:
    spec, (sigma, source) = session.spec, known
    share, looks = session.file.header().get("anytime", 0.0), getattr(spec, "looks", 1)
    needed = power.planned_to_detect(sigma, detect, spec.alpha / comparisons, looks, share)
    limit = spec.max_blocks if "max_blocks" in spec.model_fields_set else power.MOST_BLOCKS
    blocks = min(max(needed or power.MOST_BLOCKS, PILOT_BLOCKS), limit)
    runs = blocks * len(names) * session.runs_of_each(len(names))
    text = f"to show {detect * 100:g} %: {blocks} blocks at most, by {source}"
    text += f", about {endings.duration(runs * session.run_s)}" if session.run_s else ""
    if needed is None or needed > blocks:
        text += f"; {needed or f'more than {power.MOST_BLOCKS}'} would be needed for it, and max-blocks is {blocks}"
    session.tell(planning.PLANNED, text, blocks=blocks)


@dataclass(frozen=True)
class Context:
    """Where a kind writes, and where its messages go. resume: the stored run to continue; more: number of further
    blocks."""

    folder: Path
    source: str
    progress: Progress
    resume: RunFile | None = None
    more: int = 0


def conduct(
    spec: BlockSpec,
    context,
    arms: Sequence[Arm],
    blocks: tuple[int, int],
    measure: Callable[..., None],
    analyse: Analyse,
    session_type: Callable[..., Session] = Session,
) -> Result:
    """blocks: (the most, the fewest until a verdict). Returns and raises as `run` of every kind does."""
    with _around(spec, context.progress), session_type(spec, arms, context.progress) as session:
        if context.resume:
            session.resume(context.resume, context.resume.header())
            if context.more:
                _prolong(session, context.more, analyse)
        else:
            session.begin(context.folder, context.source, blocks)
        plan_rare(session)
        measure(session)
        return session.finish(analyse(session.file.header(), session.records()))


@contextlib.contextmanager
def _around(spec: BlockSpec, progress) -> Iterator[None]:
    """Runs `setup` before everything, since it may build the program, and `cleanup` after everything, even after a
    failure."""
    if spec.setup and (why := _done(spec, spec.setup)):
        raise LabError(f"setup: {why}")
    try:
        yield
    finally:
        with signals.held():
            if spec.cleanup and (why := _done(spec, spec.cleanup)):
                progress.warn(f"cleanup: {why}")


def _done(spec: BlockSpec, command: Sequence[str]) -> str | None:
    """Runs the command without any arm's allocator. Returns why it failed, else None."""
    env = callers_environment() | spec.env
    request = Request([str(find_program(command[0])), *command[1:]], env, spec.cwd, spec.pin, spec.timeout, 0)
    try:
        with Launcher() as launcher:
            return failure(launcher.run(request))
    except OSError as error:
        return f"{command[0]} cannot be started: {error.strerror}"


def _prolong(session: Session, more: int, analyse: Analyse) -> None:
    """Records that further blocks are wanted: beyond those that exist if the run has ended, else beyond the planned
    ones."""
    header, records = session.file.header(), session.records()
    found, most = analyse(header, records), planning.most_blocks(header, records)
    settled = bool(found.get("settled"))
    until = (found["blocks"] if found["final"] else most) + more
    session.event(planning.MORE, f"{more} more blocks wanted, {until} in all", until=until, settled=settled)


class Recorder(recorder.Recorder[AnySpec]):
    """Keeps the records of a new or continued run."""

    def __init__(self, spec: AnySpec, arms: Sequence[Arm], workload: Workload, context: Context):
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
        """The file under test that has changed, if any; call it after every execution. Records the files that the
        program writes."""
        changed = self._watch.changed()
        if new := [project.shown(path) for path in self._watch.written[self._told :]]:
            self._told += len(new)
            text = f"written by the program, so not watched: {', '.join(new)}"
            self.append({"type": "event", "time": now_utc(), "what": recorder.WRITTEN, "text": text, "files": new})
        return changed
