"""The result of a soak. Pure: header and records in."""

import math
import statistics
from collections.abc import Sequence
from typing import Any, cast

from hakmem_lab.judge import course, words
from hakmem_lab.judge.analysis import begun, identity, warnings
from hakmem_lab.judge.course import Segment
from hakmem_lab.judge.digits import readable
from hakmem_lab.judge.statistics.drift import Slope
from hakmem_lab.judge.statistics.verdict import Verdict, within
from hakmem_lab.judge.warnings import Warn
from hakmem_lab.plan.metrics import HOUR_S
from hakmem_lab.run.endings import duration
from hakmem_lab.store.query import samples_of
from hakmem_lab.store.records import Record, Sample
from hakmem_lab.store.results import Failure, Result, SideRow, Soak
from hakmem_lab.store.runs import plain

# Growth at the budget's rate must reach this before there is a verdict: memory comes in whole chunks, and a program's
# first allocations are no leak.
LEAST_GROWTH_KIB = 64.0
UNSERVED = "was not loaded"
UNSEEN = 3.0  # expected number of events of which none occurs with a probability of 5 %


def least_s(budget_mib_per_h: float) -> float:
    """The shortest steady state in which growth at that rate is visible, in seconds."""
    return LEAST_GROWTH_KIB / course.KIB_PER_MIB / budget_mib_per_h * HOUR_S


def passed(segment: Segment, budget_mib_per_h: float) -> bool | None:
    """True if the upper end of the slope's interval, the rise from the first to the last steady sample, and a lasting
    step are all within the budget. False if the interval begins above the budget and the memory was not returned, or
    if lasting steps exceed it. None if the process does not decide it."""
    if segment.rss is None or segment.steady_s < least_s(budget_mib_per_h):
        return None
    if in_steps(segment, budget_mib_per_h):
        return False
    word = within(segment.rss.low, segment.rss.high, budget_mib_per_h)
    if word is Verdict.NO_GO:
        return False if segment.stays_risen(segment.rss, budget_mib_per_h) else None
    return True if word is Verdict.GO and not unexplained(segment, budget_mib_per_h) else None


def in_steps(segment: Segment, budget_mib_per_h: float) -> bool:
    """Whether growth in lasting steps surely exceeds the budget."""
    rate = segment.steps().rate()
    return rate is not None and rate.low > budget_mib_per_h * course.KIB_PER_MIB


def _stepwise(segment: Segment) -> str:
    """The number of steps, their size, and their rate of growth, in words; empty without steps."""
    found, rate = segment.steps(), segment.steps().rate()
    if rate is None:
        return ""
    size, count = found.sizes.mean() / course.KIB_PER_MIB, found.sizes.size
    said = f"{count} steps of {size:.1f} MiB on average" if count > 1 else f"one step of {size:.1f} MiB"
    low, high = (_rate(end / course.KIB_PER_MIB) for end in (rate.low, rate.high))
    return f"{said} that stayed, as a rate between {low} and {high}"


def unexplained(segment: Segment, budget_mib_per_h: float) -> str:
    if segment.step_mib() > budget_mib_per_h * segment.duration_s / HOUR_S:
        found = _stepwise(segment)
        return f"it rose in {found}" if found else f"it rose by {segment.step_mib():.1f} MiB at once, and stayed there"
    if segment.net_mib() > budget_mib_per_h * segment.steady_s / HOUR_S:
        last = "minimum" if segment.judged.teeth else "sample"
        return f"the last {last} is {segment.net_mib():.1f} MiB above the first one"
    highest = segment.judged.highest
    if highest is not None and highest.low > budget_mib_per_h:
        return f"the maxima of its teeth grow by {_rate(highest.slope_per_s)} ({_between(highest)})"
    return ""


def _between(slope: Slope) -> str:
    return f"between {_rate(slope.low)} and {_rate(slope.high)}"


def _rate(value: float) -> str:
    factor, unit = readable(value, "MiB/h")
    digits = 0 if abs(value / factor) >= 100 else 1 if abs(value / factor) >= 10 else 2
    return f"{value / factor:+,.{digits}f} {unit}".replace("-", "−")


def _amount(budget: float) -> str:
    return words.amount(budget * course.KIB_PER_MIB, "KiB/h")


