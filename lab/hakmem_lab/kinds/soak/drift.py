"""Slopes and levels of one segment of a soak, with the effect of the announced phases taken out.

Pure. A program that cycles through phases has another level in each of them, and a course of its own after each change.
So a sample is compared only with those of other visits to the same phase at the same age: what differs between visits
is the drift. A phase that came only once says nothing about it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from hakmem_lab.judge.statistics.drift import LEAST_SAMPLES, change_points, theil_sen, warmup_end

MOST_POINTS = 900
WARM_UP_LEVEL = 0.95


@dataclass(frozen=True)
class Drift:
    """A slope per second in the series' unit with its interval."""

    slope_per_s: float
    low: float
    high: float


def stays(phases: Sequence[str | None]) -> list[tuple[int, int]]:
    """(first, one past the last) index of every uninterrupted stay in one phase."""
    starts = [i for i in range(len(phases)) if i == 0 or phases[i] != phases[i - 1]]
    return list(zip(starts, [*starts[1:], len(phases)], strict=True))


@dataclass(frozen=True)
class Series:
    """t_s increases. visit: which stay in a phase a sample belongs to. group: samples of one group are comparable."""

    t_s: np.ndarray
    y: np.ndarray
    visit: np.ndarray
    group: np.ndarray

    @classmethod
    def of(cls, t_s: Sequence[float], y: Sequence[float], phases: Sequence[str | None]) -> "Series":
        """Groups: one for all without phases; else the phase and the age of the stay, in steps that double."""
        t, found = np.asarray(t_s, dtype=float), stays(phases)
        visit, group = np.zeros(t.size, dtype=int), np.zeros(t.size, dtype=int)
        if len(found) > 1:
            numbers: dict[tuple, int] = {}
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
        """Without the groups that only one visit has."""
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
        """How much wider an interval is for having estimated a level for each group, as in a regression.

        With R² of the time on the groups, the standard error of a slope grows by 1 / sqrt(1 - R²). Of the m visits
        that share a group one goes into its level: the residuals' variance is too small by (m - 1) / m, and the
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


def drift(series: Series, level: float) -> Drift | None:
    """The slope with its interval; None with too few samples, or where no phase came back."""
    series = series.comparable().thinned()
    if series.y.size < LEAST_SAMPLES:
        return None
    if not series.phased:
        fit = theil_sen(series.t_s, series.y, level)
        return Drift(fit.slope_per_s, fit.low, fit.high)
    slope, inflation = series.slope_per_s(), series.inflation(level)
    ground = series.level_ground(slope)
    fit = theil_sen(series.t_s, ground, level)
    below, above = (fit.slope_per_s - fit.low) * inflation, (fit.high - fit.slope_per_s) * inflation
    return Drift(slope, slope - below, slope + above)


def _lasting_slope(series: Series) -> float:
    """The slope that the second half agrees with: that of all, which is known best, else none, else its own."""
    whole, late = drift(series, WARM_UP_LEVEL), drift(series.part(slice(series.y.size // 2, None)), WARM_UP_LEVEL)
    if whole is None or late is None:
        return 0.0
    if whole.low <= late.high and late.low <= whole.high:
        return whole.slope_per_s
    return 0.0 if late.low <= 0 <= late.high else late.slope_per_s


def steady_from(series: Series) -> int:
    """Index at which the warm-up is over; a slope that lasts is no part of it, since a leak is none."""
    if series.y.size < 2 * LEAST_SAMPLES:
        return 0
    slope = _lasting_slope(series)
    return warmup_end(series.level_ground(slope) - slope * series.t_s)


def level_changes(series: Series, slope_per_s: float) -> list[int]:
    """Indices at which a new level begins that neither the phases nor the slope explain."""
    return change_points(series.level_ground(slope_per_s) - slope_per_s * series.t_s)
