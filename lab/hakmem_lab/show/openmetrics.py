"""OpenMetrics text, for a collector or a build's metrics report: of results, and of a reading of a heap.

A family is declared once, in FAMILIES; figures that a result lacks are left out. Units are the base units. A reading
uses the names of hak_stats_openmetrics; its resident memory is measured.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from hakmem_lab.inside.owners import HEAP_OWNERS
from hakmem_lab.show import kinds
from hakmem_lab.show.formats import VERDICTS, judgements
from hakmem_lab.show.numbers import finite
from hakmem_lab.store.results import Result

BYTES_PER_KIB, MIB = 1024, 1024.0 * 1024
PERCENT, MICROSECOND = 0.01, 1e-6
BOUNDS = ("estimate", "low", "high")
QUANTILES = {"p50_us": "0.5", "p90_us": "0.9", "p99_us": "0.99", "p999_us": "0.999", "p9999_us": "0.9999"}

# name -> (type, unit, help)
FAMILIES = {
    "hak_verdict": ("stateset", "", "The verdict on what the label names."),
    "hak_final": ("gauge", "", "1 where everything planned was measured."),
    "hak_blocks": ("gauge", "", "Finished blocks."),
    "hak_effect_ratio": ("gauge", "ratio", "Ratio minus one, above 0 where the treatment is better, and its interval."),
    "hak_guardrail_ratio": ("gauge", "ratio", "A second metric that must not get worse, as hak_effect."),
    "hak_arm_value": ("gauge", "", "Median of the primary metric, in its own unit."),
    "hak_arm_wall_seconds": ("gauge", "seconds", "Median time of a run."),
    "hak_arm_cpu_seconds": ("gauge", "seconds", "Median processor time of a run."),
    "hak_arm_rss_peak_bytes": ("gauge", "bytes", "Median peak of resident memory."),
    "hak_arm_rss_mean_bytes": ("gauge", "bytes", "Median of the mean resident memory."),
    "hak_soak_growth_bytes_per_hour": ("gauge", "", "Growth of resident memory in the steady state, and its interval."),
    "hak_soak_budget_bytes_per_hour": ("gauge", "", "Growth that is tolerated."),
    "hak_soak_throughput_drift_ratio_per_hour": ("gauge", "", "Change of throughput an hour, and its interval."),
    "hak_soak_duration_seconds": ("gauge", "seconds", "What was sampled."),
    "hak_soak_steady_seconds": ("gauge", "seconds", "How long the steady state lasted."),
    "hak_soak_service_seconds": ("gauge", "seconds", "Service time of the samples: the median sample and the worst."),
    "hak_latency_seconds": ("gauge", "seconds", "Response time from the intended start."),
    "hak_syscalls_per_operation": ("gauge", "", "System calls per operation in the steady state."),
    "hak_suite_ratio": ("gauge", "ratio", "The subject as a multiple of the side, above 1: better."),
    "hak_aa_false_verdicts_ratio": ("gauge", "ratio", "Share of false verdicts of one side against itself."),
    "hak_aa_noise_ratio": ("gauge", "ratio", "Coefficient of variation of one run."),
}


class Sample(NamedTuple):
    family: str
    labels: Mapping[str, str]
    value: float | None


def openmetrics(results: Sequence[Result]) -> str:
    """All families that have a sample, each with the samples of all results."""
    found: dict[str, dict[str, float]] = {name: {} for name in FAMILIES}
    for result in results:
        for part in (_verdicts, _comparisons, _arms, *kinds.of(result, "samples")):
            for family, labels, value in part(result):
                if (known := finite(value)) is not None:
                    whole = {"run": result["id"], "kind": result["kind"], **labels}
                    own = ",".join(f'{name}="{escaped(text)}"' for name, text in whole.items())
                    found[family].setdefault(f"{{{own}}}", known)  # a bar may repeat a figure that is already there
    families = (_family(name, *FAMILIES[name], samples) for name, samples in found.items() if samples)
    return "".join(families) + "# EOF\n"


def _family(name: str, kind: str, unit: str, words: str, samples: Mapping[str, float]) -> str:
    """samples: text after the family's name, including labels -> value."""
    lines = [f"# TYPE {name} {kind}\n", f"# UNIT {name} {unit}\n" if unit else "", f"# HELP {name} {words}\n"]
    return "".join([*lines, *(f"{name}{labels} {value!r}\n" for labels, value in samples.items())])


