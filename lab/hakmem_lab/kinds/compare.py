"""`hak compare`: several allocators on one program, each against a baseline, with simultaneous intervals."""

from .. import words
from ..analysis import COMPARED, base_result, comparison, log_ratios, measured, metric_of, unfinished, withheld
from ..arms import Arm
from ..conduct import conduct
from ..errors import LabError, nearest
from ..metrics import Metric
from ..session import Session, parse_arms
from ..spec import CompareSpec
from ..statistics import looks, multiple, power, verdict
from ..statistics.paired import as_log, paired_interval
from .ab import blocked, check_blocks

Spec = CompareSpec


def baseline(spec: CompareSpec) -> str:
    """The chosen one, else glibc if it takes part, else the first."""
    return spec.baseline or ("glibc" if "glibc" in spec.allocators else spec.allocators[0])


def arms(spec: CompareSpec) -> list[Arm]:
    """The baseline first."""
    first = baseline(spec)
    if len(set(spec.allocators)) != len(spec.allocators):
        raise LabError("allocators: the same arm is named twice; for one arm against itself there is: hak aa")
    if first not in spec.allocators:
        raise LabError(f"baseline: '{first}' is not among the allocators: {nearest(first, spec.allocators)}")
    texts = [first, *(text for text in spec.allocators if text != first)]
    return parse_arms({text: text for text in texts}, dict.fromkeys(texts, "allocators"))


def run(spec: CompareSpec, context) -> dict:
    plan = looks.planned_looks(spec.max_blocks, spec.looks)
    check_blocks(spec, context.source, plan, len(spec.allocators) - 1)
    per_block = 4 if len(spec.allocators) == 2 else len(spec.allocators)
    total = per_block * spec.max_blocks + spec.warm_up * len(spec.allocators)
    return conduct(spec, context, arms(spec), lambda _: (total, total), measure, analyse)


def measure(session: Session) -> None:
    session.check_fitness()
    session.run_blocks("measure", list(session.arms), session.spec.max_blocks)


def analyse(header: dict, records: list[dict]) -> dict:
    """Every arm against the baseline: verdicts on the primary metric, intervals for the other standard metrics."""
    spec, blocks = header["spec"], measured(records)
    result = base_result(header, records, blocks) | {"comparisons": []}
    first, *others = (arm["name"] for arm in header["arms"])
    if len(blocks) < spec["max-blocks"]:
        result["headline"] = unfinished(blocks, spec)
        return result
    metric = metric_of(header)
    columns = {name: log_ratios(blocks, first, name, metric) for name in others}
    wide = multiple.simultaneous_intervals(columns, 1 - spec["alpha"])
    each = 1 - 2 * spec["alpha"] / len(columns)
    delta = as_log(spec["margin"])
    verdicts = {name: str(verdict.judge(wide[name], paired_interval(d, each), delta)) for name, d in columns.items()}
    result["comparisons"] = [comparison(wide[name], first, name, metric.name, verdicts[name]) for name in others]
    for extra in COMPARED:
        rows = {
            name: d for name in others if extra != metric.name and (d := log_ratios(blocks, first, name, Metric(extra)))
        }
        intervals = multiple.simultaneous_intervals(rows, 1 - spec["alpha"])
        result["comparisons"] += [comparison(interval, first, name, extra) for name, interval in intervals.items()]
    result["final"] = True
    if "INCONCLUSIVE" in verdicts.values():
        alpha = spec["alpha"] / len(columns)
        wanted = [
            power.more_blocks(columns[n], spec["margin"], alpha) for n, v in verdicts.items() if v == "INCONCLUSIVE"
        ]
        result["more_blocks"] = None if None in wanted else max(wanted)
    result["headline"] = _headline(first, wide, verdicts, metric, spec["margin"], result["more_blocks"])
    if len(others) == 1:
        result["verdict"] = verdicts[others[0]]
        withheld(result, records, first, others[0])
    return blocked(result, records)


def _headline(
    first: str, intervals: dict, verdicts: dict[str, str], metric: Metric, margin: float, more_blocks: int | None
) -> str:
    """Of every arm what is decided and what is not: the best first, the open ones last."""

    def said(name: str) -> str:
        ratio = intervals[name].ratio()
        return words.effect(metric.name, ratio.estimate, ratio.low, ratio.high, metric.higher_is_better)

    names = sorted(intervals, key=lambda name: -intervals[name].estimate)
    decided = {"GO": "better than", "NO-GO": "worse than", "NEUTRAL": "as good as"}
    parts = []
    for wanted, text in decided.items():
        if found := [name for name in names if verdicts[name] == wanted]:
            sizes = [name if wanted == "NEUTRAL" else f"{name} ({said(name)})" for name in found]
            parts.append(f"{text} {first}: {', '.join(sizes)}")
    for name in [name for name in names if verdicts[name] == "INCONCLUSIVE"]:
        whether = f", but whether by the {100 * margin:g} % that matters is open"
        parts.append(f"not decided: {name} ({said(name)}{whether if intervals[name].excludes_zero() else ''})")
    text = "; ".join(parts) + "."
    if "INCONCLUSIVE" in verdicts.values():
        likely = "More blocks are unlikely to settle the rest."
        if more_blocks is not None:
            likely = f"About {more_blocks} more blocks would likely settle the rest."
        text += f" {likely}"
    return text[0].upper() + text[1:]
