"""Two arms at once: how much they slow each other down, from the runs that each of them made alone. Pure."""

import statistics
from collections.abc import Iterable, Mapping, Sequence

SOLO = "solo"
SHARED = 0.1  # from this share of longer runs on, caches or bandwidth are a part of what is measured


def _costs(runs: Iterable[Mapping], higher_is_better: bool) -> list[float]:
    return [1 / run["value"] if higher_is_better else run["value"] for run in runs if run.get("ok")]


def _lower_quartile(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 4]


def slowdowns(header: dict, records: Sequence[dict]) -> dict[str, float]:
    """Arm -> how much more its runs cost in company than alone, as a ratio minus one; empty where none ran alone.

    Of the runs in company the lower quartile: what others on the machine take away strikes some runs, the arms' own
    pressure on each other all of them.
    """
    higher = header["spec"]["higher-is-better"]
    found = {}
    for arm in header["arms"]:
        own = [record for record in records if record["type"] == "run" and record["arm"] == arm["name"]]
        alone = _costs((run for run in own if run["phase"] == SOLO), higher)
        company = _costs((run for run in own if run["phase"] == "measure"), higher)
        if alone and company:
            found[arm["name"]] = _lower_quartile(company) / statistics.median(alone) - 1
    return found


def shared(header: dict, records: Sequence[dict]) -> str | None:
    """A sentence where the arms slow each other down so much that this is part of what was measured; else None."""
    if not header["spec"].get("duet"):
        return None
    found = slowdowns(header, records)
    if max(found.values(), default=0.0) < SHARED:
        return None
    shown = ", ".join(f"{name} {100 * value:.0f} %" for name, value in found.items())
    return (
        f"both arms at once need more than each alone ({shown}): they share a cache or the way to memory, and the "
        "difference is one under that pressure; without --duet each has it to itself"
    )
