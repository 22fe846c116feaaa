"""Measurements of other tools as runs: Google Benchmark, `go test -bench`, pytest-benchmark and hyperfine, and of
programs that measure themselves with hak_pairs.h.

The content of a file tells which tool wrote it. Every figure is one run; a failure that the tool reports is kept as a
failed run.
"""

import hashlib
import json
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hakmem_lab.errors import LabError, decoded, escaped, nearest, one_line, refused
from hakmem_lab.plan.values import NUMBER

PAIRS = "hak_pairs.h"  # the regions of both sides alternate in one process
HEADER = Path(__file__).parents[1] / "system" / "native" / "pairs" / PAIRS
UNITS_S = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_GO = re.compile(r"^(?P<name>Benchmark\S*)\s+\d+\s+(?P<figures>\d.*)$|^\s*--- FAIL: (?P<failed>Benchmark\S*)", re.M)
_PROCESSORS = re.compile(r"-\d+$")
_GO_FIGURE = re.compile(rf"(?<!\S)([-+]?{NUMBER}(?:[eE][-+]?\d+)?|[-+]?Inf|NaN)\s+(\S+)")


@dataclass
class Benchmark:
    """runs: in the order of the file; each is its value, or why it failed."""

    runs: list[float | str] = field(default_factory=list)


@dataclass(frozen=True)
class File:
    """tool: the tool that wrote the file; processes: whether every run is a process of its own."""

    name: str
    sha256: str
    tool: str
    benchmarks: dict[str, Benchmark]
    processes: bool


def read(name: str, metric: str) -> File:
    """metric: `wall`, `cpu`, or a figure as the tool calls it. Raises LabError."""
    with refused(f"{name}: cannot be read"):
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    text = data.decode("utf-8", "replace")
    tool, rows = _rows(name, text, metric)
    found: dict[str, Benchmark] = {}
    for called, value, why in rows:
        benchmark = escaped(called)
        of = found.setdefault(benchmark, Benchmark())
        if why is not None:
            of.runs.append(one_line(why))
        elif isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
            raise LabError(f"{name}: {benchmark}: {metric} is {value!r}; only a finite number above 0 makes a ratio")
        else:
            of.runs.append(float(value))
    if not found:
        raise LabError(f"{name}: {tool} has no runs in it")
    return File(name, hashlib.sha256(data).hexdigest(), tool, found, tool == "hyperfine")


Row = tuple[str, Any, str | None]  # benchmark, value, why it failed


def _rows(name: str, text: str, metric: str) -> tuple[str, list[Row]]:
    if _GO.search(text) and not text.lstrip().startswith("{"):
        return "go test -bench", list(_go(name, text, metric))
    try:
        whole = decoded(json.loads, text)
        for tool, key, own, of in TOOLS:
            rows = whole.get(key) if isinstance(whole, dict) else None
            if isinstance(rows, list) and (not rows or any(each in rows[0] for each in own)):
                return tool, [found for row in rows for found in of(name, row, metric)]
    except (ValueError, KeyError, TypeError, AttributeError):
        pass
    raise LabError(
        f"{name}: it is none of what can be read: the JSON of Google Benchmark (--benchmark_format=json), "
        "pytest-benchmark, hyperfine (--export-json) or hak_pairs.h, or what go test -bench prints"
    )


def _chosen(where: str, metric: str, figures: dict[str, Any]) -> Any:
    if metric not in figures:
        raise LabError(f"{where}: there is no figure '{metric}': {nearest(metric, figures)}")
    return figures[metric]


def _failed(name: str, measured: set[str]) -> list[str]:
    """The benchmarks that have failed. Go ends the name of a measured benchmark with the number of processors, but
    omits that where the first iteration fails."""
    ends = {found[0] for each in measured if (found := _PROCESSORS.search(each))}
    if name in measured or not ends or name.endswith(tuple(ends)):
        return [name]
    return [name + end for end in sorted(ends)]


def _go(name: str, text: str, metric: str) -> Iterator[Row]:
    lines = list(_GO.finditer(text))
    measured = {line["name"] for line in lines if line["name"]}
    for line in lines:
        if line["failed"]:
            yield from ((each, None, "it failed") for each in _failed(line["failed"], measured))
            continue
        figures: dict[str, Any] = {unit: float(value) for value, unit in _GO_FIGURE.findall(line["figures"])}
        figures |= {"wall": figures["ns/op"] * 1e-9} if "ns/op" in figures else {}
        yield line["name"], _chosen(f"{name}: {line['name']}", metric, figures), None


def _google(name: str, row: dict, metric: str) -> Iterator[Row]:
    if row.get("run_type", "iteration") == "aggregate":
        return
    benchmark = str(row.get("run_name") or row["name"])
    if row.get("error_occurred") or row.get("skipped"):
        yield benchmark, None, str(row.get("error_message") or row.get("skip_message") or "it failed")
        return
    unit = UNITS_S[row.get("time_unit", "ns")]
    figures = {key: value for key, value in row.items() if isinstance(value, int | float)}
    figures |= {"wall": row["real_time"] * unit, "cpu": row["cpu_time"] * unit}
    yield benchmark, _chosen(f"{name}: {benchmark}", metric, figures), None


def _pytest(name: str, row: dict, metric: str) -> Iterator[Row]:
    benchmark, stats = str(row.get("fullname") or row["name"]), row["stats"]
    if "data" not in stats:
        raise LabError(f"{name}: {benchmark}: the single rounds are not in it: pytest --benchmark-save-data keeps them")
    for value in _chosen(f"{name}: {benchmark}", metric, {"wall": stats["data"]}):
        yield benchmark, value, None


def _hyperfine(name: str, row: dict, metric: str) -> Iterator[Row]:
    figures = {"wall": row.get("times"), "rss": row.get("memory_usage_byte")}
    figures = {key: value for key, value in figures.items() if value}
    codes = row.get("exit_codes") or []
    values = _chosen(f"{name}: {row['command']}", metric, figures)
    for at, value in enumerate(values):
        code = codes[at] if at < len(codes) else 0
        yield str(row["command"]), value, None if code == 0 else "a signal" if code is None else f"exit status {code}"


def _pairs(name: str, row: dict, metric: str) -> Iterator[Row]:
    figures = {"wall": row["wall_ns"], "cpu": row["cpu_ns"]}
    for ns in _chosen(f"{name}: {row['name']}", metric, figures):
        yield str(row["name"]), ns * 1e-9, None


# (tool, key of its rows, keys of which each row has at least one, reader of a row).
TOOLS = (
    ("Google Benchmark", "benchmarks", ("run_name", "iterations", "run_type"), _google),
    ("pytest-benchmark", "benchmarks", ("stats",), _pytest),
    ("hyperfine", "results", ("command",), _hyperfine),
    (PAIRS, "pairs", ("wall_ns",), _pairs),
)
