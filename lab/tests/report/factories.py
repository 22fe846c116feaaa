"""Made-up runs of every kind, with all keys that the store guarantees. The same seed gives the same run."""

from __future__ import annotations

import numpy as np
from report_parts import arm, base, comparison, header, runs

from hakmem_lab.show.report import LoadedRun


def ab(blocks: int = 60, question: str = "Is hakmem faster than glibc on larson?", seed: int = 1) -> LoadedRun:
    names, levels = ["glibc", "hakmem"], [0.1123, 0.1100]
    result = base("ab", question, names, levels, blocks) | {
        "verdict": "GO",
        "comparisons": [comparison("hakmem", 0.0211, verdict="GO")],
        "guardrails": [
            {"metric": "rss", "limit": 0.05, "estimate": -0.012, "ci_low": -0.02, "ci_high": 0.0, "status": "held"},
            {"metric": "p99.9", "limit": 0.1, "estimate": None, "ci_low": None, "ci_high": None, "status": "open"},
        ],
        "looks": [
            {"look": n, "blocks": 20 * n, "of": 3, "verdict": "INCONCLUSIVE" if n < 3 else "GO", "estimate": 0.02,
             "ci_low": 0.02 - 0.03 / n, "ci_high": 0.02 + 0.03 / n}
            for n in (1, 2, 3)
        ],
        "failures": [{"block": 7, "arm": "hakmem", "why": "killed by signal 11"}],
        "warnings": ["The load average was 2.4 at block 31."],
    }  # fmt: skip
    loaded = LoadedRun(header("ab", [arm("glibc"), arm("hakmem")], question), result=result)
    loaded.runs = runs(names, levels, blocks, seed)
    loaded.events = [{"type": "event", "time": "2026-11-20T21:44:00Z", "what": "interrupted", "text": "by the user"}]
    loaded.decisions = [{"type": "decision", "time": "2026-11-21", "who": "a person", "text": "Adopt it."}]
    return loaded


def compare() -> LoadedRun:
    names = ["glibc", "hakmem", "mimalloc", "jemalloc", "tcmalloc"]
    levels = [0.112, 0.108, 0.1085, 0.115, 0.1122]
    question = "Which allocator runs redis-benchmark fastest?"
    result = base("compare", question, names, levels, 30)
    result["comparisons"] = [
        comparison("hakmem", 0.037, verdict="GO"),
        comparison("mimalloc", 0.0323, verdict="GO"),
        comparison("jemalloc", -0.026, verdict="NO-GO"),
        comparison("tcmalloc", -0.0018, verdict="NEUTRAL"),
        comparison("hakmem", -0.05, 0.012, metric="rss", name="hakmem against glibc, peak memory"),
    ]
    return LoadedRun(
        header("compare", [arm(name) for name in names], question), runs(names, levels, 30, 2), result=result
    )


def matrix() -> LoadedRun:
    names = ["(none)", "C5", "C6", "C5+C6"]
    levels = [0.1, 0.098, 0.0975, 0.0945]
    question = "Do the C5 and C6 inline slots add up?"
    switches = ({}, {"HAKMEM_C5": "1"}, {"HAKMEM_C6": "1"}, {"HAKMEM_C5": "1", "HAKMEM_C6": "1"})
    arms = [arm(name) | {"allocator": "hakmem", "variables": v} for name, v in zip(names, switches, strict=True)]
    result = base("matrix", question, names, levels, 40) | {
        "verdict": "INCONCLUSIVE",
        "final": False,
        "effects": [
            {"name": "C5", "kind": "main", "estimate": 0.026, "ci_low": 0.018, "ci_high": 0.034,
             "reading": "better"},
            {"name": "C6", "kind": "main", "estimate": 0.031, "ci_low": 0.02, "ci_high": 0.042,
             "reading": "better"},
            {"name": "C5 with C6", "kind": "simple", "estimate": 0.032, "ci_low": 0.01, "ci_high": 0.05,
             "reading": "better"},
            {"name": "C5 × C6", "kind": "interaction", "estimate": 0.009, "ci_low": -0.004, "ci_high": 0.022,
             "reading": "additive as far as can be told"},
        ],
    }  # fmt: skip
    top = header("matrix", arms, question)
    top["spec"]["factors"] = {"C5": "HAKMEM_C5=1", "C6": "HAKMEM_C6=1"}
    return LoadedRun(top, runs(names, levels, 40, 3), result=result)


