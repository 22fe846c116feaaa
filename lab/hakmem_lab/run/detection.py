"""How many blocks an effect needs that is to be detected, before or after the first of them."""

import math
from collections.abc import Callable, Sequence

from hakmem_lab.judge import fitness, planning
from hakmem_lab.judge.analysis import log_ratios, metric_of
from hakmem_lab.judge.statistics import power
from hakmem_lab.plan.kinds import KINDS
from hakmem_lab.run import endings
from hakmem_lab.run.session import Session
from hakmem_lab.store.query import Blocks

PILOT_BLOCKS = 6


def plan_rare(session: Session) -> None:
    """As many blocks as would see what happens to so small a share of the runs, whenever the verdict stands."""
    two = len(session.arms) == 2 or KINDS[session.spec.kind].confirms
    rare, runs_of_a_block = session.spec.rare, 2 if two else 1
    if rare is not None and not any(record.get("what") == planning.MORE for record in session.records()):
        blocks = math.ceil(planning.RUNS_FOR_ONE / rare / runs_of_a_block)
        text = f"to see what happens to {rare * 100:g} % of the runs: {blocks} blocks at least"
        session.event(planning.MORE, text, until=blocks, settled=True)
        session.progress.say(text)


def plan_detection(
    session: Session,
    names: Sequence[str],
    comparisons: int = 1,
    columns_of: Callable[[Blocks], Sequence[Sequence[float]]] | None = None,
) -> None:
    """Fixes the number of blocks for the effect that is to be detected, from the last A/A of the same program and
    metric, or from the first six blocks; says how long that takes. Without `detect` there is nothing to do.

    columns_of: the log-ratios that are judged, where they are not those of two arms; no A/A knows their spread.
    """
    header, records = session.file.header(), session.records()
    if session.spec.detect is None or planning.is_planned(records):
        return
    known = None if columns_of else fitness.spread_of(session.file.path.parent, header)
    if known is None:
        session.progress.say(f"the first {PILOT_BLOCKS} blocks say how many are needed")
        blocks = session.run_blocks("measure", names, PILOT_BLOCKS)
        left = min(blocks, key=len)  # without those that have failed too often
        pairs = [(names[0], name) for name in names[1:] if name in left]
        columns = columns_of(blocks) if columns_of else [log_ratios(blocks, *pair, metric_of(header)) for pair in pairs]
        known = max(power.spread(column) for column in columns), f"the first {PILOT_BLOCKS} blocks"
    _fix_plan(session, names, known, comparisons)


def _fix_plan(session: Session, names: Sequence[str], known: tuple[float, str], comparisons: int) -> None:
    spec, (sigma, source) = session.spec, known
    alpha = spec.alpha / comparisons * (1 - session.file.header().get("anytime", 0.0))
    needed = power.blocks_to_detect(sigma, spec.detect, alpha)
    limit = spec.max_blocks if "max_blocks" in spec.model_fields_set else power.MOST_BLOCKS
    blocks = min(max(needed or power.MOST_BLOCKS, PILOT_BLOCKS), limit)
    runs = blocks * (4 if len(names) == 2 else len(names))
    text = f"to show {spec.detect * 100:g} %: {blocks} blocks at most, by {source}"
    text += f", about {endings.duration(runs * session.run_s)}" if session.run_s else ""
    if needed is None or needed > blocks:
        text += f"; {needed or f'more than {power.MOST_BLOCKS}'} would be needed for it, and max-blocks is {blocks}"
    session.event(planning.PLANNED, text, blocks=blocks)
    session.progress.say(text)
