"""System calls per operation of a workload's arms, counted in untimed runs of two lengths.

What starting and ending cost is in both lengths; the difference is the steady state. Imports session, syscalls_count,
statistics.
"""

from collections.abc import Sequence

from ..errors import LabError
from ..launcher import Launcher
from ..session import Session
from ..statistics.counts import rate_interval
from .scorecard_sheet import Figure
from .scorecard_spec import OPS, WorkloadSpec
from .syscalls_count import TAIL_CHARACTERS, Counter


def command_for(row: WorkloadSpec, operations: int) -> list[str]:
    return [word.replace(OPS, str(operations)) for word in row.command]


def count_all(session: Session, row: WorkloadSpec, records: Sequence[dict]) -> None:
    """Counts of every arm at both lengths, as records; those that are in the store already are left out."""
    known = {(r["arm"], r["operations"]) for r in records if r["type"] == "count" and r["workload"] == row.key}
    work = session.workload
    with Launcher() as launcher:
        counter = Counter(launcher, work.cwd, work.pin, work.timeout_s)
        counter.check()
        for arm in session.arms.values():
            for operations in row.ops:
                if (arm.name, operations) in known:
                    continue
                session.progress.update(0, 1, f"{row.title}: {arm.name}, {operations:,} operations, traced")
                argv = [work.argv[0], *command_for(row, operations)[1:]]
                calls, outcome = counter.count(argv, arm.environment(work.env))
                if outcome.exit != 0 or not calls:
                    tail = " ".join(outcome.stderr.split())[-TAIL_CHARACTERS:]
                    raise LabError(f"workload '{row.key}': {arm.name} cannot be traced: {tail}")
                session.append(
                    {"type": "count", "arm": arm.name, "operations": operations, "calls": sum(calls.values())}
                )
    session.progress.restart()


def rates(row: WorkloadSpec, records: Sequence[dict], alpha: float) -> dict[str, Figure]:
    """Arm -> calls per operation, of the arms that were counted at both lengths."""
    counts = {(r["arm"], r["operations"]): r["calls"] for r in records if r["type"] == "count"}
    short, long = row.ops
    found = {}
    for arm in dict.fromkeys(name for name, _ in counts):
        few, many = counts.get((arm, short)), counts.get((arm, long))
        if few is not None and many is not None:
            rate = rate_interval(max(0, many - few), long - short, 1 - alpha)
            found[arm] = Figure(rate.estimate, rate.low, rate.high)
    return found
