"""When a workload of a suite has had enough blocks: its intervals are narrow, or it was measured for long enough.

Only the width of an interval ends a workload, never its position. Its intervals at 95 % then miss in about 6 % of
workloads: tests/statistics/test_stat_settled.py.
"""

from collections.abc import Iterable

from hakmem_lab.kinds.suite.sheet import Sheet
from hakmem_lab.run.endings import duration
from hakmem_lab.store.query import events

SETTLED = "settled"
FIRST, EVERY = 15, 3  # blocks before the first look, and between two


def narrow(sheet: Sheet, within: float) -> bool:
    """Whether the subject's intervals against the reference lie within this share around their estimates."""
    found = [sheet.figures(name, False).get(sheet.spec.reference) for name in sheet.row.metrics()]
    spreads = [figure.spread() for figure in found if figure is not None]
    return bool(spreads) and max(spreads) <= within


def settled(sheet: Sheet, spent_s: float) -> dict | None:
    """The event that ends the workload, or None. open: whether a cell may still be undecided."""
    spec, blocks = sheet.spec, len(sheet.blocks)
    if spec.within is None:
        return None
    found = {"seconds": round(spent_s, 1), "blocks": blocks}
    if blocks >= FIRST and blocks % EVERY == 0 and narrow(sheet, spec.within):
        text = f"workload '{sheet.row.key}': after {blocks} blocks all intervals are within {100 * spec.within:g} %"
        return found | {"text": text, "open": False}
    if spent_s < spec.patience:
        return None
    text = f"workload '{sheet.row.key}': an interval is still wider than {100 * spec.within:g} % after "
    return found | {"text": f"{text}{blocks} blocks, {duration(spent_s)}", "open": True}


def known(records: Iterable[dict]) -> dict[str, dict]:
    """Workload -> the event that ended it."""
    return {str(event["workload"]): dict(event) for event in events(records, SETTLED)}
