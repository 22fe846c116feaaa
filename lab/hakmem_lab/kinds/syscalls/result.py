"""The result of counting system calls. Pure: header and records in."""

import statistics
from collections.abc import Sequence
from typing import cast

from hakmem_lab.judge.analysis import UNMEASURED, begun, identity, warnings
from hakmem_lab.judge.statistics.special import gammaincinv
from hakmem_lab.judge.statistics.verdict import Verdict, within
from hakmem_lab.judge.warnings import Warn
from hakmem_lab.store.records import Record, Run
from hakmem_lab.store.results import Calls, Result, SideRow, SyscallSide
from hakmem_lab.store.runs import plain

ALPHA = 0.05
SEED = "{seed}"
LEAST_DIFFERENT = 3
# If so many bursts are expected in all operations, a budget that they exceed by a fifth is held in at most 5 % of
# simulations, whatever the size of a burst and however the operations are divided among executions.
SEEN_BURSTS = 8


def upper_bound(events: float, alpha: float = ALPHA, together: float = 1.0) -> float:
    """The highest mean count for which `events` or fewer still occur with probability alpha: 3.0 for no event.
    together: size of a burst; the bursts themselves occur by chance (Poisson)."""
    return together * float(gammaincinv(max(0.0, events) / together + 1, 1 - alpha))


def burst(events: float, counts: Sequence[Sequence[float]]) -> float:
    """Mean size of a burst of calls: the variance of the counts of different executions over their mean.
    With fewer than three executions it is unknown: all observed calls may have been one burst."""
    if min(len(each) for each in counts) < LEAST_DIFFERENT:
        return max(1.0, events)
    return max(1.0, *(statistics.variance(each) / max(1.0, statistics.fmean(each)) for each in counts))


def seen(short: Sequence[float], long: Sequence[float], each_differs: bool) -> float:
    """System calls of the additional operations. Where the executions differ, all calls above the smallest short count
    are summed. The median would miss a burst in one of three executions, and a burst in a short run must not be
    subtracted."""
    middle = statistics.median(long) - statistics.median(short)
    return max(len(long) * middle, sum(long) - len(long) * min(short)) if each_differs else middle


def _names(runs: Sequence[Run]) -> list[str]:
    """Names of the calls, the most frequent first."""
    totals: dict[str, int] = {}
    for run in runs:
        for name, count in run["calls"].items():
            totals[name] = totals.get(name, 0) + count
    return sorted(totals, key=lambda name: (-totals[name], name))


def _counts(runs: Sequence[Run], name: str | None = None) -> list[int]:
    return [sum(run["calls"].values()) if name is None else run["calls"].get(name, 0) for run in runs]


def _ops(runs: Sequence[Run]) -> int:
    return runs[0]["ops"] or 0


def _length_part(runs: Sequence[Run]) -> Calls:
    """Medians of the repeats, with their range."""
    totals = _counts(runs)
    return {
        "ops": runs[0]["ops"],
        "calls": statistics.median(totals),
        "least": min(totals),
        "most": max(totals),
        "repeats": len(runs),
        "per_call": {name: statistics.median(_counts(runs, name)) for name in _names(runs)},
    }


def _difference(short: Sequence[Run], long: Sequence[Run], name: str | None = None) -> tuple[float, float, float]:
    """Calls per operation: (between the medians, the least and the most between any two of the repeats)."""
    ops = _ops(long) - _ops(short)
    few, many = _counts(short, name), _counts(long, name)
    middle = statistics.median(many) - statistics.median(few)
    return middle / ops, (min(many) - max(few)) / ops, (max(many) - min(few)) / ops


def distinct_operations(short: Sequence[Run], long: Sequence[Run]) -> int:
    """Number of operations that support a bound: the difference of the lengths, once for every different command.
    Repeating equal operations shows whether the counts vary, but nothing about operations that were never run."""
    commands = {tuple(run.get("argv", ())) for run in long}
    return len(commands) * (_ops(long) - _ops(short))


def _passed(row: SyscallSide, budget: float | None) -> bool | None:
    """True only where even the highest rate that the counts allow is within the budget; None where they leave it
    open."""
    if budget is None:
        return None
    word = within(row["least"], max(row["most"], row["upper_bound"]), budget)
    return {Verdict.GO: True, Verdict.NO_GO: False}.get(word)


