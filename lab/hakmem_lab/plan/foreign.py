"""Measurements of other tools as runs: Google Benchmark and hyperfine, and of programs that measure
themselves with hak_pairs.h.

The content of a file tells which tool wrote it. Every figure is one run; a failure that the tool reports is kept as a
failed run.
"""

import hashlib
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hakmem_lab.errors import LabError, decoded, escaped, nearest, one_line, refused

PAIRS = "hak_pairs.h"  # the regions of both sides alternate in one process
HEADER = Path(__file__).parents[1] / "system" / "native" / "pairs" / PAIRS
ABOVE_0 = "only a finite number above 0 makes a ratio"
UNITS_S = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass
class Benchmark:
    """runs: in the order of the file; each is its value, or why it failed. refused: why its figures make no ratio."""

    runs: list[float | str] = field(default_factory=list)
    refused: str = ""

    @property
    def only_zeros(self) -> bool:
        """Whether every run counted nothing."""
        return bool(self.runs) and all(run == 0 for run in self.runs)


@dataclass(frozen=True)
class File:
    """tool: the tool that wrote the file; processes: whether every run is a process of its own; pooled: the benchmarks
    that are in it more than once, though the tool gives each a single entry."""

    name: str
    sha256: str
    tool: str
    benchmarks: dict[str, Benchmark]
    processes: bool
    pooled: list[str]


def read(name: str, metric: str) -> File:
    """metric: `wall`, `cpu`, or a figure as the tool calls it. Raises LabError."""
    with refused(f"{name}: cannot be read"):
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    text = data.decode("utf-8", "replace")
    tool, rows, pooled = _rows(name, text)
    found: dict[str, Benchmark] = {}
    for called, figures, why in rows:
        of = found.setdefault(escaped(called), Benchmark())
        if why is not None:
            of.runs.append(one_line(why))
        elif isinstance(figures, str):
            of.refused = of.refused or f"{figures} in {name}"
        elif metric not in figures:
            of.refused = of.refused or f"there is no figure '{metric}' in {name}: {nearest(metric, figures)}"
        elif isinstance(value := figures[metric], bool) or not isinstance(value, int | float):
            of.refused = of.refused or f"{metric} is {value!r} in {name}; {ABOVE_0}"
        else:
            of.runs.append(float(value))
            if not 0 < value < math.inf:
                of.refused = of.refused or f"{metric} is {value:g} in {name}; {ABOVE_0}"
    if not found:
        raise LabError(f"{name}: {tool} has no runs in it")
    return File(name, hashlib.sha256(data).hexdigest(), tool, found, tool == "hyperfine", [*map(escaped, pooled)])


Figures = dict[str, Any] | str  # the figures of one run, or why there are none
Row = tuple[str, Figures, str | None]  # benchmark, figures, why it failed


def _rows(name: str, text: str) -> tuple[str, list[Row], list[str]]:
    """(the tool, its rows, the benchmarks with several entries where the tool gives each a single one)."""
    try:
        whole = decoded(json.loads, text)
        for tool, key, own, of in TOOLS:
            rows = whole.get(key) if isinstance(whole, dict) else None
            if isinstance(rows, list) and (not rows or any(each in rows[0] for each in own)):
                found = [list(of(row)) for row in rows]
                entries = Counter(called for part in found for called in {called for called, _, _ in part})
                twice = [called for called, count in entries.items() if count > 1 and of is not _google]
                return tool, [row for part in found for row in part], twice
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise LabError(
        f"{name}: hak cannot read it; it reads the JSON of Google Benchmark (--benchmark_format=json), "
        "hyperfine (--export-json) or hak_pairs.h"
    )


def _google(row: dict) -> Iterator[Row]:
    if row.get("run_type", "iteration") == "aggregate":
        return
    benchmark = str(row.get("run_name") or row["name"])
    if row.get("error_occurred") or row.get("skipped"):
        yield benchmark, {}, str(row.get("error_message") or row.get("skip_message") or "it failed")
        return
    unit = UNITS_S[row.get("time_unit", "ns")]
    figures = {key: value for key, value in row.items() if isinstance(value, int | float)}
    figures |= {"wall": row["real_time"] * unit, "cpu": row["cpu_time"] * unit}
    yield benchmark, figures, None


def _hyperfine(row: dict) -> Iterator[Row]:
    """Commands of one name (-n) that ran with different parameters are different benchmarks."""
    command, parameters = str(row["command"]), row.get("parameters") or {}
    if any(not re.search(rf"(?<!\w){re.escape(str(value))}(?!\w)", command) for value in parameters.values()):
        command += f" ({', '.join(f'{key}={value}' for key, value in parameters.items())})"
    series = {"wall": list(row.get("times") or []), "rss": list(row.get("memory_usage_byte") or [])}
    codes = row.get("exit_codes") or []
    if not any(series.values()):
        yield command, {}, None
    for at in range(max(map(len, series.values()))):
        code = codes[at] if at < len(codes) else 0
        figures = {key: values[at] for key, values in series.items() if at < len(values)}
        yield command, figures, None if code == 0 else "a signal" if code is None else f"exit status {code}"


def _pairs(row: dict) -> Iterator[Row]:
    for wall, cpu in zip(row["wall_ns"], row["cpu_ns"], strict=True):
        yield str(row["name"]), {"wall": wall * 1e-9, "cpu": cpu * 1e-9}, None


# (tool, key of its rows, keys of which each row has at least one, reader of a row).
TOOLS = (
    ("Google Benchmark", "benchmarks", ("run_name", "iterations", "run_type"), _google),
    ("hyperfine", "results", ("command",), _hyperfine),
    (PAIRS, "pairs", ("wall_ns",), _pairs),
)