def escaped(value: str) -> str:
    """A label's value, on one line, in bytes that are UTF-8."""
    whole = str(value).encode(errors="backslashreplace").decode()
    return whole.replace("\\", r"\\").replace('"', r"\"").replace("\r", " ").replace("\n", r"\n")


def bounds(
    family: str, labels: Mapping[str, str], values: Sequence[float | None], unit: float = 1.0
) -> Iterator[Sample]:
    for bound, value in zip(BOUNDS, values, strict=True):
        known = finite(value)
        yield Sample(family, {**labels, "bound": bound}, None if known is None else known * unit)


def _verdicts(result: Result) -> Iterator[Sample]:
    for case in judgements(result):
        for state in VERDICTS:
            yield Sample("hak_verdict", {"name": case.name, "hak_verdict": state}, int(case.verdict == state))
    yield Sample("hak_final", {}, int(bool(result["final"])))
    yield Sample("hak_blocks", {}, result["blocks"])


def _comparisons(result: Result) -> Iterator[Sample]:
    for row in result.get("comparisons") or []:
        labels = {key: str(row.get(key)) for key in ("control", "treatment", "metric")}
        yield from bounds("hak_effect_ratio", labels, [row["estimate"], row["ci_low"], row["ci_high"]])
    for rail in result.get("guardrails") or []:
        labels = {key: str(rail.get(key)) for key in ("arm", "metric") if key in rail}
        yield from bounds("hak_guardrail_ratio", labels, [rail["estimate"], rail["ci_low"], rail["ci_high"]])


def _arms(result: Result) -> Iterator[Sample]:
    for arm in result["arms"]:
        labels = {"arm": arm["name"]}
        metric = result["metric"]
        yield Sample("hak_arm_value", {**labels, "metric": metric["name"], "unit": metric["unit"]}, arm.get("median"))
        yield Sample("hak_arm_wall_seconds", labels, arm.get("wall_s"))
        yield Sample("hak_arm_cpu_seconds", labels, arm.get("cpu_s"))
        for name in ("rss_peak", "rss_mean"):
            amount = finite(arm.get(f"{name}_kib"))
            yield Sample(f"hak_arm_{name}_bytes", labels, None if amount is None else amount * BYTES_PER_KIB)


CONTENT_TYPE = "application/openmetrics-text; version=1.0.0; charset=utf-8"
STATES = {"live": ("live_blocks",), "cached": ("cached_blocks", "depot_blocks"), "free": ("free_blocks",)}
# name -> (value of a reading, help)
GAUGES = {
    "allocated": ("_allocated", "Bytes of live blocks; each counts with its class's size, not the requested size."),
    "active": ("used_kib", "Slabs and large blocks, including their free space."),
    "dirty": ("dirty_kib", "Free, and perhaps resident: what may go back to the system."),
    "metadata": ("metadata", "Resident, of the allocator's own objects."),
    "resident": ("_resident", "Resident, of the heap: measured."),
    "mapped": ("mapped_kib", "Mapped for blocks."),
    "retained": ("_retained", "Mapped, free and given back: address space only."),
    "rss": ("_rss", "Resident, of the whole process."),
}


