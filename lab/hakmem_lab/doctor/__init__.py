"""`hak doctor`: does the allocator serve a program, and if not, why not, and what to do? A command, or a live process.

`examine` conducts an examination. `program`, `live` and `surroundings` hold its checks; each check makes one record,
which is one line of the report. `binary` reads ELF files. Files of the kernel are read below a root, which tests can
replace. `quiet` is of `--machine`. This module holds what they share: the record, and the verdict from all records.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NotRequired, TypedDict

OK, NOTE, PROBLEM, UNKNOWN = "ok", "note", "problem", "unknown"
# Check.served: the allocator serves nothing of the program, or only a part of it.
NOTHING, PART = "nothing", "part"
WHO = "who serves malloc"  # name of the main check, of a command and of a process
KIB = 1024

CheckRow = TypedDict("CheckRow", {"name": str, "state": str, "found": str, "remedy": str | None})  # noqa: UP013


class Settings(TypedDict):
    """The settings of a machine. quiet: none of them disturbs."""

    quiet: bool
    checks: list[CheckRow]


class Examined(TypedDict):
    """What `hak doctor --json` writes. settings: with --machine."""

    verdict: str
    served: bool
    in_part: bool
    checks: list[CheckRow]
    settings: NotRequired[Settings]


@dataclass(frozen=True)
class Check:
    """One line of the report. found: a clause with its figures; remedy: what to do or to type; served: NOTHING or PART
    if this finding alone keeps malloc from the allocator; beside: a reservation that the verdict adds to "served"."""

    name: str
    state: str
    found: str
    remedy: str | None = None
    served: str | None = None
    beside: bool = False

    def record(self) -> CheckRow:
        return {"name": self.name, "state": self.state, "found": self.found, "remedy": self.remedy}


@dataclass(frozen=True)
class Report:
    """served: the allocator serves all calls of malloc; in_part: it serves some of them."""

    verdict: str
    served: bool
    in_part: bool
    checks: tuple[Check, ...]

    def record(self) -> Examined:
        checks = [check.record() for check in self.checks]
        return {"verdict": self.verdict, "served": self.served, "in_part": self.in_part, "checks": checks}

    def settings(self) -> Settings:
        """Of a machine's settings."""
        return {"quiet": self.served, "checks": self.record()["checks"]}


def report(allocator: str, checks: Sequence[Check]) -> Report:
    """The first check with `served` set decides the verdict; NOTHING comes before PART. If no check has it, the
    verdict is unknown where the main check could not be made."""
    for kind, words in ((NOTHING, "not served"), (PART, "served in part")):
        for check in checks:
            if check.served == kind:
                what_to_do = f"; {check.remedy}" if check.remedy else ""
                return Report(f"{words}: {check.found}{what_to_do}", False, kind == PART, tuple(checks))
    for check in checks:
        if (check.name, check.state) == (WHO, UNKNOWN):
            return Report(f"not known: {check.found}", False, False, tuple(checks))
    beside = "".join(f"; {check.found}" for check in checks if check.beside)
    return Report(f"served by {allocator}{beside}", True, False, tuple(checks))


def amount(size_bytes: int) -> str:
    """A size for people to read: '64 KiB', '1.5 GiB'."""
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
    """The bytes in a value such as '12 kB'; None if there is no number."""
    words = (value or "").split()
    return int(words[0]) * 1024 if words and words[0].isdecimal() else None
