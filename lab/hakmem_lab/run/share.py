"""The share of a program's instructions inside its allocator, per allocator: counted by callgrind over one execution,
with all processes that it starts.

The inside of the allocator is everything between the entry into it and the return, including the functions that it
calls. For a preloaded library, every call into it from outside counts, whatever the function's name. For the C library,
only calls of its memory functions count.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from hakmem_lab.errors import LabError
from hakmem_lab.plan.arms import Arm
from hakmem_lab.plan.spec import BlockSpec
from hakmem_lab.run.callgrind import executed, workload_of
from hakmem_lab.run.preflight import check_arm
from hakmem_lab.run.workload import Workload
from hakmem_lab.store.results import Share, SideRow
from hakmem_lab.system.launcher import Launcher

NAMES = {"malloc", "calloc", "realloc", "free", "memalign", "posix_memalign", "aligned_alloc", "valloc", "pvalloc",
         "reallocarray", "cfree"}  # fmt: skip
CAVEAT = "Instructions are not time: cache misses, page faults and system calls are not in them."
_NAME = re.compile(r"^(?:__libc_)?([a-z_]+?)(?:@.*)?(?:'\d+)?$")
NO_OBJECT = "???"
_TOTAL = ("summary:", "totals:")
OPTIONS = ("--trace-children=yes", "--compress-strings=no", "--compress-pos=no")


@dataclass
class Counted:
    instructions: int = 0
    inside: int = 0
    calls: int = 0

    @property
    def share(self) -> float:
        return self.inside / self.instructions if self.instructions else 0.0


def _is_entry(function: str) -> bool:
    found = _NAME.match(function)
    return found is not None and found[1] in NAMES


def read(lines: Iterable[str], library: str | None) -> Counted:
    """Reads a file of callgrind with uncompressed names and positions. library: the preloaded one."""
    found, totals, edges = Counted(), [0], Counter[tuple[str, ...]]()
    times = Counter[tuple[str, ...]]()
    where = {"ob": "", "fn": "", "cob": "", "cfn": ""}
    calls = 0
    for line in lines:
        key, equals, value = line.rstrip("\n").partition("=")
        if equals and key in where:
            where[key] = value
        elif equals and key == "calls":
            calls = int(value.split()[0])
        elif line.startswith(_TOTAL):
            totals.append(int(line.split()[1]))
        elif calls and line[:1].isdigit():  # the cost of the calls in the line before
            called = where["ob"], where["fn"], where["cob"] or where["ob"], where["cfn"]
            edges[called] += int(line.split()[-1])
            times[called] += calls
            calls, where["cob"], where["cfn"] = 0, "", ""
    # Code in a section with an unusual name has no object. It belongs to the library if it holds memory functions.
    nowhere = {to for _, _, to, function in edges if to == NO_OBJECT and _is_entry(function)}
    homes = {library, *nowhere} if library is not None else set()
    for edge, cost in edges.items():
        if _enters(edge, homes):
            found.inside += cost
            found.calls += times[edge]
    found.instructions = max(totals)
    return found


def _enters(edge: Sequence[str], homes: Collection[str | None]) -> bool:
    """Whether calls enter the allocator from outside. homes: the allocator's objects; empty: the names of its functions
    decide."""
    origin, caller, target, function = edge
    if homes:
        return target in homes and origin not in homes
    return _is_entry(function) and not _is_entry(caller)


def counted(launcher: Launcher, workload: Workload, arm: Arm) -> Counted:
    """Counts one execution on the arm. Raises LabError where it fails."""
    # The C library holds more than its allocator, so only its memory functions count.
    library = str(arm.library.path.resolve()) if arm.library.path and arm.allocator != "glibc" else None
    whole = Counted()
    with executed(launcher, workload, workload.argv, arm.environment(workload.env), *OPTIONS) as (folder, _):
        for path in folder.glob("out.*"):
            with path.open(encoding="utf-8", errors="replace") as lines:
                each = read(lines, library)
            whole.instructions += each.instructions
            whole.inside += each.inside
            whole.calls += each.calls
    if not whole.instructions:
        raise LabError(f"callgrind counted no instruction of {' '.join(workload.argv)}")
    return whole


def measured(spec: BlockSpec, arms: Sequence[Arm]) -> Share:
    """The result of `hak share`."""
    workload, rows = workload_of(spec), list[SideRow]()
    with Launcher() as launcher:
        for arm in arms:
            check_arm(arm, workload)
            each = counted(launcher, workload, arm)
            rows.append({"name": arm.name, "instructions": each.instructions, "inside": each.inside,
                         "share": each.share, "calls": each.calls})  # fmt: skip
    return {"command": list(workload.argv), "arms": rows, "answer": answer(rows)}


def answer(rows: Sequence[SideRow]) -> str:
    first = rows[0]
    text = f"{100 * first['share']:.1f} % of the instructions are inside {first['name']}"
    if first["share"] < 1:
        most = 100 * first["share"] / (1 - first["share"])
        text += f": an allocator that did its own work for nothing would make the rest {most:.1f} % faster"
    return f"{text}. {CAVEAT}"