def heap_text(result: Mapping) -> str:
    """The resident memory by owner. If another allocator serves the process, only by kind of mapping."""
    rows = {row["owner"]: row["kib"] * BYTES_PER_KIB for row in result["rows"]}
    resident = "Resident memory by owner; the sum is that of the process."
    owners = {f'{{owner="{escaped(owner)}"}}': size for owner, size in rows.items()}
    by_owner = _family("hakmem_owner_resident_bytes", "gauge", "bytes", resident, owners)
    if not result.get("served", True):
        rss = {"": result["rss_kib"] * BYTES_PER_KIB}
        return "".join([_family("hakmem_rss_bytes", "gauge", "bytes", GAUGES["rss"][1], rss), by_owner, "# EOF\n"])
    counters = {name: kib * BYTES_PER_KIB for name, kib in result["counters"].items()}
    values = rows | counters | {
        "_allocated": sum(row["live_bytes"] for row in (*result["classes"], *result["regions"])),
        "_resident": sum(rows.get(owner, 0) for owner in HEAP_OWNERS),
        "_retained": max(counters["mapped_kib"] - counters["used_kib"] - counters["dirty_kib"], 0),
        "_rss": result["rss_kib"] * BYTES_PER_KIB,
    }  # fmt: skip
    gauges = (
        _family(f"hakmem_{name}_bytes", "gauge", "bytes", words, {"": values[key]})
        for name, (key, words) in GAUGES.items()
    )
    sizes = "Blocks by size: handed out, in caches, free in slabs."
    threads = {"": len(result["threads"])}
    return "".join([
        *gauges,
        by_owner,
        _family("hakmem_block_size_bytes", "gaugehistogram", "bytes", sizes, dict(_heap_sizes(result))),
        _family("hakmem_threads", "gauge", "", "Threads that have a cache.", threads),
        *_regions(result),
        "# EOF\n",
    ])  # fmt: skip


# Of regions, by name: (metric, unit, value of a row, help)
REGIONS = (
    ("regions", "", "regions", "Regions of the name."),
    ("used_bytes", "bytes", "used_bytes", "What limits of regions count, descendants included."),
    ("peak_bytes", "bytes", "peak_bytes", "The most that was used so far."),
    ("limit_bytes", "bytes", "hard_limit", "Hard limits; 0: there is none."),
    ("live_bytes", "bytes", "live_bytes", "Bytes of live blocks."),
    ("live_blocks", "", "live_blocks", "Live blocks."),
    ("allocated_bytes", "bytes", "allocated_bytes", "Bytes allocated so far in the regions that exist."),
    ("freed_bytes", "bytes", "freed_bytes", "Bytes freed so far in the regions that exist."),
)


def _regions(result: Mapping) -> Iterator[str]:
    """The metrics of hak_stats_openmetrics, where there are regions."""
    rows = result["regions"]
    for name, unit, key, words in REGIONS if rows else ():
        labels = (f',parent="{escaped(row["parent"])}"' if row["parent"] else "" for row in rows)
        samples = {f'{{heap="{escaped(row["name"])}"{more}}}': row[key] for row, more in zip(rows, labels, strict=True)}
        yield _family(f"hakmem_heap_{name}", "gauge", unit, words, samples)
    if rows:
        left_out = {"": result["regions_left_out"]}
        yield _family("hakmem_heap_regions_left_out", "gauge", "", "Regions of the names that use least.", left_out)


def _heap_sizes(result: Mapping) -> Iterator[tuple[str, int]]:
    """One histogram a state. Every class has its bucket, so that the buckets are the same at each scrape."""
    rows = {row["block_bytes"]: row for row in result["classes"]}
    for state, names in STATES.items():
        count = size = 0
        for bytes_ in (*result["class_sizes"], None):
            row = rows.get(bytes_, {})
            blocks = sum(row.get(name, 0) for name in names)
            count += blocks
            if bytes_:
                size += blocks * bytes_
                yield f'_bucket{{state="{state}",le="{bytes_}.0"}}', count
            elif state == "live":
                size += row.get("live_bytes", 0)
        yield f'_bucket{{state="{state}",le="+Inf"}}', count
        yield f'_gcount{{state="{state}"}}', count
        yield f'_gsum{{state="{state}"}}', size