def _arm(name: str, runs: Sequence[Run], budget: float | None) -> SyscallSide:
    short, long = ([run for run in runs if run["length"] == length] for length in ("short", "long"))
    row: SyscallSide = {"name": name, "per_op": None, "per_call": {}}
    if not short or not long:
        whole = [run for run in runs if run["length"] == "whole"]
        parts = {"whole": whole, "short": short, "long": long}
        return row | cast(SyscallSide, {length: _length_part(own) for length, own in parts.items() if own})
    row["per_op"], row["least"], row["most"] = _difference(short, long)
    rates = {call: _difference(short, long, call) for call in _names(long)}
    row["per_call"] = {call: rate[0] for call, rate in rates.items() if rate[0] != 0}
    row["per_call_range"] = {call: [rate[1], rate[2]] for call, rate in rates.items() if rate[1] or rate[2]}
    row["operations"] = distinct_operations(short, long)
    known = len({tuple(run.get("argv", ())) for run in long}) == len(long)
    events = seen(_counts(short), _counts(long), known)
    together = burst(events, [_counts(short), _counts(long)] if known else [[], []])
    row["upper_bound"] = upper_bound(events, together=together) / row["operations"]
    row["short"], row["long"] = _length_part(short), _length_part(long)
    return row | {"passed": _passed(row, budget)}


def _unseen(rows: Sequence[SyscallSide]) -> float | None:
    """Operations per burst beyond which bursts could have been missed, for all arms together."""
    operations = [row["operations"] for row in rows if row["per_op"] is not None]
    return min(operations) / SEEN_BURSTS if operations else None


def _warnings(header: Record, records: Sequence[Record], rows: Sequence[SyscallSide]) -> list[str]:
    texts, spec = warnings(header, records), header["spec"]
    if spec["ops"] is None:
        texts.append(Warn.WHOLE.said())
        return texts
    seeded = any(SEED in word for word in spec.get("command", ()))
    different = spec["repeats"] if seeded else 1
    observed = different * (spec["ops"][1] - spec["ops"][0])
    if spec["budget"] is not None and upper_bound(0) / observed > spec["budget"]:
        needed = upper_bound(0) / spec["budget"] / different
        other = "" if seeded else f", or the command name {SEED}, which makes every repeat a different one"
        texts.append(Warn.SHORT.said(count=observed, rate=upper_bound(0) / observed, apart=needed, other=other))
    for row in rows:
        if row["per_op"] is not None and row["least"] < 0:
            texts.append(Warn.UNCERTAIN.said(side=row["name"]))
    return texts


def found(header: Record, records: Sequence[Record]) -> Result:
    """Counts of every arm. With a budget: GO where all arms keep it, NO-GO where one exceeds it, else INCONCLUSIVE."""
    spec = header["spec"]
    runs = [cast(Run, record) for record in records if record["type"] == "run" and record["ok"]]
    by_arm = {arm["name"]: [run for run in runs if run["arm"] == arm["name"]] for arm in header["arms"]}
    rows = [_arm(name, own, spec["budget"]) for name, own in by_arm.items()]
    each = [row.get("passed") for row in rows]
    passed = None if spec["budget"] is None else False if False in each else True if all(each) else None
    verdict = {True: Verdict.GO, False: Verdict.NO_GO, None: Verdict.INCONCLUSIVE}[passed]
    lengths = 2 if spec["ops"] else 1
    # The cost of a traced run says nothing about the arm, so the medians stay empty.
    arms: list[SideRow] = [{**identity(arm), "n": len(by_arm[arm["name"]]), **UNMEASURED} for arm in header["arms"]]
    result = begun(header, records) | {
        "verdict": str(verdict) if spec["budget"] is not None else None,
        "final": len({run["block"] for run in runs}) >= spec["repeats"] * lengths * len(rows),
        "metric": {"name": "syscalls", "unit": "calls/op" if spec["ops"] else "calls", "higher_is_better": False},
        "alpha": ALPHA,
        "blocks": len(runs),
        "max_blocks": spec["repeats"] * lengths * len(rows),
        "arms": arms,
        "warnings": _warnings(header, records, rows),
        "syscalls": {"arms": rows, "budget": spec["budget"], "passed": passed, "unseen_one_in": _unseen(rows)},
    }
    return plain(result)
