"""One workload of a suite, from the runs of its blocks: ratios, medians, and whether a bar is reached.

Pure.
"""

import math
import statistics as mean
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from hakmem_lab.judge import failing
from hakmem_lab.judge.analysis import doubling, log_ratios, values
from hakmem_lab.judge.digits import is_size, readable
from hakmem_lab.judge.statistics import verdict
from hakmem_lab.judge.statistics.paired import Interval, as_multiple, least_count, median_interval
from hakmem_lab.judge.statistics.verdict import Decision, Verdict
from hakmem_lab.judge.words import BETTER, WORSE
from hakmem_lab.kinds.suite.spec import BEST, Bar, SuiteSpec, WorkloadSpec
from hakmem_lab.plan.metrics import GROWTH, Metric
from hakmem_lab.store.query import Blocks

MS_S = 1e-3
GROUPED = 1e4  # from here on a number has its whole integer part, in groups of thousands
PASS, MISS, OPEN, SAME, FAILED = "pass", "miss", "open", "same", "failed"
FASTER, LEANER = zip(BETTER, WORSE, strict=True)
CLEAR, UNCLEAR = "", " ~"
PEAKS = {"rss": "peak RSS", "server-rss": "peak RSS"}


@dataclass(frozen=True)
class Figure:
    """A measured value with its interval, whose ends are infinite if there are too few blocks."""

    value: float
    low: float
    high: float

    @classmethod
    def of(cls, logs: Interval) -> "Figure":
        """As a ratio; an unbounded end stays infinite."""
        three = (logs.estimate, logs.low, logs.high)
        return cls(*(as_multiple(x) if math.isfinite(x) else x for x in three))

    def record(self) -> dict:
        return {"ratio": self.value, "ci_low": self.low, "ci_high": self.high}

    def reaches(self, target: float, at_least: bool) -> str:
        """pass or miss by the value; with '~' if the target lies inside the interval."""
        values = (self.value, self.low, self.high)
        ok, low_ok, high_ok = (value >= target if at_least else value <= target for value in values)
        return (PASS if ok else MISS) + (CLEAR if low_ok == high_ok else UNCLEAR)


@dataclass(frozen=True)
class Difference(Figure):
    """By how much less memory grows on one side, in this unit: a ratio to a side that hardly grows says nothing."""

    unit: str

    def record(self) -> dict:
        return {"less": self.value, "ci_low": self.low, "ci_high": self.high, "unit": self.unit}


@dataclass(frozen=True)
class Judged:
    """A bar and the figure for it. arm: the arm that the subject is compared with; bar: the target as a ratio, or
    None."""

    bar: float | None
    arm: str | None
    figure: Figure
    verdict: str
    to_reach: str
    measured: str

    def record(self) -> dict:
        return {"bar": self.bar, "against": self.arm, "verdict": self.verdict, "to_reach": self.to_reach,
                "measured": self.measured, "value": self.figure.value, "ci_low": self.figure.low,
                "ci_high": self.figure.high}  # fmt: skip


def plain_number(value: float) -> str:
    """Three decimals near 1, else four significant digits; 'open' for an end that the data do not bound."""
    if not math.isfinite(value):
        return "open"
    if abs(value) >= GROUPED:
        return f"{value:,.0f}"
    return f"{value:.3f}" if 0.1 <= abs(value) < 10 else f"{value:.4g}"


def unit_for(size: float, unit: str) -> tuple[float, str]:
    """(divisor, unit) for people: 12 MiB instead of 12288 KiB, ms instead of s."""
    return (MS_S, "ms") if unit == "s" else readable(size, unit)


def with_interval(figure: Figure) -> str:
    return f"{plain_number(figure.value)} [{plain_number(figure.low)}, {plain_number(figure.high)}]"