def _undecided(segment: Segment, rss: Slope, budget: float, slope: str, steady: str) -> str:
    if segment.steady_s < least_s(budget):
        return (
            f"Too short to say: {steady}, growth at the budget's rate would stay below {LEAST_GROWTH_KIB:g} KiB; "
            f"at least {duration(least_s(budget))} of steady state are needed. Seen so far: {slope}."
        )
    if rss.low > budget:
        return f"Undecided: resident memory changes by {slope} {steady}, but what was taken came back in part."
    plain = rss.high <= budget or math.isinf(rss.high)
    if plain and (doubt := unexplained(segment, budget)):
        return f"Undecided: resident memory changes by {slope} {steady}, but {doubt}."
    # In simulations with independent and with strongly correlated samples, this holds for 87 to 98 % of soaks.
    outlook = "; twice the time would likely narrow the interval to less than half" if math.isfinite(rss.high) else ""
    return f"Too noisy to say: resident memory changes by {slope} {steady}, the budget is {_amount(budget)}{outlook}."


def _behind(segment: Segment) -> str:
    """Which samples or minima give the slope, if not all samples unchanged."""
    judged = segment.judged
    teeth = f" by the minima of {judged.teeth} teeth" if judged.teeth else ""
    return teeth + (f", behind a warm-up with a time constant of {duration(judged.tau_s)}" if judged.tau_s else "")


def finding(segment: Segment, verdict: bool | None, budget: float) -> str:
    """One sentence on the process that the figures are from."""
    rss = segment.rss
    if rss is None:
        why = ", and no phase came back" if len(set(course.phases_of(segment.samples))) > 1 else ""
        return f"Too short to say: {len(segment.samples)} samples, {duration(segment.steady_s)} of steady state{why}."
    slope = f"{_rate(rss.slope_per_s)}, an interval cannot be given"
    if math.isfinite(rss.high):
        slope = f"{_rate(rss.slope_per_s)} ({_between(rss)})"
    steady = f"over {duration(segment.steady_s)} of steady state{_behind(segment)}"
    if verdict is None:
        return _undecided(segment, rss, budget, slope, steady)
    if verdict:
        seldom = duration(segment.steady_s / UNSEEN)
        last = "minimum" if segment.judged.teeth else "sample"
        return (
            f"Resident memory changes by {slope} {steady}, by {segment.net_mib():+.1f} MiB from first to last {last}: "
            f"within the budget of {_amount(budget)}. Growth in steps rarer than one in {seldom} would not have been "
            "seen."
        )
    if in_steps(segment, budget):
        return f"Resident memory grows in {_stepwise(segment)}: more than the budget of {_amount(budget)}."
    if passed(segment, budget) is False:
        return f"Resident memory grows by {slope} {steady}: more than the budget of {_amount(budget)}."
    return f"Resident memory of another process of this soak grows by more than the budget of {_amount(budget)}."


def _drift_part(found: Slope | None, name: str, low: str, high: str) -> Record:
    return {name: found and found.slope_per_s, low: found and found.low, high: found and found.high}


def _steps_part(segment: Segment) -> Record:
    rate, found = segment.steps().rate(), segment.steps()
    ends = {"low": rate.low, "estimate": rate.estimate, "high": rate.high} if rate else {}
    return {"steps": int(found.sizes.size), "steps_mib_per_h": {k: v / course.KIB_PER_MIB for k, v in ends.items()}}


def _segment_part(segment: Segment, budget: float) -> Record:
    return {
        "segment": segment.number,
        "start_s": segment.samples[0]["t_s"],
        "duration_s": segment.duration_s,
        "warm_up_s": segment.samples[segment.steady[0]]["t_s"] - segment.samples[0]["t_s"],
        "steady_s": segment.steady_s,
        "samples": len(segment.samples),
        **_drift_part(segment.rss, "rss_slope_mib_per_h", "slope_low", "slope_high"),
        **_drift_part(segment.throughput, "throughput_drift_percent_per_h", "drift_low", "drift_high"),
        **_drift_part(segment.live, "live_slope_mib_per_h", "live_low", "live_high"),
        "change_points": segment.changes_s,
        "settling_s": segment.judged.tau_s,
        "teeth": segment.judged.teeth,
        "net_mib": segment.net_mib(),
        "step_mib": segment.step_mib(),
        **_steps_part(segment),
        "passed": passed(segment, budget),
    }


def _phase_starts(samples: Sequence[Sample]) -> list[Record]:
    phases = course.phases_of(samples)
    return [{"name": phases[i], "start_s": samples[i]["t_s"]} for i, _ in course.stays(phases) if phases[i]]


