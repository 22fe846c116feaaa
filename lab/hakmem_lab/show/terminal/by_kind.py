"""Terminal tables of the kinds that have figures of their own."""

from hakmem_lab.show.terminal import replay, suite, tuning
from hakmem_lab.show.terminal.tables import add_row, new_table, number


def _aa(aa: dict):
    table = new_table("A/A", "what", "value")
    add_row(
        table, "false verdicts", f"{100 * aa['rate']:.1f} % of {aa['resamples']} (at most {100 * aa['bound']:.1f} %)"
    )
    add_row(table, "noise of one run", f"{aa['noise_percent']:.2f} %")
    add_row(table, "autocorrelation of neighbours", f"{aa['autocorrelation']:.2f}")
    for blocks, effect in aa["smallest_effect_percent"].items():
        add_row(table, f"smallest effect, {blocks} blocks", f"{effect:.2f} %")
    yield table
    for text in aa["advice"]:
        yield f"- {text}"


def _range(low: float | None, high: float | None, digits: int = 2) -> str:
    ends = ["open" if end is None else f"{end:+.{digits}f}" for end in (low, high)]
    return f"[{ends[0]}, {ends[1]}]"


def _soak(soak: dict):
    table = new_table("Soak", "what", "value")
    add_row(table, "steady state", f"{soak['steady_s']:.0f} s of {soak['duration_s']:.0f} s")
    if soak["rss_slope_mib_per_h"] is not None:
        slope = f"{soak['rss_slope_mib_per_h']:+.2f} {_range(soak['slope_low'], soak['slope_high'])} MiB/h"
        add_row(table, "growth of resident memory", f"{slope}, budget {soak['budget_mib_per_h']:g}")
    if soak["throughput_drift_percent_per_h"] is not None:
        drift = f"{soak['throughput_drift_percent_per_h']:+.1f} {_range(soak['drift_low'], soak['drift_high'], 1)} %/h"
        add_row(table, "drift of throughput", drift)
    add_row(table, "change points", ", ".join(f"{at:.0f} s" for at in soak["change_points"]) or "none")
    tails = [epoch for epoch in soak["epochs"] if epoch.get("p99_us") is not None]
    if tails:
        worst = max(tails, key=lambda epoch: epoch["p99_us"])
        add_row(table, "worst epoch's p99", f"{worst['p99_us']:.2f} us at {worst['start_s']:.0f} s")
    yield table


def _calls(part: dict | None) -> str:
    return "-" if part is None else f"{part['calls']:,.0f}"


def _syscalls(found: dict):
    """An arm has the counts of two lengths, or of the whole process where the command has no length, or none yet."""
    arms = found["arms"]
    whole = any("whole" in arm for arm in arms)
    table = new_table(
        "System calls", "arm", *(["in all"] if whole else ["per operation", "short run", "long run"]), "the most"
    )
    for arm in arms:
        calls = arm["whole"]["per_call"] if "whole" in arm else arm["per_call"]
        most = ", ".join(sorted(calls, key=lambda name: -calls[name])[:3]) or "-"
        rate = "-" if arm["per_op"] is None else f"{arm['per_op']:.2g}"
        counts = [_calls(arm.get("whole"))] if whole else [rate, _calls(arm.get("short")), _calls(arm.get("long"))]
        add_row(table, arm["name"], *counts, most)
    yield table


def _latency(found: dict):
    heads = {"p50_us": "p50", "p90_us": "p90", "p99_us": "p99", "p999_us": "p99.9", "p9999_us": "p99.99"}
    heads["max_us"] = "max"
    for title, part in (("Response time from the intended start, us", None), ("Service time, us", "service")):
        table = new_table(title, "arm", *heads.values())
        known = [(arm["name"], row) for arm in found["arms"] if (row := arm[part] if part else arm)]
        for name, row in known:
            add_row(table, name, *(number(row.get(key)) for key in heads))
        if known:  # few programs print when a request really began
            yield table
    if found.get("causes"):
        table = new_table("What the slowest requests did", "beyond", "arm", "requests", "cause")
        for row in found["causes"]:
            add_row(table, row["percentile"], row["arm"], str(row["requests"]), row["text"])
        yield table


TABLES = {"aa": _aa, "latency": _latency, "soak": _soak, "syscalls": _syscalls,
          "suite": suite.tables, "tune": tuning.tables, "replay": replay.tables}  # fmt: skip
