"""What the samples of each process of a soak say. Pure.

What a slope does not see: memory that grows in steps, and memory that comes back. Pure.

A median of slopes is 0 where a leak comes in one step, and a search for the warm-up takes that step for its end; it is
above 0 where a process that gives its memory back every now and then is looked at between two such times. So a slope
within the budget is believed only where no step lasts, and one above it only where what grew did not come back.
All work on rows of samples at equal times, one series each, their last axis is time.
"""

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hakmem_lab.kinds.soak.drift import Drift, Series, drift, level_changes, stays, steady_from

HOUR_S = 3600.0
KIB_PER_MIB = 1024.0
PERCENT = 100.0
ALPHA = 0.05
PLAIN_EPOCHS = 12
OF_LINES = ("ops_per_s",)


@dataclass(frozen=True)
class Segment:
    """One process: its samples and what they say about its steady state. Slopes in MiB/h and percent per hour."""

    number: int
    samples: list[dict]
    steady: range
    rss: Drift | None
    throughput: Drift | None
    live: Drift | None
    changes_s: list[float]
    course: np.ndarray  # resident memory in KiB without what the phases do, from where the program is judged at all

    def net_mib(self) -> float:
        """By how much the last sample of the steady state lies above its first one."""
        return float(self.course[-1] - self.course[-len(self.steady)]) / KIB_PER_MIB

    def step_mib(self) -> float:
        """A step that lasts, where a warm-up explains none."""
        return float(lasting_step(self.course)) / KIB_PER_MIB

    def stays_risen(self, budget_mib_per_h: float) -> bool:
        """Whether what the slope says was taken was not given back."""
        steady_kib_h = self.steady_s / HOUR_S * KIB_PER_MIB
        rise = np.asarray(self.rss.slope_per_s * steady_kib_h)
        return bool(stays_risen(self.course, rise, budget_mib_per_h * steady_kib_h))

    @property
    def steady_s(self) -> float:
        return self.samples[self.steady[-1]]["t_s"] - self.samples[self.steady[0]]["t_s"]

    def steady_samples(self) -> list[dict]:
        return [self.samples[i] for i in self.steady]

    @property
    def duration_s(self) -> float:
        return self.samples[-1]["t_s"] - self.samples[0]["t_s"]


def column(samples: Sequence[dict], name: str) -> tuple[list[int], np.ndarray]:
    """(indices of the samples that have it, their values)."""
    known = [i for i, sample in enumerate(samples) if sample.get(name) is not None]
    return known, np.array([samples[i][name] for i in known], dtype=float)


def phases_of(samples: Sequence[dict], name: str = "phase") -> list[str | None]:
    """The phase at each sample; before the first announcement that of the first."""
    first = next((sample[name] for sample in samples if sample.get(name)), None)
    return [sample.get(name) or first for sample in samples]


def window_of(samples: Sequence[dict]) -> slice | None:
    """The one stay that a program is judged by whose phases do not come back (say, loading and serving), where it takes
    half of the time; None where phases come back or nothing can be said."""
    phases = phases_of(samples)
    found = stays(phases)
    if len(found) == 1 or len({phases[a] for a, _ in found}) < len(found):
        return None
    first, end = max(found, key=lambda stay: stay[1] - stay[0])
    return slice(first, end) if 2 * (end - first) >= len(samples) else None


def _series(samples: Sequence[dict], name: str) -> tuple[Series, np.ndarray]:
    """(the figure over time, the indices of its samples)."""
    known, values = column(samples, name)
    phases = phases_of(samples, "line_phase" if name in OF_LINES else "phase")
    t_s = [sample["t_s"] for sample in samples]
    whole = Series.of(t_s, np.zeros(len(samples)), phases if window_of(samples) is None else [None] * len(samples))
    return whole.part(np.array(known, dtype=int)).with_y(values), np.array(known, dtype=int)


def _drift_of(samples: Sequence[dict], name: str, steady: range, factor: float, level: float) -> Drift | None:
    """Per hour, times the factor, of the samples in `steady`; of throughput in shares of each phase's level."""
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
    per_hour = factor * HOUR_S
    return Drift(found.slope_per_s * per_hour, found.low * per_hour, found.high * per_hour)


def analyse_segment(number: int, samples: list[dict], level: float) -> Segment:
    """The warm-up is found in the memory's course, after the phases' levels and the drift were taken out."""
    rss, _ = _series(samples, "rss_kib")
    window = window_of(samples) or slice(0, len(samples))
    steady = range(window.start + steady_from(rss.part(window)), window.stop)
    found = _drift_of(samples, "rss_kib", steady, 1 / KIB_PER_MIB, level)
    changes = []
    if found is not None:
        part = rss.part(slice(steady.start, steady.stop))
        indices = level_changes(part, found.slope_per_s * KIB_PER_MIB / HOUR_S)
        changes = [float(samples[steady[i]]["t_s"]) for i in indices]
    throughput = _drift_of(samples, "ops_per_s", steady, PERCENT, level)
    live = _drift_of(samples, "live_kib", steady, 1 / KIB_PER_MIB, level)
    whole = rss.part(slice(window.start, steady.stop))
    levels = whole.group_medians(whole.y - found.slope_per_s * KIB_PER_MIB / HOUR_S * whole.t_s) if found else 0.0
    course = whole.y - levels + np.median(levels) if whole.phased else whole.y
    return Segment(number, samples, steady, found, throughput, live, changes, course)


