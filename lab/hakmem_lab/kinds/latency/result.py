"""The result of a latency run. Pure: header and records in.

The causes of the slowest requests come from the kernel's counts, which the program prints. It prints one line `slow
RESPONSE_NS FAULTS WAITS PREEMPTED` for each of a run's slowest requests; the counts begin with the request that it had
to wait for. For the whole run it prints `pages FAULTS GROWTH`: page faults beyond the growth of resident memory are on
memory that had been returned before.
"""

import math
import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from hakmem_lab.judge import two_arms, verdicts
from hakmem_lab.judge.analysis import arm_rows, base_result, comparison, measured
from hakmem_lab.judge.statistics import further, verdict
from hakmem_lab.judge.statistics.drift import warmup_end
from hakmem_lab.judge.statistics.pooled import MEAN
from hakmem_lab.judge.warnings import Warn
from hakmem_lab.kinds.latency.pool import LEAST_REQUESTS_BEYOND, METRICS, PERCENTILES, PREFIXES, Pair, Pools, Requests
from hakmem_lab.kinds.latency.verdict import BUILT_IN, Asked, decide, recorded
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.store.query import Blocks, runs_of
from hakmem_lab.store.records import Record, Run
from hakmem_lab.store.results import Cause, Comparison, LatencySide, Percentiles, Result
from hakmem_lab.store.runs import plain

_SLOW = re.compile(r"^slow (\d+) (\d+) (\d+) (\d+)$", re.M)
_PAGES = re.compile(r"^pages (\d+) (-?\d+)$", re.M)
KEPT = 512
CAUSED = ("p99", "p99.9", "p99.99")
NEARLY, MOSTLY = 0.8, 0.5
DIGITS = 0.998  # allows for the rounding of values in a histogram
PREEMPTED, WAITED, FAULTED, OWN = "other programs", "lock waits", "page faults", "own work"


def read_slow(text: str) -> Record:
    """The keys of a run's record about its slowest requests; empty if the program does not print them."""
    slow = sorted(([int(word) for word in found] for found in _SLOW.findall(text)), reverse=True)[:KEPT]
    pages = _PAGES.search(text)
    return {"slow": slow, "pages": [int(pages[1]), int(pages[2])] if pages else None} if slow else {}


def cause(_response: int, faults: int, waits: int, preempted: int) -> str:
    """The one cause of a slow request: preemption comes before waits, and waits come before the shorter page faults."""
    return PREEMPTED if preempted else WAITED if waits else FAULTED if faults else OWN


def cause_rows(arms: Mapping[str, Requests], runs: Mapping[str, Sequence[Run]]) -> list[Cause]:
    """Causes of the requests beyond each percentile, as shares, by arm. Left out if too few causes are known."""
    found = []
    for percentile in CAUSED:
        for name, arm in arms.items():
            expected = arm.beyond(percentile)
            limit = arm.interval(percentile)[0] * 1e3 * DIGITS
            slow = [row for run in runs[name] for row in run.get("slow", ()) if row[0] >= limit]
            if expected >= LEAST_REQUESTS_BEYOND and len(slow) >= NEARLY * expected:
                found.append(_cause_row(name, percentile, slow, [run.get("pages") for run in runs[name]]))
    return found


def _cause_row(
    name: str, percentile: str, slow: Sequence[Sequence[int]], pages: Sequence[Sequence[int] | None]
) -> Cause:
    counts = Counter(cause(*row) for row in slow)
    faults, growth = (sum(each[at] for each in pages if each) for at in (0, 1))
    row: Cause = {
        "arm": name,
        "percentile": percentile,
        "requests": len(slow),
        "causes": {what: counts[what] / len(slow) for what in (FAULTED, WAITED, PREEMPTED, OWN)},
        "given_back": max(0.0, 1 - max(0, growth) / faults) if faults else None,
    }
    return row | {"text": _cause_text(row)}


