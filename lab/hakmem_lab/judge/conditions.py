"""A verdict repeated under other conditions: the same arms, each condition in blocks of its own. Pure.

A condition is a key of the spec, and also the phase of its blocks. The same analysis judges its blocks alone, so every
verdict has the error rate of a separate run.
"""

from collections.abc import Mapping, Sequence
from typing import Any

Record = dict[str, Any]
MEASURE = "measure"
TITLES = {"beside-load": "beside two busy neighbours", "precondition": "on a used heap"}
OPEN = "INCONCLUSIVE"


def asked(spec: Mapping[str, Any]) -> list[str]:
    """The conditions of a normalised spec, in the order in which they are measured."""
    return [name for name in TITLES if spec.get(name)]


def only(records: Sequence[Record], phase: str) -> list[Record]:
    """The records as if the blocks of this phase were those of the run."""
    others = {MEASURE, *TITLES} - {phase}
    kept = [record for record in records if record.get("phase") not in others]
    return [record | {"phase": MEASURE} if record.get("phase") == phase else record for record in kept]


def verdicts(result: Mapping[str, Any]) -> dict[str, str]:
    """Arm -> its verdict; with two arms, the run's verdict."""
    rows = [row for row in result.get("comparisons") or [] if row.get("verdict") and row.get("treatment")]
    whole = {str(row["treatment"]): str(result["verdict"]) for row in rows[:1]} if result.get("verdict") else {}
    return {str(row["treatment"]): str(row["verdict"]) for row in rows} | whole


def sentences(result: Mapping[str, Any]) -> list[str]:
    """Sentences with the finding under each condition, and whether a verdict depends on the condition."""
    found, alone = [], verdicts(result)
    for each in result.get("conditions") or []:
        title, there = str(each["title"]), verdicts(each)
        pairs = {name: (alone[name], there[name]) for name in alone if name in there}
        apart = [f"{name}: {a} without, {b} {title}" for name, (a, b) in pairs.items() if a != b and OPEN not in (a, b)]
        unknown = [name for name, pair in pairs.items() if OPEN in pair]
        found.append(f"{title[:1].upper()}{title[1:]}, by {each['blocks']} blocks: {each['headline']}.")
        if "suite" in each:  # a suite's bars are judged under each condition
            continue
        if apart:
            found.append(f"The verdict depends on it ({'; '.join(apart)}).")
        elif unknown or not pairs:
            found.append("Whether the verdict depends on it is open.")
        else:
            found.append("The verdict does not depend on it.")
    return found
