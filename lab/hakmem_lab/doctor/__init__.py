"""Is a program served by the allocator, and if not, why not, and what to do? A command, or a process that runs.

`examine` reports; `program`, `live`, `surroundings` are groups of checks, each of which makes one record, a line of the
examination; `binary` reads what they rest on, small files of the kernel, below a root that tests can make up. `quiet`
is `hak system`. What they share is here: the record, and the verdict that follows from all of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

OK, NOTE, PROBLEM, UNKNOWN = "ok", "note", "problem", "unknown"
# What a check says about being served: nothing of the program is, or only a part of it.
NOTHING, PART = "nothing", "part"
WHO = "who serves malloc"  # the line of a check that a command and a process both have
KIB = 1024


@dataclass(frozen=True)
class Check:
    """One line. found: a clause with its figures; remedy: what to do or to type; served: NOTHING or PART where this
    alone keeps malloc from the allocator; beside: it has memory that no malloc is asked for."""

    name: str
    state: str
    found: str
    remedy: str | None = None
    served: str | None = None
    beside: bool = False

    def record(self) -> dict:
        return {"name": self.name, "state": self.state, "found": self.found, "remedy": self.remedy}


@dataclass(frozen=True)
class Report:
    """served: all that asks malloc gets the allocator; in_part: some of it does."""

    verdict: str
    served: bool
    in_part: bool
    checks: tuple[Check, ...]

    def record(self) -> dict:
        return vars(self) | {"checks": [check.record() for check in self.checks]}


def report(allocator: str, checks: Sequence[Check]) -> Report:
    """The verdict follows from the first check that stands in the way, in the order of the table."""
    for kind, words in ((NOTHING, "not served"), (PART, "served in part")):
        for check in checks:
            if check.served == kind:
                what_to_do = f"; {check.remedy}" if check.remedy else ""
                return Report(f"{words}: {check.found}{what_to_do}", False, kind == PART, tuple(checks))
    beside = "".join(f"; {check.found}" for check in checks if check.beside)
    return Report(f"served by {allocator}{beside}", True, False, tuple(checks))


def amount(size_bytes: int) -> str:
    """For people: '64 KiB', '1.5 GiB'."""
    size, units = float(size_bytes), ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while size >= KIB and len(units) > 1:
        size /= KIB
        units.pop(0)
    return f"{size:.3g} {units[0]}" if size < 1000 else f"{size:.0f} {units[0]}"


def count(number: int, thing: str) -> str:
    """'1 filter', '2 filters'."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def listed(names: Sequence[str], most: int = 3) -> str:
    """'a, b, c and 4 more'."""
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


ROOT = Path("/")


def kib(value: str | None) -> int | None:
    """Bytes of '12 kB'."""
    words = (value or "").split()
    return int(words[0]) * 1024 if words and words[0].isdecimal() else None
