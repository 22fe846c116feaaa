"""The analysis of the samples of each process of a soak. Pure.

A slope alone misses memory that grows in steps, and memory that is returned. If a leak comes in one step, the median of
slopes is 0, and the search for the warm-up takes that step for its end. If a process returns memory now and then, its
slope between two such times is above 0. So a slope within the budget is accepted only if no step lasts, and one above
it only if the memory was not returned. These checks work on rows of samples at equal times; the last axis is time.

Slopes and levels are corrected for the announced phases: a program that cycles through phases has another level in each
of them, and its own course after each change. So a sample is compared only with samples of other visits to the same
phase at the same age: differences between visits are the drift. A phase that came only once does not show it.
"""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hakmem_lab.judge.lasting import lasting_step, stays_risen
from hakmem_lab.judge.statistics.drift import LEAST_SAMPLES, Slope, change_points, theil_sen, warmup_end
from hakmem_lab.judge.statistics.paired import Values
from hakmem_lab.judge.statistics.settling import curve, settled, settled_slope, teeth
from hakmem_lab.judge.statistics.special import ndtri, stdtrit
from hakmem_lab.judge.steps import Steps, steps
from hakmem_lab.plan.metrics import HOUR_S
from hakmem_lab.store.query import samples_of
from hakmem_lab.store.records import Record, Sample

MOST_POINTS = 900
WARM_UP_LEVEL = 0.95


def stays(phases: Sequence[object]) -> list[tuple[int, int]]:
    """(first, one past the last) index of every uninterrupted stay in one phase."""
    starts = [i for i in range(len(phases)) if i == 0 or phases[i] != phases[i - 1]]
    return list(zip(starts, [*starts[1:], len(phases)], strict=True))


