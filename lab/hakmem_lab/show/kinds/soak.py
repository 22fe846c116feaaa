"""One process for a long time: does memory grow?"""

from collections.abc import Iterator

from hakmem_lab.judge import words
from hakmem_lab.judge.digits import readable
from hakmem_lab.show import numbers
from hakmem_lab.show.numbers import finite
from hakmem_lab.show.openmetrics import MIB, MICROSECOND, PERCENT, QUANTILES, Sample, bounds
from hakmem_lab.show.terminal import filled
from hakmem_lab.store.results import Result


def facts(result: Result) -> Iterator[tuple[str, str]]:
    soak = result["soak"]
    if finite(soak.get("rss_slope_mib_per_h")) is not None:
        ends = soak.get("slope_low"), soak.get("slope_high")
        yield "Memory slope", numbers.between(soak["rss_slope_mib_per_h"], *ends, "MiB/h")
        yield "Duration", numbers.seconds(soak.get("duration_s"))


def _range(low: float | None, high: float | None, digits: int = 2) -> str:
    ends = ["open" if end is None else f"{end:+.{digits}f}" for end in (low, high)]
    return f"[{ends[0]}, {ends[1]}]"


def tables(result: Result) -> Iterator[object]:
    soak = result["soak"]
    rows = [("steady state", f"{soak['steady_s']:.0f} s of {soak['duration_s']:.0f} s")]
    if soak["rss_slope_mib_per_h"] is not None:
        factor, unit = readable(soak["rss_slope_mib_per_h"], "MiB/h")
        low, high = (None if end is None else end / factor for end in (soak["slope_low"], soak["slope_high"]))
        slope = f"{soak['rss_slope_mib_per_h'] / factor:+.2f} {_range(low, high)} {unit}"
        budget = words.amount(soak["budget_mib_per_h"] * MIB / 1024, "KiB/h")
        rows.append(("growth of resident memory", f"{slope}, budget {budget}"))
    if soak["throughput_drift_percent_per_h"] is not None:
        drift = f"{soak['throughput_drift_percent_per_h']:+.1f} {_range(soak['drift_low'], soak['drift_high'], 1)} %/h"
        rows.append(("drift of throughput", drift))
    rows.append(("change points", ", ".join(f"{at:.0f} s" for at in soak["change_points"]) or "none"))
    tails = [epoch for epoch in soak["epochs"] if epoch.get("p99_us") is not None]
    if tails:
        worst = max(tails, key=lambda epoch: epoch["p99_us"] or 0.0)
        rows.append(("worst epoch's p99", f"{worst['p99_us']:.2f} us at {worst['start_s']:.0f} s"))
    yield from filled("Soak", ("what", "value"), rows)


def samples(result: Result) -> Iterator[Sample]:
    soak = result["soak"]
    growth = [soak["rss_slope_mib_per_h"], soak["slope_low"], soak["slope_high"]]
    yield from bounds("hak_soak_growth_bytes_per_hour", {}, growth, MIB)
    yield Sample("hak_soak_budget_bytes_per_hour", {}, soak["budget_mib_per_h"] * MIB)
    drift = [soak["throughput_drift_percent_per_h"], soak["drift_low"], soak["drift_high"]]
    yield from bounds("hak_soak_throughput_drift_ratio_per_hour", {}, drift, PERCENT)
    yield Sample("hak_soak_duration_seconds", {}, soak["duration_s"])
    yield Sample("hak_soak_steady_seconds", {}, soak["steady_s"])
    for name, found in soak["service"].items():
        for sample, value in (found or {}).items():
            labels = {"quantile": QUANTILES[name], "sample": sample}
            yield Sample("hak_soak_service_seconds", labels, value * MICROSECOND)
