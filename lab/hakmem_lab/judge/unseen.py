"""What a verdict cannot have seen: what happens so rarely that the runs of an arm leave no trace of it. Pure."""

from typing import Any

Record = dict[str, Any]
RUNS_FOR_ONE = 3  # runs of an arm in which what happens to one of so many is missed with a probability of 5 %


def one_in(result: Record) -> int | None:
    """What happens to fewer runs than one in so many would not have been seen: fewer than 3 in n runs leave no trace in
    n of them with 5 %. None where nothing is called better or level, or reached."""
    rows = [row for row in result.get("comparisons") or [] if row.get("verdict") in ("GO", "NEUTRAL")]
    if rows:
        names = {name for row in rows for name in (row.get("control"), row.get("treatment"))}
        counts = [row["runs_each"] for row in rows if row.get("runs_each")]
        counts = counts or [arm["n"] for arm in result.get("arms") or [] if arm.get("name") in names and arm.get("n")]
    else:
        reached = [row for row in (result.get("suite") or {}).get("rows") or [] if row.get("verdict") == "pass"]
        counts = [row["blocks"] for row in reached if row.get("blocks")]
    return max(1, min(counts) // RUNS_FOR_ONE) if counts else None


def unseen(result: Record) -> list[str]:
    found = one_in(result)
    return [f"Slow or failing runs rarer than 1 in {found:,} would not have been seen."] if found else []
