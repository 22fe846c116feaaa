"""How many blocks are planned for a run, and by which rule it is judged. Pure: header and records in.

A run keeps the rule in its header: `anytime` is the share of alpha for the test after every block. Runs that are judged
only at planned looks lack it.
"""

from collections.abc import Sequence

from hakmem_lab.errors import LabError
from hakmem_lab.judge.statistics.plan import SHARE, Plan, planned_looks
from hakmem_lab.store.query import events
from hakmem_lab.store.records import Record
from hakmem_lab.store.results import Result

PLANNED, MORE = "plan", "more"
BY_BLOCK = "by-block"


EVERY_BLOCK = {"anytime": SHARE}  # keys of a new run's header: it is judged after every block


def planned_blocks(header: Record, records: Sequence[Record]) -> int:
    """Number of planned blocks: from the spec, or as many as detect the effect that it names."""
    planned = events(records, PLANNED)
    return planned[-1]["blocks"] if planned else header["spec"]["max-blocks"]


def is_planned(records: Sequence[Record]) -> bool:
    """Whether the number of blocks was computed from an effect to be detected."""
    return bool(events(records, PLANNED))


def plan_of(header: Record, records: Sequence[Record]) -> Plan:
    """The looks and the test between them."""
    looks = planned_looks(planned_blocks(header, records), header["spec"]["looks"])
    return Plan(tuple(looks), header.get("anytime", 0.0))


def most_blocks(header: Record, records: Sequence[Record]) -> int:
    """The maximum number of blocks: the planned ones, and those that --more added."""
    return max([planned_blocks(header, records), *(event["until"] for event in events(records, MORE))])


def least_blocks(records: Sequence[Record]) -> int:
    """The number of blocks to run even after a verdict: --more asked for them after it, to narrow the interval."""
    return max([event["until"] for event in events(records, MORE) if event["settled"]], default=0)


def ending(header: Record, records: Sequence[Record], count: int, settled: bool) -> Result:
    """Whether a run ends after this number of blocks, as keys of its result. settled: every question is decided."""
    ended = settled or count >= most_blocks(header, records)
    return {"settled": settled, "final": ended and count >= least_blocks(records)}


def by_block(records: Sequence[Record]) -> list[str]:
    """The percentiles that a latency run judges after every block; the others are judged only at planned looks."""
    found = events(records, BY_BLOCK)
    return found[0]["percentiles"] if found else []


def reserve(records: Sequence[Record]) -> float:
    """The part of alpha that a latency run reserves for blocks beyond its planned looks."""
    found = events(records, BY_BLOCK)
    return found[0].get("reserve", 0.0) if found else 0.0


def check_more(header: Record, more: int, records: Sequence[Record] = ()) -> None:
    """Raises LabError where a run cannot be prolonged."""
    if "builds" in header:
        raise LabError("--more: a run on several builds has as many blocks as its builds; start a new run")
    looks_alone = bool(events(records, BY_BLOCK)) and header["spec"]["metric"] not in by_block(records)
    looks_alone &= not reserve(records)
    if not header.get("anytime") or looks_alone:
        raise LabError(f"--more: run {header['id']} cannot be prolonged, since it is not judged after every block")
    if more < 1:
        raise LabError(f"--more: at least 1 block, not {more}")
