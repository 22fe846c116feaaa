"""A verdict repeated under other conditions: the same arms, each condition in blocks of its own. Pure.

A condition is a key of the spec, and also the phase of its blocks. The same analysis judges its blocks alone, so every
verdict has the error rate of a separate run.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hakmem_lab.judge import words
from hakmem_lab.judge.digits import finite
from hakmem_lab.judge.statistics.paired import Interval, as_log, difference
from hakmem_lab.store.query import BESIDE
from hakmem_lab.store.records import Record
from hakmem_lab.store.results import Condition, Result

MEASURE = "measure"
TITLES = {"beside-load": "beside two busy neighbours", "precondition": "on a used heap"}


def asked(spec: Mapping[str, Any]) -> list[str]:
    """The conditions of a normalised spec, in the order in which they are measured."""
    return [name for name in TITLES if spec.get(name)]


def only(records: Sequence[Record], phase: str) -> list[Record]:
    """The records of a run, with the blocks of this phase in place of its own."""
    others = {MEASURE, *TITLES} - {phase} | ({BESIDE} if phase != MEASURE else set())
    kept = [record for record in records if record.get("phase") not in others]
    return [record | {"phase": MEASURE} if record.get("phase") == phase else record for record in kept]


def sentences(result: Result) -> list[str]:
    """Sentences with the finding under each condition, and whether the effect depends on the condition."""
    found = []
    for each in result.get("conditions") or []:
        title = str(each["title"])
        found.append(f"{title[:1].upper()}{title[1:]} ({each['blocks']} blocks): {each['headline']}.")
        if "suite" not in each:  # a suite's bars are judged under each condition
            found.append(_dependence(result, each))
    return found


def _dependence(result: Result, there: Condition) -> str:
    """Whether the effects depend on the condition, by the intervals of the differences."""
    alone, margin = _effects(result), finite(result.get("margin")) or 0.0
    changes = {name: difference(alone[name], effect) for name, effect in _effects(there).items() if name in alone}
    apart = {name: found for name, found in changes.items() if found.excludes_zero()}
    if apart:
        return f"The effect depends on the condition ({_further(result, apart)})."
    within = (-as_log(margin) < found.low and found.high < as_log(margin) for found in changes.values())
    if changes and all(within):
        return f"The condition changes the effect by less than the margin of {100 * margin:g} %."
    said = _further(result, changes)
    return f"Whether the effect depends on the condition is undecided{f' ({said})' if said else ''}."


def _effects(result: Result | Condition) -> dict[str, Interval]:
    """Arm -> its effect on the primary metric, in logs; unlimited where an end is unknown."""
    rows = [row for row in result.get("comparisons") or [] if row.get("verdict") and row.get("treatment")]
    found = {}
    for row in rows:
        estimate, low, high = (finite(row.get(key)) for key in ("estimate", "ci_low", "ci_high"))
        if estimate is not None:
            ends = (
                as_log(low) if low is not None and low > -1 else -math.inf,
                math.inf if high is None else as_log(high),
            )
            found[str(row["treatment"])] = Interval(as_log(estimate), *ends, row.get("level") or 0.0, 0)
    return found


def _further(result: Result, changes: Mapping[str, Interval]) -> str:
    """By how much each effect is larger under the condition: b a further 3 % faster [2, 4]."""
    metric = words.described(result)
    told = {name: words.change({**found.ends()}, metric) for name, found in changes.items()}
    return "; ".join(
        f"{name} {each.noun}{'a further ' * bool(each.sure)}{each.told()}"
        for name, each in told.items()
        if each and each.ends
    )
