"""Failures are an outcome of their own: an arm that fails more often than another is never called better or
equal, however fast its other runs were. Fisher's exact test decides at the alpha of the verdict. Failures that chance
explains are stated beside the verdict. Pure: records in.
"""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hakmem_lab.judge import words
from hakmem_lab.judge.statistics.verdict import Decision, Verdict
from hakmem_lab.plan.schedule import ONE_BY_ONE
from hakmem_lab.store.query import SCHEDULE, events
from hakmem_lab.store.records import Record, present
from hakmem_lab.store.results import Comparison, Failure, Result

GONE = "gone"
COMPARED_PHASES = ("warm-up", "select", "measure", "confirm")
WHY_CHARACTERS = 80
_TIMES = ("never", "once", "twice")


def failures(records: Iterable[Record]) -> list[Failure]:
    """Every failed run, including those whose block was repeated."""
    return [
        {"block": record["block"], "arm": record["arm"], "why": record["why"]}
        for record in records
        if record["type"] == "run" and not record["ok"]
    ]


def compared_runs(records: Sequence[Record], arm: str | None = None) -> list[Record]:
    """Runs of the phases that compare arms, the failed ones included. Where the arms could not run at the same
    time, and went on one by one, the runs of the shared schedule are left out."""
    parted = any(event["schedule"] == ONE_BY_ONE for event in events(records, SCHEDULE)[1:])
    return [
        record
        for record in records
        if record["type"] == "run"
        and record.get("phase") in COMPARED_PHASES
        and arm in (None, record["arm"])
        and not (parted and record.get("schedule"))
    ]


def failed_runs(records: Sequence[Record], arm: str | None = None) -> list[Record]:
    """Failed runs of the phases that compare arms."""
    return [run for run in compared_runs(records, arm) if not run["ok"]]


def gone(records: Iterable[Record]) -> dict[str, int]:
    """Arm -> the block that it could not finish; it took no further part."""
    return {record["arm"]: record["block"] for record in records if record.get("what") == GONE}


@dataclass(frozen=True)
class Failing:
    """Two arms that failed at different rates: the worse arm; text: how often, and how its last failure ended; sure:
    chance does not explain the difference."""

    arm: str
    text: str
    sure: bool


def differ(failed: tuple[int, int], runs: tuple[int, int], alpha: float) -> bool:
    """Whether two sides fail at different rates, by Fisher's exact test. runs: of each side, the failed ones
    included."""
    from scipy.stats import fisher_exact  # slow to load, and needed only if runs failed

    (a, b), (n, m) = failed, runs
    return a != b and float(fisher_exact([[a, n - a], [b, m - b]]).pvalue) <= alpha


def unequal(records: Sequence[Record], first: str, second: str, alpha: float) -> Failing | None:
    """The arm that failed more often in blocks that both arms began; None if both failed equally often."""
    apart = {
        _attempt(record)
        for record in records
        if record["type"] == "block" and not {first, second} <= set(record.get("order") or (first, second))
    }
    shared = [run for run in compared_runs(records) if _attempt(run) not in apart]
    runs = {name: [run for run in shared if run["arm"] == name] for name in (second, first)}
    lost = {name: [run for run in own if not run["ok"]] for name, own in runs.items()}
    other, worse = sorted(lost, key=lambda name: len(lost[name]))
    few, many = len(lost[other]), len(lost[worse])
    if few == many:
        return None
    why = textwrap.shorten(lost[worse][-1]["why"], WHY_CHARACTERS, placeholder=" …")  # another message has it in full
    text = f"{worse} failed {times(many)} ({why}), {other} {times(few)}"
    return Failing(worse, text, differ((few, many), (len(runs[other]), len(runs[worse])), alpha))


def _attempt(record: Record) -> tuple[object, ...]:
    return tuple(record.get(key) for key in ("phase", "block", "attempt", "host"))


def times(count: int) -> str:
    return _TIMES[count] if count < len(_TIMES) else f"{count} times"


def forbids(found: Failing | None, verdict: str | None, first: str, second: str) -> bool:
    """Whether this verdict calls better, or equal, the arm that fails more often than chance explains."""
    praised = {"GO": (second,), "NO-GO": (first,), "NEUTRAL": (first, second)}
    return found is not None and found.sure and found.arm in praised.get(str(verdict), ())


def by_chance(records: Sequence[Record], first: str, others: Iterable[str], alpha: float) -> Result:
    """The key of a result with the failures of verdicts that stand although one arm failed more often."""
    found = (unequal(records, first, name, alpha) for name in others)
    return {"by_chance": [f"{each.text}: chance may explain it." for each in found if each and not each.sure]}


def withheld_of(
    decisions: Mapping[str, Decision], records: Sequence[Record], first: str, others: Sequence[str], alpha: float
) -> tuple[dict[str, Decision], dict[str, str]]:
    """The decisions on several arms against the first one, INCONCLUSIVE in place of forbidden verdicts; and the arms
    that get no verdict because of failures, theirs or the first arm's: arm -> text. alpha: that of each arm."""
    failed: dict[str, str] = {}
    kept = dict(decisions)
    for name in others:
        found, decision = unequal(records, first, name, alpha), decisions.get(name)
        if found is None or decision is None:
            failed |= {} if decision else {name: found.text if found else f"{name} finished no block"}
        elif found.sure and (decision.verdict is Verdict.INCONCLUSIVE or forbids(found, decision.verdict, first, name)):
            failed[name] = found.text
            kept[name] = replace(decision, verdict=Verdict.INCONCLUSIVE)
    return kept, failed


def withheld(result: Result, records: Sequence[Record], first: str, second: str) -> Result:
    """The result without a forbidden verdict. It says which arm failed, and what the other runs show."""
    alpha = present(result["alpha"])
    found = unequal(records, first, second, alpha)
    if found is None or not forbids(found, result["verdict"], first, second):
        return result | by_chance(records, first, [second], alpha)
    row = (result["comparisons"] or [Comparison()])[0]
    change = words.change(row, words.described(result, row.get("metric")))
    ended = [f"Runs that ended well: {change.named()}."] if change else []
    return undecided(result, f"No verdict: {found.text}") | {"failed": {found.arm: found.text}, "so_far": ended}


def undecided(result: Result, why: str) -> Result:
    """The result with INCONCLUSIVE in place of every verdict, and why."""

    def without(rows: Iterable[Comparison]) -> list[Comparison]:
        return [row | {"verdict": row["verdict"] and str(Verdict.INCONCLUSIVE)} for row in rows]

    found = result | {"verdict": result["verdict"] and str(Verdict.INCONCLUSIVE), "withheld": why}
    found["comparisons"] = without(result["comparisons"])
    return found | ({"looks": without(result["looks"])} if "looks" in result else {})
