"""Metrics: each is named in a spec and read from a finished run."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from hakmem_lab.errors import LabError
from hakmem_lab.store.results import MetricRow
from hakmem_lab.system import signals
from hakmem_lab.system.launcher import Outcome


@dataclass(frozen=True)
class Row:
    """A metric that the laboratory measures.

    fields: of an outcome, and of a stored run; their sum is the number. server: with a [server] it is the server's,
    since its client runs without the side's allocator. peak: of several executions the greatest counts. tree: key of a
    control group's report. extra: key of what is measured only where it is asked for. counter: (type, config) of
    perf_event_open.
    """

    unit: str = ""
    fields: tuple[str, ...] = ()
    server: bool = False
    peak: bool = False
    tree: str = ""
    extra: str = ""
    counter: tuple[int, int] | None = None


LEAST, AFTER, GROWTH = "least-memory", "after-load", "growth"
PER_REQUESTS = "KiB/1,000 requests"  # unit of growth where the number of requests is known
THOUSAND, HOUR_S = 1000.0, 3600.0  # requests and seconds of these units
METRICS = {
    "wall": Row("s", ("wall_s",)),
    "cpu": Row("s", ("cpu_s",), server=True),
    "rss": Row("KiB", ("rss_peak_kib",), server=True, peak=True),
    "rss-mean": Row("KiB", ("rss_mean_kib",), server=True),
    "faults": Row("", ("minor_faults", "major_faults")),
    LEAST: Row("KiB"),  # found by executions under limits: run/limits.py
    "pss": Row("KiB", ("pss_peak_kib",), server=True, peak=True),
    "pss-mean": Row("KiB", ("pss_mean_kib",), server=True),
    "tree-memory": Row("KiB", tree="memory_peak_kib", peak=True),
    "tree-cpu": Row("s", tree="cpu_s"),
    AFTER: Row("KiB", extra="after_load_kib"),
    GROWTH: Row("KiB/h", extra="growth_kib"),
    "allocated": Row("B", extra="allocated_bytes"),
    "calls": Row(extra="calls"),
    "instructions": Row(counter=(0, 1)),
    "cycles": Row(counter=(0, 0)),
    "cache-misses": Row(counter=(0, 3)),
    "dtlb-misses": Row(counter=(3, 3 | 1 << 16)),  # read misses of the data TLB
}
COUNTED = ("allocated", "calls")  # by a library, in an execution of their own
OF_SERVER = "server-"
SERVER_METRICS = tuple(f"{OF_SERVER}{name}" for name in ("cpu", "rss", "rss-mean"))
COUNTERS = {name: row.counter for name, row in METRICS.items() if row.counter}
PSS = [name for name in METRICS if name.startswith("pss")]
TREE = [name for name, row in METRICS.items() if row.tree]
OTHER = Row()  # of a figure that the program prints


def row_of(name: str) -> Row:
    return METRICS.get(name.removeprefix(OF_SERVER), OTHER)


def summed(parts: Sequence[float | None]) -> float | None:
    """The sum; None where a part is unknown, or where there are none."""
    known = [part for part in parts if part is not None]
    return sum(known) if known and len(known) == len(parts) else None


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
    """title, measured_in: the label and the unit that a spec gives to a figure that the program prints. requests: how
    many one run serves, if growth is per 1,000 of them."""

    name: str
    higher_is_better: bool = False
    title: str = ""
    measured_in: str = ""
    requests: int | None = None

    @property
    def unit(self) -> str:
        per = PER_REQUESTS if self.name == GROWTH and self.requests else ""
        return self.measured_in or per or row_of(self.name).unit

    @property
    def label(self) -> str:
        return self.title or pattern_name(self.name)

    def record(self) -> MetricRow:
        return {"name": self.name, "label": self.title, "unit": self.unit, "higher_is_better": self.higher_is_better}

    def read(self, outcome: Outcome, server: dict | None = None, counted: Sequence[str] = ()) -> float:
        """The value, above 0 wherever ratios are formed from it. Raises MetricMissing.

        counted: the names of the outcome's counts.
        """
        if self.name.startswith("regex:"):
            return self._match(outcome.stdout + "\n" + outcome.stderr)
        row, value = row_of(self.name), None
        if row.counter:
            value = dict(zip(counted, outcome.counts, strict=True)).get(self.name)
        elif row.tree:
            value = ((outcome.tree if server is None else server.get("tree")) or {}).get(row.tree)
        elif row.extra:
            value = outcome.extra.get(row.extra)
        elif server is not None and row.server:
            value = server.get(row.fields[0])
        else:
            value = summed([getattr(outcome, field) for field in row.fields])
        if value is None or value <= 0:
            raise MetricMissing(f"metric '{self.name}' could not be measured: {self._why_missing(outcome)}")
        return float(value)

    def _why_missing(self, outcome: Outcome) -> str:
        if self.name in COUNTERS:
            return "this machine has no such counter, or we may not read it; --callgrind counts instructions anywhere"
        if self.name in TREE:
            return "no control group for the run tells it"
        return outcome.extra.get("why") or "the run was too short to be sampled"

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
