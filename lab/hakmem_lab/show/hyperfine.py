"""A stored run in the format of hyperfine's --export-json: every arm's executions with their times and memory."""

import json
import statistics
from collections.abc import Iterable, Sequence

from hakmem_lab.store.query import BESIDE, finished_blocks, runs_of
from hakmem_lab.store.records import Record
from hakmem_lab.store.runs import RunFile

KIB = 1024


def exported(files: Iterable[RunFile]) -> str:
    """One document of all runs."""
    rows = [row for file in files for row in _rows(file.header("arms"), list(file.records()))]
    return json.dumps({"results": rows}, indent=2, ensure_ascii=False) + "\n"


def _rows(header: Record, records: Sequence[Record]) -> list[Record]:
    blocks = [*finished_blocks(records, "measure"), *finished_blocks(records, BESIDE)]
    found = []
    for arm in header["arms"]:
        every = [each for run in runs_of(blocks, arm["name"]) for each in run.get("executions") or [{**run}]]
        every = [each for each in every if each.get("wall_s") is not None]
        if every:
            parameters = {"parameters": arm["parameters"]} if arm.get("parameters") else {}
            found.append(_row(arm["name"], every) | parameters)
    return found


def _row(name: str, every: Sequence[Record]) -> Record:
    times = [each["wall_s"] for each in every]
    memory = [each.get("rss_peak_kib") for each in every]
    row: Record = {
        "command": name,
        "mean": statistics.fmean(times),
        "stddev": statistics.stdev(times) if len(times) > 1 else None,
        "median": statistics.median(times),
        "user": statistics.fmean(each.get("user_s") or 0.0 for each in every),
        "system": statistics.fmean(each.get("system_s") or 0.0 for each in every),
        "min": min(times),
        "max": max(times),
        "times": times,
        "exit_codes": [each.get("exit") for each in every],
    }
    if None not in memory:
        row["memory_usage_byte"] = [kib * KIB for kib in memory if kib is not None]
    return row
