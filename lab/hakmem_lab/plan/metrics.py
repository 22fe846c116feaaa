"""Metrics: each is named in a spec and read from a finished run."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from hakmem_lab.errors import LabError
from hakmem_lab.system import signals
from hakmem_lab.system.launcher import Outcome

UNITS = {
    "wall": "s",
    "cpu": "s",
    "rss": "KiB",
    "rss-mean": "KiB",
    "faults": "",
    "pss": "KiB",
    "pss-mean": "KiB",
    "tree-memory": "KiB",
    "tree-cpu": "s",
}


PSS = {"pss": "pss_peak_kib", "pss-mean": "pss_mean_kib"}
# With a server, these metrics are the server's: its client runs without the arm's allocator.
OF_SERVER = {"cpu": "cpu_s", "rss": "rss_peak_kib", "rss-mean": "rss_mean_kib", **PSS}
FIELDS = {"wall": "wall_s", **OF_SERVER}
TREE = {"tree-memory": "memory_peak_kib", "tree-cpu": "cpu_s"}
# (type, config) of perf_event_open: hardware events, and read misses of the data TLB.
COUNTERS = {"instructions": (0, 1), "cycles": (0, 0), "cache-misses": (0, 3), "dtlb-misses": (3, 3 | 1 << 16)}
PEAKS = ("rss", "server-rss", "pss", "tree-memory")


class MetricMissing(LabError):
    """A run succeeded, but the metric cannot be read from it."""


_GROUPED = re.compile(r"[+-]?[1-9][0-9]{0,2}(,[0-9]{3})+(\.[0-9]+)?")


class Thousands(float):
    """A number read from a text such as 1,234, whose comma may also be a decimal point."""


def printed_number(text: str) -> float:
    """The number that a program has printed. Raises ValueError, which says what to do."""
    if "," in text and not _GROUPED.fullmatch(text):
        raise ValueError(
            f"{text!r}: a comma can only group thousands, as in 1,500. Where it is a decimal point, let the program "
            "print a point (LC_ALL=C is set for it); where it follows the number, leave it out of the group"
        )
    if "_" in text or not text.isascii():
        raise ValueError(f"{text!r}, which is not a number in the digits 0 to 9")
    try:
        value = float(text.replace(",", ""))
    except ValueError:
        raise ValueError(f"{text!r}, which is not a number") from None
    return Thousands(value) if text.count(",") == 1 and "." not in text else value


MATCH_S = 60.0
PATTERN = "regex:"
UNNAMED = "printed figure"


def pattern_name(name: str) -> str:
    """The metric's name for a reader: for a regular expression, its group's name or the plain text around the group."""
    if not name.startswith(PATTERN):
        return name
    pattern = name.removeprefix(PATTERN)
    group = re.search(r"(?<!\\)\((?:\?P<(\w+)>|(?!\?))", pattern)
    if group is None:
        return _plain(pattern) or UNNAMED
    if group[1]:
        return group[1]
    return _plain(pattern[: group.start()]) or _plain(pattern[group.end() :].partition(")")[2]) or UNNAMED


def _plain(pattern: str) -> str:
    """The literal text in a part of a pattern."""
    text = re.sub(r"\[(?:\\.|[^\]])*\]|\\[a-zA-Z]|\(\?[^)]*\)|\{[\d,]*\}", " ", pattern)
    text = re.sub(r"\\(.)|[.*+?^$|()]", lambda found: found[1] or " ", text)
    return " ".join(text.split()).strip(" :=,;\"'")


@dataclass(frozen=True)
class Metric:
    """title, measured_in: the label and the unit that a spec gives to a figure that the program prints."""

    name: str
    higher_is_better: bool = False
    title: str = ""
    measured_in: str = ""

    @property
    def unit(self) -> str:
        return self.measured_in or UNITS.get(self.name.removeprefix("server-"), "")

    @property
    def label(self) -> str:
        return self.title or pattern_name(self.name)

    def record(self) -> dict:
        return {"name": self.name, "label": self.title, "unit": self.unit, "higher_is_better": self.higher_is_better}

    def read(self, outcome: Outcome, server: dict | None = None, counted: Sequence[str] = ()) -> float:
        """The value, above 0 wherever ratios are formed from it. Raises MetricMissing.

        counted: the names of the outcome's counts.
        """
        if self.name.startswith("regex:"):
            return self._match(outcome.stdout + "\n" + outcome.stderr)
        if self.name in COUNTERS:
            value = dict(zip(counted, outcome.counts, strict=True)).get(self.name)
        elif self.name in TREE:
            value = ((outcome.tree if server is None else server.get("tree")) or {}).get(TREE[self.name])
        elif server is not None and self.name.removeprefix("server-") in OF_SERVER:
            value = server.get(OF_SERVER[self.name.removeprefix("server-")])
        elif self.name == "faults":
            value = outcome.minor_faults + outcome.major_faults
        else:
            value = getattr(outcome, FIELDS[self.name])
        if value is None or value <= 0:
            raise MetricMissing(f"metric '{self.name}' could not be measured: {self._why_missing()}")
        return float(value)

    def _why_missing(self) -> str:
        if self.name in COUNTERS:
            return "this machine has no such counter, or we may not read it; --callgrind counts instructions anywhere"
        if self.name in TREE:
            return "no control group for the run tells it"
        return "the run was too short to be sampled"

    def _match(self, text: str) -> float:
        """The last match: programs report their total at the end."""
        try:
            with signals.limited(MATCH_S):
                found = re.findall(self.name[6:], text, re.M)
        except TimeoutError:
            why = f"was looked for in {len(text):,} characters for {MATCH_S:g} s: make the pattern simpler"
            raise MetricMissing(f"metric '{self.name}' {why}, without one repetition in another") from None
        if not found:
            tail = " ".join(text.split())[-160:]
            raise MetricMissing(f"metric '{self.name}' does not match the program's output: ...{tail!r}")
        try:
            value = printed_number(found[-1])
        except ValueError as error:
            raise MetricMissing(f"metric '{self.name}' matched {error}") from None
        if not (value > 0 and math.isfinite(value)):
            raise MetricMissing(f"metric '{self.name}' matched {found[-1]}; only a finite number above 0 makes a ratio")
        return value
