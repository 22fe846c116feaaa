"""All sides of a block at the same time: each round on one processor, where the scheduler alternates its sides every
few milliseconds. They all meet the same speeds of the processor, so the ratio of their processor times is steady even
where the speed is not.

A side that ends before the others is started again, and that execution does not count: the others keep the same
neighbours to their end.
"""

import contextlib
import os
import select
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar, cast

from hakmem_lab.errors import LabError
from hakmem_lab.plan import schedule
from hakmem_lab.plan.arms import Arm
from hakmem_lab.plan.spec import BlockSpec
from hakmem_lab.run.folder import Folder
from hakmem_lab.run.runner import SAMPLE_MS, Runner
from hakmem_lab.store.records import Record, Run
from hakmem_lab.system import freezer, machine
from hakmem_lab.system.launcher import Launcher, Request, Running

BUSY = 1.1  # processors that a program with one busy thread uses at most
LEAST_BUSY, LEAST_TRIAL_S = 0.8, 0.02  # below these, a trial does not show that a thread is busy all the time
FILL_AFTER_S = 0.01  # sides of equal length end closer together than this
GRACE_S = 0.5  # for an uncounted execution to end
MEMORY_SHARE = 0.5  # of the available memory, for all sides at once
# Figures that depend on how long a side lasts: an allocator that purges by time has a lower peak in a side that lasts
# longer.
OF_SERVER_TIMED = ("rss_peak_kib", "rss_mean_kib", "pss_peak_kib", "pss_mean_kib", "rss_series", "pss_series")
TIMED = ("wall_s", *OF_SERVER_TIMED)
MOVED = "it chose its processors itself, so it did not share one with the other sides: --schedule one-by-one"


AnyBlockSpec = TypeVar("AnyBlockSpec", bound=BlockSpec)


@dataclass(frozen=True)
class Chosen:
    """name: the schedule; why: a clause on what decided it, empty where nobody needs to know; processors: where sides
    run together, those on which the rounds of a block run."""

    name: str
    why: str = ""
    processors: tuple[int, ...] = ()

    @property
    def shared(self) -> bool:
        """Whether all sides of a round are alive at the same time."""
        return self.name in schedule.MEASURES


def lost(name: str) -> tuple[str, ...]:
    """Keys of figures that a run of the shared schedule `name` cannot give."""
    return TIMED if "faults" in schedule.MEASURES[name] else (*TIMED, "minor_faults", "major_faults")


def untimed(record: Run, name: str) -> Run:
    """The record of a run of the shared schedule `name`, without the figures that it cannot give."""
    found = record | cast(Run, dict.fromkeys(lost(name))) | {"schedule": name, "elapsed_s": record["wall_s"]}
    if "server" in record:
        found["server"] = (record["server"] or {}) | dict.fromkeys(OF_SERVER_TIMED)
    return found


def decides(spec: BlockSpec, trials: Sequence[Mapping]) -> str:
    """The metric that decides: processor time where none was named and every side kept one thread busy all the time,
    since its wall time is then its processor time and what other programs added to it."""
    named = {"metric", "label", "unit", "higher_is_better"} & spec.model_fields_set
    free = not named and spec.server is None
    busy = all(
        LEAST_BUSY <= (trial.get("processors") or 0.0) <= BUSY and trial["wall_s"] >= LEAST_TRIAL_S for trial in trials
    )
    return "cpu" if free and busy else spec.metric


def choose(
    spec: BlockSpec, trials: Sequence[Mapping], allowed: Sequence[int], written: Sequence[object], possible: bool = True
) -> Chosen:
    """The schedule for a spec, from the trials of its arms. written: files named by the command that a trial changed;
    possible: the kind and its runner can run arms at the same time. Raises LabError where what is asked for cannot
    be."""
    forced = spec.schedule in schedule.MEASURES
    if forced and not possible:
        raise LabError(f"schedule: the sides of a run of the kind '{spec.kind}' cannot run at the same time")
    if spec.schedule == schedule.ONE_BY_ONE or not possible:
        return Chosen(schedule.ONE_BY_ONE)
    busiest = max(trials, key=_busy)
    alone = spec.server is None and _busy(busiest) <= BUSY
    name = spec.schedule if forced else schedule.TOGETHER if alone else schedule.TURNS
    lacking = freezer.lacking() if name == schedule.TURNS else ""
    if forced and lacking:
        raise LabError(f"{lacking}; use --schedule one-by-one")
    peaks_kib, room_kib = sum(map(_peak_kib, trials)), MEMORY_SHARE * machine.available_kib()
    if not forced and spec.metric not in schedule.MEASURES[name]:
        return Chosen(schedule.ONE_BY_ONE)
    if not forced and (why := _obstacle(spec, written, peaks_kib > room_kib) or lacking):
        return Chosen(schedule.ONE_BY_ONE, why)
    used = "one busy thread a side" if alone else f"{busiest['arm']} keeps {_busy(busiest):.1f} processors busy"
    why = "as asked" if forced else "each side a server and its client" if spec.server else used
    if name == schedule.TURNS:
        return Chosen(name, why)
    rounds = schedule.ROUNDS if schedule.ROUNDS * peaks_kib < room_kib else 1
    return Chosen(name, why, tuple(machine.separate_processors(spec.pin or allowed, rounds)))


def best(
    spec: AnyBlockSpec, trials: Sequence[Mapping], written: Sequence[object], picks_metric: bool, possible: bool
) -> tuple[AnyBlockSpec, Chosen]:
    """The spec and its schedule: with the metric that decides, if the sides can then run together."""
    allowed, metric = sorted(os.sched_getaffinity(0)), decides(spec, trials) if picks_metric else spec.metric
    other = spec.model_copy(update={"metric": metric})
    chosen = choose(other, trials, allowed, written, possible)
    if chosen.name == schedule.TOGETHER:
        return other, chosen
    return spec, choose(spec, trials, allowed, written, possible)


