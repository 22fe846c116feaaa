"""Blocks, as the records of a run tell them. Pure."""

from collections.abc import Iterable

Blocks = list[dict[str, list[dict]]]


def finished_blocks(records: Iterable[dict], phase: str) -> Blocks:
    """Of every block that ended well and of which every run can be read, in order: the runs of each arm."""
    runs: dict[tuple[int, int], dict[str, list[dict]]] = {}
    done: dict[int, dict[str, list[dict]]] = {}
    for record in records:
        if record.get("phase") != phase:
            continue
        if record["type"] == "run":
            runs.setdefault((record["block"], record["attempt"]), {}).setdefault(record["arm"], []).append(record)
        elif record["type"] == "block" and record["ok"]:
            found = runs.get((record["block"], record["attempt"]), {})
            if sorted(record["order"]) == sorted(arm for arm, entries in found.items() for _ in entries):
                done[record["block"]] = found
    return [done[index] for index in sorted(done)]


def attempts_made(records: Iterable[dict], phase: str) -> dict[int, int]:
    """Block -> how often it was begun."""
    made: dict[int, int] = {}
    for record in records:
        if record["type"] == "run" and record.get("phase") == phase:
            made[record["block"]] = max(made.get(record["block"], 0), record["attempt"] + 1)
    return made
