"""Series for the pictures, from run records: ratios per block and values per arm, thinned where there are too many."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hakmem_lab.judge.statistics.paired import WalshAverages
from hakmem_lab.show.numbers import finite
from hakmem_lab.show.report.model import LoadedRun
from hakmem_lab.store.records import Run, Sample
from hakmem_lab.store.results import Comparison

DRAWN_POINTS = 2000

Floats = NDArray[np.float64]


@dataclass
class BlockRatios:
    """One comparison over its blocks: block numbers and log-ratios, in the order of the blocks."""

    blocks: NDArray[np.int64]
    log_ratios: Floats


def values_by_arm(run: LoadedRun) -> dict[str, Floats]:
    """The primary metric of every counted run, by arm, in the order of the arms.

    For a sweep, the runs of the selection: it has all arms, and the result's medians come from it.
    """
    values: dict[str, list[float]] = defaultdict(list)
    sweep = "selection" in run.result and any(record.get("phase") == "select" for record in run.counted)
    for record in run.counted:
        if sweep and record.get("phase") != "select":
            continue
        value = finite(record.get("value"))
        if value is not None:
            values[str(record.get("arm"))].append(value)
    order = [name for name in run.arm_names if name in values] + [n for n in values if n not in run.arm_names]
    return {name: np.array(values[name]) for name in order}


def block_ratios(run: LoadedRun, comparison: Comparison) -> BlockRatios:
    """The log-ratio of each block for a comparison of the primary metric, without blocks that lack an arm.

    For a sweep, only the confirmation's blocks.
    """
    names = (str(comparison.get("control")), str(comparison.get("treatment")))
    metric = run.result.get("metric") or {}
    sign, more = 1 if metric.get("higher_is_better") else -1, metric.get("doubling", 0.0)
    logs: dict[int, tuple[list[float], list[float]]] = defaultdict(lambda: ([], []))
    phase = "confirm" if "selection" in run.result else "measure"
    for record in run.counted:
        if record.get("phase", phase) != phase:
            continue
        value, block = finite(record.get("value")), finite(record.get("block"))
        if value is None or value <= 0 or block is None or record.get("arm") not in names:
            continue
        logs[int(block)][names.index(str(record["arm"]))].append(float(np.log(value + more)))
    kept = sorted(block for block, (control, treatment) in logs.items() if control and treatment)
    ratios = [sign * (np.mean(logs[block][1]) - np.mean(logs[block][0])) for block in kept]
    return BlockRatios(np.array(kept, dtype=np.int64), np.array(ratios, dtype=np.float64))


def running_estimate(log_ratios: Floats, points: int = 40) -> tuple[NDArray[np.int64], Floats]:
    """The Hodges–Lehmann estimate after 1…n blocks at up to `points` places: (number of blocks, log-ratio)."""
    total = len(log_ratios)
    counts = np.unique(np.linspace(1, total, min(points, total)).astype(np.int64)) if total else np.array([], np.int64)
    return counts, np.array([WalshAverages(log_ratios[:n]).median() for n in counts])


def thin_sorted(values: Floats, limit: int) -> tuple[Floats, bool]:
    """At most `limit` values, evenly spaced in rank with both extremes kept; whether any were left out."""
    if len(values) <= limit:
        return np.sort(values), False
    ranks = np.linspace(0, len(values) - 1, limit).round().astype(np.int64)
    return np.sort(values)[ranks], True


@dataclass
class Envelope:
    """Many values over time: the median at each time, and the range. binned: each time stands for a bin with equally
    many samples."""

    t_s: Floats
    median: Floats
    low: Floats
    high: Floats
    binned: bool = False


def envelope(samples: Sequence[Sample], key: str, limit: int = 400) -> Envelope | None:
    """The series `key` of the samples over `t_s`; binned when it has more than `limit` samples. None if it is empty."""
    pairs = [(finite(sample.get("t_s")), finite(sample.get(key))) for sample in samples]
    known = np.array([(t, value) for t, value in pairs if t is not None and value is not None], dtype=np.float64)
    if not len(known):
        return None
    t_s, value = known[:, 0], known[:, 1]
    if len(known) <= limit:
        return Envelope(t_s, value, value, value)
    order = np.argsort(t_s, kind="stable")
    parts = [(t_s[part], value[part]) for part in np.array_split(order, limit)]
    columns = np.array([(t.mean(), np.median(v), v.min(), v.max()) for t, v in parts])
    return Envelope(columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3], True)


def memory_curves(run: LoadedRun, points: int = 64) -> dict[str, Envelope]:
    """Resident memory of each arm over time in KiB: median and middle half of its runs, from the start of a run. For a
    server, from the start of its measured client."""
    curves: dict[str, list[Floats]] = defaultdict(list)
    for record in run.counted:
        series, begin_ms, end_ms = _resident(record)
        inside = [(at - begin_ms, kib) for at, kib in series if begin_ms <= at <= end_ms]
        if len(inside) > 1:
            curves[str(record.get("arm"))].append(np.array(inside, dtype=np.float64))
    found = {}
    for arm in [name for name in run.arm_names if name in curves]:
        end_ms = float(np.median([curve[-1, 0] for curve in curves[arm]]))
        grid = np.linspace(0, end_ms, points)
        rows = np.array([np.interp(grid, curve[:, 0], curve[:, 1], right=np.nan) for curve in curves[arm]])
        low, median, high = np.nanquantile(rows, (0.25, 0.5, 0.75), axis=0)
        found[arm] = Envelope(grid / 1e3, median, low, high)
    return found


def _resident(record: Run) -> tuple[list[tuple[float, float]], float, float]:
    """(points, begin, end) of a run, or of its server. A point is (milliseconds, KiB); begin and end are the window to
    use, in milliseconds."""
    server = record.get("server") or {}
    begin, end = server.get("window_ms") or (0.0, float("inf"))
    given = server.get("rss_series") or record.get("rss_series") or []
    pairs = [(finite(each[0]), finite(each[1])) for each in given if isinstance(each, (list, tuple)) and len(each) == 2]
    return [(at, kib) for at, kib in pairs if at is not None and kib is not None], begin, end
