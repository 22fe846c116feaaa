"""What the record of a run keeps of its executions."""

import statistics
from collections.abc import Sequence
from typing import cast

from hakmem_lab.plan.metrics import row_of
from hakmem_lab.store.records import Record, Run

MEASURES = ("wall_s", "cpu_s", "user_s", "system_s", "rss_peak_kib", "rss_mean_kib", "pss_peak_kib",
            "pss_mean_kib", "minor_faults", "major_faults", "voluntary_switches", "involuntary_switches")  # fmt: skip
KEPT = (*MEASURES, "exit", "signal", "timed_out", "mapped")  # keys of an outcome that a record keeps
EXECUTION_KEYS = ("wall_s", "user_s", "system_s", "rss_peak_kib", "minor_faults", "exit", "signal", "metrics", "why")
PEAK_MEASURES = ("rss_peak_kib", "pss_peak_kib")


def combined(parts: Sequence[Record]) -> Run:
    """One record of several executions: means, the greatest peaks, and the exit of the last one."""
    record = {**parts[-1]}
    if len(parts) > 1 and record["why"] is None:
        for name in MEASURES:
            if values := [part[name] for part in parts if part[name] is not None]:
                record[name] = max(values) if name in PEAK_MEASURES else statistics.fmean(values)
        read = {name: [part["metrics"][name] for part in parts] for name in record["metrics"]}
        record["metrics"] = {n: max(each) if row_of(n).peak else statistics.fmean(each) for n, each in read.items()}
    return cast(Run, record)
