"""Parts of made-up runs: arms, headers, run records, comparisons, as the store has them."""

from __future__ import annotations

from typing import Any

import numpy as np

Record = dict[str, Any]

WALL = {"name": "wall", "unit": "s", "higher_is_better": False}


def arm(name: str, **variables: str) -> Record:
    """An arm as the header records it."""
    library = None if name == "glibc" else f"lib{name.partition(',')[0]}.so"
    return {
        "name": name,
        "text": name,
        "allocator": name.partition(",")[0],
        "library": library,
        "sha256": None if library is None else (name.encode().hex() * 32)[:64],
        "version": "2.36" if name == "glibc" else "1.4.0",
        "variables": variables,
        "configuration": None if library is None else "as its authors recommend",
    }


def header(kind: str, arms: list[Record], question: str) -> Record:
    return {
        "type": "header",
        "schema": 1,
        "id": f"20261120-213012-{kind}-3f9c",
        "kind": kind,
        "created": "2026-11-20T21:30:12Z",
        "question": question,
        "spec": {
            "kind": kind,
            "question": question,
            "control": arms[0]["name"],
            "treatment": arms[-1]["name"],
            "metric": "wall",
            "margin": 0.01,
            "max-blocks": 60,
            "limits": {"rss": 0.05},
        },
        "spec_hash": "9d5ed678fe57bcca610140957afab571",
        "spec_file": None,
        "seed": 7,
        "machine": {
            "cpu": "A processor of some kind, 2.4 GHz",
            "processors": 2,
            "memory_mib": 16038,
            "kernel": "6.1.0",
            "distribution": "Debian GNU/Linux 12",
            "thp": "madvise",
            "governor": None,
            "aslr": 2,
            "page_bytes": 4096,
            "load_1m": 0.31,
            "steal_percent": 0.2,
            "virtualised": True,
        },
        "arms": arms,
        "command": {"argv": ["./larson", "10", "7", "a b"], "program": "larson", "sha256": "ab" * 32},
        "git": {"revision": "0123456789abcdef", "dirty": True},
        "build": {"compiler": "gcc 12.2.0", "flags": "-O3 -flto"},
        "lab_version": "1.0.0",
    }


def runs(names: list[str], levels: list[float], blocks: int, seed: int = 1, noise: float = 0.01) -> list[Record]:
    """Two runs of each arm per block; values vary around the arm's level, with noise that a whole block shares."""
    rng = np.random.default_rng(seed)
    records: list[Record] = []
    for block in range(1, blocks + 1):
        shared = rng.normal(0, noise)
        order = [*range(len(names)), *reversed(range(len(names)))]
        for position, which in enumerate(order):
            value = float(levels[which] * np.exp(shared + rng.normal(0, noise)))
            records.append(_run(block, position, names[which], value, len(records), rng))
    return records


def _run(block: int, position: int, name: str, value: float, index: int, rng: np.random.Generator) -> Record:
    rss = float(40000 + 500 * rng.random())
    return {
        "type": "run",
        "block": block,
        "attempt": 1,
        "position": position,
        "arm": name,
        "phase": "measure",
        "started": 1.79e9 + index,
        "repeat": 1,
        "exit": 0,
        "signal": None,
        "timed_out": False,
        "wall_s": value,
        "cpu_s": value * 0.98,
        "user_s": value * 0.9,
        "system_s": value * 0.08,
        "rss_peak_kib": rss,
        "rss_mean_kib": rss * 0.8,
        "minor_faults": 9000,
        "major_faults": 0,
        "voluntary_switches": 3,
        "involuntary_switches": 12,
        "value": value,
        "metrics": {},
        "mapped": True,
        "pad_bytes": 128,
        "load_1m": 0.4,
        "steal_percent": 0.1,
        "ok": True,
        "why": None,
    }


def comparison(treatment: str, value: float, width: float = 0.007, **more: Any) -> Record:
    return {
        "name": f"{treatment} against glibc",
        "metric": "wall",
        "control": "glibc",
        "treatment": treatment,
        "estimate": value,
        "ci_low": value - width,
        "ci_high": value + width,
        "level": 0.95,
        "verdict": None,
        "note": None,
    } | more


def medians(names: list[str], levels: list[float], n: int) -> list[Record]:
    return [
        {
            "name": name,
            "library": None if name == "glibc" else f"lib{name.partition(',')[0]}.so",
            "sha256": None,
            "version": None,
            "n": n,
            "median": level,
            "ci_low": level * 0.995,
            "ci_high": level * 1.005,
            "wall_s": level,
            "cpu_s": level * 0.98,
            "rss_peak_kib": 41000.0 + 2300 * position,
            "rss_mean_kib": 33000.0 + 1200 * position,
            "minor_faults": 9000,
            "major_faults": 0,
        }
        for position, (name, level) in enumerate(zip(names, levels, strict=True))
    ]


def base(kind: str, question: str, names: list[str], levels: list[float], blocks: int) -> Record:
    """The keys that every result has."""
    return {
        "kind": kind,
        "id": f"20261120-213012-{kind}-3f9c",
        "question": question,
        "verdict": None,
        "final": True,
        "metric": dict(WALL),
        "margin": 0.01,
        "alpha": 0.05,
        "blocks": blocks,
        "max_blocks": 60,
        "arms": medians(names, levels, 2 * blocks),
        "comparisons": [],
        "guardrails": [],
        "looks": [],
        "failures": [],
        "warnings": [],
    }
