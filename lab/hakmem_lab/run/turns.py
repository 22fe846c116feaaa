"""All sides of a round alive at the same time, one of them running: each in turn for about 10 ms, in random order,
while the groups of the others stand still. So a side may have several threads, or be a server with its client, and all
sides meet the same speeds of the processors.

A side that ends before the others runs again, and that execution does not count, as in `together`.
"""

import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from hakmem_lab.plan import schedule
from hakmem_lab.plan.arms import Arm
from hakmem_lab.run.runner import Runner
from hakmem_lab.run.together import untimed
from hakmem_lab.store.records import Run
from hakmem_lab.system.freezer import Freezer

TURN_S = (0.0075, 0.0125)  # from and to; one fixed length could keep step with a timer of the programs
ENDING_S = 0.01


@dataclass
class _Side:
    """One side: its runner, and the group that holds its programs."""

    runner: Runner
    freezer: Freezer
    counted: threading.Event = field(default_factory=threading.Event)  # its run has ended
    over: threading.Event = field(default_factory=threading.Event)  # no further execution begins
    record: Run | None = None
    error: BaseException | None = None
    thread: threading.Thread | None = None

    def begin(self, arm: Arm, pad: int, repeat: int, seed: int) -> None:
        self.record = self.error = None
        self.counted.clear()
        self.over.clear()
        self.thread = threading.Thread(target=self._work, args=(arm, pad, repeat, seed), daemon=True)
        self.thread.start()

    def _work(self, *run: object) -> None:
        try:
            self.record = self.runner.run(*run)  # type: ignore[arg-type]
            self.counted.set()
            while self.record["ok"] and not self.over.is_set():
                self.runner.run(*run)  # type: ignore[arg-type]
        except BaseException as error:  # of the counted run: raised again in the main thread
            self.error = self.error or error
        finally:
            self.counted.set()

    def end(self) -> None:
        """Ends the execution that does not count, or that was interrupted."""
        self.over.set()
        while self.thread and self.thread.is_alive():
            self.freezer.kill()
            self.thread.join(ENDING_S)

    def close(self) -> None:
        self.runner.close()
        self.freezer.close()


class Turns:
    """Runs blocks of a runner's workload. Close it after use."""

    def __init__(self, runner: Runner, _: Sequence[int] = ()):
        self._runner = runner
        self._sides: list[_Side] = []

    def close(self) -> None:
        for side in self._sides:
            side.close()

    def block(self, arms: Sequence[Arm], pads: Sequence[int], repeat: int, seed: int) -> list[Run]:
        """The records of a block's runs: two rounds. Where runs fail, they come last."""
        size, records = len(arms) // schedule.ROUNDS, list[Run]()
        order = random.Random(f"turns {seed}")
        for at in range(0, len(arms), size):
            whole = list(zip(arms, pads, strict=True))[at : at + size]
            records += self._round(whole, repeat, seed, order)
            if not all(record["ok"] for record in records):
                break
        return records

    def _round(self, whole: Sequence[tuple[Arm, int]], repeat: int, seed: int, order: random.Random) -> list[Run]:
        while len(self._sides) < len(whole):
            self._sides.append(self._new_side(len(whole)))
        sides = self._sides[: len(whole)]
        try:
            for side, (arm, pad) in zip(sides, whole, strict=True):
                side.freezer.stop()
                side.begin(arm, pad, repeat, seed)
            self._take_turns(sides, order)
            ended = [side for side in sides if side.counted.is_set()]
        finally:
            for side in sides:
                side.end()
        if errors := [side.error for side in ended if side.error]:
            raise errors[0]
        records = [untimed(side.record, schedule.TURNS) for side in ended if side.record]
        return sorted(records, key=lambda record: not record["ok"])

    def _new_side(self, sides: int) -> _Side:
        runner = self._runner.another(schedule.MEASURES[schedule.TURNS], sides)
        try:
            freezer = Freezer(runner.groups)
        except OSError:
            runner.close()
            raise
        runner.stay_in(freezer)
        return _Side(runner, freezer)

    @staticmethod
    def _take_turns(sides: Sequence[_Side], order: random.Random) -> None:
        """Until the counted run of every side has ended, or one has failed."""
        while not all(side.counted.is_set() for side in sides):
            for side in order.sample(sides, len(sides)):
                side.freezer.go()
                turn_s = order.uniform(*TURN_S)
                time.sleep(turn_s) if side.counted.is_set() else side.counted.wait(turn_s)
                side.freezer.stop()
                if side.counted.is_set() and not (side.record and side.record["ok"]):
                    return