def sweep() -> LoadedRun:
    names = ["default", *(f"hakmem,HAKMEM_CAPACITY={2**n}" for n in range(4, 9))]
    levels = [0.1, 0.101, 0.099, 0.0975, 0.0985, 0.0992]
    question = "Which capacity is best?"
    result = base("sweep", question, names, levels, 24) | {
        "verdict": "NEUTRAL",
        "selection": {
            "chosen": names[3],
            "candidates": [
                {"arm": name, "estimate": e, "ci_low": e - 0.015, "ci_high": e + 0.015}
                for name, e in zip(names[1:], (-0.01, 0.01, 0.026, 0.015, 0.008), strict=True)
            ],
            "confirmation": comparison(names[3], 0.004, 0.005, control="default", verdict="NEUTRAL", name=None),
        },
    }
    records = runs(names, levels, 24, 4)
    for record in records:
        record["phase"] = "select" if record["block"] <= 12 else "confirm"
    return LoadedRun(header("sweep", [arm(name) for name in names], question), records, result=result)


def soak(samples: int = 3600) -> LoadedRun:
    question = "Does the memory of a long-running server grow?"
    rng = np.random.default_rng(5)
    result = base("soak", question, ["hakmem"], [2.1e6], 1) | {
        "metric": {"name": "throughput", "unit": "op/s", "higher_is_better": True},
        "margin": None,
        "soak": {
            "finding": "Memory did not grow: the slope is inside the budget.",
            "duration_s": float(samples),
            "rss_slope_mib_per_h": 0.4,
            "slope_low": -0.6,
            "slope_high": 1.3,
            "budget_mib_per_h": 4.0,
            "throughput_drift_percent_per_h": -0.2,
            "drift_low": -0.9,
            "drift_high": 0.5,
            "change_points": [samples * 0.4],
            "epochs": [
                {"start_s": samples * n / 6, "end_s": samples * (n + 1) / 6, "ops_per_s": 2.1e6, "p50_us": 0.4,
                 "p99_us": 3.1 + 0.1 * n, "p999_us": 21.0 + n, "rss_mib": 212.0}
                for n in range(6)
            ],
            "passed": True,
        },
    }  # fmt: skip
    loaded = LoadedRun(header("soak", [arm("hakmem")], question), result=result)
    for t in range(samples):
        churn = samples * 0.4 < t < samples * 0.7
        loaded.samples.append(
            {"type": "sample", "t_s": float(t), "rss_kib": 212000 + 9000 * churn + float(rng.normal(0, 800)),
             "pss_kib": None, "operations": 2_100_000 * t, "ops_per_s": 2.1e6 - 2e5 * churn + float(rng.normal(0, 3e4)),
             "threads": 8, "p50_us": 0.4, "p99_us": 3.2, "p999_us": 22.0,
             "phase": "thread churn" if churn else "steady" if t <= samples * 0.4 else "steady again"}
        )  # fmt: skip
    return loaded


def syscalls() -> LoadedRun:
    question = "How many system calls does an operation cost?"
    names = ["glibc", "hakmem", "mimalloc"]
    rates = [{"brk": 3.1e-4, "munmap": 2e-6, "mmap": 3e-6}, {"mmap": 9e-8, "madvise": 2.2e-8}, {"madvise": 4e-6}]
    result = base("syscalls", question, names, [0.1, 0.1, 0.1], 0) | {
        "arms": [],
        "syscalls": {
            "arms": [
                {"name": name, "per_op": sum(calls.values()), "per_call": calls,
                 "short": {"ops": 10**6, "calls": 900}, "long": {"ops": 10**7, "calls": 1200}}
                for name, calls in zip(names, rates, strict=True)
            ],
            "budget": 1e-8,
            "passed": False,
        },
    }  # fmt: skip
    return LoadedRun(header("syscalls", [arm(name) for name in names], question), result=result)


