"""Verdicts, figures and soaks as OpenMetrics text, for a collector or a build's metrics report.

A family is declared once, in FAMILIES; a figure that a result does not have is left out. Units are the base units.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from hakmem_lab.show.formats.judgements import VERDICTS, judgements
from hakmem_lab.show.report.numbers import finite

KIB, MIB = 1024.0, 1024.0 * 1024
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
    "hak_suite_ratio": ("gauge", "ratio", "The subject as a multiple of the arm, above 1: better."),
    "hak_aa_false_verdicts_ratio": ("gauge", "ratio", "Share of false verdicts of one arm against itself."),
    "hak_aa_noise_ratio": ("gauge", "ratio", "Coefficient of variation of one run."),
}


class Sample(NamedTuple):
    family: str
    labels: Mapping[str, str]
    value: float | None


def text(results: Sequence[dict]) -> str:
    """All families that have a sample, each with the samples of all results."""
    found: dict[str, dict[str, float]] = {name: {} for name in FAMILIES}
    for result in results:
        for part in (_verdicts, _comparisons, _arms, _soak, _latency, _others):
            for family, labels, value in part(result):
                if (known := finite(value)) is not None:
                    own = _labels({"run": result["id"], "kind": result["kind"], **labels})
                    found[family].setdefault(own, known)  # a bar may repeat a figure that stands there
    return "".join(_family(name, samples) for name, samples in found.items() if samples) + "# EOF\n"


def _family(name: str, samples: Mapping[str, float]) -> str:
    kind, unit, words = FAMILIES[name]
    lines = [f"# TYPE {name} {kind}\n", f"# UNIT {name} {unit}\n" if unit else "", f"# HELP {name} {words}\n"]
    return "".join([*lines, *(f"{name}{{{labels}}} {value!r}\n" for labels, value in samples.items())])


def _labels(labels: Mapping[str, str]) -> str:
    return ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items())


def escaped(value: str) -> str:
    """A label's value, on one line, in bytes that are UTF-8."""
    whole = str(value).encode(errors="backslashreplace").decode()
    return whole.replace("\\", r"\\").replace('"', r"\"").replace("\r", " ").replace("\n", r"\n")


def _bounds(
    family: str, labels: Mapping[str, str], values: Sequence[float | None], unit: float = 1.0
) -> Iterator[Sample]:
    for bound, value in zip(BOUNDS, values, strict=True):
        known = finite(value)
        yield Sample(family, {**labels, "bound": bound}, None if known is None else known * unit)


def _verdicts(result: dict) -> Iterator[Sample]:
    for case in judgements(result):
        for state in VERDICTS:
            yield Sample("hak_verdict", {"name": case.name, "hak_verdict": state}, int(case.verdict == state))
    yield Sample("hak_final", {}, int(bool(result["final"])))
    yield Sample("hak_blocks", {}, result["blocks"])


def _comparisons(result: dict) -> Iterator[Sample]:
    for row in result.get("comparisons") or []:
        labels = {key: row[key] for key in ("control", "treatment", "metric")}
        yield from _bounds("hak_effect_ratio", labels, [row[key] for key in ("estimate", "ci_low", "ci_high")])
    for row in result.get("guardrails") or []:
        values = [row[key] for key in ("estimate", "ci_low", "ci_high")]
        labels = {key: row[key] for key in ("arm", "metric") if key in row}
        yield from _bounds("hak_guardrail_ratio", labels, values)


def _arms(result: dict) -> Iterator[Sample]:
    for arm in result["arms"]:
        labels = {"arm": arm["name"]}
        metric = result["metric"]
        yield Sample("hak_arm_value", {**labels, "metric": metric["name"], "unit": metric["unit"]}, arm.get("median"))
        yield Sample("hak_arm_wall_seconds", labels, arm.get("wall_s"))
        yield Sample("hak_arm_cpu_seconds", labels, arm.get("cpu_s"))
        for name in ("rss_peak", "rss_mean"):
            amount = finite(arm.get(f"{name}_kib"))
            yield Sample(f"hak_arm_{name}_bytes", labels, None if amount is None else amount * KIB)


def _soak(result: dict) -> Iterator[Sample]:
    if not (soak := result.get("soak")):
        return
    growth = [soak[key] for key in ("rss_slope_mib_per_h", "slope_low", "slope_high")]
    yield from _bounds("hak_soak_growth_bytes_per_hour", {}, growth, MIB)
    yield Sample("hak_soak_budget_bytes_per_hour", {}, soak["budget_mib_per_h"] * MIB)
    drift = [soak[key] for key in ("throughput_drift_percent_per_h", "drift_low", "drift_high")]
    yield from _bounds("hak_soak_throughput_drift_ratio_per_hour", {}, drift, PERCENT)
    yield Sample("hak_soak_duration_seconds", {}, soak["duration_s"])
    yield Sample("hak_soak_steady_seconds", {}, soak["steady_s"])
    for name, found in soak["service"].items():
        for sample, value in (found or {}).items():
            labels = {"quantile": QUANTILES[name], "sample": sample}
            yield Sample("hak_soak_service_seconds", labels, value * MICROSECOND)


def _latency(result: dict) -> Iterator[Sample]:
    for arm in (result.get("latency") or {}).get("arms", []):
        for name, quantile in QUANTILES.items():
            value = finite(arm.get(name))
            labels = {"arm": arm["name"], "quantile": quantile}
            yield Sample("hak_latency_seconds", labels, None if value is None else value * MICROSECOND)


def _others(result: dict) -> Iterator[Sample]:
    for arm in (result.get("syscalls") or {}).get("arms", []):
        yield Sample("hak_syscalls_per_operation", {"arm": arm["name"]}, arm["per_op"])
    for row in (result.get("suite") or {}).get("rows", []):
        for arm, figure in row["arms"].items():
            labels = {"workload": row["key"], "metric": row["metric"], "arm": arm}
            values = [figure[key] for key in ("ratio", "ci_low", "ci_high")] if figure else [None] * 3
            yield from _bounds("hak_suite_ratio", labels, values)
    if aa := result.get("aa"):
        yield Sample("hak_aa_false_verdicts_ratio", {}, aa["rate"])
        yield Sample("hak_aa_noise_ratio", {}, aa["noise_percent"] * PERCENT)
