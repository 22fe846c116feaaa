"""The parts that A/Bs, sweeps and comparisons share: a verdict after every block, the other average."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hakmem_lab.judge.analysis import comparable, comparison, doubling, judged_ratios, log_ratios, metric_of
from hakmem_lab.judge.statistics import further, verdict
from hakmem_lab.judge.statistics.means import Means, ratio_of_means
from hakmem_lab.judge.statistics.paired import as_ratio
from hakmem_lab.judge.statistics.plan import Plan
from hakmem_lab.judge.statistics.verdict import Guardrail
from hakmem_lab.judge.words import BESIDE, MEAN_OF
from hakmem_lab.plan.metrics import METRICS, Metric
from hakmem_lab.plan.schedule import ONE_BY_ONE
from hakmem_lab.plan.spec import beside_of, guardrails_of
from hakmem_lab.store.query import Blocks
from hakmem_lab.store.records import Record
from hakmem_lab.store.results import Comparison, GuardrailRow


def shared(blocks: Blocks, control: str, treatment: str) -> Blocks:
    """The blocks in which both arms took part: an arm with a verdict leaves a comparison."""
    return [block for block in blocks if control in block and treatment in block]


def columns_of(blocks: Blocks, first: str, others: Sequence[str], metric: Metric) -> dict[str, list[float]]:
    """Log-ratios of each arm to the first one, from the blocks of both; arms without any are left out."""
    found = {name: log_ratios(shared(blocks, first, name), first, name, metric) for name in others}
    return {name: d for name, d in found.items() if d}


def decide(header: Record, blocks: Blocks, pair: tuple[str, str], plan: Plan, comparisons: int = 1) -> verdict.Decision:
    """The verdict on two arms from all blocks, at least one, in which both took part. The comparisons share alpha."""
    spec, metric, alpha = header["spec"], metric_of(header), header["spec"]["alpha"] / comparisons
    blocks = shared(blocks, *pair)
    guardrails = [
        verdict.guardrail(judged_ratios(blocks, *pair, second), limit, alpha, second.name, plan)
        for second, limit in guardrails_of(spec).items()
    ]
    means = means_of(blocks, pair, metric, 1 - alpha)
    return verdict.decide(judged_ratios(blocks, *pair, metric), spec["margin"], alpha, plan, guardrails, means)


def means_of(blocks: Blocks, pair: tuple[str, str], metric: Metric, level: float) -> Means | None:
    """The ratio of the means of two arms; None with too few blocks."""
    more = doubling(blocks, pair[0], metric)
    first, second = ([comparable(block[name], metric, more) or [] for block in blocks] for name in pair)
    return ratio_of_means(first, second, metric.higher_is_better, level)


def judged_row(decision: verdict.Decision, pair: tuple[str, str], metric: str) -> Comparison:
    """The comparison with its verdict, and the facts that `explain` needs."""
    row = comparison(decision.interval, *pair, metric, str(decision.verdict), decision.equivalence)
    return row | {
        "blocks": decision.interval.n,
        "least_blocks": decision.least,
        "uncorrected": as_ratio(decision.plain),
        "at_least_margin": verdict.at_least_margin(decision),
        "torn": decision.torn,
        "mean_open": decision.mean_open,
        "consistent": decision.consistent,
        "vetoed_by": list(decision.vetoed_by),
    }


def means_row(means: Means, pair: tuple[str, str], metric: Metric) -> Comparison:
    """The other average as a comparison, with the spread of the runs and how many were far off."""
    row = comparison(means.lasting, *pair, MEAN_OF + metric.label)
    return row | {"runs": list(means.runs), "far_off": list(means.far), "spread": list(means.spreads)}


def also_changed(
    header: Record,
    blocks: Blocks,
    decisions: Mapping[str, verdict.Decision],
    plan: Plan,
    metrics: Sequence[str] = tuple(METRICS),
    share: float = 1.0,
    beside: Blocks | None = None,
) -> list[Comparison]:
    """Changes of other metrics than the primary one, of the arms with these decisions. All the intervals hold at once,
    whenever the run ends; see `further`. At their level, the intervals of one side hold together. share: their
    part of the alpha of all figures beside the verdicts. beside: blocks, one by one, for metrics that the others lack,
    and for peak memory, which is less where runs last longer and an allocator gives memory back after a time.
    """
    spec, first = header["spec"], header["arms"][0]["name"]
    alpha, own = spec["alpha"] / (len(header["arms"]) - 1), further.plan_of(plan)
    columns = {name: columns_of(blocks, first, list(decisions), beside_of(spec, name)) for name in metrics}
    alone = [name for name, found in columns.items() if beside and (name == "rss" or not found)]
    columns |= {name: columns_of(beside or [], first, list(decisions), beside_of(spec, name)) for name in alone}
    known = [name for name, found in columns.items() if found and name != spec["metric"]]
    rows = []
    for name in known:
        for other, d in columns[name].items():
            decided = decisions[other].verdict is not verdict.Verdict.INCONCLUSIVE
            part = further.alphas(known, BESIDE, share * alpha, decided)[name]
            interval = own.judged(d, part).interval
            row = comparison(replace(interval, level=1 - alpha), first, other, name)
            rows.append(row | {"schedule": ONE_BY_ONE} if name in alone else row)
    return rows


def guardrails_judged(header: Record, blocks: Blocks, plan: Plan) -> dict[str, list[Guardrail]]:
    """Arm -> its guardrails against the first arm, judged by the blocks in which the arm took part.

    The intervals of one metric hold for all arms at once, after any number of blocks, with an error of alpha on each
    side.
    """
    first, *others = (arm["name"] for arm in header["arms"])
    alpha = header["spec"]["alpha"]
    found: dict[str, list[Guardrail]] = {name: [] for name in others}
    for metric, limit in guardrails_of(header["spec"]).items():
        columns = columns_of(blocks, first, others, metric)
        for name, d in columns.items():
            found[name].append(verdict.guardrail(d, limit, alpha / len(columns), metric.name, plan))
    return found


def guardrail_rows(found: Mapping[str, Sequence[Guardrail]]) -> list[GuardrailRow]:
    """Rows in a result's form, each with its arm."""
    return [{**each.row(), "arm": name} for name, own in found.items() for each in own]
