"""The result of a latency run. Pure: header and records in. Imports analysis, latency_histogram, statistics, store."""

import statistics
from collections.abc import Sequence

from ..analysis import arm_rows, base_result, comparison, log_ratios, measured, unfinished, withheld
from ..blocks import Blocks
from ..metrics import Metric
from ..statistics import multiple, verdict
from ..statistics.drift import warmup_end
from ..statistics.paired import median_interval
from ..store import plain
from .ab import blocked
from .latency_histogram import METRICS, PERCENTILES, RESPONSE, decoded, percentile_us

UNIT = "µs"
CURVE = (50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99, 99.995, 99.999, 100.0)
LEAST_REQUESTS_BEYOND = 10
OVERLOADED = 10.0
LEAST_SECONDS = 10


def key(percentile: str) -> str:
    """p99.9 -> p999_us, as the results name it."""
    return percentile.replace(".", "") + "_us"


def _runs(blocks: Blocks, name: str) -> list[dict]:
    return [run for block in blocks for run in block.get(name, [])]


def _series(runs: Sequence[dict], prefix: str) -> dict:
    """Medians of the runs' percentiles with their intervals; empty where the program does not print this series."""
    out: dict = {"intervals": {}}
    for name in PERCENTILES:
        values = [run["metrics"][prefix + name] for run in runs if prefix + name in run["metrics"]]
        if len(values) < len(runs) or not values:
            return {}
        out[key(name)], low, high = median_interval(values)
        out["intervals"][name] = [low, high]
    return out


def _arm(name: str, runs: Sequence[dict], rate_per_s: float | None) -> dict:
    """pooled: percentiles over the requests of all runs together, with the curve for a picture."""
    row = {"name": name, "rate_per_s": rate_per_s, **_series(runs, ""), "service": _series(runs, "service-") or None}
    total = decoded(run["histograms"][RESPONSE] for run in runs)
    row["requests"] = total.get_total_count()
    row["pooled"] = {key(percentile): percentile_us(total, percentile) for percentile in PERCENTILES}
    row["curve"] = [[at, total.get_value_at_percentile(at) / 1e3] for at in CURVE]
    return row


def _warnings(rows: Sequence[dict], blocks: Blocks) -> list[str]:
    texts = []
    runs = [run for block in blocks for arm_runs in block.values() for run in arm_runs]
    fewest = min(row["requests"] / len(_runs(blocks, row["name"])) for row in rows)
    for name, percent in PERCENTILES.items():
        if name != "max" and round(fewest * (100 - percent) / 100, 3) < LEAST_REQUESTS_BEYOND:
            texts.append(
                f"{name} of one run rests on fewer than {LEAST_REQUESTS_BEYOND} requests beyond it: "
                f"longer runs (now {fewest:,.0f} requests) would make it steadier"
            )
            break
    for row in rows:
        if row["service"] and row["p50_us"] > OVERLOADED * row["service"]["p50_us"]:
            texts.append(
                f"{row['name']} does not keep up with the rate: half of the requests wait more than {OVERLOADED:g} "
                "times as long as they are served; this measures a backlog, choose a lower rate"
            )
    unsteady = [
        run for run in runs if len(run["second_mean_us"]) >= LEAST_SECONDS and warmup_end(run["second_mean_us"]) > 0
    ]
    if 2 * len(unsteady) > len(runs):
        ends = statistics.median(warmup_end(run["second_mean_us"]) for run in unsteady)
        texts.append(f"most runs were not steady yet when recording began: the warm-up should be {ends:.0f} s longer")
    return texts


def _percentile_metric(name: str) -> Metric:
    return Metric(name, higher_is_better=False)


def analyse(header: dict, records: Sequence[dict]) -> dict:
    """Percentiles of every arm; each arm against the baseline, with a verdict on the chosen percentile and intervals
    that hold for all arms at once, after the last planned block."""
    spec, blocks = header["spec"], measured(records)
    names = [arm["name"] for arm in header["arms"]]
    first, others = names[0], names[1:]
    result = base_result(header, records, blocks)
    result |= {"comparisons": [], "metric": {"name": spec["metric"], "unit": UNIT, "higher_is_better": False}}
    result["headline"] = unfinished(blocks, spec)
    if blocks:
        result["arms"] = arm_rows(header, blocks, _percentile_metric(spec["metric"]))
        rows = [_arm(name, _runs(blocks, name), spec["rate"]) for name in names]
        result["latency"] = {"percentile": spec["metric"], "arms": rows}
        result["warnings"] += _warnings(rows, blocks)
    if len(blocks) < spec["max-blocks"]:
        return plain(result)
    alpha = spec["alpha"] / len(others)
    decisions = {}
    for name in others:
        d = log_ratios(blocks, first, name, _percentile_metric(spec["metric"]))
        decision = decisions[name] = verdict.decide(d, spec["margin"], alpha)
        row = comparison(decision.interval, first, name, spec["metric"], str(decision.verdict))
        equivalence = decision.equivalence.ratio()
        result["comparisons"].append(row | {"equivalence_low": equivalence.low, "equivalence_high": equivalence.high})
    result["comparisons"] += _secondary(blocks, first, others, spec)
    result["final"] = True
    result["headline"] = _headline(first, spec["metric"], decisions)
    if len(others) == 1:
        result["verdict"] = str(decisions[others[0]].verdict)
        result["more_blocks"] = decisions[others[0]].more_blocks
        withheld(result, records, first, others[0])
    elif any(decision.verdict is verdict.Verdict.INCONCLUSIVE for decision in decisions.values()):
        wanted = [d.more_blocks for d in decisions.values() if d.verdict is verdict.Verdict.INCONCLUSIVE]
        result["more_blocks"] = None if None in wanted else max(wanted)
    return plain(blocked(result, records))


def _secondary(blocks: Blocks, first: str, others: Sequence[str], spec: dict) -> list[dict]:
    """Every other percentile, and what the arms cost besides: for information, without a verdict."""
    rows = []
    for metric in (*METRICS, "cpu", "rss"):
        if metric == spec["metric"]:
            continue
        columns = {
            name: d for name in others if (d := log_ratios(blocks, first, name, _percentile_metric(metric))) is not None
        }
        intervals = multiple.simultaneous_intervals(columns, 1 - spec["alpha"])
        rows += [comparison(interval, first, name, metric) for name, interval in intervals.items()]
    return rows


def _headline(first: str, percentile: str, decisions: dict[str, verdict.Decision]) -> str:
    words = {
        verdict.Verdict.GO: "better than",
        verdict.Verdict.NO_GO: "worse than",
        verdict.Verdict.NEUTRAL: "as good as",
    }
    if len(decisions) == 1:
        name, decision = next(iter(decisions.items()))
        return f"{percentile} of {name} against {first}: {decision.reason}"
    parts = []
    for wanted, text in words.items():
        found = [name for name, decision in decisions.items() if decision.verdict is wanted]
        sizes = [f"{name} ({verdict.percent(decisions[name].interval.estimate)})" for name in found]
        parts += [f"{', '.join(sizes)}: {text} {first}"] if found else []
    undecided = [name for name, decision in decisions.items() if decision.verdict is verdict.Verdict.INCONCLUSIVE]
    parts += [f"{', '.join(undecided)}: not decided"] if undecided else []
    return f"{percentile}: {'; '.join(parts)}."
