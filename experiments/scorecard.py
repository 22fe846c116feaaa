"""Writes the scorecard's figures in results/measured: experiments/scorecard.py publish [RUN] | pages.

`publish` stores a run of `hak bench scorecard --set metric=cpu` or `--set metric=rss` as
results/measured/scorecard-METRIC.jsonl.gz. From these raw data, both commands generate the table of all rows, the two
tables in results/scorecard.md, and the chart. The text around the tables is kept.
"""

import csv
import gzip
import math
import sys
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import scorecard_chart

from hakmem_lab import kinds
from hakmem_lab.errors import LabError
from hakmem_lab.store.runs import RunFile, Store, default_folder

FOLDER = scorecard_chart.FOLDER
PAGE, TABLE = FOLDER.parent / "scorecard.md", FOLDER / "scorecard.csv"
METRICS = ("cpu", "rss")
LOSSES = ("workload", "CPU time, × the best", "peak RSS, × the leanest")
MEANS = ("allocator", "CPU time", "its worst row", "peak RSS")
LOST = 1.01
Row = dict[str, Any]


def cost(record: Row) -> tuple[str, str, str]:
    """(estimate, low, high) of hakmem's cost as a multiple of another's; low and high are "" if blocks are too few."""
    ends = (record.get("ci_high"), record.get("ci_low"))
    shown = [f"{1 / end:.2f}" if end and math.isfinite(end) else "" for end in ends]
    return f"{1 / record['ratio']:.2f}", shown[0], shown[1]


def data(metric: str) -> Path:
    return FOLDER / f"scorecard-{metric}.jsonl.gz"


def read() -> list[tuple[Row, Row]]:
    """The rows (CPU time, peak memory) of every workload that has both."""
    rows = [kinds.result_of(RunFile(data(metric)))["suite"]["rows"] for metric in METRICS]
    times, peaks = ({row["key"]: row for row in each if row["best_peer"]} for each in rows)
    return [(row, peaks[key]) for key, row in times.items() if key in peaks]


def line(time: Row, memory: Row) -> list[str]:
    best, leanest = time["best_peer"], memory["best_peer"]
    return [time["workload"], time["key"], *cost(time["arms"][best]), best, cost(memory["arms"][leanest])[0], leanest,
            cost(time["arms"]["glibc"])[0], cost(memory["arms"]["glibc"])[0]]  # fmt: skip


def losses(lines: list[list[str]]) -> list[list[str]]:
    """The workloads on which hakmem is slower than the best, with the largest loss first."""
    lost = sorted((each for each in lines if float(each[2]) > LOST), key=lambda each: -float(each[2]))
    return [
        [f"{title} (`{key}`)", f"{time} [{low}, {high}] ({best})" if low else f"{time} ({best})", f"{rss} ({leanest})"]
        for title, key, time, low, high, best, rss, leanest, *_ in lost
    ]


def times_best(row: Row) -> dict[str, float]:
    """Each allocator's cost, divided by the lowest cost of all."""
    medians = {arm: value for arm, value in row["medians"].items() if arm in {*row["arms"], "hakmem"}}
    rate = row["unit"].endswith("/s")
    best = (max if rate else min)(medians.values())
    return {arm: best / value if rate else value / best for arm, value in medians.items()}


def means(rows: list[tuple[Row, Row]]) -> list[list[str]]:
    columns = [[times_best(row) for row in column] for column in zip(*rows, strict=True)]
    arms = [arm for arm in columns[0][0] if all(arm in each for column in columns for each in column)]
    found = [(geometric_mean(each[arm] for each in columns[0]), max(each[arm] for each in columns[0]),
              geometric_mean(each[arm] for each in columns[1]), arm) for arm in arms]  # fmt: skip
    return [[arm, f"{time:.2f}", f"{worst:.1f}", f"{memory:.2f}"] for time, worst, memory, arm in sorted(found)]


def with_table(page: str, heads: tuple[str, ...], rows: list[list[str]]) -> str:
    """Replaces the rows of the table with these headings, and returns the page."""
    lines = page.split("\n")
    first = lines.index(f"| {' | '.join(heads)} |") + 2
    end = next(place for place in range(first, len(lines) + 1) if not "".join(lines[place : place + 1]).startswith("|"))
    return "\n".join([*lines[:first], *(f"| {' | '.join(row)} |" for row in rows), *lines[end:]])


def pages() -> None:
    rows = read()
    lines = [line(*row) for row in rows]
    with open(TABLE, encoding="utf-8", newline="") as file:
        heads = next(csv.reader(file))
    with open(TABLE, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([heads, *lines])
    page = with_table(PAGE.read_text(encoding="utf-8"), LOSSES, losses(lines))
    PAGE.write_text(with_table(page, MEANS, means(rows)), encoding="utf-8")
    scorecard_chart.main()


def publish(file: RunFile) -> None:
    """Stores the run's raw data and writes the pages. Raises LabError if the run is of another suite or metric."""
    rows = {row["key"]: row["metric"] for row in file.header()["spec"].get("workload", [])}
    metric = rows.get("ws400")
    if metric not in METRICS:
        raise LabError(f"run {file.id} is not of the scorecard: hak bench scorecard --set metric=cpu (or rss)")
    with gzip.GzipFile(data(metric), "wb", mtime=0) as packed:
        packed.write(file.path.read_bytes().replace(f"{Path.cwd()}/".encode(), b""))
    if all(data(each).exists() for each in METRICS):
        pages()


def main() -> None:
    match sys.argv[1:]:
        case ["publish", *rest] if len(rest) < 2:
            publish(Store(default_folder()).find(rest[0] if rest else "last"))
        case ["pages"]:
            pages()
        case _:
            sys.exit("usage: experiments/scorecard.py publish [RUN] | pages")


if __name__ == "__main__":
    try:
        main()
    except LabError as error:
        sys.exit(f"scorecard: {error}")
