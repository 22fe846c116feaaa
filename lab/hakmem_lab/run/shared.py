"""A block of a shared schedule: two rounds of all sides. Where a metric is asked for that depends on how long a side
lasts, such as peak memory or a percentile, each side also runs once one by one, and these figures are of that run.
"""

from collections.abc import Iterator, Sequence
from typing import cast

from hakmem_lab.plan import schedule
from hakmem_lab.plan.arms import Arm
from hakmem_lab.run.runner import Runner
from hakmem_lab.run.together import OF_SERVER_TIMED, Chosen, Together, lost
from hakmem_lab.run.turns import Turns
from hakmem_lab.store.records import Run

_ROUNDS_OF = {schedule.TOGETHER: Together, schedule.TURNS: Turns}


class Shared:
    """Runs blocks of a runner's workload. Close it after use."""

    def __init__(self, runner: Runner, chosen: Chosen):
        self._runner, self._rounds = runner, _ROUNDS_OF[chosen.name](runner, chosen.processors)
        self._alone = schedule.left_out(chosen.name, (metric.name for metric in runner.metrics))

    def close(self) -> None:
        self._rounds.close()

    def block(self, arms: Sequence[Arm], pads: Sequence[int], repeat: int, seed: int) -> Iterator[Run]:
        """The records of a block's runs in its order. A failure ends the block."""
        alone: dict[str, Run] = {}
        for arm, pad in list(zip(arms, pads, strict=True))[: len(arms) // schedule.ROUNDS if self._alone else 0]:
            alone[arm.name] = record = self._runner.run(arm, pad, repeat, seed)
            if not record["ok"]:
                yield record
                return
        for record in self._rounds.block(arms, pads, repeat, seed):
            yield _with(record, alone[record["arm"]]) if record["ok"] and alone else record


def _with(record: Run, alone: Run) -> Run:
    """The record of a run in a round, with the figures that it lacks from a run of the same side one by one."""
    names = (*lost(record["schedule"]), "thousands")
    found = record | cast(Run, {name: alone.get(name) for name in names if name in alone})
    if (server := record.get("server")) is not None:
        found["server"] = server | {name: (alone["server"] or {}).get(name) for name in OF_SERVER_TIMED}
    return found | {"metrics": alone["metrics"] | record["metrics"]}
