"""Builds as a random factor: several pairs of builds of the two arms; all blocks of a pair count as one.

Blocks of one pair of builds share that pair's memory layout, so they are not independent observations: their interval
would describe these two files, not the two sources. Therefore the blocks of a pair become one unit, whose log-ratio is
the mean of theirs. The analysis gets units in place of blocks: a header that plans as many blocks as there are pairs,
and records in which a pair is a block. Pairs run one after the other, so units are independent of each other, and
everything that holds for blocks in their order also holds for units.
"""

import re
from collections.abc import Callable, Sequence

from hakmem_lab.judge.analysis import log_ratios, metric_of
from hakmem_lab.judge.statistics.paired import as_ratio
from hakmem_lab.judge.statistics.plan import Plan, planned_looks
from hakmem_lab.store.query import Blocks, finished_blocks

KEY, PHASE = "builds", "measure"
SEED_BITS = 31
UNCOUNTED = -1

Analyse = Callable[[dict, list[dict]], dict]


def unit_header(header: dict) -> dict:
    """The header as of a run whose blocks are the pairs of builds; a header without builds is returned unchanged."""
    if KEY not in header:
        return header
    known = {key: value for key, value in header.items() if key != KEY}
    spec, pairs = header["spec"], len(header[KEY]["pairs"])
    plan = plan_of(pairs, spec["looks"], spec["alpha"])
    return known | {"spec": spec | {"max-blocks": pairs, "looks": len(plan.looks)}}


def plan_of(pairs: int, wanted: int, alpha: float) -> Plan:
    """A plan with the wanted number of looks; with a single one if there are too few pairs for several."""
    plan = Plan(tuple(planned_looks(pairs, wanted)))
    return plan if pairs >= plan.least_blocks(alpha) else Plan((pairs,))


def units(blocks: Blocks, each: int) -> Blocks:
    """Merge the blocks of each pair of builds into one block of all their runs, without an unfinished last pair."""
    merged: dict[int, dict[str, list[dict]]] = {}
    count: dict[int, int] = {}
    for block in blocks:
        build = next(iter(block.values()))[0]["build"]
        count[build] = count.get(build, 0) + 1
        for arm, runs in block.items():
            merged.setdefault(build, {}).setdefault(arm, []).extend(runs)
    return [merged[build] for build in sorted(merged) if count[build] >= each or build < max(merged)]


def unit_records(records: Sequence[dict], each: int) -> list[dict]:
    """The records as of a run whose blocks are the pairs. Runs that do not count are kept, in no finished block."""
    blocks = finished_blocks(records, PHASE)
    found = [dict(record) for record in records if record.get("phase") != PHASE]
    disturbed = {(r["block"], r["attempt"]): r["disturbed"] for r in records if r["type"] == "block" and r["ok"]}
    counted = set()
    for index, unit in enumerate(units(blocks, each)):
        runs = [run for own in unit.values() for run in own]
        counted |= {(run["block"], run["attempt"]) for run in runs}
        why = next(filter(None, (disturbed.get((run["block"], run["attempt"])) for run in runs)), None)
        found += [run | {"block": index, "attempt": 0} for run in runs]
        order = [run["arm"] for run in runs]
        close = {"type": "block", "block": index, "attempt": 0, "phase": PHASE, "ok": True, "why": None}
        found.append(close | {"order": order, "disturbed": why})
    rest = (r for r in records if r.get("phase") == PHASE and (r["block"], r["attempt"]) not in counted)
    return found + [record | {"attempt": UNCOUNTED, "ok": record["ok"] and record["type"] == "run"} for record in rest]


def in_builds(text: str) -> str:
    """Replace "block" by "build" in a sentence about units."""
    return re.sub(r"\bblocks\b", "builds", re.sub(r"\bblock\b", "build", text))


def analyse(header: dict, records: Sequence[dict], judge: Analyse) -> dict:
    """The result of `judge` on the units, with numbers of blocks and builds."""
    each, pairs = header[KEY]["each"], header[KEY]["pairs"]
    result = judge(unit_header(header), unit_records(records, each))
    # Before the first look, single pairs are not shown either.
    used = units(finished_blocks(records, PHASE), each)[: result["blocks"]] if result["comparisons"] else []
    names = [arm["name"] for arm in header["arms"]]
    ratios = [as_ratio(d) for d in log_ratios(used, names[0], names[1], metric_of(header)) or []]
    fixed = [name for name in names if len({pair[name] for pair in pairs}) == 1]
    rows = [{"seed": pair["seed"], "estimate": ratio} for pair, ratio in zip(pairs, ratios, strict=False)]
    spread = {"least": min(ratios, default=None), "most": max(ratios, default=None)}
    for row in (result, *result["looks"]):
        row["blocks"] *= each
    return result | {
        "counted": "builds",
        "withheld": in_builds(result.get("withheld", "")),
        "max_blocks": each * len(pairs),
        "warnings": [
            *result["warnings"],
            *(f"{name} is one build, whose own luck the interval does not cover" for name in fixed),
        ],
        "builds": {"pairs": rows, "blocks_each": each, "fixed": fixed, **spread},
    }
