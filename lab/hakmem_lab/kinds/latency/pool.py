"""All requests of every arm, block by block, out of the records of a latency run. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hakmem_lab.judge.statistics.paired import Interval
from hakmem_lab.judge.statistics.pooled import MEAN, Sampled, compared, pool, spread
from hakmem_lab.judge.two_arms import shared
from hakmem_lab.kinds.latency.histogram import PERCENTILES, PREFIXES, RESPONSE, added_percentile_us, buckets_us
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

    def spread(self, control: "Requests", metric: str) -> float:
        """Of a block, in the log-ratio to the control."""
        series, name = split(metric)
        return spread(control.series[series], self.series[series], WHATS[name])


def split(metric: str) -> tuple[str, str]:
    """service-p99 -> (service, p99)."""
    for series, prefix in PREFIXES.items():
        if prefix and metric.startswith(prefix):
            return series, metric.removeprefix(prefix)
    return RESPONSE, metric


def requests(blocks: Blocks, name: str, whats: Sequence[float | str] = tuple(WHATS.values())) -> Requests:
    """All requests of an arm, and of them these statistics. Blocks must hold at least one run of it each."""
    series = {}
    for each in PREFIXES:
        rows = [[run["histograms"].get(each) for run in block[name]] for block in blocks]
        if all(text is not None for row in rows for text in row):
            series[each] = Sampled.of(pool([buckets_us(row) for row in rows]), list(whats))
    return Requests(name, series)


class Pools:
    """The requests of arms in the blocks of a run, added up where they are asked for. whats: further statistics than
    these are not wanted."""

    def __init__(self, blocks: Blocks, whats: Sequence[float | str] = tuple(WHATS.values())):
        self.blocks, self._whats = blocks, whats
        self._made: dict[tuple[str, tuple[int, ...]], Requests] = {}

    def arm(self, name: str, beside: str | None = None, count: int | None = None) -> Requests:
        """In all blocks in which it took part, and `beside` too; of these the first `count`."""
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
        """An interval a level, of all blocks or the first `count`; positive where the treatment's is lower."""
        control, treatment = self._arms(count)
        return treatment.against(control, metric, levels)

    def spread(self, metric: str) -> float:
        """What a block adds to the uncertainty of the log-ratio of all requests."""
        control, treatment = self._arms(None)
        return treatment.spread(control, metric)

    def log_ratios(self, metric: str) -> list[float]:
        """Of every block: from the percentiles of its own requests, those of its runs together."""
        return [
            math.log(_of_block(block[self.control], metric) / _of_block(block[self.treatment], metric))
            for block in self.blocks
        ]

    def _arms(self, count: int | None) -> tuple[Requests, Requests]:
        return self.pools.arm(self.control, self.treatment, count), self.pools.arm(self.treatment, self.control, count)


def _of_block(runs: Sequence[dict], metric: str) -> float:
    series, name = split(metric)
    return added_percentile_us(tuple(run["histograms"][series] for run in runs), name)


def enough(trials: Sequence[dict], runs_of_a_block: int) -> list[str]:
    """The percentiles for which a block has requests enough, by what trial runs of all arms had."""
    found = []
    for prefix_of, prefix in PREFIXES.items():
        texts = [trial["histograms"].get(prefix_of) for trial in trials]
        if not texts or None in texts:
            continue
        fewest = min(sum(buckets_us([text]).values()) for text in texts) * runs_of_a_block
        found += [prefix + name for name, percent in PERCENTILES.items() if percent < 100 and
                  round(fewest * (1 - percent / 100), 3) >= LEAST_REQUESTS_BEYOND]  # fmt: skip
    return found
