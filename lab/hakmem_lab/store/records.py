"""The records of a run's file, by their type: docs/lab/engine.md. Plain values are columns of the tables that
`hak runs export` reads. A record of an earlier version may lack keys, or have others.
"""

# ruff: noqa: UP013 (several keys a line)
from typing import Any, TypeAlias, TypedDict, get_args, get_type_hints

INTEGER, REAL, TEXT, TRUTH = "BIGINT", "DOUBLE", "VARCHAR", "BOOLEAN"
Record = dict[str, Any]  # of any type
Text: TypeAlias = str | None
Number: TypeAlias = float | None
Nested: TypeAlias = list[Any] | dict[str, Any] | None

Side = TypedDict("Side", {
    "name": str, "text": str, "allocator": str, "library": Text, "sha256": Text, "version": Text, "configuration": Text,
    "variables": Nested,
})  # fmt: skip
_Run = TypedDict("_Run", {
    "phase": str, "workload": Text, "block": int, "attempt": int, "position": int, "arm": str, "started": float,
    "repeat": int, "ok": bool, "why": Text, "exit": int | None, "signal": int | None, "timed_out": bool,
    "wall_s": Number, "cpu_s": Number, "user_s": Number, "system_s": Number, "rss_peak_kib": Number,
    "rss_mean_kib": Number, "pss_peak_kib": Number, "pss_mean_kib": Number, "minor_faults": Number,
    "major_faults": Number, "voluntary_switches": Number, "involuntary_switches": Number, "value": Number,
    "mapped": bool | None, "pad_bytes": int, "load_1m": float, "steal_percent": Number, "workload_seed": int,
    "build": int, "schedule": str, "metrics": dict[str, Any], "server": dict[str, Any] | None, "calls": dict[str, int],
    "side": int, "tree": Nested, "host": str,
}, total=False)  # fmt: skip


class Run(_Run, total=False):
    """The mean of `repeat` executions: what is no column of a table. rss_series, pss_series: points of (milliseconds,
    KiB). thousands: metric -> a value whose comma may be a decimal one. limits: (KiB, why the program did not live in
    it, KiB beyond it that were seen). lost, unserved: of a trial; see `Runner.trial`."""

    type: str
    executions: list[Record]
    extra: dict[str, Any]
    rss_series: list[list[float]]
    pss_series: list[list[float]]
    processors: Number
    thousands: dict[str, float]
    limits: list[tuple[int, str, int]]
    limited_by: str
    elapsed_s: Number
    replay: dict[str, Any]
    histograms: dict[str, str]
    second_mean_us: list[float]
    slow: list[list[int]]
    pages: list[int] | None
    length: str
    ops: int | None
    argv: list[str]
    ended_by_itself: bool
    lost: bool
    unserved: Text


Block = TypedDict("Block", {
    "phase": str, "workload": Text, "block": int, "attempt": int, "ok": bool, "why": Text, "disturbed": Text,
    "order": list[str], "host": str,
}, total=False)  # fmt: skip
Sample = TypedDict("Sample", {
    "segment": int, "t_s": float, "rss_kib": int, "pss_kib": int | None, "exact": bool, "threads": int,
    "threads_started": int, "processes": int, "cpu_s": float, "minor_faults": int, "major_faults": int,
    "operations": int | None, "ops_per_s": Number, "phase": Text, "line_phase": Text, "live_kib": Number,
    "p50_us": Number, "p99_us": Number, "p999_us": Number, "steal_percent": Number,
}, total=False)  # fmt: skip
Told = TypedDict("Told", {"time": str, "what": str, "text": str, "workload": Text})


class Event(Told, total=False):
    """What happened, and by `what`: the schedule; the number of blocks that is planned, or wanted in all; the side that
    left and its block; the metric that was chosen; the percentiles that are judged after every block; the files
    written; the first estimate of a phase; a lost host, and why."""

    schedule: str
    processors: list[int]
    blocks: int
    until: int
    settled: bool
    arm: str
    block: int
    metric: str
    percentiles: list[str]
    reserve: float
    files: list[str]
    phase: str
    estimate: list[str]
    host: str
    why: str


def present(value: Number) -> float:
    """A number that the records of runs that ended well have."""
    assert value is not None
    return value


def columns(record: type) -> dict[str, str]:
    """Column -> its type in SQL; a nested value is JSON."""
    firsts = {name: (get_args(kind) or (kind,))[0] for name, kind in get_type_hints(record).items()}
    return {name: {int: INTEGER, float: REAL, bool: TRUTH}.get(kind, TEXT) for name, kind in firsts.items()}


RUN = {"id": TEXT, "kind": TEXT}
COLUMNS = {
    "headers": {
        "id": TEXT, "kind": TEXT, "created": TEXT, "question": TEXT, "spec_hash": TEXT, "seed": INTEGER,
        "lab_version": TEXT, "command": TEXT, "cpu": TEXT, "processors": INTEGER, "kernel": TEXT, "revision": TEXT,
    },
    "arms": {"id": TEXT, **columns(Side)},
    "runs": RUN | columns(_Run),
    "blocks": {"arms_in_order" if name == "order" else name: kind for name, kind in (RUN | columns(Block)).items()},
    "samples": {"id": TEXT, **columns(Sample)},
    "events": RUN | columns(Told),
    "results": {
        "id": TEXT, "kind": TEXT, "verdict": TEXT, "headline": TEXT, "final": TRUTH, "blocks": INTEGER,
        "margin": REAL, "alpha": REAL, "estimate": REAL, "ci_low": REAL, "ci_high": REAL,
    },
}  # fmt: skip
# Type of a record -> table that has it as a row.
TABLE_OF = {"run": "runs", "block": "blocks", "sample": "samples", "event": "events"}
