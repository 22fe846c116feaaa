"""Tail latency of an open loop."""

from collections.abc import Iterator

from hakmem_lab.show.numbers import finite
from hakmem_lab.show.openmetrics import MICROSECOND, QUANTILES, Sample
from hakmem_lab.show.report.model import Table
from hakmem_lab.show.terminal import filled, number
from hakmem_lab.store.results import Latency, Percentiles, Result

CAUSES = "What the slowest requests did"


def tables(result: Result) -> Iterator[object]:
    found = result["latency"]
    heads = {"p50_us": "p50", "p90_us": "p90", "p99_us": "p99", "p999_us": "p99.9", "p9999_us": "p99.99"}
    heads["max_us"] = "max"
    own: list[tuple[str, Percentiles]] = [(arm["name"], arm) for arm in found["arms"]]
    service = [(arm["name"], row) for arm in found["arms"] if (row := arm["service"])]
    for title, known in (("Response time from the intended start, us", own), ("Service time, us", service)):
        rows = ([name, *(number(finite(row.get(key))) for key in heads)] for name, row in known)
        yield from filled(title, ("side", *heads.values()), rows)  # few programs print when a request really began
    yield from filled(CAUSES, ("beyond", "side", "requests", "cause"), _causes(found))


def _causes(found: Latency) -> list[list[str]]:
    rows = found.get("causes") or []
    return [[row["percentile"], row["arm"], str(row["requests"]), row["text"]] for row in rows]


def findings(result: Result) -> Iterator[Table]:
    yield Table(CAUSES, ["Beyond", "Side", "Requests", "Cause"], _causes(result["latency"]))


def samples(result: Result) -> Iterator[Sample]:
    for arm in result["latency"].get("arms", []):
        for name, quantile in QUANTILES.items():
            value = finite(arm.get(name))
            labels = {"arm": arm["name"], "quantile": quantile}
            yield Sample("hak_latency_seconds", labels, None if value is None else value * MICROSECOND)
