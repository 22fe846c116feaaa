"""The history of a suite: the ratios of earlier suites in the store, and the points at which their level changed.

Absolute figures of different sessions are never compared. A ratio is compared only with ratios of the same workload,
subject, reference (in the same version) and machine.
"""

import math
import statistics
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from hakmem_lab import extras
from hakmem_lab.errors import LabError
from hakmem_lab.judge.statistics.drift import change_points
from hakmem_lab.store.runs import Store

SAME_MACHINE = ("cpu", "processors")
SAME_ARM = ("allocator", "variables")
# A program's input files must be the same, too. The program itself need not be, since every rebuild changes it.
SAME_WORKLOAD = ("command", "metric", "higher-is-better", "env", "cwd", "stdin", "server", "ops")
LEAST_SEGMENT = 3
CHANGES_NEED = "soak"
LEAST_NOISE = 1e-3
PENALTY_FACTOR = 6.0
NORMAL_MEDIAN_STEP = 1.4826 / math.sqrt(2)


def _arm(header: dict, key: str) -> dict | None:
    name = header["spec"][key]
    return next((arm for arm in header["arms"] if arm["name"] == name), None)


def _setting(header: dict) -> tuple:
    """The part of a header that must be the same for ratios to be comparable."""
    subject, reference = _arm(header, "subject"), _arm(header, "reference")
    return (
        [header["machine"].get(key) for key in SAME_MACHINE],
        [subject and subject.get(key) for key in SAME_ARM],
        [reference and reference.get(key) for key in (*SAME_ARM, "version")],
    )


def _workloads(header: dict) -> dict[str, list]:
    inputs = {key: program["inputs"] for key, program in header["programs"].items()}
    return {
        row["key"]: [*(row.get(key) for key in SAME_WORKLOAD), inputs.get(row["key"])]
        for row in header["spec"]["workload"]
    }


def entry(header: dict, ratios: dict[str, float]) -> dict:
    """One suite as a point of the history."""
    git = header.get("git") or {}
    revision = (git.get("revision") or "")[:10] + ("+" if git.get("dirty") else "")
    return {"id": header["id"], "created": header["created"], "revision": revision or None, "ratios": ratios}


def collect(folder: Path, header: dict) -> list[dict]:
    """Comparable entries of the store's finished suites, oldest first, without the run of the header."""
    found, own, setting = [], _workloads(header), _setting(header)
    for file in Store(folder).runs():
        try:
            earlier = file.header()
        except LabError:
            continue
        if earlier["kind"] != header["kind"] or file.id == header["id"]:
            continue
        results = [record for record in file.records() if record["type"] == "result"]
        if not results or _setting(earlier) != setting:
            continue
        theirs = _workloads(earlier)
        known = {k: v for k, v in results[-1]["suite"]["ratios"].items() if theirs.get(k) == own.get(k)}
        if known:
            found.append(entry(earlier, known))
    return found


def _penalty(logs: Sequence[float]) -> float:
    """The drop in squared error that a change must bring. Suites are separate sessions, so their noise is independent,
    and the median step between neighbours estimates it from a few of them."""
    noise = max(LEAST_NOISE, statistics.median(abs(b - a) for a, b in pairwise(logs)) * NORMAL_MEDIAN_STEP)
    return PENALTY_FACTOR * noise**2 * math.log(len(logs))


def _long_enough(history: Sequence) -> bool:
    """Whether the history is long enough to search for changes, and the package for it is installed."""
    return len(history) >= 2 * LEAST_SEGMENT and not extras.missing(CHANGES_NEED)


def not_looked_for(history: Sequence[dict]) -> list[str]:
    """A warning if the history is long enough to search for changes, but the package for it is not installed."""
    packages = extras.missing(CHANGES_NEED)
    if len(history) < 2 * LEAST_SEGMENT or not packages:
        return []
    return [f"changes in the history are not looked for; that needs: {extras.install_line(packages)}"]


def changes(history: Sequence[dict]) -> dict[str, list[int]]:
    """Per workload: indices into the history at which a new level of the ratio begins."""
    found = {}
    for key in dict.fromkeys(key for each in history for key in each["ratios"]):
        known = [(index, each["ratios"][key]) for index, each in enumerate(history) if each["ratios"].get(key)]
        logs = [math.log(ratio) for _, ratio in known]
        points = change_points(logs, LEAST_SEGMENT, _penalty(logs)) if _long_enough(logs) else []
        if points:
            found[key] = [known[point][0] for point in points]
    return found
