"""The limits of memory between which each side begins to live. Pure: header and records in.

A run tries limits of its own, and a program may fail by chance. So the ends count all executions of a side: at the
upper end or with more memory nearly all of them ended well, at the lower end or with less nearly all failed.
"""

import itertools
from collections.abc import Sequence

from hakmem_lab.judge import words
from hakmem_lab.plan.metrics import LEAST
from hakmem_lab.store.records import Record
from hakmem_lab.store.results import LimitEnd, LimitRow, Result

CHANCE = 0.05  # share of the executions beyond an end that may have gone the other way; one may always
HOW = {
    "cgroup v2": "The kernel kept the limits; processor time and waiting for memory decided what is slower.",
    "cgroup v1": "The kernel kept the limits; processor time alone decided what is slower.",
    "watched": "The laboratory kept the limits, for no control group can be made here: it killed programs that held up "
    "to {over:,} KiB more.",
}


def _end(tried: Sequence[tuple[int, bool]], wanted: bool) -> LimitEnd | None:
    """The furthest limit at which most executions, and from which on nearly all, went as wanted: {kib, count, of}.
    tried: (KiB, whether it ended well), from the safest limit on."""
    end: LimitEnd | None = None
    count = of = 0
    for kib, same in itertools.groupby(tried, key=lambda each: each[0]):
        here = [lived is wanted for _, lived in same]
        count, of = count + sum(here), of + len(here)
        if 2 * sum(here) > len(here) and of - count <= max(1, CHANCE * of):
            end = {"kib": kib, "count": count, "of": of}
    return end


def brackets(header: Record, records: Sequence[Record]) -> list[LimitRow]:
    """The two ends of every side that was run under limits."""
    rows: list[LimitRow] = []
    for arm in header["arms"]:
        runs = [run for run in records if run.get("arm") == arm["name"] and run.get("limits")]
        tried = sorted((kib, not why) for run in runs for kib, why, _ in run["limits"])
        if tried:
            over = max(over for run in runs for _, _, over in run["limits"])
            lives, fails = _end(tried[::-1], True), _end(tried, False)
            by = runs[-1]["limited_by"]
            rows.append({"name": arm["name"], "by": by, "over_kib": over, "lives": lives, "fails": fails})
    return rows


def finding(result: Result) -> list[str]:
    """Each side's sentence, and who kept the limits."""
    rows = result["limits"]
    short = words.short_names([row["name"] for row in rows])
    said = [_said(short[row["name"]], row) for row in rows]
    return ["", *said, HOW[rows[0]["by"]].format(over=max(row["over_kib"] for row in rows))]


def _said(name: str, row: LimitRow) -> str:
    lives, fails = row["lives"], row["fails"]
    above = f"lives in {_mib(lives)} ({lives['count']} of {lives['of']} executions)" if lives else "lives in no limit"
    below = f"fails in {_mib(fails)} ({fails['count']} of {fails['of']})" if fails else "failed in no limit"
    return f"{name} {above}, {below}."


def _mib(end: LimitEnd) -> str:
    return f"{end['kib'] / 1024:.4g} MiB"


def of(header: Record, records: Sequence[Record], metric: str) -> Result:
    """The keys of a result on this metric."""
    rows = brackets(header, records) if metric == LEAST else []
    return {"limits": rows} if rows else {}
