"""Histograms of latencies out of a program's output, kept as HdrHistogram's own encoding.

A pattern matches either one bucket a line, with the groups `value` and `count`, or a whole histogram in HdrHistogram's
log encoding, with the group `encoded`; the optional group `series` says what it belongs to, `response` or `service`.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from hdrh.histogram import HdrHistogram

from hakmem_lab.plan.metrics import MetricMissing
from hakmem_lab.system.launcher import Outcome

RESPONSE = "response"
LOWEST_NS, HIGHEST_NS, DIGITS = 1, 3_600_000_000_000, 3
PERCENTILES = {"p50": 50.0, "p90": 90.0, "p99": 99.0, "p99.9": 99.9, "p99.99": 99.99, "max": 100.0}
PREFIXES = {"response": "", "service": "service-"}
METRICS = tuple(prefix + name for prefix in PREFIXES.values() for name in PERCENTILES)
UNITS_NS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}
DEFAULT_PATTERN = r"^(?P<series>response|service) (?P<value>\d+) (?P<count>\d+)$"
SECOND = re.compile(r"^second \d+ (\d+)$", re.M)


def check_pattern(text: str) -> str:
    """Returns the pattern without a leading 'regex:', or raises ValueError."""
    pattern = text.removeprefix("regex:")
    try:
        groups = set(re.compile(pattern).groupindex)
    except re.error as error:
        raise ValueError(f"the regular expression is not valid: {error}") from None
    if unknown := groups - {"series", "value", "count", "encoded"}:
        raise ValueError(f"no group may be named '{min(unknown)}': there are series, value, count and encoded")
    if ("encoded" in groups) == ({"value", "count"} <= groups):
        raise ValueError(
            "the regular expression needs the groups (?P<value>...) and (?P<count>...), or (?P<encoded>...)"
        )
    return pattern


def empty() -> HdrHistogram:
    return HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS)


def buckets_us(texts: Iterable[str]) -> dict[float, int]:
    """Value -> count of the sum of encoded histograms; a value stands for all that the histogram cannot tell from it,
    by the greatest of them."""
    total = empty()
    for text in texts:
        total.decode_and_add(text.encode())
    return {
        total.get_highest_equivalent_value(total.get_value_from_index(index)) / 1e3: count
        for index, count in enumerate(total.counts)
        if count
    }


def percentile_us(histogram: HdrHistogram, name: str) -> float:
    """name: a key of PERCENTILES."""
    if name == "max":
        return histogram.get_max_value() / 1e3
    return min(histogram.get_value_at_percentile(PERCENTILES[name]), histogram.get_max_value()) / 1e3


@lru_cache(maxsize=50_000)
def added_percentile_us(texts: tuple[str, ...], name: str) -> float:
    """Of the sum of encoded histograms; asked again after every block, and decoded once."""
    total = empty()
    for text in texts:
        total.decode_and_add(text.encode())
    return percentile_us(total, name)


def percentiles_us(histograms: Mapping[str, HdrHistogram]) -> dict[str, float]:
    """Every percentile of every series, named as in METRICS."""
    return {
        PREFIXES[series] + name: percentile_us(histogram, name)
        for series, histogram in histograms.items()
        for name in PERCENTILES
    }


@dataclass
class Reader:
    """Reads the histograms of one run after the other. unit: of the printed values."""

    pattern: str
    unit: str = "ns"
    _last: tuple[Outcome, dict[str, HdrHistogram]] | None = None

    def histograms(self, outcome: Outcome) -> dict[str, HdrHistogram]:
        """series -> histogram. Raises MetricMissing where there is no response time in the output."""
        if self._last is None or self._last[0] is not outcome:
            self._last = outcome, self.parse(outcome.stdout + "\n" + outcome.stderr)
        return self._last[1]

    def parse(self, text: str) -> dict[str, HdrHistogram]:
        found: dict[str, HdrHistogram] = {}
        for match in re.finditer(self.pattern, text, re.M):
            groups = match.groupdict()
            series = groups.get("series") or RESPONSE
            if series not in PREFIXES:
                raise MetricMissing(f"histogram: a series is named {series!r}: it must be response or service")
            self._add(found.setdefault(series, empty()), groups)
        if RESPONSE not in found or found[RESPONSE].get_total_count() == 0:
            tail = " ".join(text.split())[-160:]
            raise MetricMissing(f"histogram '{self.pattern}' does not match the program's output: ...{tail!r}")
        return found

    def _add(self, histogram: HdrHistogram, groups: dict[str, str]) -> None:
        try:
            if groups.get("encoded"):
                histogram.decode_and_add(groups["encoded"].encode())
                return
            value = round(float(groups["value"]) * UNITS_NS[self.unit])
            count = int(groups["count"])
        except Exception as error:  # HdrHistogram's decoder raises several kinds of its own
            raise MetricMissing(f"histogram: {groups} is not a bucket of a histogram: {error}") from None
        if count and not histogram.record_value(max(value, LOWEST_NS), count):
            raise MetricMissing(f"histogram: {value} ns is more than an hour")


@dataclass(frozen=True)
class Percentile:
    """One percentile of one series as a metric of a run, in microseconds."""

    name: str
    reader: Reader
    higher_is_better: bool = False

    def read(self, outcome: Outcome, server: dict | None = None, counted: Sequence[str] = ()) -> float:
        """Raises MetricMissing where the output has no such series."""
        del server, counted
        known = percentiles_us(self.reader.histograms(outcome))
        if self.name not in known:
            raise MetricMissing(f"metric '{self.name}': the program prints no service times")
        return known[self.name]
