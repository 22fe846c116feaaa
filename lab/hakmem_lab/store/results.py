"""The result of a run, and its parts: what an analysis returns, the last record of a file holds, and `show` reads.

`hak KIND --json` writes most of these keys: docs/lab/schema.json documents those that stay. Every key may be absent: a
kind has only its own, and results of earlier versions lack some. Changes are ratios minus one, positive = the treatment
is better; an end of an interval is None where nothing bounds it.
"""

# ruff: noqa: UP013 (several keys a line)
from typing import Any, Literal, TypedDict

from hakmem_lab.store.records import Nested, Number, Text

Ends = list[Number]  # of an interval: low, high
Measure = Literal["wall_s", "cpu_s", "rss_peak_kib", "rss_mean_kib", "rss_area_kib_s", "minor_faults", "major_faults"]
# Of growth, in its unit: `doubling` is what the first side's memory would grow by to double in one run, and is added to
# the growth of each side before ratios are formed; `base` is this sum for the first side.
MetricRow = TypedDict("MetricRow", {
    "name": str, "label": str, "unit": str, "higher_is_better": bool, "by": str, "doubling": float, "base": float,
}, total=False)  # fmt: skip
Failure = TypedDict("Failure", {"block": int, "arm": str, "why": str}, total=False)
Earlier = TypedDict("Earlier", {"id": str, "verdict": Text}, total=False)


class Estimate(TypedDict, total=False):
    """A change with its interval. equivalence_low, equivalence_high: the narrower interval that decides NEUTRAL.
    uncorrected: the estimate before the correction for an early stop. exact: a count, which has no interval."""

    metric: str
    estimate: Number
    ci_low: Number
    ci_high: Number
    level: Number
    verdict: Text
    blocks: int
    equivalence_low: Number
    equivalence_high: Number
    uncorrected: Number
    exact: bool


class Comparison(Estimate, total=False):
    """One side against another. far_off, runs, spread: of each side, with the mean. least_blocks and what follows: what
    holds a verdict back. runs_each and what follows: of `judge`. look: number of a planned look, with `of` in all."""

    name: str
    control: str
    treatment: str
    schedule: Text
    sentence: str
    runs: list[int]
    far_off: list[int]
    spread: list[float]
    least_blocks: int
    at_least_margin: bool
    torn: bool
    mean_open: bool
    consistent: bool
    vetoed_by: list[str]
    runs_each: int
    failed: list[int]
    withheld: bool
    drifting: float
    look: int
    of: int


class GuardrailRow(Estimate, total=False):
    """A second metric that may get worse by at most `limit`. status: held, failed or open."""

    arm: str
    limit: Number
    status: str


class EffectRow(Estimate, total=False):
    """An effect of a matrix. failed: the cells failed unequally often, so it has no reading."""

    name: str
    kind: str
    reading: Text
    settled: bool
    failed: bool


class Candidate(Estimate, total=False):
    arm: str


class SideRow(TypedDict, total=False):
    """A side with the medians of its runs. intervals: measure -> interval of its median. median and its interval: of
    the metric. instructions, per_op, inside, share, calls: counted by callgrind."""

    name: str
    text: str
    allocator: str
    library: Text
    sha256: Text
    version: Text
    configuration: Text
    variables: Nested
    gates: Nested
    n: int
    median: Number
    ci_low: Number
    ci_high: Number
    intervals: dict[str, Ends]
    wall_s: Number
    cpu_s: Number
    rss_peak_kib: Number
    rss_mean_kib: Number
    rss_area_kib_s: Number
    minor_faults: Number
    major_faults: Number
    instructions: int
    per_op: Number
    inside: int
    share: float
    calls: int


# Of a metric: the limits of memory between which a side begins to live; what saved memory is worth.
LimitEnd = TypedDict("LimitEnd", {"kib": int, "count": int, "of": int})
LimitRow = TypedDict("LimitRow", {
    "name": str, "by": str, "over_kib": int, "lives": LimitEnd | None, "fails": LimitEnd | None,
})  # fmt: skip
Money = TypedDict("Money", {
    "control": str, "treatment": str, "metric": str, "price": str, "sentence": str, "saved_kib": float,
    "saved_kib_low": Number, "saved_kib_high": Number, "amount": float, "amount_low": Number, "amount_high": Number,
}, total=False)  # fmt: skip

