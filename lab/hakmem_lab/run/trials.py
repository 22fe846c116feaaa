"""Trials of several sides at once, each with a runner of its own.

A side that fails beside another one is tried once more alone, since both may need the same file or port.
"""

import contextlib
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from hakmem_lab.plan.arms import Arm
from hakmem_lab.run.runner import Runner
from hakmem_lab.store.records import Run


def tried(runner: Runner, arms: Sequence[Arm]) -> list[tuple[Arm, Run, float]]:
    """(arm, its trial, what that took beside its wall time in s)."""
    if len(arms) == 1:
        return [(arms[0], *_timed(runner, arms[0]))]
    names = [metric.name for metric in runner.metrics]
    with contextlib.ExitStack() as opened:
        pool = opened.enter_context(ThreadPoolExecutor(len(arms)))
        # Made by this thread, at whose end the kernel would kill their launchers; closed before the pool waits.
        runners = [opened.enter_context(runner.another(names, 1.0)) for _ in arms]
        found = list(pool.map(_timed, runners, arms))
    again = [trial["ok"] or trial.get("lost") for trial, _ in found]
    return [
        (arm, *(known if good else _timed(runner, arm))) for arm, known, good in zip(arms, found, again, strict=True)
    ]


def _timed(runner: Runner, arm: Arm) -> tuple[Run, float]:
    began = time.monotonic()
    trial = runner.trial(arm)
    return trial, time.monotonic() - began - (trial["wall_s"] or 0.0)
