"""The result of a replay: the comparison of the arms, predictions for the live program, and the gain by stack.

By stack: the time for the blocks that one stack allocated, on each arm. The stacks are chosen before anything is
measured. Each stack on each arm is a test; with a probability of at most alpha, any of them is wrong. Pure, except for
`chosen`.
"""

import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from hakmem_lab.judge import findings, words
from hakmem_lab.judge.analysis import measured
from hakmem_lab.judge.explain import change_of
from hakmem_lab.judge.statistics import verdict
from hakmem_lab.judge.statistics.paired import block_log_ratio, median_interval
from hakmem_lab.judge.two_arms import shared
from hakmem_lab.judge.warnings import Warn
from hakmem_lab.kinds.replay import predict
from hakmem_lab.kinds.replay.predict import Column, Quantity
from hakmem_lab.plan.spec import CompareSpec
from hakmem_lab.store.query import Blocks, runs_of
from hakmem_lab.store.records import Record, Run, present
from hakmem_lab.store.results import Replay, Result, StackRow, Stacks, StackSide
from hakmem_lab.trace import stacks

MOST = 20
LEAST_NS = 1.0  # smallest time of a block: the clock is no finer
Key = tuple[int, str]  # number of a stack, arm


def chosen(path: Path, spec: CompareSpec, process: int | None) -> Record:
    """The stacks with the largest shares of allocations and bytes of one process, as many as the planned blocks can
    decide on. Raises LabError if there are none."""
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
    """Decide on per-block log-ratios (positive = better). tests: number of possible comparisons, which share alpha."""
    return {key: verdict.decide(d, margin, alpha / tests) for key, d in columns.items()}


def block_ns(runs: Sequence[Run], process: int, nodes: set[int]) -> list[float]:
    """Mean nanoseconds for a block of these stacks, in each run. Empty if a replay had no such block."""
    found = []
    for run in runs:
        rows = [row for each in run["replay"]["processes"] if each["process"] == process
                for row in each["stacks"] if row[0] in nodes]  # fmt: skip
        blocks = sum(row[2] for row in rows)
        if not blocks:
            return []
        found.append(max(sum(row[3] for row in rows) / blocks, LEAST_NS))
    return found


def by_stack(header: Record, names: Sequence[str], blocks: Blocks) -> Stacks:
    """The rows of `chosen`, sorted by the largest gain, each with `arms`, the baseline first. An arm has: ns with low
    and high, median and 95 % interval of the time for a block; gain_s, the recorded program's gain in seconds."""
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
    rows: list[StackRow] = []
    for number, row in enumerate(asked["rows"]):
        arms = [_stack_arm(name, values[number, name], decisions.get((number, name)))
                for name in names if (number, name) in values]  # fmt: skip
        for arm in arms:
            arm["gain_s"] = row["calls"] * (arms[0]["ns"] - arm["ns"]) / 1e9
        if arms:
            kept = cast(StackRow, {key: value for key, value in row.items() if key != "nodes"})
            rows.append(kept | {"arms": arms})
    rows.sort(key=lambda row: -max((arm["gain_s"] for arm in row["arms"][1:]), default=0.0))
    return cast(Stacks, asked) | {"rows": rows, "control": first, "level": 1 - spec["alpha"] / tests}


def _stack_arm(name: str, values: Sequence[Sequence[float]], decision: verdict.Decision | None) -> StackSide:
    ns, low, high = median_interval([one for block in values for one in block])
    row: StackSide = {"arm": name, "ns": ns, "low": low, "high": high}
    if decision is None:
        return row
    return {**row, **decision.interval.ends(), "verdict": str(decision.verdict)}


SHOWN = ("GO", "NO-GO")
LIVE = " live"  # suffix of the name of an arm that runs the recorded command


def replayed(header: Record) -> Record:
    """The header without the arms that run live."""
    return header | {"arms": [arm for arm in header["arms"] if not arm["name"].endswith(LIVE)]}


def with_replay(result: Result, header: Record, records: list[Record]) -> Result:
    """The result of a comparison, with `replay`: the trace, and predictions beside the live program's figures."""
    blocks, names = measured(records), [arm["name"] for arm in replayed(header)["arms"]]
    if not blocks:
        return result
    result["replay"] = _replay(header, replayed(header), blocks)
    result["warnings"] += [Warn.DOUBTED.said(text=text) for text in result["replay"]["refused"]]
    if header.get("stacks"):
        found = by_stack(header, names, blocks)
        result["replay"]["stacks"] = found
        if not found["rows"]:
            number = found["process"]
            result["warnings"].append(Warn.UNREPLAYED.said(number=number))
    result["warnings"] += refusals(blocks, names)
    return one_verdict(result)


