"""The course of a run in blocks, the same for every block kind: begin or resume, measure, analyse, keep the result.

Imports session.
"""

from collections.abc import Callable, Sequence

from .arms import Arm
from .session import Session
from .spec import BlockSpec


def conduct(
    spec: BlockSpec,
    context,
    arms: Sequence[Arm],
    runs_of: Callable[[int], tuple[int, int]],
    measure: Callable[[Session], None],
    analyse: Callable[[dict, list[dict]], dict],
    session_type: type[Session] = Session,
) -> dict:
    """The result, which is also the run's last record. Raises LabError, Stopped or Interrupted."""
    with session_type(spec, arms, context.progress) as session:
        try:
            if context.resume:
                session.resume(context.resume, context.resume.header())
            else:
                session.begin(context.folder, context.source, runs_of)
            measure(session)
            return session.finish(analyse(session.file.header(), session.records()))
        except KeyboardInterrupt:
            if session.file is None:
                raise
            raise session.interrupted() from None
