"""Decorates an analysis: its results also contain the analysis under each condition of the run. Pure."""

from collections.abc import Callable
from functools import wraps
from typing import Any

from hakmem_lab.judge.conditions import MEASURE, TITLES, asked, only
from hakmem_lab.judge.explain import explain

Record = dict[str, Any]
KEPT = ("verdict", "final", "blocks", "comparisons", "failed", "suite")


def repeated(analyse: Callable[[Record, list[Record]], Record]) -> Callable[[Record, list[Record]], Record]:
    """Decorates an analysis: adds the results under the run's conditions to its result."""

    @wraps(analyse)
    def complete(header: Record, records: list[Record]) -> Record:
        names = asked(header["spec"])
        if not names:
            return analyse(header, records)
        result = analyse(header, only(records, MEASURE))
        result["conditions"] = []
        for name in names:
            found = analyse(header, only(records, name))
            row = {"name": name, "title": TITLES[name], "headline": found["headline"]}
            result["conditions"].append(row | {key: found[key] for key in KEPT if key in found})
            result["final"] = bool(result["final"] and found["final"])
        return result | explain(result).record()

    return complete
