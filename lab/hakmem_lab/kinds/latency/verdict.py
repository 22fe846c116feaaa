"""The verdict on one arm of a latency run: when it may be judged, and by which interval. Pure.

It rests on a percentile of all requests, on guardrails, and on the mean.

If a block has enough requests for a percentile (ten beyond it, on every arm), each block gives a log-ratio of its own
requests. These are judged by the rule of an A/B, after every block. The shown interval contains that of all requests
and that of the blocks, so both must agree on a direction. The rule of the blocks bounds the error of the whole run;
resampled blocks hold a verdict back if only a few blocks have long waits.

If a block has too few requests, its own percentile says little. Then all requests are judged after 1/2, 3/4 and all of
the planned blocks, at O'Brien–Fleming levels. Simulations with the test of flipped signs, for 12, 20 and 40 blocks:
equal arms are called different in 4.6 to 5.1 % of the runs; large effects end a run after 9, 11 and 20 blocks. An
effect that one look at the end would show in 77 % of the runs is missed half a point more often. With equal levels at
all looks (Pocock) it would be missed four to seven points more often. A first look at 1/3 never ended a run.

The share `RESERVE` of alpha is kept for blocks beyond these looks: a bet on the sign of each block's own log-ratio. If
the arms are equal, that bet is fair however few requests a block has.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hakmem_lab.judge import planning
from hakmem_lab.judge.analysis import log_ratios
from hakmem_lab.judge.statistics import stopping, verdict
from hakmem_lab.judge.statistics.paired import Interval, as_log, hodges_lehmann
from hakmem_lab.judge.statistics.plan import Bets, Plan
from hakmem_lab.judge.statistics.pooled import MEAN, widened
from hakmem_lab.judge.statistics.verdict import Decision, Guardrail, Verdict
from hakmem_lab.kinds.latency.pool import LEAST_REQUESTS_BEYOND, METRICS, PREFIXES, Pair, Pools, statistic
from hakmem_lab.plan.spec import guardrails_of
from hakmem_lab.store.records import Record

LOOKS = (1 / 2, 3 / 4, 1)
# A small share, so that the looks keep their levels: blocks are seldom added.
RESERVE = 0.1


@dataclass(frozen=True)
class Rule:
    """often: the plan for the percentiles in `by_block`; seldom: for all others. planned: number of blocks."""

    often: Plan
    seldom: Plan
    by_block: frozenset[str]

    @property
    def planned(self) -> int:
        return self.often.looks[-1]

    def intervals(self, pair: Pair, metric: str, alpha: float) -> tuple[Interval, Interval]:
        """(the interval of one percentile, the narrower one with an error of alpha on each side)."""
        if metric in self.by_block:
            judged = self.often.judged(pair.log_ratios(metric), alpha)
            pooled = pair.against(metric, [1 - alpha, 1 - 2 * alpha])
            return widened(pooled[0], judged.interval), widened(pooled[1], judged.equivalence)
        looked = self._looked(pair, metric, alpha)
        of_blocks = self.seldom.share and statistic(metric) != MEAN  # a block has no mean of its own
        return self._narrowed(pair, metric, alpha, looked) if of_blocks else looked

    def _looked(self, pair: Pair, metric: str, alpha: float) -> tuple[Interval, Interval]:
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
        """The anytime-valid interval of all blocks; unlimited if the parts exclude each other."""
        pooled = pair.against(metric, [1 - alpha, 1 - 2 * alpha])
        bets, tail = Bets(pair.log_ratios(metric)), alpha * self.seldom.share
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
    """The planned looks in this number of blocks, the last at the end."""
    return tuple(sorted({max(1, round(blocks * share)) for share in LOOKS}))


def of_blocks(blocks: int, by_block: Sequence[str] = (), reserve: float = RESERVE) -> Rule:
    """The plan of a new run with this number of blocks."""
    return Rule(Plan((blocks,)), Plan(looks_at(blocks), share=reserve), frozenset(by_block))


def recorded(header: Record, records: Sequence[Record]) -> Rule:
    """The rule in the run's header; a run without one has a single look, at its end."""
    planned, share = planning.planned_blocks(header, records), header.get("anytime", 0.0)
    if not share:
        return Rule(Plan((planned,), share=0.0), Plan((planned,), share=0.0), frozenset())
    law = of_blocks(planned, planning.by_block(records), planning.reserve(records))
    return replace(law, often=Plan((planned,), share))


# A guardrail of every run, so that a better median is not accepted with a worse tail.
BUILT_IN = {"p99.9": 0.25}