def _threads(samples: Sequence[Sample]) -> Record:
    counts = [sample["threads"] for sample in samples]
    return {"least": min(counts), "most": max(counts), "started": max(sample["threads_started"] for sample in samples)}


def _service(samples: Sequence[Sample]) -> Record:
    """For each percentile of the service time in one sample: the median over the samples, and the worst."""
    found = {name: course.column(samples, name)[1].tolist() for name in course.SERVICE_TIMES}
    return {
        name: {"median": statistics.median(values), "worst": max(values)} if values else None
        for name, values in found.items()
    }


def _arm(header: Record, records: Sequence[Record], main: Segment) -> SideRow:
    """The arm: its memory in the steady state, and the figures of the process with the longest one."""
    run = next(
        (r for r in records if r["type"] == "run" and r["block"] == main.number), dict[str, Any](main.samples[-1])
    )
    resident = [sample["rss_kib"] for sample in main.steady_samples()]
    # Samples are sums over all processes of the program; the kernel's own peak is that of the largest.
    seen = max(sample["rss_kib"] for sample in main.samples)
    return identity(header["arms"][0]) | {
        "n": 1,
        "wall_s": run.get("wall_s", main.duration_s),
        "cpu_s": run["cpu_s"],
        "rss_peak_kib": max(run.get("rss_peak_kib", 0), seen),
        "rss_mean_kib": statistics.fmean(resident),
        "minor_faults": run["minor_faults"],
        "major_faults": run["major_faults"],
    }


def _warnings(header: Record, records: Sequence[Record], parts: Sequence[Segment]) -> list[str]:
    told = [record for record in records if record.get("ok", True)]  # a process that failed is not run again
    texts, spec = warnings(header, told), header["spec"]
    if len(parts) > 1:
        lengths = ", ".join(duration(part.duration_s) for part in parts)
        texts.append(Warn.RESTARTED.said(count=len(parts), lengths=lengths))
    samples = samples_of(records)
    if not any(sample["operations"] is not None for sample in samples):
        texts.append(Warn.NO_OPERATIONS.said())
    if not all(sample["exact"] for sample in samples):
        texts.append(Warn.INEXACT.said())
    endless = not any("{seconds}" in word for word in spec["command"])
    for record in records:
        if record["type"] == "run" and record["ok"] and record["ended_by_itself"] and endless:
            texts.append(Warn.ENDED.said(after=duration(record["wall_s"])))
    return texts


def _verdict(parts: Sequence[Segment], main: Segment, failed: Sequence[Failure], budget: float) -> bool | None:
    """False if any process is above the budget, or if the program failed; None if its allocator was not loaded."""
    if any(UNSERVED in failure["why"] for failure in failed):
        return None
    if failed or any(passed(part, budget) is False for part in parts):
        return False
    return passed(main, budget)


def found(header: Record, records: Sequence[Record]) -> Result:
    """GO: the growth is within the budget. NO-GO: it is above, or the program failed. See `passed`."""
    spec, parts = header["spec"], course.segments(records, header["spec"].get("warm-up") or 0.0)
    budget = spec["budget"]
    result = begun(header, records) | {
        "metric": {"name": "rss-slope", "unit": "MiB/h", "higher_is_better": False},
        "alpha": course.ALPHA,
        "blocks": len(parts),
        "max_blocks": None,
    }
    if not parts:
        return result | {"withheld": "No sample was taken"}
    main = max(parts, key=lambda part: part.steady_s)
    failed = [failure for failure in result["failures"] if not failure["why"].startswith("interrupted")]
    outcome = _verdict(parts, main, failed, budget)
    covered_s = parts[-1].samples[-1]["t_s"]
    result |= {
        "verdict": str({True: Verdict.GO, False: Verdict.NO_GO, None: Verdict.INCONCLUSIVE}[outcome]),
        "final": covered_s >= spec["duration"] - 2 * spec["sample-interval"],
        "arms": [_arm(header, records, main)],
        "warnings": _warnings(header, records, parts),
        "soak": cast(
            Soak,
            _segment_part(main, budget)
            | {
                "duration_s": covered_s,
                "budget_mib_per_h": budget,
                "epochs": course.epochs(main.samples),
                "phases": _phase_starts(main.samples),
                "threads": _threads(main.samples),
                "service": _service(main.steady_samples()),
                "segments": [_segment_part(part, budget) for part in parts],
                "passed": outcome,
                "finding": f"The soak failed: {failed[-1]['why']}" if failed else finding(main, outcome, budget),
            },
        ),
    }
    return plain(result)
