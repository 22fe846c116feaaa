"""Instructions of one execution, counted by valgrind's callgrind: a second opinion that machine noise cannot affect.

The count covers the instructions that the program's own process executes in user mode. It does not cover waiting, cache
misses or the kernel's work. The counts of two executions differ by a few parts in 100 000.
"""

import contextlib
import math
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from hakmem_lab import extras
from hakmem_lab.errors import LabError
from hakmem_lab.judge import explain
from hakmem_lab.judge.statistics.verdict import Verdict
from hakmem_lab.plan.arms import Arm
from hakmem_lab.plan.spec import BlockSpec
from hakmem_lab.run.folder import Folder
from hakmem_lab.run.preflight import check_arm
from hakmem_lab.run.workload import SEED, TRIAL_SEED, Workload
from hakmem_lab.store.results import Comparison, SideRow, Summary
from hakmem_lab.system.launcher import Launcher, Request

OPS = "{ops}"
SLOWER = 100  # a program may take this many times its time limit under callgrind
CAVEAT = "Instructions are not time: cache misses, system calls and waiting are not in them."
_TOTAL = re.compile(r"^(?:totals|summary):\s*(\d+)", re.M)


def traced(argv: Sequence[str], folder: Path, *options: str) -> list[str]:
    """The command that counts; it leaves a file of each process in the folder. Raises LabError where valgrind is
    missing."""
    valgrind = extras.tool("valgrind", "counting instructions")
    return [valgrind, "-q", "--tool=callgrind", f"--callgrind-out-file={folder}/out.%p", *options, "--", *argv]


def workload_of(spec: BlockSpec) -> Workload:
    workload = Workload.of(spec)
    return replace(workload, argv=[word.replace(SEED, str(TRIAL_SEED)) for word in workload.argv])


@contextlib.contextmanager
def executed(
    launcher: Launcher, workload: Workload, argv: Sequence[str], env: Mapping[str, str], *options: str
) -> Iterator[tuple[Path, int]]:
    """(folder with the files, PID) of one execution. Raises LabError where the program fails."""
    with tempfile.TemporaryDirectory(prefix="hak-") as folder, Folder() as own:
        words, patience_s = traced(own.fill(argv), Path(folder), *options), SLOWER * workload.timeout_s
        running = launcher.start(Request(words, env, workload.cwd, workload.pin, patience_s, 0, stdin=workload.stdin))
        try:
            outcome = running.wait()
        except BaseException:
            running.kill()
            raise
        if why := outcome.explained(outcome.failure(workload.expect_exit)):
            raise LabError(f"under callgrind: {' '.join(argv)}: {why}")
        yield Path(folder), running.pid


def total(folder: Path, pid: int) -> int | None:
    """Instructions of the process; None where it left no count, for example because it became another program."""
    out = folder / f"out.{pid}"
    counts = _TOTAL.findall(out.read_text(encoding="utf-8", errors="replace")) if out.exists() else []
    return max(map(int, counts), default=None)


def count(launcher: Launcher, workload: Workload, argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Instructions of one execution. Raises LabError where the program fails, or callgrind counted nothing."""
    with executed(launcher, workload, argv, env) as (folder, pid):
        instructions = total(folder, pid)
    if instructions is None:
        raise LabError(f"callgrind counted nothing: {' '.join(argv)} becomes another program; name that one instead")
    return instructions


def parse_ops(text: str | None, command: Sequence[str]) -> tuple[int, int] | None:
    """'1000,5000' -> (1000, 5000). Raises LabError."""
    used = any(OPS in word for word in command)
    if used != (text is not None):
        raise LabError(f"--ops and {OPS} in the command go together: one of them is missing")
    if text is None:
        return None
    found = re.fullmatch(r"(\d+),(\d+)", text)
    if not found or not 0 < int(found[1]) < int(found[2]):
        raise LabError(f"--ops: '{text}' is not two lengths, the shorter one first, such as 1000,5000")
    return int(found[1]), int(found[2])


def _per_operation(launcher: Launcher, workload: Workload, arm: Arm, ops: tuple[int, int] | None) -> SideRow:
    """Counts one execution, or one of each length. The difference of two lengths excludes start and end of the
    program."""
    env = arm.environment(workload.env)
    if ops is None:
        return {"name": arm.name, "instructions": count(launcher, workload, workload.argv, env), "per_op": None}
    lengths = ([word.replace(OPS, str(n)) for word in workload.argv] for n in ops)
    short, long = (count(launcher, workload, argv, env) for argv in lengths)
    return {"name": arm.name, "instructions": long, "per_op": (long - short) / (ops[1] - ops[0])}


def opinion(spec: BlockSpec, arms: Sequence[Arm], ops: str | None = None) -> Summary:
    """Compares the instructions of the second arm with those of the first. Raises LabError."""
    if spec.server is not None:
        raise LabError("--callgrind: a server is not counted, since its clients decide what it does; drop [server]")
    lengths, workload = parse_ops(ops, spec.command), workload_of(spec)
    with Launcher() as launcher:
        rows = []
        for arm in arms:
            check_arm(arm, workload)
            rows.append(_per_operation(launcher, workload, arm, lengths))
    return judged(rows, spec.margin)


def judged(rows: list[SideRow], margin: float) -> Summary:
    """The result of two counts. The ratio is the control's instructions over the treatment's."""
    each = "instructions" if rows[0]["per_op"] is None else "instructions per operation"
    control, treatment = (row["instructions"] if row["per_op"] is None else row["per_op"] for row in rows)
    if control <= 0 or treatment <= 0:
        raise LabError("--ops: the longer run needs no more instructions than the shorter one; is {ops} the length?")
    ratio = control / treatment - 1
    verdict = Verdict.NEUTRAL
    if abs(math.log1p(ratio)) >= math.log1p(margin):
        verdict = Verdict.GO if ratio > 0 else Verdict.NO_GO
    row: Comparison = {"metric": "instructions", "control": rows[0]["name"], "treatment": rows[1]["name"],
                       "estimate": ratio, "exact": True, "verdict": str(verdict)}  # fmt: skip
    result: Summary = {
        "verdict": str(verdict),
        "metric": {"name": "instructions", "label": each, "unit": "", "higher_is_better": False, "by": "callgrind"},
        "margin": margin,
        "estimate": ratio,
        "comparisons": [row],
        "arms": rows,
    }
    said = explain.explain(result)
    return result | replace(said, caveats=(CAVEAT,)).record()
