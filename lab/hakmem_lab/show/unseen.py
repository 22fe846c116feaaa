"""What a GO cannot have seen: what happens to fewer than 3 in n runs leaves no trace in n of them with 5 %."""

from hakmem_lab.judge.planning import RUNS_FOR_ONE


def one_in(result: dict) -> int | None:
    """Slow runs that are rarer than this would not have been seen; None where nothing is called better, or reached."""
    rows = [row for row in result.get("comparisons") or [] if row.get("verdict") == "GO"]
    if rows:
        names = {name for row in rows for name in (row.get("control"), row.get("treatment"))}
        counts = [row["runs_each"] for row in rows if row.get("runs_each")]
        counts = counts or [arm["n"] for arm in result.get("arms") or [] if arm.get("name") in names and arm.get("n")]
    else:
        reached = [row for row in (result.get("suite") or {}).get("rows") or [] if row.get("verdict") == "pass"]
        counts = [row["blocks"] for row in reached if row.get("blocks")]
    return max(1, min(counts) // RUNS_FOR_ONE) if counts else None


def sentence(result: dict) -> str:
    found = one_in(result)
    return f"Slow runs rarer than 1 in {found:,} would not have been seen." if found else ""
