"""Makes headers and records of suites from given figures."""

from hakmem_lab.kinds.suite.spec import SuiteSpec
from hakmem_lab.plan.model import build
from hakmem_lab.plan.spec import normalised

ALLOCATORS = ["hakmem", "glibc", "mimalloc", "jemalloc"]
RATE = r"regex:ops (\d+)"
WIGGLE = (0.99, 1.0, 1.01, 1.005, 0.995, 1.002, 0.998, 1.004, 0.996, 1.001)


def workload(key: str = "mix", **keys) -> dict:
    return {"key": key, "title": f"the {key}", "command": ["/bin/true"], "memory": False} | keys


def spec(*workloads: dict, **keys) -> SuiteSpec:
    values = {"kind": "suite", "allocators": ALLOCATORS, "workload": list(workloads)}
    return build(SuiteSpec, values | keys, "test")


def header(card: SuiteSpec, id_: str = "20261101-000000-suite-aaaa", revision: str = "a" * 40) -> dict:
    arms = [{"name": name, "allocator": name, "variables": {}, "version": "1", "library": None, "sha256": None,
             "configuration": None} for name in card.allocators]  # fmt: skip
    return {
        "type": "header", "schema": 1, "id": id_, "kind": "suite", "created": "2026-11-01T00:00:00+00:00",
        "question": card.question, "spec": normalised(card), "seed": 1, "machine": {"cpu": "c", "processors": 2},
        "arms": arms, "git": {"revision": revision, "dirty": False},
        "programs": {row.key: {"inputs": {}} for row in card.workload},
    }  # fmt: skip


def runs(key: str, figures: dict[str, dict[str, float]], blocks: int = 10, ok: bool = True) -> list[dict]:
    """Records of finished blocks; figures: arm -> metric -> median. Values vary around it, differently for each arm."""
    records = []
    for block in range(blocks):
        for place, (arm, values) in enumerate(figures.items()):
            wiggle = WIGGLE[(block + 3 * place) % len(WIGGLE)]
            metrics = {name: value * wiggle for name, value in values.items()}
            records.append(
                {"type": "run", "workload": key, "block": block, "attempt": 0, "phase": "measure", "arm": arm,
                 "value": next(iter(metrics.values())), "metrics": metrics, "ok": True, "why": None}
            )  # fmt: skip
        records.append(
            {"type": "block", "workload": key, "block": block, "attempt": 0, "phase": "measure", "ok": ok, "why": None,
             "order": list(figures)}
        )  # fmt: skip
    return records


def counts(key: str, calls: dict[str, tuple[int, int]], lengths: tuple[int, int]) -> list[dict]:
    """Records of counted system calls; calls: arm -> its calls at the short and at the long length."""
    return [
        {"type": "count", "workload": key, "arm": arm, "operations": operations, "calls": count}
        for arm, both in calls.items()
        for operations, count in zip(lengths, both, strict=True)
    ]
