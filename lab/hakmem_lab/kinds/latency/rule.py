"""When a latency run may be judged, and which interval then holds. Pure.

Where a block has requests enough for a percentile (ten beyond it, on every arm), each block gives a log-ratio of its
own requests, and the rule of an A/B holds of these after every block. The interval is that of all requests, widened by
what these blocks do not exclude: a direction is said only where both say so. So the rule of the blocks bounds the error
of the whole run, and what only few blocks have, which resampled blocks see, holds a verdict back.

Where a block has too few, its own percentile says little. All requests are then looked at after 1/2, 3/4 and all of the
planned blocks, at O'Brien–Fleming levels. Simulated with the test of flipped signs, 12, 20 and 40 blocks: arms that are
equal differ in 4.6 to 5.1 % of the runs; large effects end after 9, 11 and 20 blocks; what one look at the end would
show in 77 % is missed half a point more often. Equal levels at all looks (Pocock) miss it four to seven points more
often, and a first look at 1/3 never ended a run. `RESERVE` of alpha is kept for blocks beyond these looks: a bet on the
sign of each block's own log-ratio, which equal arms make a fair one however few requests it has.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hakmem_lab.judge import planning
from hakmem_lab.judge.statistics import anytime
from hakmem_lab.judge.statistics.paired import Interval
from hakmem_lab.judge.statistics.plan import Plan
from hakmem_lab.judge.statistics.pooled import widened
from hakmem_lab.kinds.latency.pool import LEAST_REQUESTS_BEYOND, Pair

LOOKS = (1 / 2, 3 / 4, 1)
# Little, so that the looks keep their levels: more blocks are asked for seldom.
RESERVE = 0.1


@dataclass(frozen=True)
class Rule:
    """often: for the percentiles in `by_block`; seldom: for all others. `planned`: blocks."""

    often: Plan
    seldom: Plan
    by_block: frozenset[str]

    @property
    def planned(self) -> int:
        return self.often.looks[-1]

    def intervals(self, pair: Pair, metric: str, alpha: float) -> tuple[Interval, Interval]:
        """Of one percentile: the interval, and the narrower one that leaves alpha on each side."""
        if metric in self.by_block:
            judged = self.often.judged(pair.log_ratios(metric), alpha)
            pooled = pair.against(metric, [1 - alpha, 1 - 2 * alpha])
            return widened(pooled[0], judged.interval), widened(pooled[1], judged.equivalence)
        looked = self._looked(pair, metric, alpha)
        return self._narrowed(pair, metric, alpha, looked) if self.seldom.share else looked

    def _looked(self, pair: Pair, metric: str, alpha: float) -> tuple[Interval, Interval]:
        """What the last planned look has shown."""
        reached = [look for look in self.seldom.levels(alpha) if look[0] <= len(pair.blocks)]
        if not reached or (
            reached[-1][0] < self.planned and pair.beyond(metric, reached[-1][0]) < LEAST_REQUESTS_BEYOND
        ):
            both = pair.against(metric, [1 - alpha, 1 - 2 * alpha])
            return _unlimited(both[0]), _unlimited(both[1])
        count, *levels = reached[-1]
        interval, equivalence = pair.against(metric, levels, count)
        return interval, equivalence

    def _narrowed(
        self, pair: Pair, metric: str, alpha: float, looked: tuple[Interval, Interval]
    ) -> tuple[Interval, Interval]:
        """By what all blocks show, whose bets may be read at any time; unlimited where the two exclude each other."""
        pooled = pair.against(metric, [1 - alpha, 1 - 2 * alpha])
        bets, tail = anytime.Bets(pair.log_ratios(metric)), alpha * self.seldom.share
        found = []
        for before, now, each in zip(looked, pooled, (tail / 2, tail), strict=True):
            low, high = bets.bound(each), bets.bound(each, above=False)
            low, high = max(before.low, min(now.low, low)), min(before.high, max(now.high, high))
            found.append(replace(now, low=low, high=high, estimate=min(max(now.estimate, low), high)))
        if any(interval.low > interval.high for interval in found):
            return _unlimited(pooled[0]), _unlimited(pooled[1])
        return found[0], found[1]

    def may_settle(self, pair: Pair, metric: str, delta: float, alpha: float) -> bool:
        """Whether a verdict is possible now, without adding up all requests."""
        if metric not in self.by_block:
            count = len(pair.blocks)
            return count in self.seldom.looks or (bool(self.seldom.share) and count > self.planned)
        judged = self.often.judged(pair.log_ratios(metric), alpha)
        inside = -delta < judged.equivalence.low and judged.equivalence.high < delta
        return inside or judged.interval.excludes_zero()


def _unlimited(interval: Interval) -> Interval:
    return replace(interval, low=-math.inf, high=math.inf)


def looks_at(blocks: int) -> tuple[int, ...]:
    """The planned looks of so many blocks, the last one at their end."""
    return tuple(sorted({max(1, round(blocks * share)) for share in LOOKS}))


def of_blocks(blocks: int, by_block: Sequence[str] = (), reserve: float = RESERVE) -> Rule:
    """That of a new run of so many blocks."""
    return Rule(Plan((blocks,)), Plan(looks_at(blocks), share=reserve), frozenset(by_block))


def recorded(header: dict, records: Sequence[dict]) -> Rule:
    """The one that the run promised; runs that promised nothing are looked at once, at their end."""
    planned, share = planning.planned_blocks(header, records), header.get("anytime", 0.0)
    if not share:
        return Rule(Plan((planned,), share=0.0), Plan((planned,), share=0.0), frozenset())
    law = of_blocks(planned, planning.by_block(records), planning.reserve(records))
    return replace(law, often=Plan((planned,), share))
