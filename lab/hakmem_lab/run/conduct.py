"""The course of a run in blocks, the same for every block kind: begin or resume, measure, analyse, keep the result."""

from collections.abc import Callable, Sequence

from hakmem_lab.judge import planning
from hakmem_lab.plan.arms import Arm
from hakmem_lab.plan.spec import BlockSpec
from hakmem_lab.run import detection
from hakmem_lab.run.session import Session


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
    with session_type(spec, arms, context.progress) as session:
        if context.resume:
            session.resume(context.resume, context.resume.header())
            if context.more:
                _prolong(session, context.more, analyse)
        else:
            session.begin(context.folder, context.source, runs_of)
        detection.plan_rare(session)
        measure(session)
        return session.finish(analyse(session.file.header(), session.records()))


def _prolong(session: Session, more: int, analyse: Callable[[dict, list[dict]], dict]) -> None:
    """Records that further blocks are wanted: beyond those that there are, where a verdict or the plan has ended it."""
    header, records = session.file.header(), session.records()
    found, most = analyse(header, records), planning.most_blocks(header, records)
    settled = bool(found.get("settled"))
    until = (found["blocks"] if found["final"] else most) + more
    session.event(planning.MORE, f"{more} more blocks wanted, {until} in all", until=until, settled=settled)
