"""Wall time and memory beside a verdict from a shared schedule: blocks of their own, one run after another, since sides
that are alive at the same time cannot give them."""

from collections.abc import Sequence

from hakmem_lab.plan import schedule
from hakmem_lab.run.session import BESIDE_BLOCKS, Session
from hakmem_lab.run.together import Chosen
from hakmem_lab.store.query import BESIDE


def measure(session: Session, names: Sequence[str]) -> None:
    """Runs the blocks, unless every block has such runs. `names`: the arms that began; those that left take no part."""
    before = session.chosen
    if not before.shared or session.runs_alone() or getattr(session.spec, "quick", False):
        return
    session.follow(Chosen(schedule.ONE_BY_ONE))
    session.run_blocks(BESIDE, names, BESIDE_BLOCKS)
    session.follow(before)
