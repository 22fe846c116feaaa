"""A side against itself, an A/A: is this machine fit to measure, and which effects can it show?"""

import math
import sys
from collections.abc import Mapping
from typing import Annotated, Literal, cast

from pydantic import AfterValidator, Field

from hakmem_lab.designs.engine import Design, Rule
from hakmem_lab.judge.analysis import base_result, doubling, judged_ratios, measured, metric_of
from hakmem_lab.judge.statistics import aa as noise
from hakmem_lab.judge.statistics import power
from hakmem_lab.judge.statistics.paired import as_log
from hakmem_lab.judge.statistics.plan import Plan
from hakmem_lab.plan import project
from hakmem_lab.plan.arms import Arm, parse_arms
from hakmem_lab.plan.spec import BlockSpec, Guardrail, NoDuet
from hakmem_lab.run import endings
from hakmem_lab.run.session import Session
from hakmem_lab.store.query import Blocks, events
from hakmem_lab.store.records import Record, present
from hakmem_lab.store.results import Aa, Result

SIDES = ("A", "B")
MARGINS, SHORT_BLOCKS = (0.02, 0.03, 0.05, 0.1, 0.2, 0.5), 40
PLANNED_BLOCKS = (20, 40, 60, 120, 180)
SHOWN = ("fit", "state", "spread", "false_go", "false_no_go", "neutral", "inconclusive", "resamples", "rate", "bound",
         "autocorrelation", "sequential_rate", "blocks_per_verdict", "advice")  # fmt: skip


def refuse_guardrails(value: Record) -> Record:
    if value:
        raise ValueError("an A/A has no guardrails: nothing in it could get worse")
    return value


NoGuardrails = Annotated[dict[str, Guardrail], AfterValidator(refuse_guardrails)]


class AaSpec(BlockSpec):
    """One arm against itself."""

    kind: Literal["aa"] = "aa"
    duet: NoDuet = False
    allocator: str = "glibc"
    max_blocks: Annotated[int, Field(ge=1, le=100_000)] = 240
    guardrails: NoGuardrails = {}
    resamples: Annotated[int, Field(ge=200, le=100_000)] = 1000

    def unjudged(self) -> str:
        return "a run of the kind aa has none"


class SameSession(Session[AaSpec]):
    ends_early_if, picks_metric = "the machine is quiet", False
    rule: Mapping[str, float] = {}


class Itself(Design):
    Spec = AaSpec
    session = SameSession
    checked = False

    @staticmethod
    def default_values() -> Record:
        """The project's own benchmark if it is built, else a loop in this Python: some 100 ms of work."""
        top = project.root()
        program = top / "build" / "release" / "bench" / "random_mixed" if top else None
        if program is not None and program.is_file():
            return {"command": [str(program), "20000000", "400", "1"]}
        return {"command": [sys.executable, "-I", "-c", "sorted(str(i) for i in range(150000))"]}

    def sides(self, spec: AaSpec) -> list[Arm]:
        return parse_arms(dict.fromkeys(SIDES, spec.allocator), dict.fromkeys(SIDES, "allocator"))

    def least(self, spec: AaSpec, plan: Plan) -> int:
        return 2 * power.least_blocks(spec.alpha)

    def rule(self, session: SameSession, phase: str) -> Rule:
        """Until the bias is shown to be inside half the margin, by a test that is valid after every block."""
        spec, plan = session.spec, Plan((session.spec.max_blocks,))
        least, half = self.least(spec, plan), as_log(spec.margin / 2)

        def left(blocks: Blocks) -> tuple[str, ...]:
            if len(blocks) < least:
                return SIDES
            d = judged_ratios(blocks, *SIDES, session.metrics[0])
            if len(blocks) == least:
                _propose(session, power.spread(d), least)
            bias = plan.judged(d, spec.alpha).equivalence
            return () if -half < bias.low and bias.high < half else SIDES

        return left

    def found(self, header: Record, records: list[Record]) -> Result:
        spec, blocks = header["spec"], measured(records)
        result = base_result(header, records, blocks)
        if len(blocks) < 2 * power.least_blocks(spec["alpha"]):
            return result | {"withheld": f"Too few blocks for an A/A yet: {len(blocks)}"}
        rows, abba = _in_order(blocks, doubling(blocks, SIDES[0], metric_of(header)))
        if metric_of(header).higher_is_better:
            rows = [[-value for value in row] for row in rows]
        found = noise.aa_false_verdicts(
            rows, spec["margin"], spec["alpha"], spec["resamples"], header["seed"], executed_abba=abba,
            plan=Plan((spec["max-blocks"],)),
        )  # fmt: skip
        counts = sorted({*PLANNED_BLOCKS, len(blocks)})
        smallest = {str(n): 100 * power.smallest_effect(found.spread, n, spec["alpha"]) for n in counts}
        result["final"] = len(blocks) >= spec["max-blocks"] or found.fit
        assert found.bias is not None, "the labels are known"
        bias = found.bias.ratio()
        result["aa"] = cast(Aa, {name: getattr(found, name) for name in SHOWN}) | {
            "busy": loaded(records),
            "bias": bias.estimate,
            "bias_low": bias.low,
            "bias_high": bias.high,
            "noise_percent": 100 * found.coefficient_of_variation,
            "smallest_effect_percent": smallest,
        }
        return result


aa = Itself()


def _propose(session: SameSession, sigma: float, least: int) -> None:
    """After the first blocks, report how long the run will likely take; if long, suggest a larger, quicker margin."""
    spec = session.spec

    def blocks_for(margin: float) -> int:
        return max(least, power.blocks_for(sigma, 0.0, margin / 2, spec.alpha) or power.MOST_BLOCKS)

    def said(margin: float) -> str:
        blocks = blocks_for(margin)
        return endings.duration(4 * blocks * session.run_s) if session.run_s else f"{blocks:,} blocks"

    text = f"by the first {least} blocks, a margin of {100 * spec.margin:g} % takes about {said(spec.margin)}"
    short = [margin for margin in MARGINS if spec.margin < margin and blocks_for(margin) <= SHORT_BLOCKS]
    if blocks_for(spec.margin) > spec.max_blocks:
        text += f", longer than the {spec.max_blocks} blocks of max-blocks"
    if blocks_for(spec.margin) > SHORT_BLOCKS and short:
        text += f"; --margin {100 * short[0]:g}% about {said(short[0])}"
    session.tell("proposal", text)


def _in_order(blocks: Blocks, more: float) -> tuple[list[list[float]], list[bool]]:
    """Natural logs in the order of execution, and which blocks began with A. more: of growth, see `doubling`."""
    rows, abba = [], []
    for block in blocks:
        runs = sorted((run["position"], present(run["value"]), name) for name in SIDES for run in block[name])
        if runs[0][2] != runs[-1][2]:  # rounds that ran together have no order between them
            runs[2:] = reversed(runs[2:])
        rows.append([math.log(value + more) for _, value, _ in runs])
        abba.append(runs[0][2] == "A")
    return rows, abba


def loaded(records: list[Record]) -> bool:
    """Whether other programs were running: then the result describes only the machine under that load."""
    return bool(events(records, "load"))
