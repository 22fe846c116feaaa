"""The limits of memory between which each side begins to live. Pure: header and records in.

A run tries limits of its own, and a program may fail by chance. So the ends count all executions of a side: at the
upper end or with more memory nearly all of them ended well, at the lower end or with less nearly all failed.
"""

import itertools
from collections.abc import Sequence
from typing import Any

from hakmem_lab.judge import words
from hakmem_lab.plan.metrics import LEAST

Record = dict[str, Any]
CHANCE = 0.05  # share of the executions beyond an end that may have gone the other way; one may always
HOW = {
    "cgroup v2": "The kernel kept the limits; processor time and waiting for memory decided what is slower.",
    "cgroup v1": "The kernel kept the limits; processor time alone decided what is slower.",
    "watched": "The laboratory kept the limits, for no control group can be made here: it killed programs that held up "
    "to {over:,} KiB more.",
}


def _end(tried: Sequence[tuple[int, bool]], wanted: bool) -> dict[str, Any] | None:
    """The furthest limit at which most executions, and from which on nearly all, went as wanted: {kib, count, of}.
    tried: (KiB, whether it ended well), from the safest limit on."""
    end, count, of = None, 0, 0
    for kib, same in itertools.groupby(tried, key=lambda each: each[0]):
        here = [lived is wanted for _, lived in same]
        count, of = count + sum(here), of + len(here)
        if 2 * sum(here) > len(here) and of - count <= max(1, CHANCE * of):
            end = {"kib": kib, "count": count, "of": of}
    return end


def brackets(header: dict, records: Sequence[dict]) -> list[Record]:
    """The two ends of every side that was run under limits."""
    rows = []
    for arm in header["arms"]:
        runs = [run for run in records if run.get("arm") == arm["name"] and run.get("limits")]
        tried = sorted((kib, not why) for run in runs for kib, why, _ in run["limits"])
        if tried:
            over = max(over for run in runs for _, _, over in run["limits"])
            ends = {"lives": _end(tried[::-1], True), "fails": _end(tried, False)}
            rows.append({"name": arm["name"], "by": runs[-1]["limited_by"], "over_kib": over, **ends})
    return rows


def finding(result: Record) -> list[str]:
    """Each side's sentence, and who kept the limits."""
    rows = result["limits"]
    short = words.short_names([row["name"] for row in rows])
    said = [_said(short[row["name"]], row) for row in rows]
    return ["", *said, HOW[rows[0]["by"]].format(over=max(row["over_kib"] for row in rows))]


def _said(name: str, row: Record) -> str:
    lives, fails = row["lives"], row["fails"]
    above = f"lives in {_mib(lives)} ({lives['count']} of {lives['of']} executions)" if lives else "lives in no limit"
    below = f"fails in {_mib(fails)} ({fails['count']} of {fails['of']})" if fails else "failed in no limit"
    return f"{name} {above}, {below}."


def _mib(end: Record) -> str:
    return f"{end['kib'] / 1024:.4g} MiB"


def of(header: dict, records: Sequence[dict], metric: str) -> dict:
    """The keys of a result on this metric."""
    rows = brackets(header, records) if metric == LEAST else []
    return {"limits": rows} if rows else {}
