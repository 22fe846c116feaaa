"""From records to the parts of a result that all block kinds share. Pure: records in, dictionaries out.

Imports metrics, session's view of blocks, statistics.
"""

import statistics as mean
from collections.abc import Iterable, Sequence

from .blocks import Blocks, finished_blocks
from .metrics import Metric
from .statistics.paired import Interval, block_log_ratio, median_interval

ARM_MEDIANS = ("wall_s", "cpu_s", "rss_peak_kib", "rss_mean_kib", "minor_faults", "major_faults")
COMPARED = ("wall", "cpu", "rss", "rss-mean", "faults")
FIELDS = {"wall": "wall_s", "cpu": "cpu_s", "rss": "rss_peak_kib", "rss-mean": "rss_mean_kib"}
DISTURBED_SHARE = 0.1


def metric_of(header: dict) -> Metric:
    spec = header["spec"]
    return Metric(spec["metric"], spec["higher-is-better"])


def values(runs: Sequence[dict], metric: str) -> list[float] | None:
    """The metric of each run; None where it is missing from one of them or nothing to make a ratio of."""
    found = []
    for run in runs:
        value = run["metrics"].get(metric)
        if value is None:
            value = run["minor_faults"] + run["major_faults"] if metric == "faults" else run.get(FIELDS.get(metric, ""))
        if not value:
            return None
        found.append(value)
    return found


def log_ratios(blocks: Blocks, control: str, treatment: str, metric: Metric) -> list[float] | None:
    """Per block, positive = treatment better; None where some run lacks the metric."""
    ratios = []
    for block in blocks:
        pair = values(block[control], metric.name), values(block[treatment], metric.name)
        if None in pair:
            return None
        ratios.append(block_log_ratio(*pair, higher_is_better=metric.higher_is_better))
    return ratios


def comparison(interval: Interval, control: str, treatment: str, metric: str, verdict: str | None = None) -> dict:
    ratio = interval.ratio()
    return {
        "name": f"{treatment} against {control}",
        "metric": metric,
        "control": control,
        "treatment": treatment,
        "estimate": ratio.estimate,
        "ci_low": ratio.low,
        "ci_high": ratio.high,
        "level": interval.level,
        "p": interval.p,
        "verdict": verdict,
    }


def arm_rows(header: dict, blocks: Blocks, metric: Metric) -> list[dict]:
    """Medians of every arm over the finished blocks."""
    rows = []
    for arm in header["arms"]:
        runs = [run for block in blocks for run in block.get(arm["name"], [])]
        row = {key: arm[key] for key in ("name", "library", "sha256", "version", "configuration", "variables")}
        row["n"] = len(runs)
        if runs:
            row["median"], row["ci_low"], row["ci_high"] = median_interval([run["value"] for run in runs])
            for name in ARM_MEDIANS:
                known = [run[name] for run in runs if run[name] is not None]
                row[name] = mean.median(known) if known else None
        rows.append(row)
    return rows


def failures(records: Iterable[dict]) -> list[dict]:
    """Every run that failed, also those whose block was run again."""
    return [
        {"block": record["block"], "arm": record["arm"], "why": record["why"]}
        for record in records
        if record["type"] == "run" and not record["ok"]
    ]


def warnings(header: dict, records: Sequence[dict]) -> list[str]:
    """What a reader should know before believing the figures."""
    texts = [
        record["text"] for record in records if record["type"] == "event" and record["what"] in ("load", "fitness")
    ]
    blocks = [record for record in records if record["type"] == "block"]
    disturbed = sum(1 for block in blocks if block.get("disturbed"))
    if blocks and disturbed > DISTURBED_SHARE * len(blocks):
        texts.append(
            f"{disturbed} of {len(blocks)} blocks were disturbed: {blocks[-1].get('disturbed') or 'stolen time'}"
        )
    failed = sum(1 for block in blocks if not block["ok"])
    if failed:
        texts.append(f"{failed} blocks failed and were run again; their records are kept")
    if (header.get("git") or {}).get("dirty") and any(arm["allocator"] == "hakmem" for arm in header["arms"]):
        texts.append("hakmem's checkout had uncommitted changes")
    return list(dict.fromkeys(texts))


def base_result(header: dict, records: Sequence[dict], blocks: Blocks) -> dict:
    """What every kind's result begins with."""
    spec, metric = header["spec"], metric_of(header)
    return {
        "kind": header["kind"],
        "id": header["id"],
        "question": header["question"],
        "verdict": None,
        "headline": "",
        "final": False,
        "metric": metric.record(),
        "margin": spec["margin"],
        "alpha": spec["alpha"],
        "blocks": len(blocks),
        "max_blocks": spec["max-blocks"],
        "more_blocks": None,
        "arms": arm_rows(header, blocks, metric),
        "failures": failures(records),
        "warnings": warnings(header, records),
    }


def measured(records: Iterable[dict]) -> Blocks:
    return finished_blocks(records, "measure")
