"""Both arms of a pair at once, each on its half of the processors: what disturbs one disturbs the other, and cancels.

In a block both arms stand on both sides, so what the halves differ in cancels too. What does not cancel is what the
arms do to each other, through a shared cache or the way to memory; therefore every arm also runs alone, and `pressure`
says how much longer it takes in company.
"""

import contextlib
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from hakmem_lab.errors import LabError
from hakmem_lab.plan.arms import Arm
from hakmem_lab.plan.spec import BlockSpec
from hakmem_lab.run.runner import TRIAL_SEED, Runner, Workload

SIDES = 2
TOPOLOGY = Path("/sys/devices/system/cpu")


def cores(processors: Iterable[int], topology: Path = TOPOLOGY) -> list[list[int]]:
    """The processors by the physical core that they are threads of, in the order of their numbers."""
    found: dict[str, list[int]] = {}
    for processor in sorted(processors):
        file = topology / f"cpu{processor}" / "topology" / "thread_siblings_list"
        with contextlib.suppress(OSError):
            found.setdefault(file.read_text(encoding="ascii").strip(), []).append(processor)
            continue
        found[f"processor {processor}"] = [processor]
    return list(found.values())


def halves(processors: Iterable[int], topology: Path = TOPOLOGY) -> tuple[list[int], list[int]]:
    """Two sides with equally many cores; a core belongs to one of them, unless there is only one. Raises LabError."""
    groups = cores(processors, topology)
    if len(groups) == 1:
        groups = [[thread] for thread in groups[0]]
    half = len(groups) // 2
    if half == 0:
        raise LabError("duet: two arms at once need two processors, and there is one; run without --duet")
    first, second = groups[:half], groups[half : 2 * half]
    return sorted(itertools.chain(*first)), sorted(itertools.chain(*second))


def check(spec: BlockSpec) -> None:
    """Raises LabError where the spec asks for what two servers at once cannot have."""
    server = spec.server
    if server is not None and (server.pin or server.port != "auto"):
        key = "pin" if server.pin else "port"
        raise LabError(f"duet: server.{key} cannot be given: each side has a server of its own, on its own half")


class Duet:
    """Two runners, one a side. make: a runner for a workload that is bound to its side."""

    def __init__(self, spec: BlockSpec, workload: Workload, make: Callable[[Workload], Runner]):
        check(spec)
        self.sides = halves(workload.pin or os.sched_getaffinity(0))
        self.runners: list[Runner] = []
        for side in self.sides:
            self.runners.append(make(replace(workload, pin=side)))

    def close(self) -> None:
        for runner in self.runners:
            runner.close()

    def alone(self, side: int, arm: Arm, pad_bytes: int, repeat: int) -> dict:
        """The record of a run on one side while the other is idle."""
        self.runners[side].at_start = lambda: None
        return self.runners[side].run(arm, pad_bytes, repeat) | {"side": side}

    def together(self, arms: Sequence[Arm], pads: Sequence[int], repeat: int, seed: int = TRIAL_SEED) -> list[dict]:
        """The records of two runs at once, the first arm on the first side. Every execution begins on both at once.

        What either raises ends both.
        """
        gate = threading.Barrier(SIDES)
        records: list[dict] = [{}, {}]

        def play(side: int) -> None:
            self.runners[side].at_start = lambda: _meet(gate)
            try:
                records[side] = self.runners[side].run(arms[side], pads[side], repeat, seed) | {"side": side}
            finally:
                gate.abort()  # who is done early, because a run failed, keeps nobody waiting

        with ThreadPoolExecutor(1) as pool:
            second = pool.submit(play, 1)
            try:
                play(0)
            except BaseException:
                self.runners[1].close()
                raise
            second.result()
        return records


def _meet(gate: threading.Barrier) -> None:
    with contextlib.suppress(threading.BrokenBarrierError):
        gate.wait()
