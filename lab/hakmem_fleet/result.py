"""From the records of a fleet's run to its result: the verdict on the fleet, how its hosts differ. Pure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from hakmem_fleet import hosts
from hakmem_fleet.gather import AGAIN, CLOSED, HOST, LEFT, LOST
from hakmem_fleet.hosts import LEAST_HOSTS, Host
from hakmem_lab.judge import failing, two_arms
from hakmem_lab.judge.analysis import arm_rows, base_result, comparison, log_ratios, measured, metric_of
from hakmem_lab.judge.explain import explained
from hakmem_lab.judge.statistics import further, verdict
from hakmem_lab.judge.statistics.paired import Interval, as_log, as_ratio
from hakmem_lab.judge.statistics.verdict import Guardrail, GuardrailStatus, Verdict
from hakmem_lab.judge.warnings import Warn
from hakmem_lab.judge.words import BESIDE, MEAN_OF
from hakmem_lab.plan.metrics import METRICS, Metric
from hakmem_lab.plan.spec import beside_of, guardrails_of
from hakmem_lab.store.query import Blocks, events
from hakmem_lab.store.records import Record
from hakmem_lab.store.results import Comparison, Fleet, HostRow, Missing, Result

Pair = tuple[str, str]
ONE_SIGMA = 0.6827  # level of an interval that reaches one standard error to each side


@explained
def analyse(header: Record, records: list[Record]) -> Result:
    """The verdict, once all blocks are present or the collection is closed; before that, figures without a verdict."""
    blocks = measured(records)
    result = base_result(header, records, blocks) | {"comparisons": [], "guardrails": [], "looks": []}
    result["warnings"] += [Warn.UNLIKE.said(text=text) for text in _unlike(header, records)]
    result["fleet"] = {"metric": result["metric"], "hosts": [], "kinds": [], **_missing(records)}
    if not blocks:
        return result | {"withheld": "No verdict yet: there are no finished blocks"}
    first, second = (arm["name"] for arm in header["arms"])
    by_host = _by_host(blocks)
    found = _columns(by_host, (first, second), metric_of(header))
    result["arms"] = arm_rows(header, blocks, metric_of(header))
    result["fleet"] |= _differences(header, records, found)
    result |= _judged(header, by_host, found)
    result["comparisons"] += _secondary(header, by_host, (first, second), result["verdict"] != Verdict.INCONCLUSIVE)
    planned, closed = header["spec"]["max-blocks"], bool(events(records, CLOSED))
    complete = closed or len(blocks) >= planned  # closed by --close: no more blocks will come
    if not complete:
        result |= {"verdict": None, "withheld": f"No verdict yet: {len(blocks)} of {planned} planned blocks"}
        result["comparisons"][0]["verdict"] = None
    result["final"] = complete
    result["settled"] = result["verdict"] not in (None, Verdict.INCONCLUSIVE)
    return failing.withheld(result, records, first, second)


def _by_host(blocks: Blocks) -> dict[str, Blocks]:
    found: dict[str, Blocks] = {}
    for block in blocks:
        host = next(iter(block.values()))[0]["host"]
        found.setdefault(host, []).append(block)
    return dict(sorted(found.items()))


def _columns(by_host: Mapping[str, Blocks], pair: Pair, metric: Metric) -> dict[str, Host]:
    """Every host's estimate for a metric; empty if a host lacks the metric."""
    columns = {name: log_ratios(blocks, *pair, metric) for name, blocks in by_host.items()}
    known = {name: d for name, d in columns.items() if d}
    return hosts.of_blocks(known) if len(known) == len(columns) else {}


def _judged(header: Record, by_host: Mapping[str, Blocks], found: Mapping[str, Host]) -> Result:
    """The verdict on the fleet, and its grounds."""
    spec, alpha = header["spec"], header["spec"]["alpha"]
    first, second = (arm["name"] for arm in header["arms"])
    pair = first, second
    whole = hosts.fleet(list(found.values()))
    interval, narrow = whole.interval(1 - alpha), whole.interval(1 - 2 * alpha)
    word = verdict.judge(interval, narrow, as_log(spec["margin"]))
    limits = guardrails_of(spec).items()
    watched = [_guardrail(metric, limit, _columns(by_host, pair, metric), alpha) for metric, limit in limits]
    checked, vetoed_by = verdict.with_guardrails(word, watched)
    means = _mean_of_means(by_host, pair, metric_of(header), 1 - alpha)
    torn = means is not None and verdict.contradicts(word, means, as_log(spec["margin"]))
    if whole.hosts < LEAST_HOSTS or torn:
        checked = Verdict.INCONCLUSIVE
    row = comparison(interval, *pair, spec["metric"], str(checked), narrow)
    unsupported = means is not None and not vetoed_by and verdict.unsupported(checked, means, as_log(spec["margin"]))
    row["mean_open"] = unsupported
    rows_of_means = [] if means is None else [comparison(means, *pair, MEAN_OF + metric_of(header).label)]
    return {
        "verdict": str(checked),
        "torn": torn,
        "comparisons": [row, *rows_of_means],
        "guardrails": [{**each.row()} for each in watched],
        "vetoed_by": list(vetoed_by) if checked is Verdict.NO_GO else [],
    }