# Designs with parts of their own
Hidden = TypedDict("Hidden", {"name": str, "by": str})  # a main effect that an interaction makes misleading
Selection = TypedDict("Selection", {
    "chosen": str, "candidates": list[Candidate], "confirmation": Comparison | None,
}, total=False)  # fmt: skip
Service = TypedDict("Service", {"systemd": str, "unset": str, "shell": str, "environment": dict[str, str]}, total=False)
Objective = TypedDict("Objective", {"metric": str, "most": bool})
Rung = TypedDict("Rung", {"blocks": int, "arms": int, "kept": list[str]})
RunnerUp = TypedDict("RunnerUp", {"arm": str, "estimate": float, "blocks": int})
Tune = TypedDict("Tune", {
    "default": str, "objective": Objective, "limits": dict[str, float], "candidates": int, "rungs": list[Rung],
    "left_out": list[str], "notes": list[str], "runner_up": RunnerUp | None, "use": Text, "service": Service | None,
    "broke": str,
}, total=False)  # fmt: skip
Aa = TypedDict("Aa", {
    "fit": bool, "state": str, "spread": float, "false_go": float, "false_no_go": float, "neutral": float,
    "inconclusive": float, "resamples": int, "rate": float, "bound": float, "autocorrelation": Number,
    "sequential_rate": Number, "blocks_per_verdict": int | None, "advice": list[str], "busy": bool, "bias": float,
    "bias_low": Number, "bias_high": Number, "noise_percent": float, "smallest_effect_percent": dict[str, float],
}, total=False)  # fmt: skip

# Workloads with parts of their own. Percentiles are in microseconds: p99.9 has the key p999_us.
Cause = TypedDict("Cause", {
    "arm": str, "percentile": str, "requests": int, "causes": dict[str, float], "given_back": Number, "text": str,
}, total=False)  # fmt: skip
Percentiles = TypedDict("Percentiles", {
    "p50_us": Number, "p90_us": Number, "p99_us": Number, "p999_us": Number, "p9999_us": Number, "max_us": Number,
    "mean_us": Number, "intervals": dict[str, Ends],
}, total=False)  # fmt: skip


class LatencySide(Percentiles, total=False):
    """service: the same of the service times. usual_run: the medians of the runs' own percentiles."""

    name: str
    rate_per_s: Number
    service: Percentiles | None
    requests: int
    usual_run: Percentiles


Latency = TypedDict("Latency", {"percentile": str, "arms": list[LatencySide], "causes": list[Cause]}, total=False)
Calls = TypedDict("Calls", {
    "ops": int | None, "calls": float, "least": int, "most": int, "repeats": int, "per_call": dict[str, float],
}, total=False)  # fmt: skip
SyscallSide = TypedDict("SyscallSide", {
    "name": str, "per_op": Number, "per_call": dict[str, float], "per_call_range": dict[str, Ends], "least": float,
    "most": float, "operations": int, "upper_bound": float, "passed": bool | None, "whole": Calls, "short": Calls,
    "long": Calls,
}, total=False)  # fmt: skip
Syscalls = TypedDict("Syscalls", {
    "arms": list[SyscallSide], "budget": Number, "passed": bool | None, "unseen_one_in": Number,
}, total=False)  # fmt: skip

Epoch = TypedDict("Epoch", {
    "start_s": float, "end_s": float, "phase": Text, "ops_per_s": Number, "p50_us": Number, "p99_us": Number,
    "p999_us": Number, "rss_mib": Number, "live_mib": Number,
}, total=False)  # fmt: skip
_Segment = TypedDict("_Segment", {
    "segment": int, "start_s": float, "duration_s": float, "warm_up_s": float, "steady_s": float, "samples": int,
    "rss_slope_mib_per_h": Number, "slope_low": Number, "slope_high": Number, "throughput_drift_percent_per_h": Number,
    "drift_low": Number, "drift_high": Number, "live_slope_mib_per_h": Number, "live_low": Number, "live_high": Number,
    "change_points": list[float], "settling_s": Number, "teeth": int, "net_mib": Number, "step_mib": Number,
    "steps": int, "steps_mib_per_h": dict[str, float], "passed": bool | None,
}, total=False)  # fmt: skip
PhaseStart = TypedDict("PhaseStart", {"name": Text, "start_s": float})
Threads = TypedDict("Threads", {"least": int, "most": int, "started": int})


class Soak(_Segment, total=False):
    """The figures of the process with the longest steady state, and of every process. service: percentile -> its median
    over the samples, and the worst."""

    budget_mib_per_h: float
    epochs: list[Epoch]
    phases: list[PhaseStart]
    threads: Threads
    service: dict[str, dict[str, float] | None]
    segments: list[_Segment]
    finding: str


# A ratio is above 1 where the subject is better; a difference in memory, `less`, is above 0 there.
Ratio = TypedDict("Ratio", {
    "ratio": Number, "less": Number, "unit": str, "ci_low": Number, "ci_high": Number, "equivalence_low": Number,
    "equivalence_high": Number, "word": str,
}, total=False)  # fmt: skip
CardRow = TypedDict("CardRow", {
    "key": str, "workload": str, "group": Text, "metric": str, "unit": str, "arms": dict[str, Ratio],
    "medians": dict[str, float], "best_peer": Text, "bar": Number, "against": Text, "verdict": Text, "to_reach": Text,
    "measured": Text, "value": Number, "ci_low": Number, "ci_high": Number, "blocks": int, "words": list[str],
}, total=False)  # fmt: skip
CardMean = TypedDict("CardMean", {
    "group": Text, "what": str, "workloads": int, "rounds": int, "arms": dict[str, Ratio],
}, total=False)  # fmt: skip
Tried = TypedDict("Tried", {"open": bool, "blocks": int, "seconds": float}, total=False)
Card = TypedDict("Card", {
    "subject": str, "reference": str, "margin": float, "table": str, "rows": list[CardRow], "means": list[CardMean],
    "ratios": dict[str, float], "tried": dict[str, Tried],
}, total=False)  # fmt: skip