def _busy(trial: Mapping) -> float:
    return trial.get("processors") or 0.0


def _peak_kib(trial: Mapping) -> int:
    """Of all programs of a side: the server and its client are alive at once."""
    return (trial["rss_peak_kib"] or 0) + ((trial.get("server") or {}).get("rss_peak_kib") or 0)


def _obstacle(spec: BlockSpec, written: Sequence[object], short: bool) -> str:
    """Why these arms should not be alive at the same time; empty if they may."""
    if spec.prepare:
        return "'prepare' runs before each execution"
    if spec.server is not None and spec.server.port != "auto":
        return "the server's port is fixed"
    if written:
        return f"the program writes {written[0]}"
    return "there is too little memory for all sides at once" if short else ""


@dataclass
class _Side:
    """One side of one round. parts: its executions so far."""

    arm: Arm
    pad: int
    launcher: Launcher
    processor: int
    started: float
    parts: list[Record]
    folder: Folder = field(default_factory=Folder)


class Together:
    """Runs blocks of a runner's workload. Close it after use."""

    def __init__(self, runner: Runner, processors: Sequence[int]):
        self._runner, self._processors = runner.another(schedule.MEASURES[schedule.TOGETHER], 1), processors
        self._launchers: list[Launcher] = []

    def close(self) -> None:
        self._runner.close()
        for launcher in self._launchers:
            launcher.close()

    def block(self, arms: Sequence[Arm], pads: Sequence[int], repeat: int, seed: int) -> list[Run]:
        """The records of a block's runs in its order: two rounds, side by side if there are two processors. Where runs
        fail, they come last."""
        size, records = len(arms) // schedule.ROUNDS, list[Run]()
        rounds = [list(zip(arms, pads, strict=True))[at : at + size] for at in range(0, len(arms), size)]
        width = len(self._processors)
        for at in range(0, len(rounds), width):
            records += self._rounds(rounds[at : at + width], repeat, seed)
            if not all(record["ok"] for record in records):
                break
        return records

    def _rounds(self, rounds: Sequence[Sequence[tuple[Arm, int]]], repeat: int, seed: int) -> list[Run]:
        """Rounds at the same time, each on its own processor."""
        self._runner.draw(seed)
        while len(self._launchers) < sum(map(len, rounds)):
            self._launchers.append(Launcher())
        free, now = iter(self._launchers), time.time()
        sides = [
            _Side(arm, pad, next(free), processor, now, [])
            for processor, each in zip(self._processors, rounds, strict=False)
            for arm, pad in each
        ]
        try:
            for _ in range(repeat):
                if not self._execute(sides, len(rounds[0])):
                    break
        finally:
            for side in sides:
                side.folder.clear()
        ended = [side for side in sides if side.parts]
        records = [self._runner.record(s.arm, s.pad, len(s.parts), s.started, s.parts) for s in ended]
        failed = [record for record in records if not record["ok"]]
        whole = [record for record in records if record["ok"] and record["repeat"] == repeat]
        return [untimed(record, schedule.TOGETHER) for record in (*whole, *failed)]

    def _execute(self, sides: Sequence[_Side], size: int) -> bool:
        """Executes every side once. Returns whether all ended well."""
        held: dict[Running, _Side] = {}
        try:
            for side in sides:
                try:
                    held[side.launcher.start(self._request(side, size))] = side
                except OSError as error:
                    side.parts.append(self._runner.unstarted(error))
                    return False
            for running in held:
                running.go()
            return self._until_all_ended(held, size)
        finally:
            for running in held:
                with contextlib.suppress(OSError):
                    running.terminate(GRACE_S)

    def _request(self, side: _Side, size: int) -> Request:
        runner, w = self._runner, self._runner.workload
        environment = side.arm.environment(w.env, side.pad)
        side.folder.clear()
        argv = runner.filled_in(side.folder.fill(w.on(side.arm).argv))
        asked = runner.request(argv, environment, side.arm, (side.processor,), stdin=w.stdin)
        return replace(asked, held=True, timeout_s=w.timeout_s * size, sample_ms=SAMPLE_MS * size)

    def _until_all_ended(self, running: dict[Running, _Side], size: int) -> bool:
        """Waits for the counted execution of every side. A side that has ended runs again meanwhile, uncounted, unless
        one has failed."""
        counted, well = dict(running), True
        idle: list[tuple[float, _Side]] = []  # when a side that has ended is to run again
        while counted:
            due_s = max(0.0, idle[0][0] - time.monotonic()) if idle and well else None
            for each in select.select(list(running), [], [], due_s)[0]:
                side = running.pop(each)
                part = self._part(each)
                if counted.pop(each, None):
                    side.parts.append(part)
                    well = well and not part["why"]
                idle.append((time.monotonic() + FILL_AFTER_S, side))
            while counted and well and idle and idle[0][0] <= time.monotonic():
                side = idle.pop(0)[1]
                try:
                    running[side.launcher.start(replace(self._request(side, size), held=False))] = side
                except OSError as error:
                    side.parts.append(self._runner.unstarted(error))
                    well = False
        return well

    def _part(self, running: Running) -> Record:
        try:
            outcome = running.wait()
        except OSError as error:
            return self._runner.unstarted(error)
        part = self._runner.part(outcome)
        if outcome.moved and not part["why"]:
            part["why"] = MOVED
        return part