@dataclass(frozen=True)
class Asked:
    """The questions about every pair of arms, and the rule that decides them."""

    spec: Record
    rule: Rule
    alpha: float

    @property
    def metric(self) -> str:
        return self.spec["metric"]

    @property
    def delta(self) -> float:
        return as_log(self.spec["margin"])

    @property
    def mean(self) -> str:
        return PREFIXES["service" if self.metric.startswith(PREFIXES["service"]) else "response"] + MEAN


def whats(spec: Record) -> list[float | str]:
    names = [spec["metric"], *BUILT_IN, *(each.name for each in guardrails_of(spec) if each.name in METRICS)]
    return list(dict.fromkeys([*map(statistic, names), MEAN]))


def limits(asked: Asked, pair: Pair) -> dict[str, float]:
    """Percentile -> tolerated worsening. The built-in one applies only if the planned blocks have enough requests for
    it. That is decided by the planned number, so it does not depend on when the run ends."""
    spec, share = asked.spec, max(1.0, asked.rule.planned / len(pair.blocks))
    own = {metric.name: limit for metric, limit in guardrails_of(spec).items() if metric.name in METRICS}
    steady = {
        name: limit
        for name, limit in BUILT_IN.items()
        if name != spec["metric"] and pair.beyond(name) * share >= LEAST_REQUESTS_BEYOND
    }
    return steady | own


def guardrails(asked: Asked, pair: Pair) -> tuple[Guardrail, ...]:
    """Guardrails on percentiles of all requests, by the same rule, and on the spec's other metrics, run by run."""
    found = []
    for name, limit in limits(asked, pair).items():
        if pair.known(name):
            found.append(Guardrail.of(name, asked.rule.intervals(pair, name, asked.alpha)[1], limit))
    for metric, limit in guardrails_of(asked.spec).items():
        if metric.name not in METRICS:
            d = log_ratios(pair.blocks, pair.control, pair.treatment, metric) or []
            found.append(verdict.guardrail(d, limit, asked.alpha, metric.name, asked.rule.often))
    return tuple(found)


def decide(asked: Asked, pair: Pair) -> Decision:
    """Decide on the primary percentile. A guardrail, or the mean of all requests, may contradict the verdict."""
    metric, delta = asked.metric, asked.delta
    interval, equivalence = asked.rule.intervals(pair, metric, asked.alpha)
    watched = guardrails(asked, pair)
    (mean,) = pair.against(asked.mean, [1 - asked.alpha])
    plain = verdict.judge(interval, equivalence, delta)
    word, vetoed_by = verdict.with_guardrails(plain, watched)
    contrary = (word is Verdict.GO and mean.high < 0) or (word is plain is Verdict.NO_GO and mean.low > 0)
    word = Verdict.INCONCLUSIVE if contrary else word
    shown = interval if word is Verdict.INCONCLUSIVE else _corrected(asked, pair, interval)
    return Decision(
        word, shown, equivalence, final=True, least=1, vetoed_by=vetoed_by, margin=asked.spec["margin"],
        guardrails=watched, plain=interval.estimate, means=None, torn=contrary,
        mean_open=not vetoed_by and verdict.unsupported(word, mean, delta), consistent=True,
    )  # fmt: skip


def _corrected(asked: Asked, pair: Pair, interval: Interval) -> Interval:
    if len(pair.blocks) < 2:
        return interval
    return moved(asked, pair, replace(pair, pools=Pools(pair.blocks[:-1], whats(asked.spec))), interval)


def moved(asked: Asked, pair: Pair, before: Pair, interval: Interval) -> Interval:
    """Correct the estimate of a run that its last block ended, since such a run stops on lucky blocks.

    After every block, the correction is that of the blocks' own estimate; at planned looks, that of a look.
    before: the same arms without the last block.
    """
    law, by_block = asked.rule, asked.metric in asked.rule.by_block
    if len(pair.blocks) >= law.planned:
        return interval
    interval_before, equivalence_before = asked.rule.intervals(before, asked.metric, asked.alpha)
    if verdict.judge(interval_before, equivalence_before, asked.delta) is not Verdict.INCONCLUSIVE:
        return interval
    if by_block:
        d = pair.log_ratios(asked.metric)
        found = interval.estimate + stopping.corrected(d, law.often, asked.delta, asked.alpha) - hodges_lehmann(d)
    else:
        sigma = pair.spread(asked.metric)
        found = stopping.corrected_at_look(interval.estimate, sigma, law.seldom, asked.delta, asked.alpha)
    nearest = min(abs(found), abs(interval.estimate)) if found * interval.estimate > 0 else 0.0
    estimate = math.copysign(nearest, interval.estimate)
    return replace(interval, estimate=min(max(estimate, interval.low), interval.high))
