"""From records to the parts of a result that all block kinds share. Pure."""

import math
import statistics as mean
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast, get_args

from hakmem_lab.judge import limits
from hakmem_lab.judge.failing import failed_runs, failures, times
from hakmem_lab.judge.planning import most_blocks
from hakmem_lab.judge.statistics.coarse import step
from hakmem_lab.judge.statistics.paired import Interval, block_log_ratio, median_interval
from hakmem_lab.judge.warnings import EVENTS, Warn, ordered
from hakmem_lab.plan.metrics import GROWTH, HOUR_S, THOUSAND, Metric, pattern_name, row_of, summed
from hakmem_lab.plan.spec import beside_of, guardrails_of, primary_of
from hakmem_lab.store.query import BESIDE, SCHEDULE, Blocks, events, finished_blocks, runs_of, sentence
from hakmem_lab.store.records import Record, Run, present
from hakmem_lab.store.results import Comparison, Measure, MetricRow, Result, SideRow

ARM_MEDIANS: tuple[Measure, ...] = get_args(Measure)
UNMEASURED = cast(SideRow, dict.fromkeys(ARM_MEDIANS))
DISTURBED_SHARE = 0.1
# A peak above this multiple of the first process's largest sample (one every 10 ms) belongs to another process.
OF_ANOTHER = 4.0
Used = Mapping[str, Any]  # the figures of one process


def metric_of(header: Record) -> Metric:
    return primary_of(header["spec"])


def subject(run: Run) -> Used:
    """The figures of the process that ran on the arm: of the server, if there is one, since its client runs on none."""
    used: Used = run
    if "server" in run:
        used = {**UNMEASURED, **(run["server"] or {}), "wall_s": run["wall_s"]}
    peak, average = used.get("rss_peak_kib"), used.get("rss_mean_kib")
    if peak is not None and average is not None and average > peak:
        # The kernel updates the peak in batches of pages, so it may be below a sample.
        used = {**used, "rss_peak_kib": math.ceil(average)}
    if _of_another(used, run):
        used = {**used, "rss_mean_kib": None}
    return used


def _of_another(used: Used, run: Run) -> bool:
    """Whether the peak is that of a child, such as the compiler that a driver starts. The mean is that of the first
    process alone, so the two figures would not belong together."""
    seen = max((kib for _, kib in run.get("rss_series") or ()), default=0)
    return "server" not in run and seen > 0 and (used.get("rss_peak_kib") or 0) > OF_ANOTHER * seen


def values(runs: Sequence[Run], metric: str) -> list[float] | None:
    """The metric of each run; None if a run lacks it, or if a value is 0, which gives no ratio."""
    found = []
    for run in runs:
        used, value = subject(run), run["metrics"].get(metric)
        if value is None:
            value = summed([used.get(field) for field in row_of(metric).fields])
        if not value:
            return None
        found.append(value)
    return found


def doubling(blocks: Blocks, of: str, metric: Metric) -> float:
    """Growth, in the metric's unit, by which the memory of this arm would double in one run, by its first block; 0 for
    other metrics.

    Of a side that hardly grows, a ratio of growths says nothing. So each side's growth is added to this, and the sums
    are compared: memory after one further run. A difference in growth thus counts as a share of memory, which is that
    of all processes, or of the first one where their PSS was not read. The first block alone decides, so that further
    blocks change no ratio of earlier ones.
    """
    if metric.name != GROWTH or not blocks:
        return 0.0
    of_all, of_one, times_s = (values(blocks[0][of], name) for name in ("pss", "rss", "wall"))
    peaks_kib = of_all or of_one
    if not peaks_kib or not times_s:
        return 0.0
    one_run = metric.requests / THOUSAND if metric.requests else mean.fmean(times_s) / HOUR_S
    return mean.fmean(peaks_kib) / one_run


def comparable(runs: Sequence[Run], metric: Metric, more: float) -> list[float] | None:
    """The values from which ratios are formed, or None. more: `doubling` of the arm that others are compared with."""
    found = values(runs, metric.name)
    return found and [value + more for value in found]


def log_ratios(
    blocks: Blocks, control: str, treatment: str, metric: Metric, of: str | None = None
) -> list[float] | None:
    """Per block, positive = treatment better; None where some run lacks the metric. of: the arm of whose memory growth
    is a share, by default the control."""
    ratios, more = [], doubling(blocks, of or control, metric)
    for block in blocks:
        first, second = (comparable(block[name], metric, more) for name in (control, treatment))
        if first is None or second is None:
            return None
        ratios.append(block_log_ratio(first, second, higher_is_better=metric.higher_is_better))
    return ratios


def judged_ratios(blocks: Blocks, control: str, treatment: str, metric: Metric) -> list[float]:
    """Like log_ratios, for a metric that every finished run has."""
    found = log_ratios(blocks, control, treatment, metric)
    assert found is not None
    return found


def comparison(
    interval: Interval,
    control: str,
    treatment: str,
    metric: str,
    verdict: str | None = None,
    equivalence: Interval | None = None,
) -> Comparison:
    """A row of a result. equivalence: the narrower interval, by which NEUTRAL is decided."""
    row: Comparison = {"name": f"{treatment} against {control}", "metric": metric, "control": control,
                       "treatment": treatment, **interval.row(), "verdict": verdict}  # fmt: skip
    if equivalence is not None:
        narrow = equivalence.ratio()
        row |= {"equivalence_low": narrow.low, "equivalence_high": narrow.high}
    return row


def _used(run: Run) -> Used:
    """The subject's figures, with the area under its memory curve: mean memory times time."""
    used = subject(run)
    mean_kib, wall_s = used.get("rss_mean_kib"), run["wall_s"]
    return {**used, "rss_area_kib_s": mean_kib * wall_s if mean_kib is not None and wall_s is not None else None}