@dataclass(frozen=True, eq=False)
class Sheet:
    """The finished blocks of a workload. rates: system calls per operation, if the workload counts them. unfit: the
    machine gives too many false verdicts, so timings are shown, but all bars on them are open. records: of its runs,
    for the number of failures of each arm."""

    spec: SuiteSpec
    row: WorkloadSpec
    blocks: Blocks
    rates: Mapping[str, Figure] = field(default_factory=dict)
    unfit: bool = False
    records: Sequence[dict] = ()

    def metric(self, name: str) -> Metric:
        return Metric(name, name in self.row.rates(), requests=self.row.requests)

    def unit(self, name: str) -> str:
        if self.row.ops is not None:
            return "per operation"
        return (self.row.unit if name == self.row.metric else "") or self.metric(name).unit

    def label(self, name: str) -> str:
        """The name of the metric in a table."""
        if name == self.row.metric and (self.row.label or name not in PEAKS):
            return self.row.label or (name if name == GROWTH else "memory" if self.words(name) == LEANER else "speed")
        called = next((label for label, metric in self.row.also.items() if metric == name), None)
        return called or PEAKS.get(name, self.metric(name).label)

    def words(self, name: str) -> tuple[str, str]:
        """(the word for a ratio above 1, the word for one below)."""
        return LEANER if is_size(self.unit(name)) else FASTER

    def worded(self, name: str) -> dict[str, dict]:
        """The cells of the spec's table; only FAILED where a word would favour the arm that failed more often."""
        by_reference, words = self.spec.table == "reference", self.words(name)
        found, shown = self.decisions(name, by_reference), {}
        for arm in self.spec.allocators:
            pair = (self.spec.reference, arm) if by_reference else (arm, self.spec.subject)
            cell = self.cell(name, found[arm], pair[0]) if arm in found else {"word": FAILED}
            praise = {words[0]: "GO", words[1]: "NO-GO", SAME: "NEUTRAL"}.get(cell["word"])
            if arm in found or arm not in self.arms():
                shown[arm] = {"word": FAILED} if failing.forbids(self.failing(*pair), praise, *pair) else cell
        return shown

    def cell(self, name: str, decision: Decision, control: str) -> dict:
        """The ratio with its interval, of growth the difference; and the word for what is certain. control: the arm
        that the other one is compared with."""
        base = self._doubling(name) + (self.median(name, control) or 0.0)

        def difference(logs: Interval) -> Figure:
            less, low, high = (base * -math.expm1(-end) for end in (logs.estimate, logs.low, logs.high))
            return Difference(less, low, high, self.unit(name))

        return told(decision, self.words(name), self.unfit, difference if name == GROWTH else Figure.of)

    @cache  # noqa: B019 - as long as the sheet lives
    def failing(self, first: str, second: str) -> failing.Failing | None:
        return failing.unequal(self.records, first, second, self.spec.alpha)

    def arms(self) -> list[str]:
        """Arms that took part in every block."""
        everyone = [*self.spec.allocators, *self.row.arms]
        return [arm for arm in everyone if all(arm in block for block in self.blocks)]

    def peers(self) -> list[str]:
        """The arms that 'best' is chosen from."""
        return [name for name in self.arms() if name in self.spec.allocators and
                name not in (self.spec.subject, self.spec.reference)]  # fmt: skip

    def _values(self, name: str, arm: str) -> list[list[float]] | None:
        found = [each for block in self.blocks if arm in block and (each := values(block[arm], name)) is not None]
        return found if found and len(found) == len(self.blocks) else None

    def median(self, name: str, arm: str) -> float | None:
        per_block = self._values(name, arm)
        return mean.median(value for block in per_block for value in block) if per_block else None

    def medians(self, name: str) -> dict[str, float]:
        return {arm: value for arm in self.arms() if (value := self.median(name, arm)) is not None}

    def best_peer(self, name: str) -> str | None:
        """The peer with the best median."""
        found = {arm: value for arm in self.peers() if (value := self.median(name, arm)) is not None}
        choose = max if self.metric(name).higher_is_better else min
        return choose(found, key=found.__getitem__) if found else None

    def logs(self, name: str, by_reference: bool) -> dict[str, list[float]]:
        """Per block, above 0 = better: the subject against every other arm, or every arm against the reference."""
        base, columns = self.spec.reference if by_reference else self.spec.subject, {}
        for arm in self.arms():
            pair = (base, arm) if by_reference else (arm, base)
            there = arm != base and self.blocks and base in self.arms()
            d = log_ratios(self.blocks, *pair, self.metric(name), self.spec.reference) if there else None
            if d is not None:
                columns[arm] = d
        return columns

    def _doubling(self, name: str) -> float:
        return doubling(self.blocks, self.spec.reference, self.metric(name))

    @cache  # noqa: B019 - as long as the sheet lives
    def decisions(self, name: str, by_reference: bool) -> dict[str, Decision]:
        """The verdicts on these figures. Arms that only this workload has share their alpha, too."""
        return verdict.at_once(self.logs(name, by_reference), self.spec.margin, self.spec.alpha)

    def ratio(self, name: str, arm: str | None) -> Decision | None:
        """The verdict on the subject against another arm."""
        return self.decisions(name, False).get(arm or "")

    def narrow(self) -> bool:
        """Whether the subject's intervals against the reference are narrow enough to end."""
        found = (self.decisions(name, False).get(self.spec.reference) for name in self.row.metrics())
        intervals = [decision.interval for decision in found if decision]
        return self.spec.within is not None and verdict.narrow(intervals, self.spec.within)

    def least_blocks(self) -> int:
        """The fewest blocks with intervals that hold for all arms at once."""
        return least_count(self.spec.alpha / 2 / max(1, len(self.arms()) - 1))

    def judge(self, bar: Bar) -> Judged | None:
        """Whether the subject reaches the bar; None if nothing was measured for it."""
        if self.row.ops is not None:
            rate = self.rates.get(self.spec.subject)
            return self._judge_amount(bar, rate, None, self.unit(self.row.metric)) if rate else None
        judged = self._judge_timed(bar, self.row.named(bar.metric))
        if judged and self.unfit:
            return replace(judged, verdict=OPEN)
        if judged and judged.verdict.startswith(PASS) and (failed := self._failed(judged.arm)):
            return replace(judged, verdict=OPEN, measured=f"{judged.measured}; {failed}")
        return judged

    def _failed(self, arm: str | None) -> str:
        """How the subject failed, if surely more often than this arm; without an arm, if it failed at all."""
        found = self.failing(arm, self.spec.subject) if arm else None
        if arm is None and (runs := failing.failed_runs(self.records, self.spec.subject)):
            return f"{self.spec.subject} failed {failing.times(len(runs))} ({runs[-1]['why']})"
        return found.text if found and found.sure and found.arm == self.spec.subject else ""

    def _judge_timed(self, bar: Bar, name: str) -> Judged | None:
        if bar.against:
            return self._judge_ratio(bar, name)
        ours = self._values(name, self.spec.subject)
        theirs = self._values(name, bar.over) if bar.over else None
        if ours is None or (bar.over and theirs is None):
            return None
        if theirs:
            samples = [mean.fmean(a) - mean.fmean(b) for a, b in zip(ours, theirs, strict=True)]
        else:
            samples = [value for block in ours for value in block]
        figure = Figure(*median_interval(samples, 1 - self.spec.alpha))
        return self._judge_amount(bar, figure, bar.over, self.unit(name))

    def _judge_ratio(self, bar: Bar, name: str) -> Judged | None:
        arm = self.best_peer(name) if bar.against in BEST else bar.against
        if arm is None or (decision := self.ratio(name, arm)) is None:
            return None
        figure = Figure.of(decision.interval)
        target, at_least = bar.limit()
        target = target if at_least else 1 / target
        return Judged(target, arm, figure, figure.reaches(target, True), f">= {plain_number(target)} x {bar.against}",
                      f"{with_interval(figure)} ({arm})" if bar.against in BEST else with_interval(figure))  # fmt: skip

    def _judge_amount(self, bar: Bar, figure: Figure, over: str | None, unit: str) -> Judged:
        target, at_least = bar.limit()
        (divisor, shown_unit), (own, own_unit) = unit_for(target, unit), unit_for(figure.value, unit)
        shown = Figure(*(x / own for x in (figure.value, figure.low, figure.high)))
        limit = f"{'>=' if at_least else '<='} {target / divisor:g} {shown_unit}".rstrip()
        return Judged(None, over, figure, figure.reaches(target, at_least), limit + (f" over {over}" if over else ""),
                      f"{with_interval(shown)} {own_unit}".rstrip())  # fmt: skip


def told(
    decision: Decision, words: tuple[str, str], unfit: bool, figure: Callable[[Interval], Figure] = Figure.of
) -> dict:
    """A cell: the figure with its interval, and the word for what is certain. words: better, worse. The same has the
    narrower interval, too, which decides it."""
    row, interval = figure(decision.interval).record(), decision.interval
    if unfit:
        return row | {"word": OPEN}
    if decision.verdict is Verdict.NEUTRAL:
        inner = figure(decision.equivalence)
        return row | {"word": SAME, "equivalence_low": inner.low, "equivalence_high": inner.high}
    return row | {"word": words[0] if interval.low > 0 else words[1] if interval.high < 0 else OPEN}
