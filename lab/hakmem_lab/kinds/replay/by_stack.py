"""Which code of the program gains from which allocator: the time of the blocks that one stack allocated, on each arm.

Which stacks are asked about is decided before anything is measured. A stack and an arm is a test; all of them together
are wrong with at most alpha. Pure, but for `chosen`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hakmem_lab.judge.statistics import verdict
from hakmem_lab.judge.statistics.paired import block_log_ratio, median_interval
from hakmem_lab.judge.two_arms import shared
from hakmem_lab.plan.spec import CompareSpec
from hakmem_lab.store.query import Blocks
from hakmem_lab.trace import stacks

MOST = 20
LEAST_NS = 1.0  # of a block: less than that the clock cannot tell
Key = tuple[int, str]  # number of a stack, arm


def chosen(path: Path, spec: CompareSpec, process: int | None) -> dict[str, Any]:
    """The stacks with the most of the allocations and of the bytes of one process, as many as the blocks can decide on.
    Raises LabError where there are none."""
    counted, _ = stacks.by_stack(path, process)
    rows = stacks.without_plumbing(counted["stacks"])
    whole = {key: max(sum(row[key] for row in rows), 1) for key in ("calls", "bytes")}
    rows.sort(key=lambda row: -sum(row[key] / all_ for key, all_ in whole.items()))
    decidable = int(spec.alpha * 2.0 ** min(spec.max_blocks - 1, 64) / max(len(spec.allocators) - 1, 1))
    kept = rows[: max(1, min(MOST, decidable))]
    told = ("frames", "nodes", "calls", "bytes", "samples")
    return {"process": counted["process"], "left_out": len(rows) - len(kept),
            "rows": [{key: row[key] for key in told} for row in kept]}  # fmt: skip


def judged(
    columns: Mapping[Key, Sequence[float]], tests: int, margin: float, alpha: float
) -> dict[Key, verdict.Decision]:
    """Of per-block log-ratios (positive = better); `tests`: as many as could have been made share alpha."""
    return {key: verdict.decide(d, margin, alpha / tests) for key, d in columns.items()}


def block_ns(runs: Sequence[Mapping], process: int, nodes: set[int]) -> list[float]:
    """Of each run: of a block of these stacks from its allocation to its free. Empty where a replay had none."""
    found = []
    for run in runs:
        rows = [row for each in run["replay"]["processes"] if each["process"] == process
                for row in each["stacks"] if row[0] in nodes]  # fmt: skip
        blocks = sum(row[2] for row in rows)
        if not blocks:
            return []
        found.append(max(sum(row[3] for row in rows) / blocks, LEAST_NS))
    return found


def analyse(header: dict, names: Sequence[str], blocks: Blocks) -> dict:
    """What `chosen` says, each row with `arms`, the baseline first: those that the program would gain most from first.
    ns with low and high: of a block, median and 95 % interval. gain_s: of the recorded program, in seconds."""
    asked, (first, *others), spec = header["stacks"], names, header["spec"]
    values: dict[Key, list[list[float]]] = {}
    columns: dict[Key, list[float]] = {}
    for number, row in enumerate(asked["rows"]):
        nodes = set(row["nodes"])
        for name in names:
            found = [[block_ns(block[arm], asked["process"], nodes) for arm in (first, name)]
                     for block in shared(blocks, first, name)]  # fmt: skip
            known = [(base, own) for base, own in found if base and own]
            if known:
                values[number, name] = [own for _, own in known]
                columns[number, name] = [block_log_ratio(base, own, False) for base, own in known]
    tests = max(1, len(asked["rows"]) * len(others))
    tested = {key: d for key, d in columns.items() if key[1] != first}
    decisions = judged(tested, tests, spec["margin"], spec["alpha"])
    rows = []
    for number, row in enumerate(asked["rows"]):
        arms = [_arm(name, values[number, name], decisions.get((number, name)))
                for name in names if (number, name) in values]  # fmt: skip
        for arm in arms:
            arm["gain_s"] = row["calls"] * (arms[0]["ns"] - arm["ns"]) / 1e9
        if arms:
            rows.append({key: value for key, value in row.items() if key != "nodes"} | {"arms": arms})
    rows.sort(key=lambda row: -max((arm["gain_s"] for arm in row["arms"][1:]), default=0.0))
    return {**asked, "rows": rows, "control": first, "level": 1 - spec["alpha"] / tests}


def _arm(name: str, values: Sequence[Sequence[float]], decision: verdict.Decision | None) -> dict[str, Any]:
    row = dict(zip(("ns", "low", "high"), median_interval([one for block in values for one in block]), strict=True))
    if decision is None:
        return {"arm": name, **row}
    ratio = decision.interval.ratio()
    return {"arm": name, **row, "estimate": ratio.estimate, "ci_low": ratio.low, "ci_high": ratio.high,
            "verdict": str(decision.verdict)}  # fmt: skip