@dataclass(frozen=True)
class Series:
    """t_s increases. visit: number of the stay in a phase that a sample belongs to. group: samples of one group are
    comparable."""

    t_s: np.ndarray
    y: np.ndarray
    visit: np.ndarray
    group: np.ndarray

    @classmethod
    def of(cls, t_s: Values, y: Values, phases: Sequence[str | None]) -> "Series":
        """Without phases all samples are one group; else a group has a phase and an age of its stay, on a logarithmic
        scale."""
        t, found = np.asarray(t_s, dtype=float), stays(phases)
        visit, group = np.zeros(t.size, dtype=int), np.zeros(t.size, dtype=int)
        if len(found) > 1:
            numbers: dict[tuple[str | None, int], int] = {}
            for number, (first, end) in enumerate(found):
                visit[first:end] = number
                for i in range(first, end):
                    age = math.floor(2 * math.log2(1 + t[i] - t[first]))
                    group[i] = numbers.setdefault((phases[i], age), len(numbers))
        return cls(t, np.asarray(y, dtype=float), visit, group)

    @property
    def phased(self) -> bool:
        return bool(self.visit.max() > 0)

    def part(self, chosen: np.ndarray | slice) -> "Series":
        return Series(self.t_s[chosen], self.y[chosen], self.visit[chosen], self.group[chosen])

    def with_y(self, y: np.ndarray) -> "Series":
        return Series(self.t_s, y, self.visit, self.group)

    def comparable(self) -> "Series":
        """The series without groups that occur in only one visit."""
        if not self.phased:
            return self
        often = [each for each in np.unique(self.group) if np.unique(self.visit[self.group == each]).size > 1]
        return self.part(np.isin(self.group, often))

    def thinned(self) -> "Series":
        """Means of neighbours of the same visit and group, so that about MOST_POINTS remain."""
        size = -(-self.y.size // MOST_POINTS)
        if size < 2:
            return self
        runs = stays(list(zip(self.visit.tolist(), self.group.tolist(), strict=True)))
        parts = [part for a, b in runs for part in np.array_split(np.arange(a, b), -(-(b - a) // size))]
        firsts = np.array([part[0] for part in parts])
        t, y = (np.array([values[part].mean() for part in parts]) for values in (self.t_s, self.y))
        return Series(t, y, self.visit[firsts], self.group[firsts])

    def group_medians(self, values: np.ndarray) -> np.ndarray:
        """For each sample the median of its group."""
        medians = {each: float(np.median(values[self.group == each])) for each in np.unique(self.group)}
        return np.array([medians[each] for each in self.group])

    def level_ground(self, slope_per_s: float) -> np.ndarray:
        """y with every group shifted to the same level, the slope kept."""
        levels = self.group_medians(self.y - slope_per_s * self.t_s)
        return self.y - levels + np.median(levels)

    def slope_per_s(self) -> float:
        """Sen's seasonal slope: the median over all pairs of one group (and of different visits); 0 without pairs."""
        series, slopes = self.thinned(), []
        for each in np.unique(series.group):
            mine = series.group == each
            t, y, visit = series.t_s[mine], series.y[mine], series.visit[mine]
            first, second = np.triu_indices(t.size, 1)
            if self.phased:
                apart = visit[first] != visit[second]
                first, second = first[apart], second[apart]
            slopes.append((y[second] - y[first]) / (t[second] - t[first]))
        pairs = np.concatenate(slopes) if slopes else np.empty(0)
        return float(np.median(pairs)) if pairs.size else 0.0

    def inflation(self, level: float) -> float:
        """The factor by which an interval widens because a level is estimated for each group, as in a regression.

        With R² of the time on the groups, the standard error of a slope grows by 1 / sqrt(1 - R²). A group's level uses
        up one of the m visits that share it, so the residuals' variance is too small by the factor (m - 1) / m, and the
        quantile is Student's.
        """
        means = {each: self.t_s[self.group == each].mean() for each in np.unique(self.group)}
        left = self.t_s - np.array([means[each] for each in self.group])
        all_of_it = self.t_s - self.t_s.mean()
        unexplained = float(left @ left) / float(all_of_it @ all_of_it)
        sharing = {each: np.unique(self.visit[self.group == each]).size for each in np.unique(self.group)}
        free = float(np.mean([1 - 1 / sharing[each] for each in self.group]))
        freedom = max(1.0, np.unique(self.visit).size * free - 1)
        tail = (1 + level) / 2
        student = float(stdtrit(freedom, tail)) / float(ndtri(tail))
        return student / math.sqrt(unexplained * free) if unexplained > 0 else math.inf


def drift(series: Series, level: float) -> Slope | None:
    """The slope with its interval; None with too few samples, or if no phase came back."""
    series = series.comparable().thinned()
    if series.y.size < LEAST_SAMPLES:
        return None
    if not series.phased:
        return theil_sen(series.t_s, series.y, level)
    slope, inflation = series.slope_per_s(), series.inflation(level)
    ground = series.level_ground(slope)
    fit = theil_sen(series.t_s, ground, level)
    below, above = (fit.slope_per_s - fit.low) * inflation, (fit.high - fit.slope_per_s) * inflation
    return Slope(slope, slope - below, slope + above)


def _lasting_slope(series: Series) -> float:
    """The slope of the whole series, which is known best, if the second half's interval agrees with it; else 0 if that
    interval contains 0; else the slope of the second half."""
    whole, late = drift(series, WARM_UP_LEVEL), drift(series.part(slice(series.y.size // 2, None)), WARM_UP_LEVEL)
    if whole is None or late is None:
        return 0.0
    if whole.low <= late.high and late.low <= whole.high:
        return whole.slope_per_s
    return 0.0 if late.low <= 0 <= late.high else late.slope_per_s


def steady_from(series: Series) -> int:
    """Index at which a warm-up without a time constant is over: memory has then reached a level of its own. A lasting
    slope is removed first: a leak is not a warm-up."""
    if series.y.size < 2 * LEAST_SAMPLES:
        return 0
    slope = _lasting_slope(series)
    return warmup_end(series.level_ground(slope) - slope * series.t_s)


KIB_PER_MIB = 1024.0
PERCENT = 100.0
ALPHA = 0.05
PLAIN_EPOCHS = 12
OF_LINES = ("ops_per_s",)
SERVICE_TIMES = ("p50_us", "p99_us", "p999_us")


@dataclass(frozen=True)
class Judged:
    """What the slope of memory is computed from: every sample of the steady state, or the minima of a sawtooth there.

    y: in KiB, without the rest of the warm-up. tau_s: the warm-up's time constant, None without one. teeth: number of
    minima, 0 if all samples are judged. highest: the slope of the teeth's maxima.
    """

    start_s: float
    y: np.ndarray
    rss: Slope | None
    changes_s: list[float]
    tau_s: float | None
    teeth: int
    highest: Slope | None


def _per_hour(slope: Slope | None) -> Slope | None:
    """KiB per second to MiB per hour."""
    return slope and slope.times(HOUR_S / KIB_PER_MIB)


def _judged(memory: Series, level: float) -> Judged:
    """The steady state of a series, and the slope there. A sawtooth is judged by its minima: what a program keeps when
    it has given back all it can."""
    thin = memory.thinned()
    found = None if memory.phased else teeth(thin.y)
    basis = thin.part(found.lowest) if found else memory
    start, tau_s = (0, None) if memory.phased else settled(basis.t_s, basis.y)
    if tau_s is None:
        start = steady_from(basis)
    tail = basis.part(slice(start, None))
    if tau_s and tail.y.size >= LEAST_SAMPLES:
        own = tail.thinned()
        slope: Slope | None = settled_slope(own.t_s, own.y, tau_s, level)
        tail = tail.with_y(tail.y - curve(tail.t_s, tail.y, tau_s))
    else:
        slope = drift(tail, level)
    if tail.phased and slope is not None:
        tail = tail.with_y(tail.level_ground(slope.slope_per_s))
    highest = thin.part(found.highest[found.highest >= found.lowest[start]]) if found else None
    changes = []
    if slope is not None:
        # The times at which a new level begins that neither the phases nor the slope explain.
        indices = change_points(tail.level_ground(slope.slope_per_s) - slope.slope_per_s * tail.t_s)
        changes = [float(tail.t_s[i]) for i in indices]
    return Judged(
        float(tail.t_s[0]), tail.y, _per_hour(slope), changes, tau_s,
        tail.y.size if found else 0, _per_hour(drift(highest, level) if highest else None),
    )  # fmt: skip


@dataclass(frozen=True)
class Segment:
    """One process: its samples, and the analysis of its steady state. Slopes in MiB/h and percent per hour."""

    number: int
    samples: list[Sample]
    steady: range
    rss: Slope | None
    throughput: Slope | None
    live: Slope | None
    changes_s: list[float]
    course: np.ndarray  # resident memory in KiB over the judged time, corrected for phases
    judged: Judged

    def net_mib(self) -> float:
        """The last value of the steady state minus its first one: samples, or minima of teeth."""
        return float(self.judged.y[-1] - self.judged.y[0]) / KIB_PER_MIB

    def step_mib(self) -> float:
        """The size of a lasting step after the warm-up; 0 without one."""
        series = [self.judged.y] if self.judged.teeth else [self.course, self.judged.y]
        return max(float(lasting_step(each)) for each in series) / KIB_PER_MIB

    def steps(self) -> Steps:
        return steps(self.course, self.duration_s / HOUR_S)

    def stays_risen(self, rss: Slope, budget_mib_per_h: float) -> bool:
        """Whether the growth that this slope implies was kept."""
        steady_kib_h = self.steady_s / HOUR_S * KIB_PER_MIB
        rise = np.asarray(rss.slope_per_s * steady_kib_h)
        return bool(stays_risen(self.judged.y, rise, budget_mib_per_h * steady_kib_h))

    @property
    def steady_s(self) -> float:
        return self.samples[self.steady[-1]]["t_s"] - self.samples[self.steady[0]]["t_s"]

    def steady_samples(self) -> list[Sample]:
        return [self.samples[i] for i in self.steady]

    @property
    def duration_s(self) -> float:
        return self.samples[-1]["t_s"] - self.samples[0]["t_s"]


def column(samples: Sequence[Mapping[str, Any]], name: str) -> tuple[list[int], np.ndarray]:
    """(indices of the samples that have it, their values)."""
    known = [i for i, sample in enumerate(samples) if sample.get(name) is not None]
    return known, np.array([samples[i][name] for i in known], dtype=float)


def phases_of(samples: Sequence[Mapping[str, Any]], name: str = "phase") -> list[str | None]:
    """The phase at each sample; samples before the first announcement get the first announced phase."""
    first = next((sample[name] for sample in samples if sample.get(name)), None)
    return [sample.get(name) or first for sample in samples]


def window_of(samples: Sequence[Sample]) -> slice | None:
    """For a program whose phases do not come back, such as loading and serving: the longest stay, by which it is
    judged, if that takes at least half of the time. None otherwise."""
    phases = phases_of(samples)
    found = stays(phases)
    if len(found) == 1 or len({phases[a] for a, _ in found}) < len(found):
        return None
    first, end = max(found, key=lambda stay: stay[1] - stay[0])
    return slice(first, end) if 2 * (end - first) >= len(samples) else None


def _series(samples: Sequence[Sample], name: str) -> tuple[Series, np.ndarray]:
    """(the figure over time, the indices of its samples)."""
    known, values = column(samples, name)
    phases = phases_of(samples, "line_phase" if name in OF_LINES else "phase")
    t_s = [sample["t_s"] for sample in samples]
    whole = Series.of(t_s, np.zeros(len(samples)), phases if window_of(samples) is None else [None] * len(samples))
    return whole.part(np.array(known, dtype=int)).with_y(values), np.array(known, dtype=int)


def _drift_of(samples: Sequence[Sample], name: str, steady: range, factor: float, level: float) -> Slope | None:
    """The slope per hour, times the factor, of the samples in `steady`; throughput as a share of each phase's level."""
    series, known = _series(samples, name)
    series = series.part((known >= steady.start) & (known < steady.stop))
    if series.y.size == 0:
        return None
    if name in OF_LINES:
        levels = series.group_medians(series.y)
        if levels.min() <= 0:
            return None
        series = series.with_y(series.y / levels)
    found = drift(series, level)
    if found is None:
        return None
    return found.times(factor * HOUR_S)


def analyse_segment(number: int, samples: list[Sample], level: float) -> Segment:
    """Analyse one process. Its warm-up is searched in the memory's course without the phases' levels and the drift."""
    rss, _ = _series(samples, "rss_kib")
    window = window_of(samples) or slice(0, len(samples))
    judged = _judged(rss.part(window), level)
    steady = range(int(np.searchsorted(rss.t_s, judged.start_s)), window.stop)
    throughput = _drift_of(samples, "ops_per_s", steady, PERCENT, level)
    live = _drift_of(samples, "live_kib", steady, 1 / KIB_PER_MIB, level)
    course = _course(rss.part(slice(window.start, steady.stop)), judged)
    return Segment(number, samples, steady, judged.rss, throughput, live, judged.changes_s, course, judged)


def _course(whole: Series, judged: Judged) -> np.ndarray:
    """The series without the levels of its phases."""
    if not whole.phased:
        return whole.y
    slope_per_s = judged.rss.slope_per_s * KIB_PER_MIB / HOUR_S if judged.rss else 0.0
    levels = whole.group_medians(whole.y - slope_per_s * whole.t_s) if judged.rss else 0.0
    return whole.y - levels + np.median(levels)


def segments(records: Iterable[Record], warm_up_s: float = 0.0) -> list[Segment]:
    """Every process of the soak that outlasts its warm-up, in order; their intervals hold at once with 95 %."""
    by_number: dict[int, list[Sample]] = {}
    for sample in samples_of(records):
        by_number.setdefault(sample["segment"], []).append(sample)
    judged = {
        number: [sample for sample in samples if sample["t_s"] - samples[0]["t_s"] >= warm_up_s]
        for number, samples in sorted(by_number.items())
    }
    level = 1 - ALPHA / max(1, len(judged))
    return [analyse_segment(number, samples, level) for number, samples in judged.items() if samples]


def epochs(samples: Sequence[Sample]) -> list[Record]:
    """One row for every period in a phase; without phases, for twelve equal parts."""
    phases = phases_of(samples)
    parts = stays(phases)
    if len(set(phases)) == 1:
        ends = np.linspace(0, len(samples), min(PLAIN_EPOCHS, len(samples)) + 1).astype(int).tolist()
        parts = list(itertools.pairwise(ends))
    return [
        {
            "start_s": samples[first]["t_s"],
            "end_s": samples[min(end, len(samples) - 1)]["t_s"],
            "phase": phases[first],
            **{name: _median(samples[first:end], name) for name in (*OF_LINES, *SERVICE_TIMES)},
            "rss_mib": _median(samples[first:end], "rss_kib", KIB_PER_MIB),
            "live_mib": _median(samples[first:end], "live_kib", KIB_PER_MIB),
        }
        for first, end in parts
    ]


def _median(samples: Sequence[Sample], name: str, divisor: float = 1.0) -> float | None:
    values = column(samples, name)[1]
    return float(np.median(values)) / divisor if values.size else None
