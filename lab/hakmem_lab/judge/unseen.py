"""Limits of a verdict: events too rare to have occurred in the runs of an arm. Pure."""

from hakmem_lab.store.results import Result

RUNS_FOR_ONE = 3  # an event in 1 of N runs is missed by this many times N runs with a probability of 5 %


def one_in(result: Result) -> int | None:
    """N: an event in fewer than 1 of N runs could have been missed. With a rate of 3 in n, n runs miss it with a
    probability of 5 %. 1: so few runs exclude nothing. None if no verdict is GO or NEUTRAL, and no bar is reached."""
    rows = [row for row in result.get("comparisons") or [] if row.get("verdict") in ("GO", "NEUTRAL")]
    if rows:
        names = {name for row in rows for name in (row.get("control"), row.get("treatment"))}
        counts = [row["runs_each"] for row in rows if row.get("runs_each")]
        counts = counts or [arm["n"] for arm in result.get("arms") or [] if arm.get("name") in names and arm.get("n")]
    else:
        reached = [row for row in (result.get("suite") or {}).get("rows") or [] if row.get("verdict") == "pass"]
        counts = [row["blocks"] for row in reached if row.get("blocks")]
    return max(1, min(counts) // RUNS_FOR_ONE) if counts else None


def unseen(result: Result) -> list[str]:
    found = one_in(result)
    if found == 1:
        return ["So few runs may have missed even frequent slow or failing ones."]
    return [f"Slow or failing runs rarer than 1 in {found:,} would not have been seen."] if found else []
