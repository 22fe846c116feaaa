"""The least memory in which a program ends well and is at most 5 % slower than without a limit.

Each run executes the program without a limit, then under limits 1 % apart. It goes up or down from the side's last
result, until the program ends well at one limit and not at the next lower one. So every run tests both ends anew.

The kernel keeps the limit where a control group can be made. Else the laboratory reads the memory of all processes
together, and kills them once it is more. Slower: by processor time and, in a group of version 2, waiting for memory.
"""

import contextlib
import math
import os
import signal
import statistics
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

from hakmem_lab.plan.metrics import LEAST
from hakmem_lab.store.records import Record, Run
from hakmem_lab.system import usage

GRID, FIRST_KIB = 1.01, 64.0
FIRST_STEP, STEP = 8, 1  # in points of the grid: of a side's first search, and of the others
BEYOND = 400  # points above the memory without a limit, 53 times as much: there is no limit in which it ends well
SLOWER = 1.05
TRIES = 3  # executions that are slow, before the program counts as slow, and as many beside them without a limit
PATIENCE, PATIENCE_S = 5.0, 5.0  # time of an execution under a limit: so many times that without one, and seconds
LOOK_S = 0.002
EXECUTIONS = 4  # of a run, about
PLAN = "a run is 3 to 5 executions: without a limit of memory, and under limits; each side's first run is some 15"
WHY_CHARACTERS = 80
WATCHED, WITHOUT_GROUPS = "watched", "hak itself keeps the limits of memory"
FIRST_ALONE = "processor time and peak memory are those of the server's first process, without those that it starts"


def kib_at(point: int) -> int:
    return round(FIRST_KIB * GRID**point)


def point_of(kib: float) -> int:
    """The first point of the grid from this size on."""
    return max(0, math.ceil(math.log(kib / FIRST_KIB, GRID)))


def least(lives: Callable[[int], bool], start: int, step: int, last: int) -> int | None:
    """A point at which the program lives, though not at the next lower one. None: at no point up to the last one."""
    alive, dead = (start, None) if lives(start) else (None, start)
    while alive is None or dead is None:
        point = dead + step if dead is not None else max(alive - step, -1)  # type: ignore[operator]
        if point > last:
            return None
        if point >= 0 and lives(point):
            alive = point
        else:
            dead = point
        step *= 2
    while alive - dead > 1:
        middle = (alive + dead) // 2
        alive, dead = (middle, dead) if lives(middle) else (alive, middle)
    return alive


@dataclass
class Limit:
    """watched: the laboratory keeps the limit, and over_kib is what it saw beyond it."""

    kib: int
    watched: bool = False
    over_kib: int = 0

    def failure(self, part: Mapping) -> str:
        """Why an execution in this limit did not end well; empty if it did."""
        used = part.get("server") or part
        if self.watched and (used.get("rss_peak_kib") or 0) > self.kib:  # a peak between two looks
            self.over_kib = max(self.over_kib, used["rss_peak_kib"] - self.kib)
        if self.over_kib:
            return f"needed {self.over_kib:,} KiB more, and was killed"
        if part["why"]:
            return str(part["why"])
        short = (used.get("tree") or {}).get("oom_kills")
        return "the kernel killed one of its processes for want of memory" if short else ""


class Watched:
    """Kills a program and its descendants once they hold more than the limit. A context manager around their run."""

    def __init__(self, pid: int, limit: Limit):
        self._pid, self._limit, self._over = pid, limit, threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)

    def __enter__(self) -> Self:
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._reader.join()

    def _read(self) -> None:
        while not self._over.wait(LOOK_S):
            found = usage.usage(self._pid, exact=False)
            if found and found.processes > 1 and found.rss_kib > self._limit.kib:
                found = usage.usage(self._pid, exact=True)  # pages that processes share count once
            held = (found.pss_kib or found.rss_kib) if found else 0
            if held > self._limit.kib:
                self._limit.over_kib = held - self._limit.kib
                for pid in usage.family(self._pid):
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)


def cost_s(part: Mapping) -> float:
    """Processor time and, where the kernel counts it, the time in which the program waited for memory."""
    used = part.get("server") or part
    tree = used.get("tree") or {}
    known = tree.get("cpu_s")
    return (used["cpu_s"] if known is None else known) + (tree.get("memory_stall_s") or 0.0)


def peak_kib(part: Mapping) -> float:
    used = part.get("server") or part
    return (used.get("tree") or {}).get("memory_peak_kib") or used["rss_peak_kib"]


@dataclass
class Search:
    """The searches of one comparison. at: side -> the point of its last result. costs: without a limit."""

    at: dict[str, int] = field(default_factory=dict)
    costs: dict[str, list[float]] = field(default_factory=dict)

    def found(
        self, side: str, by: str, parts: Sequence[Record], execute: Callable[[Limit | None, float], Record]
    ) -> Run:
        """The keys that it adds to the record of a run. by: who keeps a limit. parts: the run's executions without a
        limit. execute: makes one more, with a limit or without, and a time after which it is killed."""
        whole = point_of(max(map(peak_kib, parts)))
        costs = self.costs.setdefault(side, [])
        costs.extend(map(cost_s, parts))
        timeout_s = PATIENCE * max(part["wall_s"] for part in parts) + PATIENCE_S
        tried: list[tuple[int, str, int]] = []

        def lives(point: int) -> bool:
            limit = Limit(kib_at(point), by == WATCHED)
            tried.append(_tried(lambda limit: execute(limit, timeout_s), limit, costs))
            return not tried[-1][1]

        start, step = (self.at[side], STEP) if side in self.at else (whole, FIRST_STEP)
        point = least(lives, start, step, whole + BEYOND)
        found: Run = {"limits": tried, "limited_by": by}
        if point is None:
            why = f"it ends well without a limit of memory, but not in {kib_at(whole + BEYOND):,} KiB: {tried[-1][1]}"
            return found | {"ok": False, "why": why}
        self.at[side] = point
        value = float(kib_at(point))
        return found | {"value": value, "metrics": {LEAST: value} | parts[-1]["metrics"]}


def _tried(execute: Callable[[Limit | None], Record], limit: Limit, free: list[float]) -> tuple[int, str, int]:
    """(the limit, why the program does not live in it or empty, KiB beyond it that were seen). free: what the
    executions without a limit cost; where one under the limit is slow, more of both follow, in turns."""
    costs: list[float] = []
    while len(costs) < TRIES:
        part = execute(limit)
        if why := limit.failure(part):
            return limit.kib, why[:WHY_CHARACTERS], limit.over_kib
        costs.append(cost_s(part))
        if costs[-1] <= SLOWER * statistics.median(free) and len(costs) == 1:
            return limit.kib, "", 0
        if len(costs) < TRIES and (part := execute(None))["why"] is None:
            free.append(cost_s(part))
    beside = free[-TRIES:]
    slower = statistics.median(costs) / statistics.median(beside)
    return limit.kib, f"{100 * (slower - 1):.0f} % slower" if slower > SLOWER and min(costs) > max(beside) else "", 0
