"""`hak tune`: search allocators and their options for the best arm, then confirm it on fresh runs."""

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hakmem_lab.designs.candidates import CONFIRM, SELECT, Candidates
from hakmem_lab.errors import LabError, Stopped
from hakmem_lab.judge import planning, words
from hakmem_lab.judge.statistics.plan import Plan
from hakmem_lab.kinds.tune import result, search
from hakmem_lab.kinds.tune import spec as spaces
from hakmem_lab.kinds.tune.spec import DEFAULT, Spec, with_readings
from hakmem_lab.plan import peers
from hakmem_lab.plan.arms import Arm
from hakmem_lab.run import preflight
from hakmem_lab.run.conduct import Context
from hakmem_lab.run.endings import ArmFailed, Progress, duration
from hakmem_lab.run.runner import Runner
from hakmem_lab.run.session import Session
from hakmem_lab.store.records import Record, Run, present
from hakmem_lab.store.results import Result

PAIR = 4  # number of runs in a block of the confirmation


class TuneSession(Session[Spec]):
    """Chooses among candidates within its budget. left_out: candidate or allocator -> why it does not take part; notes:
    lines about the space that is searched."""

    loses_sides, confirms = False, True

    def __init__(self, spec: Spec, arms: Sequence[Arm], progress: Progress):
        super().__init__(spec, arms, progress)
        self.runner.close()
        self.metrics = list(with_readings(spec, self.metrics))
        self.runner = Runner(self.workload, self.metrics)
        budget = math.inf if spec.budget is None else spec.budget
        self.tried_by, self.chosen_by = (time.monotonic() + budget * share for share in (1 / 4, 1 / 2))
        self.left_out: dict[str, str] = {}
        self.notes: list[str] = []
        self.brought: str | None = None
        self.planned: int | None = None

    def runs_until(self, blocks: int) -> int:
        choose = search.runs_of(len(self.arms) - 1, self.spec.select_blocks) + len(self.arms) * self.spec.warm_up
        return choose + PAIR * min(blocks, self.planned or blocks)

    def begin(self, folder: Path, source: str, blocks: tuple[int, int]) -> None:
        """Raises LabError, with nothing stored, where the default or all candidates cannot be measured."""
        super().begin(folder, source, blocks)
        left_out = {name: f"{name}{words.LEAVES}{why}" for name, why in self.left_out.items()}
        for name, text in left_out.items():
            self.event(result.LEFT_OUT, text, arm=name)
        for text in words.left_out([*left_out.values()]):
            self.progress.say(text)
        for text in self.notes:
            self.tell(result.NOTE, text)
        if self.brought:
            self.event(result.BROUGHT, f"the program brings an allocator of its own, {self.brought}")
        if self.planned is not None:
            text = f"the budget has time for {self.planned} blocks of the confirmation"
            self.event(planning.PLANNED, text, blocks=self.planned)

    def check_arms(self) -> None:
        """Checks each library once in the program, and each setting once. A refused one is left out, with its
        reason."""
        self.brought = self._brought()
        refused: dict[Path | None, str | None] = {}  # library -> why it cannot serve the program; None: it can
        for arm in list(self.arms.values()):
            self.progress.update(0, 1, f"preflight: {arm.name}")
            library = arm.library.path
            if arm.name == DEFAULT:
                preflight.check_arm(arm, self.workload)
                refused[library] = None
                continue
            if why := _refusal(preflight.check_settings, arm, self.workload.env):
                self._leave_out(arm.name, why)
                continue
            if library not in refused:
                refused[library] = _refusal(preflight.check_arm, arm, self.workload)
                if why := refused[library]:
                    self.left_out[arm.allocator] = why
            if refused[library]:
                del self.arms[arm.name]
        self.progress.restart()
        self.await_first_run()

    def _brought(self) -> str | None:
        """The allocator that a program brings by itself; None where the C library serves it, or where it is unknown. A
        program that the C library serves needs no candidate `glibc`."""
        arm = self.arms[DEFAULT]
        if arm.library.path is not None:
            return None
        found, libc = preflight.serving(arm, self.workload), os.path.realpath(str(peers.libc().path))
        if found == {libc} and not arm.variables and "glibc" in self.arms:
            self._leave_out("glibc", "it is what the program runs on now")
        return ", ".join(sorted(found - {libc})) or None

    def _leave_out(self, name: str, why: str) -> None:
        self.left_out[name] = why
        del self.arms[name]

    def try_arms(self) -> list[Run]:
        """Runs every arm once, while a quarter of the budget lasts. A candidate whose trial fails is left out."""
        self.check_arms()
        trials: list[Run] = []
        for arm in list(self.arms.values()):
            if len(trials) > 1 and time.monotonic() > self.tried_by:
                self._leave_out(arm.name, "the budget had no time to try it")
                continue
            self.progress.update(0, 1, f"trial: {arm.name}")
            trial = self.runner.trial(arm)
            if trial["ok"]:
                trials.append(trial)
                continue
            if arm.name == DEFAULT:
                raise LabError(self._why_unreadable(str(trial["why"])))
            self._leave_out(arm.name, str(trial["why"]))
        self.progress.restart()
        self.repeat = self._repeats(min(present(trial["wall_s"]) for trial in trials))
        self._keep_to_budget(trials)
        if len(self.arms) < 2:
            raise LabError(f"allocators: no candidate can be tried: {'; '.join(self.left_out.values())}")
        return [trial for trial in trials if trial["arm"] in self.arms]

    def _why_unreadable(self, why: str) -> str:
        command = " ".join(self.workload.argv)
        names = self.spec.percentiles()
        if names and why.startswith("histogram"):
            return (
                f"{names[0]}: {command} prints no latencies that hak can read; say where the figure stands, "
                f"--read '{names[0]}=regex:PATTERN', or print a histogram as for hak latency (key 'histogram')"
            )
        return f"{DEFAULT}: {command}: {why}"

    def _keep_to_budget(self, trials: Sequence[Mapping]) -> None:
        """Half of the budget is for the choice, half for the confirmation. Raises LabError where it is too short for a
        verdict."""
        if self.spec.budget is None:
            return
        run_s = self.repeat * sum(trial["wall_s"] for trial in trials) / len(trials)
        names = [name for name in self.arms if name != DEFAULT]
        fits = len(names)
        while fits > 1 and search.runs_of(fits, self.spec.select_blocks) * run_s > self.spec.budget / 2:
            fits -= 1
        blocks = min(self.spec.max_blocks, int(self.spec.budget / 2 / (PAIR * run_s)))
        least = Plan((max(blocks, 1),)).least_blocks(self.spec.alpha)
        if blocks < least:
            needed = duration(2 * PAIR * least * run_s)
            raise LabError(f"budget: no verdict is possible in so short a time: at least {needed}")
        if fits < len(names):
            self.notes.append(
                f"the budget has time for {fits} of {len(names)} candidates, taken in turn from every allocator"
            )
        for name in names[fits:]:
            del self.arms[name]
        self.planned = blocks

    def rung(self, names: Sequence[str], until: int) -> None:
        """Runs blocks of the default and these candidates until there are `until` of them. A candidate that fails takes
        no further part. Raises Stopped where the default fails."""
        try:
            for blocks in self.each_block(SELECT, lambda _: [DEFAULT, *names], until):
                if blocks and time.monotonic() > self.chosen_by:
                    text = f"half of the budget was over after {len(blocks)} blocks: the choice is made by these"
                    self.tell(result.OVER, text)
                    return
        except ArmFailed as failed:
            if failed.arm == DEFAULT:
                raise
            text = f"{failed.arm} failed in block {failed.index} ({failed.why}), and takes no further part"
            self.tell(result.GONE, text, arm=failed.arm, block=failed.index)


