"""The research gates as src/gates.def has them, for the scripts beside this module."""

import datetime
import re
from dataclasses import dataclass

ROW = re.compile(r'^HAK_GATE\(\s*([A-Z0-9_]+),\s*([01]),\s*"(\d{4}-\d\d-\d\d)",\s*"([^";\[\]]+)"\)$', re.MULTILINE)
ROW_START = re.compile(r"^\s*HAK_GATE\b", re.MULTILINE)


class Mistake(Exception):
    """What is wrong, in one line."""


@dataclass(frozen=True)
class Gate:
    name: str
    default: int
    expires: datetime.date
    help: str


def read_gates(path):
    """The rows of the table in its order. Raises Mistake where a row is not as the table's comment says."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    rows = ROW.findall(text)
    if len(rows) != len(ROW_START.findall(text)):
        raise Mistake(f'{path}: a row is not HAK_GATE(NAME, 0 or 1, "year-month-day", "help without ; [ ]")')
    gates = {}
    for name, default, expires, help_text in rows:
        if name in gates:
            raise Mistake(f"{path}: {name} has two rows")
        try:
            gates[name] = Gate(name, int(default), datetime.date.fromisoformat(expires), help_text)
        except ValueError:
            raise Mistake(f"{path}: {name} expires on '{expires}', which is no day") from None
    return list(gates.values())
