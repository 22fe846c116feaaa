"""Histograms of latencies: read from a program's output, and added up by arm and block from a run's records.

They are stored in HdrHistogram's own encoding. A pattern matches either one bucket on each line, with the groups
`value` and `count`, or a whole histogram in HdrHistogram's log encoding, with the group `encoded`. The optional group
`series` is `response` or `service`.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from hdrh.histogram import HdrHistogram

from hakmem_lab.judge.statistics.paired import Interval
from hakmem_lab.judge.statistics.pooled import MEAN, Sampled, compared, pool, spread
from hakmem_lab.judge.two_arms import shared
from hakmem_lab.kinds.latency import tools
from hakmem_lab.plan.metrics import Metric, MetricMissing, printed_number
from hakmem_lab.plan.spec import compiled
from hakmem_lab.store.query import Blocks
from hakmem_lab.store.records import Record, Run
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
    groups = set(compiled(pattern).groupindex)
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
    """Value -> count in the sum of encoded histograms. The value is the upper end of the bucket."""
    total = empty()
    for text in texts:
        total.decode_and_add(text.encode())
    return {
        total.get_highest_equivalent_value(total.get_value_from_index(index)) / 1e3: count
        for index, count in enumerate(total.counts)
        if count
    }


def percentile_us(histogram: HdrHistogram, name: str) -> float:
    """A percentile in microseconds. name: a key of PERCENTILES."""
    if name == "max":
        return histogram.get_max_value() / 1e3
    return min(histogram.get_value_at_percentile(PERCENTILES[name]), histogram.get_max_value()) / 1e3


@lru_cache(maxsize=50_000)
def added_percentile_us(texts: tuple[str, ...], name: str) -> float:
    """A percentile of the sum of encoded histograms; cached, because it is needed again after every block."""
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
    """Reads the histograms of successive runs. unit: of the printed values."""

    pattern: str
    unit: str = "ns"
    _last: tuple[Outcome, dict[str, HdrHistogram]] | None = None

    def histograms(self, outcome: Outcome) -> dict[str, HdrHistogram]:
        """series -> histogram. Raises MetricMissing if the output has no response times."""
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
        for value, count in tools.buckets(text) if not found and self.pattern == DEFAULT_PATTERN else []:
            _put(found.setdefault(RESPONSE, empty()), round(value), count)
        if RESPONSE not in found or found[RESPONSE].get_total_count() == 0:
            tail = " ".join(text.split())[-160:]
            known = f", which is none of {', '.join(tools.TOOLS)} either" if self.pattern == DEFAULT_PATTERN else ""
            raise MetricMissing(f"histogram '{self.pattern}' does not match the program's output{known}: ...{tail!r}")
        return found

    def _add(self, histogram: HdrHistogram, groups: dict[str, str]) -> None:
        try:
            if groups.get("encoded"):
                histogram.decode_and_add(groups["encoded"].encode())
                return
            value = round(printed_number(groups["value"]) * UNITS_NS[self.unit])
            count = int(printed_number(groups["count"]))
        except Exception as error:  # HdrHistogram's decoder raises several kinds of its own
            raise MetricMissing(f"histogram: {groups} is not a bucket of a histogram: {error}") from None
        _put(histogram, value, count)


def _put(histogram: HdrHistogram, value_ns: int, count: int) -> None:
    if count and not histogram.record_value(max(value_ns, LOWEST_NS), count):
        raise MetricMissing(f"histogram: {value_ns} ns is more than an hour")


@dataclass(frozen=True)
class Percentile(Metric):
    """One percentile of one series as a metric of a run, in microseconds."""

    reader: Reader = field(kw_only=True)

    def read(self, outcome: Outcome, server: dict | None = None, counted: Sequence[str] = ()) -> float:
        """Raises MetricMissing where the output has no such series."""
        del server, counted
        known = percentiles_us(self.reader.histograms(outcome))
        if self.name not in known:
            raise MetricMissing(f"metric '{self.name}': the program prints no service times")
        return known[self.name]


WHATS: dict[str, float | str] = {name: percent / 100 for name, percent in PERCENTILES.items()} | {MEAN: MEAN}
LEAST_REQUESTS_BEYOND = 10


@dataclass(frozen=True)
class Requests:
    """One arm's series: `response`, and `service` if the program prints it in every run."""

    name: str
    series: dict[str, Sampled]

    @property
    def count(self) -> int:
        return int(self.series[RESPONSE].pool.counts.sum())

    def known(self, metric: str) -> bool:
        return split(metric)[0] in self.series

    def beyond(self, metric: str) -> float:
        """The number of requests beyond the percentile; for `max` and the mean, the number of all requests."""
        what = statistic(metric)
        return round(self.count * (1 - what), 3) if isinstance(what, float) and what < 1 else float(self.count)

    def interval(self, metric: str) -> tuple[float, float, float]:
        """(value, low, high) in microseconds."""
        return self.series[split(metric)[0]].interval(statistic(metric))