def one_verdict(result: Result) -> Result:
    """Withhold GO and NO-GO on the replayed allocations if no difference of the program itself is predicted."""
    metric = result["metric"]["name"]
    quantities = [each for each in result["replay"]["quantities"] if each["name"] == metric]
    changes = {row["arm"]: findings.predicted(each, row) for each in quantities[:1] for row in each["rows"]}
    open_ones = {name for name, change in changes.items() if change is not None and not change.sure}
    held = [row for row in result["comparisons"] if row["treatment"] in open_ones and row.get("verdict") in SHOWN]
    if not held:
        return result
    alone = [(row["treatment"], change_of(result, row)) for row in held]
    told = "; ".join(words.sentence(name, str(result["replay"]["base"]), change) for name, change in alone if change)
    for row in held:
        row["verdict"] = str(verdict.Verdict.INCONCLUSIVE)
    if not result["verdict"]:
        return result
    why, so_far = findings.replay(result)[0], f"Replayed allocations alone: {told}."
    return result | {"withheld": why, "so_far": [so_far], "verdict": str(verdict.Verdict.INCONCLUSIVE)}


def _replay(header: Record, own: Record, blocks: Blocks) -> Replay:
    recorded, live = header["recorded"], header["spec"]["live"]
    names = [arm["name"] for arm in own["arms"] if runs_of(blocks, arm["name"])]
    names = [name for name in names if not live or all(name + LIVE in block for block in blocks)]
    base = base_arm(own | {"arms": [arm for arm in own["arms"] if arm["name"] in names]}, recorded)
    found: Replay = {
        "recorded": recorded,
        "base": base,
        "live": live,
        "touch": header["spec"]["touch"],
        "quantities": [],
        "refused": [],
    }
    # A replay that touches memory differently predicts nothing about the program, unless there are live runs.
    if base is None or (found["touch"] != "recorded" and not live):
        return found | _replayed(blocks, names)
    beside = predict.offsets(recorded["processes"], runs_of(blocks, base))
    cpu = recorded["cpu_s"]
    if live:
        cpu = statistics.median(present(run["cpu_s"]) for run in runs_of(blocks, base + LIVE))
    for quantity in predict.QUANTITIES:
        columns = {name: Column(replays(runs_of(blocks, name), quantity, beside),
                                _lives_of(runs_of(blocks, name + LIVE), quantity))
                   for name in names}  # fmt: skip
        level = None if live else predict.recorded_level(recorded, quantity)
        share = predict.rate(level or statistics.median(columns[base].lives or [0]), cpu, quantity)
        if why := predict.doubt(columns, base, quantity, level, share):
            found["refused"].append(why)
        rows = predict.rows(columns, base, quantity, level, cpu)
        if rows:
            ranking = predict.ranking(rows, _lives(blocks, names, quantity)) if live else None
            found["quantities"].append({"name": quantity.name, "unit": quantity.unit, "rows": rows,
                                        "ranking": ranking})  # fmt: skip
    return found | _replayed(blocks, names)


def refusals(blocks: Blocks, names: Sequence[str]) -> list[str]:
    """Warn of arms whose allocator refused allocations: the missing work took no time and no memory."""
    counts = {name: max((sum(each["failed"] for each in run["replay"]["processes"])
                         for run in runs_of(blocks, name) if run.get("replay")), default=0)
              for name in names}  # fmt: skip
    return [Warn.REFUSED.said(side=name, count=count) for name, count in counts.items() if count]


def _lives_of(runs: Sequence[Run], quantity: Quantity) -> list[float]:
    return [cast(Record, run)[quantity.field] for run in runs]


def _lives(blocks: Blocks, names: list[str], quantity: Quantity) -> dict[str, list[list[float]]]:
    """The quantity in the live runs of each arm, block by block."""
    return {name: [_lives_of(block[name + LIVE], quantity) for block in blocks] for name in names}


def _replayed(blocks: Blocks, names: list[str]) -> Replay:
    """Which processes the first arm's last run replayed, and how much of the trace it left out."""
    run = next((block[name][-1] for block in reversed(blocks) for name in names if block.get(name)), Run())
    found = run.get("replay") or {}
    return cast(Replay, {key: found.get(key) for key in ("processes", "left_out", "left_out_operations")})


def base_arm(own: Record, recorded: Record) -> str | None:
    """The arm whose allocator served the program (its largest process) when it was recorded."""
    largest: Record = max(recorded["processes"], key=lambda each: each["peak_kib"] or 0.0, default={})
    served = _file(largest.get("allocator"))
    plain = [arm for arm in own["arms"] if not arm["variables"]]
    return next((arm["name"] for arm in plain if _file(arm["library"]) == served), None)


def _file(library: str | None) -> str | None:
    """The name of an allocator's file; None for the C library's, which may be preloaded like any other."""
    name = os.path.realpath(library).rpartition("/")[2] if library else None
    return None if name is None or name.startswith(("libc.so", "libc-2")) else name


def replays(runs: Sequence[Run], quantity: Quantity, beside: dict[int, float]) -> list[float]:
    """The quantity in each of these replays."""
    if quantity.memory:
        return [predict.peak(run["replay"]["processes"], beside) for run in runs]
    return [present(run["cpu_s"]) for run in runs]
