"""Failures are an outcome of their own: an arm that failed more often than another is never called better or level,
however fast its other runs were. Pure: records in.
"""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from hakmem_lab.judge import words
from hakmem_lab.judge.statistics.verdict import Verdict

GONE = "gone"
COMPARED_PHASES = ("warm-up", "select", "measure", "confirm")
WHY_CHARACTERS = 80
_TIMES = ("never", "once", "twice")


def failures(records: Iterable[dict]) -> list[dict]:
    """Every failed run, including those whose block was repeated."""
    return [
        {"block": record["block"], "arm": record["arm"], "why": record["why"]}
        for record in records
        if record["type"] == "run" and not record["ok"]
    ]


def failed_runs(records: Iterable[dict], arm: str | None = None) -> list[dict]:
    """Failed runs of the phases that compare arms."""
    return [
        record
        for record in records
        if record["type"] == "run"
        and not record["ok"]
        and record.get("phase") in COMPARED_PHASES
        and arm in (None, record["arm"])
    ]


def gone(records: Iterable[dict]) -> dict[str, int]:
    """Arm -> the block that it could not finish; it took no further part."""
    return {record["arm"]: record["block"] for record in records if record.get("what") == GONE}


@dataclass(frozen=True)
class Failing:
    """Two arms that failed at different rates: the worse arm; text: how often, and how its last failure ended."""

    arm: str
    text: str


def unequal(records: Sequence[dict], first: str, second: str) -> Failing | None:
    """The arm that failed more often in blocks that both arms began; None if both failed equally often."""
    apart = {
        _attempt(record)
        for record in records
        if record["type"] == "block" and not {first, second} <= set(record.get("order") or (first, second))
    }
    shared = [run for run in failed_runs(records) if _attempt(run) not in apart]
    runs = sorted(([run for run in shared if run["arm"] == name] for name in (second, first)), key=len)
    if len(runs[0]) == len(runs[1]):
        return None
    last = runs[1][-1]
    other = first if last["arm"] == second else second
    why = textwrap.shorten(last["why"], WHY_CHARACTERS, placeholder=" …")  # another message has it in full
    return Failing(last["arm"], f"{last['arm']} failed {times(len(runs[1]))} ({why}), {other} {times(len(runs[0]))}")


def _attempt(record: dict) -> tuple:
    return tuple(record.get(key) for key in ("phase", "block", "attempt", "host"))


def times(count: int) -> str:
    return _TIMES[count] if count < len(_TIMES) else f"{count} times"


def forbids(found: Failing | None, verdict: str | None, first: str, second: str) -> bool:
    """Whether this verdict calls better, or level, the arm that failed more often."""
    praised = {"GO": (second,), "NO-GO": (first,), "NEUTRAL": (first, second)}
    return found is not None and found.arm in praised.get(str(verdict), ())


def withheld_of(
    decisions: Mapping, records: Sequence[dict], first: str, others: Sequence[str]
) -> tuple[dict, dict[str, str]]:
    """The decisions on several arms against the first one, INCONCLUSIVE in place of forbidden verdicts; and the arms
    that get no verdict because of failures, theirs or the first arm's: arm -> text."""
    failed: dict[str, str] = {}
    kept = dict(decisions)
    for name in others:
        found, decision = unequal(records, first, name), decisions.get(name)
        if found is None or decision is None:
            failed |= {} if decision else {name: found.text if found else f"{name} finished no block"}
        elif decision.verdict is Verdict.INCONCLUSIVE or forbids(found, decision.verdict, first, name):
            failed[name] = found.text
            kept[name] = replace(decision, verdict=Verdict.INCONCLUSIVE)
    return kept, failed


def withheld(result: dict, records: Sequence[dict], first: str, second: str) -> dict:
    """The result without a forbidden verdict. It says which arm failed, and what the other runs show."""
    found = unequal(records, first, second)
    if found is None or not forbids(found, result["verdict"], first, second):
        return result
    row: dict = next(iter(result["comparisons"]), {})
    change = words.change(row, words.described(result, row.get("metric")))
    ended = [f"Of the runs that ended well: {change.told()}."] if change else []
    return undecided(result, f"No verdict: {found.text}") | {"failed": {found.arm: found.text}, "so_far": ended}


def undecided(result: dict, why: str) -> dict:
    """The result with INCONCLUSIVE in place of every verdict, and why."""

    def without(each: dict) -> dict:
        return each | {"verdict": each["verdict"] and str(Verdict.INCONCLUSIVE)}

    rows = {key: [without(row) for row in result[key]] for key in ("comparisons", "looks") if key in result}
    return without(result) | rows | {"withheld": why}
