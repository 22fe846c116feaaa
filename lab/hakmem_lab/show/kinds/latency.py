"""Tail latency of an open loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hakmem_lab.show.numbers import finite
from hakmem_lab.show.openmetrics import MICROSECOND, QUANTILES, Sample
from hakmem_lab.show.report.model import Table
from hakmem_lab.show.terminal import add_row, new_table, number

Record = dict[str, Any]


def tables(result: Record) -> Iterator:
    found = result["latency"]
    heads = {"p50_us": "p50", "p90_us": "p90", "p99_us": "p99", "p999_us": "p99.9", "p9999_us": "p99.99"}
    heads["max_us"] = "max"
    for title, part in (("Response time from the intended start, us", None), ("Service time, us", "service")):
        table = new_table(title, "arm", *heads.values())
        known = [(arm["name"], row) for arm in found["arms"] if (row := arm[part] if part else arm)]
        for name, row in known:
            add_row(table, name, *(number(row.get(key)) for key in heads))
        if known:  # few programs print when a request really began
            yield table
    if found.get("causes"):
        table = new_table("What the slowest requests did", "beyond", "arm", "requests", "cause")
        for row in found["causes"]:
            add_row(table, row["percentile"], row["arm"], str(row["requests"]), row["text"])
        yield table


def findings(result: Record) -> Iterator[Table]:
    rows = [
        [row["percentile"], row["arm"], str(row["requests"]), row["text"]]
        for row in result["latency"].get("causes") or []
    ]
    columns = ["Beyond", "Arm", "Requests", "Cause"]
    yield Table("What the slowest requests did", columns, rows)


def samples(result: Record) -> Iterator[Sample]:
    for arm in result["latency"].get("arms", []):
        for name, quantile in QUANTILES.items():
            value = finite(arm.get(name))
            labels = {"arm": arm["name"], "quantile": quantile}
            yield Sample("hak_latency_seconds", labels, None if value is None else value * MICROSECOND)
