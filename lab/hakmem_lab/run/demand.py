"""How many processors a program would use, measured in its trial."""

import threading
from typing import Self

from hakmem_lab.system import usage
from hakmem_lab.system.files import text
from hakmem_lab.system.launcher import Outcome

LOOK_S = 0.02
NS_S = 1e-9


class Demand:
    """How many processors a program would use: the time that its threads ran or waited for a processor, over the time
    since its start. Time spent waiting counts, so a busy machine does not hide a second busy thread.

    A context manager around the wait for the program's end.
    """

    def __init__(self, pid: int):
        self._pid, self._over = pid, threading.Event()
        # Task -> nanoseconds for which it ran and waited by now, and for which it had waited at the first look: a
        # program waits before its first instruction, too.
        self._seen: dict[int, tuple[int, int, int]] = {0: (0, 0, 0)}
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._reader.join()

    def _read(self) -> None:
        while not self._over.is_set():
            for pid, tasks in usage.family(self._pid).items():
                for task in tasks:
                    words = (text(f"/proc/{pid}/task/{task}/schedstat") or "").split()
                    if len(words) > 1:
                        ran, waited = int(words[0]), int(words[1])
                        self._seen[task] = ran, waited, self._seen.get(task, (0, 0, waited))[2]
            self._over.wait(LOOK_S)

    def processors(self, outcome: Outcome) -> float:
        """Call it after the program's end. Time of threads that were never seen counts as running."""
        ran_s, waited_s, before_s = (sum(times) * NS_S for times in zip(*self._seen.values(), strict=True))
        used_s = max(ran_s, outcome.cpu_s) + waited_s - before_s
        return used_s / outcome.wall_s if outcome.wall_s else 0.0
