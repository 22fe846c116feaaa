"""Finds how much memory the survivors of each stack keep resident. The prediction counts the pages that they occupy
alone, and their bytes on shared pages. A replay in which their blocks are never allocated tests it.

A survivor is a block that is live at the chosen moment. At that moment both replays make the allocator return its free
memory, if it has a function for that, so the rest is kept resident by blocks.
"""

import json
import statistics
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hakmem_lab.errors import LabError, one_line
from hakmem_lab.plan.arms import Arm
from hakmem_lab.run.preflight import check_arm
from hakmem_lab.run.workload import Workload
from hakmem_lab.trace import replayer, stacks
from hakmem_lab.trace.contents import counts

SCHEMA = "hakmem-pages 1"
MOST = 3  # most stacks that are tested, each by its own replays
RUNS = 3  # replays of which the median counts, since the order of threads varies
LEAST_KIB = 64
TOLERANCE = 0.15
MOMENTS = "end, peak, or a number of seconds"
EVERY_CALL = "--by pages: every call needs its stack: hak record --stacks --rate 1 -o {} -- CMD"


def _until(path: Path, process: int, at: str) -> tuple[int, str]:
    """The moment in nanoseconds of the trace's clock, and its name in texts. Raises LabError."""
    if at == "end":
        return 0, "at its end"
    if at == "peak":
        (found,) = counts(path, process)["processes"]
        return int(found["peak_time_ns"]), "when most was live"
    try:
        seconds = float(at)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 1e9:
        raise LabError(f"--at: '{at}' is not a moment; known moments: {MOMENTS}")
    return int(seconds * 1e9), f"after {seconds:g} s"


class _Replays:
    """Runs hak-replay on one allocator, for groups of stacks."""

    def __init__(self, path: Path, process: int, arm: Arm, until_ns: int, groups: Path):
        self._words = [str(replayer()), f"--processes={process}", f"--groups={groups}"]
        self._words += [f"--until={until_ns}"] if until_ns else []
        self._trace, self._arm = str(path), arm

    def run(self, without: int = 0) -> dict[str, Any]:
        """Of RUNS replays, the report of the one with the median settled memory. Raises LabError."""
        found = [self._once(without) for _ in range(RUNS)]
        middle = statistics.median_low(each["settled_kib"] for each in found)
        return next(each for each in found if each["settled_kib"] == middle)

    def _once(self, without: int) -> dict[str, Any]:
        words = [*self._words, f"--without={without}", self._trace]
        done = subprocess.run(words, env=self._arm.environment({}), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise LabError(one_line(done.stderr) or f"the replay ended with status {done.returncode}")
        return json.loads(done.stdout.splitlines()[0])


def by_pages(path: Path, process: int | None, arm: Arm, without: str | None, at: str) -> dict[str, Any]:
    """The result of `--by pages`. without: part of a function's name; all stacks with such a function are tested
    together. Otherwise the stacks with the most pages are tested, one by one. Raises LabError."""
    if stacks.mean_bytes(path) != 1:
        raise LabError(EVERY_CALL.format(path))
    counted, _ = stacks.by_stack(path, process)
    until_ns, moment = _until(path, counted["process"], at)
    rows = stacks.without_plumbing(counted["stacks"])
    if without is not None:
        chosen = [row for row in rows if any(without in frame for frame in row["frames"])]
        if not chosen:
            raise LabError(f"--without: no stack of {path} has a function with '{without}' in its name")
        rows = [{"frames": [without], "nodes": [node for row in chosen for node in row["nodes"]]}]
    check_arm(arm, Workload.of_command([str(replayer()), str(path)]))
    with tempfile.NamedTemporaryFile("w", prefix="hak-", suffix=".groups") as file:
        file.writelines(f"{node} {group}\n" for group, row in enumerate(rows, 1) for node in row["nodes"])
        file.flush()
        replays = _Replays(path, counted["process"], arm, until_ns, Path(file.name))
        whole = replays.run()
        kept = {group: (blocks, size, kib) for group, blocks, size, kib in whole["kept"] if group}
        groups = sorted((group for group in kept if kept[group][2] >= LEAST_KIB), key=lambda group: -kept[group][2])
        tested = [_tested(rows[group - 1]["frames"], kept[group], whole, replays.run(group)) for group in groups[:MOST]]
    return {"schema": SCHEMA, "process": counted["process"], "about": counted["about"], "allocator": arm.name,
            "others": counted["others"], "moment": moment, "settled_kib": whole["settled_kib"],
            "live_kib": whole["live_kib"], "tested": tested,
            "untested": len(groups) - len(tested), "answer": answer(tested, moment)}  # fmt: skip


def _tested(frames: Sequence[str], kept: tuple[int, int, int], whole: Mapping, less: Mapping) -> dict[str, Any]:
    blocks, size, predicted = kept
    observed = whole["settled_kib"] - less["settled_kib"]
    return {"frames": list(frames), "blocks": blocks, "bytes": size, "predicted_kib": predicted,
            "observed_kib": observed, "error": predicted / observed - 1 if observed > 0 else None}  # fmt: skip


def confirmed(row: Mapping[str, Any]) -> bool:
    return row["error"] is not None and abs(row["error"]) <= TOLERANCE


def answer(tested: Sequence[Mapping[str, Any]], moment: str) -> str:
    if not tested:
        return f"No stack's survivors keep {LEAST_KIB} KiB resident {moment}"
    first = tested[0]
    said = "confirms" if confirmed(first) else "does not confirm"
    return (
        f"The survivors of {first['frames'][0]} keep {first['predicted_kib'] / 1024:.1f} MiB resident "
        f"{moment}; a replay without them holds {first['observed_kib'] / 1024:.1f} MiB less, which {said} it"
    )
