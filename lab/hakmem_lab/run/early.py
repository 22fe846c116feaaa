"""The first estimate of a comparison, reported while it goes on; a quick comparison ends with it."""

import time
from collections.abc import Iterator

from hakmem_lab.judge import early
from hakmem_lab.plan import schedule
from hakmem_lab.run.session import Session
from hakmem_lab.store.query import Blocks, events


def estimated(session: Session, every: Iterator[Blocks], phase: str) -> Iterator[Blocks]:
    """Yields the blocks as they come. After the first few blocks it reports their estimate. A quick comparison ends
    with one, or earlier if the next block would end more than 30 s after the start."""
    stops = getattr(session.spec, "quick", None)
    if stops is None:
        yield from every
        return
    stops = stops and not events(session.records(), "resumed")
    since = time.monotonic()
    for blocks in every:
        yield blocks
        now = time.monotonic()
        since, took = now, now - since
        late = stops and blocks and now + took > session.progress.started + early.QUICK_S
        first = early.LEAST if session.chosen.name == schedule.TOGETHER else early.FIRST
        first = early.SHARED if session.chosen.shared and not stops else first
        if len(blocks) != first and not late:
            continue
        texts = early.estimate(session.file.header(), blocks)
        if stops:
            texts += early.left_to_resume(session.untried)
            session.event(early.QUICK, early.title(blocks), blocks=len(blocks), estimate=texts, phase=phase)
            return
        session.progress.say("\n  ".join([f"{early.title(blocks).lower()}:", *texts]))
