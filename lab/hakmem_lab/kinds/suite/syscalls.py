"""System calls per operation of a workload's arms, counted in untimed runs of two lengths.

What starting and ending cost is in both lengths; the difference is the steady state.
"""

from collections.abc import Sequence

from hakmem_lab.errors import LabError
from hakmem_lab.judge.statistics.counts import rate_interval
from hakmem_lab.kinds.suite.sheet import Figure
from hakmem_lab.kinds.suite.spec import WorkloadSpec
from hakmem_lab.kinds.syscalls.count import TAIL_CHARACTERS, Counter
from hakmem_lab.kinds.syscalls.kind import OPS
from hakmem_lab.kinds.syscalls.result import upper_bound
from hakmem_lab.plan.arms import Arm
from hakmem_lab.run.session import Session
from hakmem_lab.system.launcher import Launcher


def command_for(row: WorkloadSpec, operations: int) -> list[str]:
    return [word.replace(OPS, str(operations)) for word in row.command]


def check(session: Session) -> None:
    """Raises LabError where no program can be traced here."""
    work = session.workload
    with Launcher() as launcher:
        Counter(launcher, work.cwd, work.pin, work.timeout_s).check()


def count_all(session: Session, row: WorkloadSpec, records: Sequence[dict]) -> None:
    """Counts of every arm at both lengths, as records; those that are in the store already are left out.

    Raises Stopped where a program cannot be counted.
    """
    known = {(r["arm"], r["operations"]) for r in records if r["type"] == "count" and r["workload"] == row.key}
    try:
        with Launcher() as launcher:
            work = session.workload
            counter = Counter(launcher, work.cwd, work.pin, work.timeout_s, work.stdin)
            for arm in session.arms.values():
                for operations in row.ops:
                    if (arm.name, operations) not in known:
                        note = f"{row.title}: {arm.name}, {operations:,} operations, traced"
                        session.progress.update(0, 1, note)
                        calls = _count(counter, session, row, arm, operations)
                        session.append({"type": "count", "arm": arm.name, "operations": operations, "calls": calls})
    except (LabError, OSError) as error:
        session.progress.restart()
        raise session.stopped(f"workload '{row.key}': {error}") from None
    session.progress.restart()


def _count(counter: Counter, session: Session, row: WorkloadSpec, arm: Arm, operations: int) -> int:
    """System calls of one execution. Raises LabError where it did not end well."""
    argv = [session.workload.argv[0], *command_for(row, operations)[1:]]
    calls, outcome = counter.count(argv, arm.environment(session.workload.env))
    why = outcome.failure()
    if why is None and not calls:
        why = "strace counted no system call"
    if why:
        tail = " ".join(outcome.stderr.split())[-TAIL_CHARACTERS:]
        raise LabError(f"{arm.name} could not be traced: {why}" + (f": {tail}" if tail else ""))
    return sum(calls.values())


def rates(row: WorkloadSpec, records: Sequence[dict], alpha: float) -> dict[str, Figure]:
    """Arm -> calls per operation, of the arms that were counted at both lengths; as `hak syscalls` estimates it.

    Below 0 where the longer execution made fewer calls. The ends are one-sided bounds: the lower one of a Poisson
    count, the upper one as if all calls had come in one burst, since one execution does not show how they come.
    """
    counts = {(r["arm"], r["operations"]): r["calls"] for r in records if r["type"] == "count"}
    short, long = row.ops
    found = {}
    for arm in dict.fromkeys(name for name, _ in counts):
        few, many = counts.get((arm, short)), counts.get((arm, long))
        if few is not None and many is not None:
            events, operations = many - few, long - short
            low = rate_interval(max(0, events), operations, 1 - 2 * alpha).low
            rate = events / operations
            found[arm] = Figure(rate, min(rate, low), upper_bound(events, alpha, max(1.0, events)) / operations)
    return found