def _mean_of_means(by_host: Mapping[str, Blocks], pair: Pair, metric: Metric, level: float) -> Interval | None:
    """The other average, from the ratio of means on every host; None if a host has too few blocks for it."""
    found = []
    for blocks in by_host.values():
        means = two_arms.means_of(blocks, pair, metric, ONE_SIGMA)
        if means is None:
            return None
        error = (means.ratio.high - means.ratio.low) / 2
        found.append(Host(means.ratio.estimate, max(error**2, hosts.NO_VARIANCE), len(blocks)))
    return hosts.fleet(found).interval(level)


def _guardrail(metric: Metric, limit: float, found: Mapping[str, Host], alpha: float) -> Guardrail:
    """The limit's status on average over the fleet; it stays open if the limit surely fails on any one host."""
    interval = hosts.fleet(list(found.values())).interval(1 - 2 * alpha)
    on_average = Guardrail.of(metric.name, interval, limit)
    each = [verdict.status(host.interval(1 - 2 * alpha / len(found)), limit) for host in found.values()]
    if on_average.status is GuardrailStatus.HELD and GuardrailStatus.FAILED in each:
        return replace(on_average, status=GuardrailStatus.OPEN)
    return on_average


def _secondary(header: Record, by_host: Mapping[str, Blocks], pair: Pair, decided: bool) -> list[Comparison]:
    """Changes of other metrics on average over the fleet, for information. The intervals hold at once."""
    primary = header["spec"]["metric"]
    columns = {name: _columns(by_host, pair, beside_of(header["spec"], name)) for name in METRICS if name != primary}
    known = {name: found for name, found in columns.items() if found}
    alphas = further.alphas(list(known), BESIDE, header["spec"]["alpha"], decided)
    whole = {name: hosts.fleet(list(found.values())).interval(1 - alphas[name]) for name, found in known.items()}
    level = 1 - header["spec"]["alpha"]
    return [comparison(replace(interval, level=level), *pair, name) for name, interval in whole.items()]


def kind_of(host: Record) -> str:
    """Key of a kind of host: processor model, number of processors, kernel."""
    facts = host.get("machine") or {}
    return f"{facts.get('cpu')}, {facts.get('processors')} processors, Linux {facts.get('kernel')}"


def _differences(header: Record, records: Sequence[Record], found: Mapping[str, Host]) -> Fleet:
    """Every host, every kind of host, and the differences between hosts.

    The intervals of all hosts hold simultaneously, and so do those of all kinds.
    """
    alpha, whole = header["spec"]["alpha"], hosts.fleet(list(found.values()))
    entered = {record["host"]: record for record in records if record["type"] == HOST}
    kinds: dict[str, list[Host]] = {}
    rows = list[HostRow]()
    for name, host in found.items():
        kinds.setdefault(kind_of(entered[name]), []).append(host)
        rows.append({"host": name, "kind": kind_of(entered[name]), **_row(host.interval(1 - alpha / len(found)))})
    low, high = whole.prediction(1 - alpha)
    return {
        "hosts": rows,
        "kinds": [
            {"kind": name, "hosts": len(own), **_row(hosts.together(own, 1 - alpha / len(kinds)))}
            for name, own in sorted(kinds.items())
        ],
        "machines": len({entered[name].get("node") for name in found}),
        "together": _row(hosts.together(list(found.values()), 1 - alpha)) if whole.hosts < LEAST_HOSTS else None,
        "tau": math.sqrt(whole.tau2),
        "i2": whole.i2,
        "q": whole.q,
        "differ_p": whole.differ_p(),
        "prediction_low": as_ratio(low),
        "prediction_high": as_ratio(high),
    }


def _row(interval: Interval) -> HostRow:
    return {"blocks": interval.n, **interval.row()}


def _missing(records: Sequence[Record]) -> Fleet:
    """Hosts that were left out, or were lost, and blocks that were finished more than once."""
    found: dict[str, list[Missing]] = {LEFT: [], LOST: []}
    for record in records:
        if record["type"] == "event" and record["what"] in found:
            found[record["what"]].append({"host": record["host"], "why": record["why"]})
    again = sum(1 for record in records if record["type"] == "block" and record["phase"] == AGAIN and record["ok"])
    return {"left_out": found[LEFT], "lost": found[LOST], "again": again}


def _unlike(header: Record, records: Sequence[Record]) -> list[str]:
    """Warn of properties that should be equal on all hosts but are not."""
    entered = [record for record in records if record["type"] == HOST]
    texts = []
    for position, arm in enumerate(header["arms"]):
        if len({host["arms"][position]["sha256"] for host in entered}) > 1:
            texts.append(
                f"the hosts have different builds of {arm['name']}: the builds may explain a part of the differences"
            )
    if len({host["command"]["sha256"] for host in entered}) > 1:
        texts.append("the hosts have different builds of the program: the builds may explain a part of the differences")
    names, nodes = {host["host"] for host in entered}, {host["node"] for host in entered}
    if len(nodes) < len(names):
        texts.append(
            f"the {len(names)} hosts are {len(nodes)} machine{'' if len(nodes) == 1 else 's'}: a fleet "
            "of them is for trying out only"
        )
    return texts
