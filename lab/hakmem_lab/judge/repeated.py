"""Decorates an analysis: its results also contain the analysis under each condition of the run. Pure."""

from collections.abc import Callable
from functools import wraps
from typing import cast

from hakmem_lab.judge.conditions import MEASURE, TITLES, asked, only
from hakmem_lab.judge.explain import explain
from hakmem_lab.store.records import Record
from hakmem_lab.store.results import Condition, Result

Analyse = Callable[[Record, list[Record]], Result]
KEPT = ("verdict", "final", "blocks", "comparisons", "failed", "suite")


def repeated(analyse: Analyse) -> Analyse:
    """Decorates an analysis: adds the results under the run's conditions to its result."""

    @wraps(analyse)
    def complete(header: Record, records: list[Record]) -> Result:
        names = asked(header["spec"])
        if not names:
            return analyse(header, records)
        result = analyse(header, only(records, MEASURE))
        result["conditions"] = []
        for name in names:
            found = analyse(header, only(records, name))
            kept = cast(Condition, {key: value for key, value in found.items() if key in KEPT})
            result["conditions"].append(kept | {"name": name, "title": TITLES[name], "headline": found["headline"]})
            result["final"] = bool(result["final"] and found["final"])
        return result | explain(result).record()

    return complete
