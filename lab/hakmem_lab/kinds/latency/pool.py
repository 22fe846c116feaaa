"""All requests of every arm, block by block, out of the records of a latency run. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from hakmem_lab.judge.statistics.paired import Interval
from hakmem_lab.judge.statistics.pooled import MEAN, Sampled, compared, pool
from hakmem_lab.kinds.latency.histogram import PERCENTILES, PREFIXES, RESPONSE, buckets_us
from hakmem_lab.store.blocks import Blocks

WHATS: dict[str, float | str] = {name: percent / 100 for name, percent in PERCENTILES.items()} | {MEAN: MEAN}
LEAST_REQUESTS_BEYOND = 10


@dataclass(frozen=True)
class Requests:
    """Of one arm: its series, `response` and, where the program prints it in every run, `service`."""

    name: str
    series: dict[str, Sampled]

    @property
    def count(self) -> int:
        return int(self.series[RESPONSE].pool.counts.sum())

    def known(self, metric: str) -> bool:
        return split(metric)[0] in self.series

    def beyond(self, metric: str) -> float:
        """How many requests are beyond the percentile; the greatest value has none beyond and counts as 1."""
        what = WHATS[split(metric)[1]]
        return round(self.count * (1 - what), 3) if isinstance(what, float) and what < 1 else float(self.count)

    def interval(self, metric: str) -> tuple[float, float, float]:
        """(value, low, high) in microseconds."""
        series, name = split(metric)
        return self.series[series].interval(WHATS[name])

    def against(self, control: "Requests", metric: str, levels: Sequence[float]) -> list[Interval]:
        """An interval a level, positive where this arm's is lower than the control's."""
        series, name = split(metric)
        return compared(control.series[series], self.series[series], WHATS[name], levels)


def split(metric: str) -> tuple[str, str]:
    """service-p99 -> (service, p99)."""
    for series, prefix in PREFIXES.items():
        if prefix and metric.startswith(prefix):
            return series, metric.removeprefix(prefix)
    return RESPONSE, metric


def requests(blocks: Blocks, name: str) -> Requests:
    """All requests of an arm. Blocks must hold at least one run of it each."""
    series = {}
    for each in PREFIXES:
        rows = [[run["histograms"].get(each) for run in block[name]] for block in blocks]
        if all(text is not None for row in rows for text in row):
            series[each] = Sampled.of(pool([buckets_us(row) for row in rows]), list(WHATS.values()))
    return Requests(name, series)