def _cause_text(row: Cause) -> str:
    """41 % page faults after a purge, 12 % lock waits, 47 % own work"""
    back = row["given_back"]
    purge = "" if back is None else " after a purge" if back >= MOSTLY else " on new memory"
    named = {FAULTED: FAULTED + purge}
    shares = sorted(row["causes"].items(), key=lambda pair: -pair[1])
    return ", ".join(f"{100 * share:.0f} % {named.get(what, what)}" for what, share in shares if share >= 0.005)


UNIT = "µs"
REPORTED = (*METRICS, *(prefix + MEAN for prefix in PREFIXES.values()))
OVERLOADED = 10.0
RARELY_SLOW = 2.0
LEAST_SECONDS = 10


def key(percentile: str) -> str:
    """p99.9 -> p999_us, the key in results."""
    return percentile.replace(".", "") + "_us"


def _at(found: Percentiles, percentile: str) -> float:
    return cast(Record, found)[key(percentile)]


def _series(arm: Requests, prefix: str) -> Percentiles | None:
    """Percentiles over all requests, with intervals from resampled blocks; None if the series is not printed."""
    if not arm.known(prefix + MEAN):
        return None
    out: Record = {"intervals": {}}
    for name in (*PERCENTILES, MEAN):
        out[key(name)], low, high = arm.interval(prefix + name)
        out["intervals"][name] = [low, high]
    return cast(Percentiles, out)


def _arm(arm: Requests, runs: Sequence[Run], rate_per_s: float | None) -> LatencySide:
    """usual_run: the medians of the runs' own percentiles, which a few slow runs do not move."""
    found = {key(name): statistics.median(run["metrics"][name] for run in runs) for name in PERCENTILES}
    usual = cast(Percentiles, found)
    row: LatencySide = {"name": arm.name, "rate_per_s": rate_per_s, **(_series(arm, "") or {})}
    return row | {"service": _series(arm, PREFIXES["service"]), "requests": arm.count, "usual_run": usual}


def _warnings(rows: Sequence[LatencySide], arms: Sequence[Requests], blocks: Blocks, asked: Asked) -> list[str]:
    texts: list[str] = []
    share = max(1.0, asked.rule.planned / len(blocks))
    fewest = min(arms, key=lambda arm: arm.count)
    if few := next((name for name in PERCENTILES if fewest.beyond(name) < LEAST_REQUESTS_BEYOND), None):
        texts.append(Warn.FEW_BEYOND.said(name=few, least=LEAST_REQUESTS_BEYOND, count=fewest.count))
    unwatched = [
        name for name in BUILT_IN if name != asked.metric and fewest.beyond(name) * share < LEAST_REQUESTS_BEYOND
    ]
    texts += [Warn.NO_LIMIT.said(name=name) for name in unwatched]
    for row in rows:
        if row["service"] and _at(row, "p50") > OVERLOADED * _at(row["service"], "p50"):
            texts.append(Warn.BACKLOG.said(side=row["name"], times=OVERLOADED))
    runs = [run for block in blocks for arm_runs in block.values() for run in arm_runs]
    return texts + _rarely_slow(rows) + _unsteady(runs)


def _rarely_slow(rows: Sequence[LatencySide]) -> list[str]:
    """A warning if a few runs are much slower than the median run, with both figures of the highest such percentile."""
    for name in reversed([name for name in PERCENTILES if name != "max"]):
        pairs = [(row["name"], _at(row, name), _at(row["usual_run"], name)) for row in rows]
        if found := [pair for pair in pairs if pair[1] > RARELY_SLOW * pair[2]]:
            arms = ", ".join(f"{arm} {pooled:,.0f} ({usual:,.0f})" for arm, pooled, usual in found)
            what = f"{name} of all requests (of the median run), {UNIT}"
            return [Warn.RARELY_SLOW.said(what=what, arms=arms)]
    return []


