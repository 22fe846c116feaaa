"""What `hak ab`, `hak sweep` and `hak compare` share: a verdict after every block, the other average, what to plan.

Imports analysis, fitness, planning, session, statistics.
"""

from collections.abc import Sequence

from .. import fitness, planning, ui
from ..analysis import log_ratios, metric_of, values
from ..blocks import Blocks
from ..metrics import Metric
from ..session import Session
from ..spec import guardrails_of
from ..statistics import power, verdict
from ..statistics.means import Means, ratio_of_means
from ..statistics.plan import Plan

PILOT_BLOCKS = 6
OF_TIME = ("wall", "cpu", "server-cpu")


def shared(blocks: Blocks, control: str, treatment: str) -> Blocks:
    """The blocks in which both arms took part: arms that are settled leave a comparison."""
    return [block for block in blocks if control in block and treatment in block]


def decide(header: dict, blocks: Blocks, pair: tuple[str, str], plan: Plan, comparisons: int = 1) -> verdict.Decision:
    """The verdict on two arms from all blocks, at least one, in which both took part. The comparisons share alpha."""
    spec, metric, alpha = header["spec"], metric_of(header), header["spec"]["alpha"] / comparisons
    blocks = shared(blocks, *pair)
    rails = []
    for second, limit in guardrails_of(spec).items():
        d = log_ratios(blocks, *pair, second)
        rails.append(verdict.guardrail(d, limit, alpha, second.name, plan))
    means = means_of(blocks, pair, metric, 1 - alpha)
    return verdict.decide(log_ratios(blocks, *pair, metric), spec["margin"], alpha, plan, rails, means)


def means_of(blocks: Blocks, pair: tuple[str, str], metric: Metric, level: float) -> Means | None:
    """The ratio of the means of two arms; None with too few blocks."""
    columns = [[values(block[name], metric.name) for block in blocks] for name in pair]
    words = ("faster", "slower") if metric.name in OF_TIME else ("better", "worse")
    return ratio_of_means(*columns, metric.higher_is_better, level, words)


def means_row(means: Means, pair: tuple[str, str], metric: str) -> dict:
    """The other average as a comparison, with the spread of the runs and how many were far off."""
    ratio, name = means.ratio.ratio(), "output" if metric.startswith("regex:") else metric
    return {
        "name": f"{pair[1]} against {pair[0]}", "metric": f"mean of {name}", "control": pair[0], "treatment": pair[1],
        "estimate": ratio.estimate, "ci_low": ratio.low, "ci_high": ratio.high, "level": ratio.level, "p": None,
        "verdict": None, "runs": list(means.runs), "far_off": list(means.far), "spread": list(means.spreads),
    }  # fmt: skip


def plan_detection(session: Session, names: Sequence[str], comparisons: int = 1) -> None:
    """Fixes the number of blocks for the effect that is to be detected, from the last A/A of the same program and
    metric, or from the first six blocks; says how long that takes. Without `detect` there is nothing to do."""
    header, records = session.file.header(), session.records()
    if session.spec.detect is None or planning.is_planned(records):
        return
    known = fitness.spread_of(session.file.path.parent, header)
    if known is None:
        session.progress.say(f"the first {PILOT_BLOCKS} blocks say how many are needed")
        blocks = session.run_blocks("measure", names, PILOT_BLOCKS)
        columns = [log_ratios(blocks, names[0], name, metric_of(header)) for name in names[1:]]
        known = max(power.spread(column) for column in columns), f"the first {PILOT_BLOCKS} blocks"
    _fix_plan(session, names, known, comparisons)


def _fix_plan(session: Session, names: Sequence[str], known: tuple[float, str], comparisons: int) -> None:
    spec, (sigma, source) = session.spec, known
    alpha = spec.alpha / comparisons * (1 - session.file.header().get("anytime", 0.0))
    needed = power.blocks_to_detect(sigma, spec.detect, alpha)
    limit = spec.max_blocks if "max_blocks" in spec.model_fields_set else power.MOST_BLOCKS
    blocks = min(max(needed or power.MOST_BLOCKS, PILOT_BLOCKS), limit)
    runs = blocks * (4 if len(names) == 2 else len(names))
    text = f"to show {spec.detect * 100:g} %: {blocks} blocks at most, by {source}"
    text += f", about {ui.duration(runs * session.run_s)}" if session.run_s else ""
    if needed is None or needed > blocks:
        text += f"; {needed or f'more than {power.MOST_BLOCKS}'} would be needed for it, and max-blocks is {blocks}"
    session.event(planning.PLANNED, text, blocks=blocks)
    session.progress.say(text)
