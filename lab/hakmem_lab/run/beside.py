"""Wall time beside a verdict on processor time: blocks of their own, one run after another, since sides that run
together cannot give it."""

from collections.abc import Sequence

from hakmem_lab.plan import schedule
from hakmem_lab.run.session import PICKED, Session
from hakmem_lab.run.together import Chosen
from hakmem_lab.store.query import BESIDE, events


def measure(session: Session, names: Sequence[str]) -> None:
    """Runs the blocks, if the trials chose the metric. `names`: the arms that began; those that left take no part."""
    picked = events(session.records(), PICKED)
    if not picked or getattr(session.spec, "quick", False):
        return
    before = session.chosen
    session.follow(Chosen(schedule.ONE_BY_ONE))
    session.run_blocks(BESIDE, names, picked[-1]["blocks"])
    session.follow(before)