def identity(arm: Record) -> SideRow:
    """The keys by which a result identifies an arm."""
    keys = ("name", "library", "sha256", "version", "configuration", "variables")
    return cast(SideRow, {key: arm.get(key) for key in keys})


def _every(runs: Sequence[Used], name: str) -> list[float]:
    """The measure of each run; empty if a run lacks it."""
    known = [used[name] for used in runs if used.get(name) is not None]
    return known if len(known) == len(runs) else []


def arm_rows(header: Record, blocks: Blocks, metric: Metric, others: Blocks | None = None) -> list[SideRow]:
    """Medians of every arm over the finished blocks; `intervals` has the interval of each median. others: blocks, one
    by one, for peak memory and for the measures that the finished ones lack."""
    rows = []
    for arm in header["arms"]:
        runs = runs_of(blocks, arm["name"])
        row = identity(arm) | {"n": len(runs)}
        if runs:
            row["median"], row["ci_low"], row["ci_high"] = median_interval([present(run["value"]) for run in runs])
            row["intervals"] = {}
            every = [_used(run) for run in runs]
            spare = [_used(run) for run in runs_of(others or [], arm["name"])]
            for name in ARM_MEDIANS:
                # A median of only some runs would not be comparable with medians of all runs.
                first, then = (spare, every) if name == "rss_peak_kib" else (every, spare)
                known = _every(first, name) or _every(then, name)
                row[name] = None
                if known:
                    row[name], *ends = median_interval(known)
                    row["intervals"][name] = [*ends]
        rows.append(row)
    return rows


def warnings(header: Record, records: Sequence[Record]) -> list[str]:
    """Warnings about the reliability of the figures."""
    told = [record for record in records if record["type"] == "event" and record["what"] in EVENTS]
    texts: list[str] = [EVENTS[record["what"]].said(text=record["text"]) for record in told]
    blocks = [record for record in records if record["type"] == "block"]
    disturbed = sum(1 for block in blocks if block.get("disturbed"))
    if disturbed > DISTURBED_SHARE * len(blocks):
        why = blocks[-1].get("disturbed") or "stolen time"
        texts.append(Warn.DISTURBED.said(count=disturbed, all=len(blocks), why=why))
    for arm, count in Counter(record["arm"] for record in failed_runs(records)).items():
        texts.append(Warn.FAILED.said(side=arm, times=times(count)))
    doubtful: dict[str, float] = {}
    for record in records:
        doubtful = record.get("thousands", {}) | doubtful
    for name, value in doubtful.items():
        texts.append(Warn.THOUSANDS.said(name=pattern_name(name), value=value))
    if tries := sentence(header.get("earlier", []), "anytime" in header):
        texts.append(Warn.TRIES.said(text=tries))
    if (header.get("git") or {}).get("dirty") and any(arm["allocator"] == "hakmem" for arm in header["arms"]):
        texts.append(Warn.DIRTY.said())
    return ordered(texts)


def schedule_of(records: Iterable[Record]) -> str | None:
    """The schedule of the blocks; None where the records do not say it."""
    found = events(records, SCHEDULE)
    return found[-1]["schedule"] if found else None


def coarse(values_of: Iterable[Sequence[float]], margin: float, label: str) -> list[str]:
    """A warning if the values of any side come in steps beyond the margin."""
    steps = [found for values in values_of if len(values) and (found := step(values)) is not None]
    if not steps or max(steps) <= margin:
        return []
    return [Warn.COARSE.said(label=label, step=100 * max(steps))]


def begun(header: Record, records: Sequence[Record]) -> Result:
    return {
        "kind": header["kind"],
        "id": header["id"],
        "question": header["question"],
        "verdict": None,
        "final": False,
        "margin": None,
        "arms": [],
        "schedule": schedule_of(records),
        "failures": failures(records),
        "warnings": warnings(header, records),
    }


def described(metric: Metric, blocks: Blocks, first: str) -> MetricRow:
    """The metric in a result. Of growth, with what is needed to show its changes as differences: see `MetricRow`."""
    row, found = metric.record(), [values(block[first], metric.name) for block in blocks if first in block]
    if metric.name != GROWTH or not found or None in found:
        return row
    more, middle = doubling(blocks, first, metric), mean.median(value for each in found for value in each or ())
    return row | {"doubling": more, "base": more + middle}


def base_result(header: Record, records: Sequence[Record], blocks: Blocks) -> Result:
    """The first keys of a result, of a kind that measures in blocks."""
    spec, metric = header["spec"], metric_of(header)
    result, arms = begun(header, records), [arm["name"] for arm in header["arms"]]
    more, also = doubling(blocks, arms[0], metric), spec.get("also", ())
    values_of = ([present(run["value"]) + more for run in runs_of(blocks, name)] for name in arms)
    result["warnings"] += coarse(values_of, spec["margin"], metric.label)
    return (
        result
        | {
            "metric": described(metric, blocks, arms[0]),
            "watched": [described(each, blocks, arms[0]) for each in guardrails_of(spec)],
            "margin": spec["margin"],
            "alpha": spec["alpha"],
            "blocks": len(blocks),
            "max_blocks": most_blocks(header, records),
            "earlier": header.get("earlier", []),
            "arms": arm_rows(header, blocks, metric, beside(records)),
        }
        | ({"also": [described(beside_of(spec, name), blocks, arms[0]) for name in also]} if also else {})
        | limits.of(header, records, metric.name)
    )


def measured(records: Iterable[Record]) -> Blocks:
    return finished_blocks(records, "measure")


def beside(records: Iterable[Record]) -> Blocks:
    """Blocks for figures that the measured blocks cannot give."""
    return finished_blocks(records, BESIDE)