def split(metric: str) -> tuple[str, str]:
    """service-p99 -> (service, p99)."""
    for series, prefix in PREFIXES.items():
        if prefix and metric.startswith(prefix):
            return series, metric.removeprefix(prefix)
    return RESPONSE, metric


def statistic(metric: str) -> float | str:
    """service-p99 -> 0.99"""
    return WHATS[split(metric)[1]]


def requests(blocks: Blocks, name: str, whats: Sequence[float | str] = tuple(WHATS.values())) -> Requests:
    """All requests of an arm, with these statistics. Each block must have at least one run of the arm."""
    series = {}
    for each in PREFIXES:
        rows = [[run["histograms"].get(each, "") for run in block[name]] for block in blocks]
        if all(text for row in rows for text in row):
            series[each] = Sampled.of(pool([buckets_us(row) for row in rows]), list(whats))
    return Requests(name, series)


class Pools:
    """The requests of arms in the blocks of a run, added up on demand. whats: the statistics to compute."""

    def __init__(self, blocks: Blocks, whats: Sequence[float | str] = tuple(WHATS.values())):
        self.blocks, self._whats = blocks, whats
        self._made: dict[tuple[str, tuple[int, ...]], Requests] = {}

    def arm(self, name: str, beside: str | None = None, count: int | None = None) -> Requests:
        """Requests of the first `count` blocks in which this arm and `beside` both ran."""
        rows = [place for place, block in enumerate(self.blocks) if name in block and (beside or name) in block]
        key = name, tuple(rows[:count])
        if key not in self._made:
            self._made[key] = requests([self.blocks[row] for row in key[1]], name, self._whats)
        return self._made[key]


@dataclass(frozen=True)
class Pair:
    """Two arms in the blocks in which both took part."""

    pools: Pools
    control: str
    treatment: str

    @property
    def blocks(self) -> Blocks:
        return shared(self.pools.blocks, self.control, self.treatment)

    def known(self, metric: str) -> bool:
        series = split(metric)[0]
        return all(series in run["histograms"] for block in self.blocks for runs in block.values() for run in runs)

    def beyond(self, metric: str, count: int | None = None) -> float:
        """Requests beyond the percentile, of the arm that has fewer of them."""
        return min(arm.beyond(metric) for arm in self._arms(count))

    def against(self, metric: str, levels: Sequence[float], count: int | None = None) -> list[Interval]:
        """One interval for each level, from all blocks or the first `count`; positive if the treatment is lower."""
        return compared(*self._sampled(metric, count), statistic(metric), levels)

    def spread(self, metric: str) -> float:
        """Standard deviation of one block, for the log-ratio of all requests."""
        return spread(*self._sampled(metric, None), statistic(metric))

    def log_ratios(self, metric: str) -> list[float]:
        """A log-ratio for every block, from percentiles over the requests of all its runs."""
        return [
            math.log(_of_block(block[self.control], metric) / _of_block(block[self.treatment], metric))
            for block in self.blocks
        ]

    def _arms(self, count: int | None) -> tuple[Requests, Requests]:
        return self.pools.arm(self.control, self.treatment, count), self.pools.arm(self.treatment, self.control, count)

    def _sampled(self, metric: str, count: int | None) -> tuple[Sampled, Sampled]:
        control, treatment = (arm.series[split(metric)[0]] for arm in self._arms(count))
        return control, treatment


def _of_block(runs: Sequence[Run], metric: str) -> float:
    series, name = split(metric)
    return added_percentile_us(tuple(run["histograms"][series] for run in runs), name)


def enough(trials: Sequence[Record], runs_of_a_block: int) -> list[str]:
    """The percentiles for which a block has enough requests, judging by the trial runs of all arms."""
    found = []
    for prefix_of, prefix in PREFIXES.items():
        texts = [trial["histograms"].get(prefix_of) for trial in trials]
        if not texts or None in texts:
            continue
        fewest = min(sum(buckets_us([text]).values()) for text in texts) * runs_of_a_block
        found += [prefix + name for name, percent in PERCENTILES.items() if percent < 100 and
                  round(fewest * (1 - percent / 100), 3) >= LEAST_REQUESTS_BEYOND]  # fmt: skip
    return found