def _unsteady(runs: Sequence[Run]) -> list[str]:
    long = [run["second_mean_us"] for run in runs if len(run["second_mean_us"]) >= LEAST_SECONDS]
    ends = [end for means in long if (end := warmup_end(means)) > 0]
    if 2 * len(ends) <= len(runs):
        return []
    return [Warn.UNSTEADY.said(longer=statistics.median(ends))]


def found(header: Record, records: list[Record]) -> Result:
    """Percentiles of all requests of every arm. As soon as the run's rule allows, also each arm against the baseline:
    a verdict on the primary percentile, and intervals that hold for all arms at once."""
    spec, blocks, law = header["spec"], measured(records), recorded(header, records)
    names = [arm["name"] for arm in header["arms"]]
    first, others = names[0], names[1:]
    result = base_result(header, records, blocks)
    result |= {
        "comparisons": [],
        "guardrails": [],
        "metric": {"name": spec["metric"], "unit": UNIT, "higher_is_better": False},
    }
    result["withheld"] = f"No verdict yet: {len(blocks)} of {result['max_blocks']} planned blocks"
    if not blocks:
        return plain(result)
    pools = Pools(blocks)
    arms = {name: pools.arm(name) for name in names if any(name in block for block in blocks)}
    rows = [_arm(arm, runs_of(blocks, arm.name), spec["rate"]) for arm in arms.values()]
    result["arms"] = arm_rows(header, blocks, Metric(spec["metric"]))
    for row in (row for row in result["arms"] if row["name"] in arms):
        row["median"], row["ci_low"], row["ci_high"] = arms[row["name"]].interval(spec["metric"])
    result["latency"] = {"percentile": spec["metric"], "arms": rows}
    result["latency"]["causes"] = cause_rows(arms, {name: runs_of(blocks, name) for name in arms})
    asked = Asked(spec, law, spec["alpha"] / len(others))
    pairs = {name: pair for name in others if (pair := Pair(pools, first, name)).blocks}
    result["warnings"] += _warnings(rows, list(arms.values()), blocks, asked)
    decisions: Mapping[str, verdict.Decision] = {name: decide(asked, pair) for name, pair in pairs.items()}
    result, decisions = verdicts.without_failing(result, decisions, records, names, asked.alpha)
    if len(blocks) < (result["max_blocks"] or 0) and all(map(_unknown, decisions.values())):
        return plain(result)
    result["comparisons"] = [
        two_arms.judged_row(decision, (first, name), spec["metric"]) for name, decision in decisions.items()
    ]
    result["comparisons"] += _secondary(header, asked, pairs, decisions)
    del result["withheld"]
    return plain(verdicts.concluded(result, header, records, decisions, len(blocks)))


def _unknown(decision: verdict.Decision) -> bool:
    """Nothing is known yet. Runs that are all alike may be equivalent while the interval has no ends."""
    ends = decision.interval.low, decision.interval.high
    return decision.verdict is verdict.Verdict.INCONCLUSIVE and all(map(math.isinf, ends))


def _secondary(
    header: Record, asked: Asked, pairs: Mapping[str, Pair], decisions: Mapping[str, verdict.Decision]
) -> list[Comparison]:
    """Every other percentile, the mean, CPU time and memory: for information, without a verdict. All their intervals
    hold at once: the percentiles share half of alpha, the rest is for the metrics of the runs."""
    half = 0.5
    known = [name for name in REPORTED if name != asked.metric and all(pair.known(name) for pair in pairs.values())]
    rows = []
    for metric in known:
        for name, pair in pairs.items():
            decided = decisions[name].verdict is not verdict.Verdict.INCONCLUSIVE
            alpha = further.alphas(known, known, half * asked.alpha, decided)[metric]
            interval = replace(asked.rule.intervals(pair, metric, alpha)[0], level=1 - asked.alpha)
            rows.append(comparison(interval, pair.control, name, metric))
    blocks = next(iter(pairs.values())).pools.blocks
    return rows + two_arms.also_changed(header, blocks, decisions, asked.rule.often, ("cpu", "rss"), half)