Prediction = TypedDict("Prediction", {
    "arm": str, "replay": float, "predicted": float, "low": float, "high": float, "live": Number, "base": bool,
    "error": float, "inside": bool,
}, total=False)  # fmt: skip
Ranking = TypedDict("Ranking", {
    "agree": list[list[str]], "contrary": list[list[str]], "unsure": list[list[str]], "predicted": list[str],
    "live": list[str],
})  # fmt: skip
Predicted = TypedDict("Predicted", {"name": str, "unit": str, "rows": list[Prediction], "ranking": Ranking | None})


class StackSide(Estimate, total=False):
    """Nanoseconds for a block of one stack, with their interval. gain_s: of the whole recorded program."""

    arm: str
    ns: float
    low: Number
    high: Number
    gain_s: float


StackRow = TypedDict("StackRow", {
    "frames": list[str], "calls": int, "bytes": int, "samples": int, "arms": list[StackSide],
}, total=False)  # fmt: skip
Stacks = TypedDict("Stacks", {
    "process": int, "left_out": int, "rows": list[StackRow], "control": str, "level": float,
}, total=False)  # fmt: skip
Replay = TypedDict("Replay", {
    "recorded": dict[str, Any], "base": Text, "live": bool, "touch": str, "quantities": list[Predicted],
    "refused": list[str], "stacks": Stacks, "processes": list[dict[str, Any]] | None, "left_out": int | None,
    "left_out_operations": int | None,
}, total=False)  # fmt: skip


class HostRow(Estimate, total=False):
    """A host of a fleet; or a kind, with the number of its hosts."""

    host: str
    kind: str
    hosts: int


Missing = TypedDict("Missing", {"host": str, "why": str})
Fleet = TypedDict("Fleet", {
    "metric": MetricRow, "hosts": list[HostRow], "kinds": list[HostRow], "machines": int, "together": HostRow | None,
    "tau": float, "i2": float, "q": float, "differ_p": float, "prediction_low": Number, "prediction_high": Number,
    "left_out": list[Missing], "lost": list[Missing], "again": int,
}, total=False)  # fmt: skip

# The same sides beside busy neighbours, or on a used heap
Condition = TypedDict("Condition", {
    "name": str, "title": str, "headline": str, "verdict": Text, "final": bool, "blocks": int,
    "comparisons": list[Comparison], "failed": dict[str, str], "suite": Card,
}, total=False)  # fmt: skip


Share = TypedDict("Share", {"command": list[str], "arms": list[SideRow], "answer": str})  # of `hak share`


class Result(TypedDict, total=False):
    """verdict: of the whole run. withheld: why there is none; so_far: what it shows nevertheless. failed: side -> how
    it failed, where that forbids a verdict; by_chance: failures that forbid none. settled: every question is decided;
    open: the others. unjudged: what has no comparison, and why. incomplete: workloads that were not finished.
    headline, answer, reasons, caveats: `judge.explain`."""

    type: str
    version: int
    kind: str
    id: str
    question: str
    schedule: Text
    headline: str
    answer: str
    reasons: list[str]
    caveats: list[str]
    verdict: Text
    final: bool
    settled: bool
    open: list[str]
    withheld: str
    so_far: list[str]
    failed: dict[str, str]
    by_chance: list[str]
    torn: bool
    vetoed_by: list[str]
    unjudged: list[tuple[str, str]]
    incomplete: list[str]
    metric: MetricRow
    watched: list[MetricRow]
    also: list[MetricRow]
    margin: Number
    alpha: Number
    blocks: int
    max_blocks: int | None
    arms: list[SideRow]
    comparisons: list[Comparison]
    looks: list[Comparison]
    guardrails: list[GuardrailRow]
    conditions: list[Condition]
    effects: list[EffectRow]
    hidden: list[Hidden]
    selection: Selection
    tune: Tune
    aa: Aa
    latency: Latency
    syscalls: Syscalls
    soak: Soak
    suite: Card
    replay: Replay
    fleet: Fleet
    builds: dict[str, Any]
    limits: list[LimitRow]
    money: list[Money]
    scan: dict[str, str]
    earlier: list[Earlier]
    failures: list[Failure]
    warnings: list[str]


class Summary(Result, total=False):
    """What --json writes: the result, with the figures of its first comparison. run: its id."""

    run: str
    estimate: Number
    ci_low: Number
    ci_high: Number
    level: Number
    slow_runs_unseen_one_in: int | None
