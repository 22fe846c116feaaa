"""`hak aa`: one arm against itself. Is this machine fit to measure, and which effects can it show?"""

import math
import sys

from .. import project
from ..analysis import base_result, measured, metric_of
from ..arms import Arm
from ..blocks import Blocks
from ..conduct import conduct
from ..errors import LabError
from ..session import Session, parse_arms
from ..spec import AaSpec
from ..statistics import noise, power

Spec = AaSpec
SIDES = ("A", "B")
PLANNED_BLOCKS = (20, 40, 60, 120, 180)


def default_values() -> dict:
    """The project's own benchmark where it is built, else a loop of this Python: some 100 ms of work."""
    top = project.root()
    program = top / "build" / "release" / "bench" / "random_mixed" if top else None
    if program is not None and program.is_file():
        return {"command": [str(program), "20000000", "400", "1"]}
    return {"command": [sys.executable, "-I", "-c", "sorted(str(i) for i in range(150000))"]}


def arms(spec: AaSpec) -> list[Arm]:
    return parse_arms(dict.fromkeys(SIDES, spec.allocator), dict.fromkeys(SIDES, "allocator"))


def run(spec: AaSpec, context) -> dict:
    least = 2 * power.least_blocks(spec.alpha)
    if spec.max_blocks < least:
        raise LabError(
            f"{context.source}: max-blocks: {spec.max_blocks} blocks are too few for an A/A: at least {least}"
        )
    total = 4 * spec.max_blocks + 2 * spec.warm_up
    return conduct(spec, context, arms(spec), lambda _: (total, total), measure, analyse)


def measure(session: Session) -> None:
    session.run_blocks("measure", SIDES, session.spec.max_blocks)


def _in_order(blocks: Blocks) -> tuple[list[list[float]], list[bool]]:
    """Natural logs in the order of execution, and which blocks began with A."""
    rows, abba = [], []
    for block in blocks:
        runs = sorted((run["position"], run["value"], name) for name in SIDES for run in block[name])
        rows.append([math.log(value) for _, value, _ in runs])
        abba.append(runs[0][2] == "A")
    return rows, abba


def _state(fit: bool, records: list[dict]) -> str:
    """What was found about the machine. Under load it is the machine with that load, and not fit for anything else."""
    if not fit:
        return "This machine is NOT fit to measure"
    if any(record["type"] == "event" and record["what"] == "load" for record in records):
        return (
            "Other programs were at work, so this says nothing about the machine alone; run it again when it is quiet"
        )
    return "This machine is fit to measure"


def analyse(header: dict, records: list[dict]) -> dict:
    spec, blocks = header["spec"], measured(records)
    result = base_result(header, records, blocks)
    if len(blocks) < 2 * power.least_blocks(spec["alpha"]):
        result["headline"] = f"Too few blocks for an A/A yet: {len(blocks)}."
        return result
    rows, abba = _in_order(blocks)
    if metric_of(header).higher_is_better:
        rows = [[-value for value in row] for row in rows]
    found = noise.aa_false_verdicts(
        rows, spec["margin"], spec["alpha"], spec["resamples"], header["seed"], executed_abba=abba
    )
    contrasts = [(row[1] + row[2] - row[0] - row[3]) / 2 for row in rows]
    smallest = {str(n): 100 * power.smallest_effect(contrasts, n, spec["alpha"]) for n in PLANNED_BLOCKS}
    result["final"] = len(blocks) >= spec["max-blocks"]
    result["aa"] = {
        "fit": found.fit,
        "false_go": found.false_go,
        "false_no_go": found.false_no_go,
        "neutral": found.neutral,
        "inconclusive": found.inconclusive,
        "resamples": found.resamples,
        "rate": found.rate,
        "bound": found.bound,
        "noise_percent": 100 * found.coefficient_of_variation,
        "autocorrelation": found.autocorrelation,
        "sequential_rate": found.sequential_rate,
        "blocks_per_verdict": found.blocks_per_verdict,
        "smallest_effect_percent": smallest,
        "advice": found.advice,
    }
    state = _state(found.fit, records)
    wrong = 100 * found.rate
    old = (
        f"; ten runs of A and then ten of B would be wrong in {100 * found.sequential_rate:.0f} %"
        if found.sequential_rate >= 0
        else ""
    )
    result["headline"] = (
        f"{state}: {wrong:.1f} % false verdicts in {found.resamples} resampled A/As (at most "
        f"{100 * found.bound:.1f} % is expected){old}. With {len(blocks)} blocks it shows differences from "
        f"{100 * found.smallest_effect:.2f} % on."
    )
    return result