def _refusal(check: Callable[[Arm, Any], None], arm: Arm, about: object) -> str | None:
    try:
        check(arm, about)
    except LabError as error:
        return str(error).removeprefix(f"{arm.name}: ")
    return None


class Tune(Candidates):
    Spec = spaces.Spec

    def sides(self, spec: spaces.Spec) -> list[Arm]:
        return spaces.arms(spec, spaces.candidates(spec, spaces.space_of(spec)))

    def run(self, spec: spaces.Spec, context: Context) -> Result:
        space = spaces.space_of(spec)
        texts = result.candidates_of(context.resume.header()) if context.resume else spaces.candidates(spec, space)

        def session(spec: spaces.Spec, arms: Sequence[Arm], progress: Progress) -> TuneSession:
            made = TuneSession(spec, arms, progress)
            made.left_out, made.notes = dict(space.left_out), list(space.notes)
            return made

        return self.conducted(spec, context, spaces.arms(spec, texts), session)

    def choose(self, session: TuneSession) -> None:
        """Runs rungs until one candidate remains. Raises Stopped where all have failed."""
        while (state := result.state_of(session.file.header(), session.records())).chosen is None:
            if not state.alive:
                raise Stopped(f"every candidate failed in run {session.file.id}: hak runs show {session.file.id}")
            session.rung(state.alive, state.until)

    def chosen(self, header: Record, records: list[Record]) -> str:
        chosen = result.state_of(header, records).chosen
        assert chosen is not None, "the choice is over"
        return chosen

    def follow(self, session: TuneSession, phase: str = CONFIRM) -> None:
        try:
            super().follow(session, phase)
        except ArmFailed as failed:
            if failed.arm != DEFAULT:
                text = f"{failed.arm} failed in block {failed.index} of its confirmation: {failed.why}"
                session.event(result.BROKE, text, arm=failed.arm)
            raise

    def found(self, header: Record, records: list[Record]) -> Result:
        return result.found(self, header, records)


tune = Tune()