def segments(records: Iterable[dict]) -> list[Segment]:
    """Every process of the soak, in order; their intervals hold together with 95 %."""
    by_number: dict[int, list[dict]] = {}
    for record in records:
        if record["type"] == "sample":
            by_number.setdefault(record["segment"], []).append(record)
    level = 1 - ALPHA / max(1, len(by_number))
    return [analyse_segment(number, samples, level) for number, samples in sorted(by_number.items())]


def epochs(samples: Sequence[dict]) -> list[dict]:
    """One row for every stay in a phase; without phases, for twelve equal parts."""
    phases = phases_of(samples)
    parts = stays(phases)
    if len(set(phases)) == 1:
        ends = np.linspace(0, len(samples), min(PLAIN_EPOCHS, len(samples)) + 1).astype(int).tolist()
        parts = list(itertools.pairwise(ends))
    rows = []
    for first, end in parts:
        part = samples[first:end]

        def median(name: str, part: Sequence[dict] = part) -> float | None:
            values = column(part, name)[1]
            return float(np.median(values)) if values.size else None

        rows.append(
            {
                "start_s": part[0]["t_s"],
                "end_s": samples[min(end, len(samples) - 1)]["t_s"],
                "phase": phases[first],
                "ops_per_s": median("ops_per_s"),
                "p50_us": median("p50_us"),
                "p99_us": median("p99_us"),
                "p999_us": median("p999_us"),
                "rss_mib": median("rss_kib") / 1024,
                "live_mib": live / 1024 if (live := median("live_kib")) is not None else None,
            }
        )
    return rows


POINTS = 100
# A step that comes in this part of the time may be the end of the warm-up: of a leak whose steps may come at any time
# no more than that share is missed.
WARM_UP_POINTS = 4
_BEFORE = 3  # points; the last of them may hold a part of the step
_OF_THE_RISE = 0.4
_LEAST_TURNS = 12


def thinned(y: np.ndarray) -> np.ndarray:
    """Means of about POINTS equal parts."""
    ends = np.linspace(0, y.shape[-1], min(POINTS, y.shape[-1]) + 1).astype(int)
    return np.add.reduceat(y, ends[:-1], axis=-1) / np.diff(ends)


def lasting_step(y: np.ndarray) -> np.ndarray:
    """The greatest rise from one moment to the next below which the series never came again, once the warm-up may be
    over: what is most of all that it rose by. 0 where there is none, as in a ramp."""
    points = thinned(y)
    after = np.minimum.accumulate(points[..., ::-1], axis=-1)[..., ::-1]
    padded = np.concatenate([points[..., :1]] * _BEFORE + [points], axis=-1)
    before = np.maximum.reduce([padded[..., i : i + points.shape[-1]] for i in range(_BEFORE - 1)])
    rises = (after - before)[..., WARM_UP_POINTS:]
    if rises.shape[-1] == 0:
        return np.zeros(y.shape[:-1])
    step, rise = rises.max(axis=-1), points[..., -1] - points[..., WARM_UP_POINTS - 1]
    return np.where((step > 0) & (step >= _OF_THE_RISE * rise), step, 0.0)


def stays_risen(y: np.ndarray, rise: np.ndarray, least: float) -> np.ndarray:
    """Whether the series did not come back by as much as half of what its slope makes of it (`rise`); or, of one that
    comes back often, whether its lowest and its highest values rose, at the rate of more than `least` in this time."""
    points = thinned(y)[..., WARM_UP_POINTS:]
    size = points.shape[-1]
    back = (np.maximum.accumulate(points, axis=-1) - points).max(axis=-1)
    away = points - np.asarray(rise)[..., None] * np.linspace(0, 1, size)
    above = away > np.median(away, axis=-1, keepdims=True)
    turns = (above[..., 1:] != above[..., :-1]).sum(axis=-1)
    third = max(1, y.shape[-1] // 3)
    first, last = y[..., :third], y[..., -third:]
    rose = np.minimum(last.min(axis=-1) - first.min(axis=-1), last.max(axis=-1) - first.max(axis=-1))
    return (back < np.asarray(rise) / 2) | ((turns >= _LEAST_TURNS) & (rose > np.maximum(rise / 3, least * 2 / 3)))
