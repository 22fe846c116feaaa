"""Settings that act together."""

from typing import Any

from hakmem_lab.show.answers import change_of, sure
from hakmem_lab.show.numbers import finite

Record = dict[str, Any]
SHOWN = 3


def answer(result: Record) -> str:
    """What a reader may rely on: the simple effects where settings depend on each other, else the main effects."""
    rows = [row for row in result["effects"] if finite(row.get("estimate")) is not None and not row.get("failed")]
    depend = any(row.get("kind") == "interaction" and sure(row) for row in rows)
    kind = "simple" if depend else "main"
    parts = []
    for row in [row for row in rows if row.get("kind") == kind and sure(row)][:SHOWN]:
        found = change_of(result, row)
        if found is not None:
            parts.append(f"{row.get('name')}: {found.text}")
    if not parts:
        return "No setting makes a difference that could be seen"
    return ("The settings depend on each other. " if depend else "") + "; ".join(parts)