def latency() -> LoadedRun:
    question = "What is the tail at 20,000 requests a second?"
    names = ["glibc", "hakmem"]
    result = base("latency", question, names, [0.1, 0.1], 5) | {
        "arms": [],
    }
    keys = ("p50_us", "p90_us", "p99_us", "p999_us", "p9999_us")
    result["latency"] = {
        "arms": [
            {"name": name, "rate_per_s": 20000, **dict(zip(keys, points, strict=True)), "max_us": points[-1] * 1.7,
             "intervals": {k.removesuffix("_us"): [v * 0.9, v * 1.15] for k, v in zip(keys, points, strict=True)},
             "service": dict(zip(keys, [p * 0.6 for p in points], strict=True))}
            for name, points in zip(names, ([31, 52, 140, 900, 4200], [30, 49, 120, 600, 2500]), strict=True)
        ]
    }  # fmt: skip
    return LoadedRun(header("latency", [arm(name) for name in names], question), result=result)


def aa() -> LoadedRun:
    question = "Is this machine fit to measure?"
    result = base("aa", question, ["glibc", "glibc again"], [0.1, 0.1], 100) | {
        "aa": {
            "fit": True,
            "false_go": 9,
            "false_no_go": 12,
            "resamples": 500,
            "bound": 0.043,
            "noise_percent": 1.9,
            "autocorrelation": 0.41,
            "smallest_effect_percent": {"20": 3.1, "60": 1.8, "120": 1.2, "180": 1.0},
            "advice": ["Close the browser: the load average was 1.2 before the test."],
        },
    }
    names = ["glibc", "glibc again"]
    arms = [arm("glibc"), arm("glibc") | {"name": "glibc again"}]
    return LoadedRun(header("aa", arms, question), runs(names, [0.1, 0.1], 100, 6), result=result)


def suite() -> LoadedRun:
    question = "Where does hakmem stand?"
    peers = ["glibc", "mimalloc", "jemalloc", "tcmalloc"]
    workloads = ["larson", "redis", "sqlite", "python", "mixed threads"]
    rng = np.random.default_rng(8)
    rows = []
    for workload in workloads:
        ratios = {peer: float(np.exp(rng.normal(0.05, 0.1))) for peer in peers}
        rows.append(
            {"workload": workload, "metric": "wall", "unit": "s",
             "arms": {p: {"ratio": r, "ci_low": r * 0.985, "ci_high": r * 1.015} for p, r in ratios.items()},
             "best_peer": min(ratios, key=lambda p: ratios[p]), "bar": 0.95, "verdict": "GO"}
        )  # fmt: skip
    rows[2]["arms"]["tcmalloc"] = {"ratio": None, "ci_low": None, "ci_high": None}
    result = base("suite", question, ["hakmem"], [0.1], 10) | {
        "arms": [],
        "suite": {
            "rows": rows,
            "means": [
                {"group": None, "what": "speed", "workloads": 5, "rounds": 10,
                 "arms": {p: {"word": "faster", "ratio": 1.05, "ci_low": 1.02, "ci_high": 1.08} for p in peers}},
                {"group": "servers", "what": "memory", "workloads": 2, "rounds": 10,
                 "arms": {p: {"word": "same", "ratio": 0.99, "ci_low": 0.97, "ci_high": 1.01} for p in peers}},
            ],
        },
    }  # fmt: skip
    return LoadedRun(header("suite", [arm(p) for p in ["hakmem", *peers]], question), result=result)


MAKERS = {
    "ab": ab,
    "compare": compare,
    "matrix": matrix,
    "sweep": sweep,
    "soak": soak,
    "syscalls": syscalls,
    "latency": latency,
    "aa": aa,
    "suite": suite,
}


def every_kind() -> list[LoadedRun]:
    """One run of each kind."""
    return [make() for make in MAKERS.values()]
