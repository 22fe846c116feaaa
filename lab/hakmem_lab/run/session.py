"""A run in blocks: trials, warm-up, blocks. It can be stopped and continued without losing a finished block.

Each kind decides what it does with the blocks.
"""

import math
import os
import statistics
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path

from hakmem_lab.errors import LabError, Stopped
from hakmem_lab.judge import conditions, early, failing, fitness, planning
from hakmem_lab.judge.statistics import power
from hakmem_lab.plan import schedule
from hakmem_lab.plan.arms import Arm
from hakmem_lab.plan.metrics import AFTER, Metric
from hakmem_lab.plan.spec import normalised
from hakmem_lab.run import endings, limits
from hakmem_lab.run.endings import ArmFailed
from hakmem_lab.run.recorder import Recorder, Watch, files_under_test
from hakmem_lab.run.runner import Runner
from hakmem_lab.run.shared import Shared
from hakmem_lab.run.together import MOVED, AnyBlockSpec, Chosen, best
from hakmem_lab.run.trials import tried
from hakmem_lab.run.workload import TRIAL_SEED, Workload
from hakmem_lab.store.query import BESIDE, SCHEDULE, Blocks, attempts_made, events, finished_blocks
from hakmem_lab.store.records import Record, Run, present
from hakmem_lab.store.runs import RunFile
from hakmem_lab.system import machine

STEADY_S = 0.1
REPEAT_LIMIT = 100
# By so much runs may be slower on average than the trials, which promise how long all of them take: on a machine that
# was quiet when the run began, and on a busy one. The promise holds in 95 % of runs (tests/session/test_promised.py).
SLOWER, SLOWER_BUSY = 1.5, 2.0
ATTEMPTS = 3
PICKED = "picked"  # event: the trials chose the metric
BESIDE_BLOCKS = 8  # of wall time beside it: enough for an interval of four comparisons


class Session(Recorder[AnyBlockSpec]):
    """Runs blocks of arms and keeps their records.

    metrics: metrics that every run must yield, the primary one first; empty: those of the spec. tag: keys that every
    record gets where several sessions share a file. counted: the name of its blocks in messages.
    """

    runner_type = Runner
    loses_sides = True  # sides other than the first may fail, and the others go on
    may_together = True
    picks_metric = True  # where the user names no metric, the trials choose between wall and processor time
    confirms = False  # the verdict is on two sides, however many take part at first
    ends_early_if = "the difference is large"
    judged = ""  # behind a verdict in its progress: what it is on, if not on the program
    rule: Mapping[str, float] = planning.EVERY_BLOCK

    def __init__(
        self,
        spec: AnyBlockSpec,
        arms: Sequence[Arm],
        progress: endings.Progress,
        metrics: Sequence[str] = (),
        tag: dict[str, str] | None = None,
    ):
        super().__init__(spec, arms, Workload.of(spec), progress, tag)
        secondary = [Metric(name) for name in metrics[1:]] or spec.guardrail_metrics()
        self.metrics = [spec.primary_metric(), *secondary]
        known = {metric.name for metric in self.metrics}
        self.metrics += [Metric(name) for name in dict.fromkeys(spec.also) if name not in known]
        # Arms that must not fail; other arms may fail in their trial or later. None: no arm may fail.
        self.needed: Collection[str] | None = [arms[0].name] if self.loses_sides else None
        self.untried: list[str] = []  # arms that a quick run leaves to its continuation
        self.repeat = 1
        self.once_s = self.run_s = self.overhead_s = 0.0  # an execution; a run; what a run takes besides
        self.wait_s = self.spec.after if any(metric.name == AFTER for metric in self.metrics) else 0.0
        self.runner = self.runner_type(self.workload, self.metrics)
        self.chosen = Chosen(schedule.ONE_BY_ONE)
        self._shared: Shared | None = None
        self.picked = False  # the trials chose the metric
        self._proven = False  # a block has ended well on this schedule
        self._failed_alone: set[str] = set()  # arms that failed in their trial
        self.watch(arms)

    def release(self) -> None:
        self.follow(self.chosen)
        self.runner.close()

    def follow(self, chosen: Chosen) -> None:
        """Sets the schedule of the next blocks."""
        if self._shared is not None:
            self._shared.close()
        self.chosen, self._shared = chosen, None

    def runs_of_each(self, arms: int) -> int:
        """Runs of each arm in a block with this number of arms."""
        return schedule.runs_of_each(arms, self.chosen.name)

    def runs_alone(self) -> bool:
        """Whether each side also runs once a block one by one, for metrics that its shared schedule cannot measure."""
        return bool(schedule.left_out(self.chosen.name, (metric.name for metric in self.metrics)))

    def watch(self, arms: Sequence[Arm]) -> None:
        """Starts to watch the files of these arms for changes."""
        self._watch = Watch(files_under_test(self.workload, arms))

    def begin(self, folder: Path, source: str, blocks: tuple[int, int]) -> None:
        """Preflight, one trial of every arm, the header. blocks: (the most, the fewest until a verdict).

        Raises LabError, with nothing stored, where an arm cannot be measured.
        """
        trials = self.try_arms()
        longest_s = statistics.fmean(present(trial["wall_s"]) for trial in trials)
        self.create(folder, source, repeat=self.repeat, **self.rule)
        self.keep_trials(trials)
        self.keep_schedule()
        shares = 1 / max(1, len(self.chosen.processors)) + (1 / schedule.ROUNDS if self.runs_alone() else 0)
        each = limits.EXECUTIONS if self.runner.search else self.repeat
        self.once_s, self.run_s = longest_s, longest_s * each * shares
        most, soonest = (self.runs_until(count) for count in blocks)
        self._announce(most, soonest)
        self._tell_of_groups()
        self.warm_up()

    def runs_until(self, blocks: int) -> int:
        """Number of runs in this number of blocks with all arms, including warm-ups."""
        count = len(self.arms)
        rounds = 1 + len(conditions.asked(normalised(self.spec)))
        return count * (rounds * blocks * self.runs_of_each(count) + self._warm_ups())

    def try_arms(self) -> list[Run]:
        """Preflight and one run of every arm, which decides how many executions make up a run. Raises LabError.

        If an arm fails here and is not in `needed`, it still takes part in the blocks, which show that it fails. A
        quick run tries no further arm once the trials leave too little time for an estimate of all that were tried.
        """
        self.check_arms()
        trials, failed = list[Run](), ""
        tried_by = self.progress.started + early.QUICK_S / (1 + early.LEAST)
        for arm, trial, besides_s in self._tried(trials, tried_by):
            if trial["ok"]:
                self.overhead_s = max(self.overhead_s, besides_s - self.wait_s)
                trials.append(trial)
                continue
            if trial.get("lost"):
                raise LabError(trial["why"])
            self._failed_alone.add(arm.name)
            failed = f"{arm.name}: {self.said_of(arm)}: {trial['why']}"
            if self.needed is None or arm.name in self.needed:
                raise LabError(failed)
        if failed and len(trials) < 2:
            raise LabError(failed)
        self.repeat = self._repeats(min(present(trial["wall_s"]) for trial in trials))
        self._choose(trials)
        return trials

    def _tried(self, good: Sequence[Run], tried_by: float) -> Iterator[tuple[Arm, Run, float]]:
        """Each arm with its trial. The first runs alone, then as many at once as in a round. good: trials so far."""
        left, at_once = list(self.arms.values()), 0
        while left:
            if len(good) > 1 and getattr(self.spec, "quick", False) and time.monotonic() > tried_by:
                self.untried += [arm.name for arm in left]
                return
            if good and not at_once:
                at_once = max(1, len(self._best([*good] * len(self.arms))[1].processors))
            now, left = left[: at_once or 1], left[at_once or 1 :]
            self.progress.update(0, 1, " ".join(["trial:", *self.tag.values(), *(arm.name for arm in now)]))
            yield from tried(self.runner, now)

    def _best(self, trials: Sequence[Run]) -> tuple[AnyBlockSpec, Chosen]:
        possible = self.may_together and type(self.runner) is Runner
        return best(self.spec, trials, self.written_files(), self.picks_metric, possible)

    def _choose(self, trials: Sequence[Run]) -> None:
        """Chooses the schedule; and the metric, where the user named none and the sides can run together."""
        spec, chosen = self._best(trials)
        self.picked = spec.metric != self.spec.metric
        if self.picked:
            self.spec, self.metrics[0] = spec, spec.primary_metric()
        self.follow(chosen)

    def keep_trials(self, trials: Sequence[Run]) -> None:
        """Stores the trials, whose figures do not count, and shows their warnings about the arms."""
        for position, trial in enumerate(trials):
            if text := trial.get("unserved"):
                self.warn("unserved", text)
            self.append({"type": "run", "block": -1, "attempt": 0, "position": position, "phase": "calibrate", **trial})

    def keep_schedule(self) -> None:
        """Stores the schedule, and says why it was chosen where that is not plain."""
        chosen = self.chosen
        text = f"schedule: {chosen.name}" + f" ({chosen.why})" * bool(chosen.why)
        say = self.tell if chosen.why else self.event
        say(SCHEDULE, text, schedule=chosen.name, processors=list(chosen.processors))
        if self.picked:
            why = "CPU time decides, since each side keeps one thread busy"
            text = f"{why}; wall time follows, in {BESIDE_BLOCKS} blocks"
            self.tell(PICKED, text, metric=self.spec.metric, blocks=BESIDE_BLOCKS)
            self.picked = False

    def resume(self, file: RunFile, header: Record) -> None:
        """Continues a stored run. Raises LabError where the program or another dependency has changed."""
        self.reopen(file, header)
        self.repeat = header["repeat"]
        self.recall_schedule()
        tried = {record["arm"] for record in self.records() if record.get("phase") == "calibrate"}
        self.keep_trials([self.runner.trial(arm) for arm in self.arms.values() if tried and arm.name not in tried])
        if not any(record["type"] == "block" for record in self.records()):
            self.warm_up()

    def recall_schedule(self) -> None:
        """Goes on with the stored schedule, on processors of today."""
        own = events(self.own_records(), SCHEDULE)
        if own and self.spec.metric in schedule.MEASURES.get(own[-1]["schedule"], ()):
            allowed = self.spec.pin or sorted(os.sched_getaffinity(0))
            processors = machine.separate_processors(allowed, len(own[-1]["processors"]))
            self.follow(Chosen(own[-1]["schedule"], "", tuple(processors)))

    def _repeats(self, wall_s: float) -> int:
        """Number of executions in a run, by the spec; by default so many that a run takes at least 100 ms."""
        if self.spec.repeat != "auto":
            return self.spec.repeat
        once = wall_s >= STEADY_S or self.spec.server is not None or self.wait_s or self.runner.search
        return 1 if once else min(REPEAT_LIMIT, math.ceil(STEADY_S / wall_s))

    def _announce(self, most: int, first: int) -> None:
        each_s = (SLOWER_BUSY if self.warned_of_load else SLOWER) * (self.run_s + self.overhead_s)
        each_s += self.wait_s / schedule.ROUNDS if self.chosen.shared else self.wait_s
        budget_s = getattr(self.spec, "budget", None)
        text = f"run {self.file.id}: at most {endings.duration(each_s * most)} ({most} runs)"
        if getattr(self.spec, "quick", False):
            text = f"run {self.file.id}: a first estimate, after five blocks or {early.QUICK_S:.0f} s"
        elif budget_s is not None and budget_s < each_s * most:
            text = f"run {self.file.id}: about {endings.duration(budget_s)}, the budget ({most} runs)"
        elif first < most:
            text += f", {endings.duration(each_s * first)} if {self.ends_early_if}"
        text += f"; {limits.PLAN}" * bool(self.runner.search)
        if self.repeat > 1:
            text += f"; a run is {self.repeat} executions, since one takes only {self.once_s * 1e3:.1f} ms"
        self.progress.say(text)

    def check_fitness(self) -> None:
        """Warns if an A/A found this machine unfit, so that there will be no verdict, or if there was no A/A."""
        if reason := fitness.unfit_reason(self.file.path.parent, self.file.header()):
            self.warn("fitness", reason)
        elif not events(self.records(), "fitness-unknown"):
            at_least = endings.duration(self.run_s * power.aa_runs(self.spec.alpha)) if self.run_s else ""
            if reason := fitness.unknown(self.file.path.parent, self.spec, at_least):
                self.warn("fitness-unknown", reason)

    def _tell_of_groups(self) -> None:
        """Warns if a server's further processes are not measured, or who keeps a limit of memory."""
        if self.runner.no_groups and (self.workload.server or self.runner.search):
            without = limits.WITHOUT_GROUPS if self.runner.search else limits.FIRST_ALONE
            self.warn("no-groups", f"{without}: {self.runner.no_groups}")

    def warm_up(self) -> None:
        """Makes runs whose figures do not count. They fill the file system's caches and raise the processor's clock."""
        for index in range(self._warm_ups()):
            for position, arm in enumerate(self.arms.values()):
                self._keep("warm-up", index, 0, position, self.runner.run(arm, 0, self.repeat, TRIAL_SEED))

    def _warm_ups(self) -> int:
        """At the same time, every arm meets the same caches and clock, and the trials have read the files."""
        asked = "warm_up" in self.spec.model_fields_set or not self.chosen.shared
        return self.spec.warm_up if asked else 0

    def _keep(self, phase: str, block: int, attempt: int, position: int, record: Run) -> None:
        key = {"block": block, "attempt": attempt, "phase": phase, "position": position}
        self.append({"type": "run", **key, **record})

    def run_blocks(self, phase: str, names: Sequence[str], count: int) -> Blocks:
        """All blocks of the phase up to `count`, running those that are not in the store yet."""
        blocks: Blocks = []
        for blocks in self.each_block(phase, lambda _: names, count):  # noqa: B007
            pass
        return blocks

    def each_block(self, phase: str, names: Callable[[Blocks], Sequence[str]], count: int) -> Iterator[Blocks]:
        """Yields the stored blocks of the phase, then all blocks again after every further one, up to `count` blocks.
        names(blocks so far): the arms of the next block; none end the phase. An arm that cannot finish a block leaves,
        unless it is in `needed`.
        """
        records = self.own_records()
        blocks, made = finished_blocks(records, phase), attempts_made(records, phase)
        progress = endings.Progress(quiet=True) if self.tag else self.progress  # one for all that share a file
        progress.restart()
        try:
            yield blocks
            for index in range(len(blocks), count + 1):
                there = names(blocks)
                if not there or index == count:
                    return
                progress.update(index, count, f"blocks ({phase})" if phase != "measure" else "blocks")
                blocks.append(self.block_of_those_left(phase, there, index, made.get(index, 0)))
                yield blocks
        finally:
            progress.restart()

    @cached_property
    def gone(self) -> dict[str, int]:
        """Arm that has left -> the block that it could not finish."""
        return failing.gone(self.own_records())

    def block_of_those_left(self, phase: str, names: Sequence[str], index: int, attempt: int) -> dict[str, list[Run]]:
        """Runs one block. An arm that fails in it too often leaves, unless it is in `needed`."""
        while True:
            there = [name for name in names if name not in self.gone]
            try:
                return self.block(phase, there, index, attempt)
            except ArmFailed as failed:
                if self.needed is None or failed.arm in self.needed or len(there) <= 2:
                    raise
                text = f"{failed.arm} failed too often in block {index} ({failed.why}), and takes no further part"
                self.tell(failing.GONE, text, arm=failed.arm, block=index)
                self.gone[failed.arm], attempt = index, attempt + ATTEMPTS

    def block(self, phase: str, names: Sequence[str], index: int, attempt: int) -> dict[str, list[Run]]:
        """Runs one block; if a run fails, the block starts again from its beginning."""
        plan = schedule.block(names, self.seed, index, self.chosen.name, phase == BESIDE)
        failed: list[Run] = []
        for again in range(attempt, attempt + ATTEMPTS):
            runs, why = self._attempt(plan, phase, again)
            if why is None:
                self._proven = True
                self._look_for_load(runs)
                return runs
            failed.append(why)
            self.progress.say(f"block {index}: {why['arm']}: {why['why']}; the block is run again")
            if self._must_part(why, len(failed)):
                return self.block(phase, names, index, again + 1)
        arm = statistics.mode(each["arm"] for each in failed)
        whys = [str(each["why"]) for each in failed if each["arm"] == arm]
        text = f"{self._place()}{arm} failed {failing.times(len(whys))} in block {index} of run {self.file.id}"
        kept = f"What was measured is kept: hak runs show {self.file.id}"
        raise ArmFailed(f"{text}: {whys[-1]}. {kept}", arm, index, whys[-1])

    def _attempt(self, plan: schedule.Block, phase: str, attempt: int) -> tuple[dict[str, list[Run]], Run | None]:
        runs: dict[str, list[Run]] = {}
        key = {"block": plan.index, "attempt": attempt, "phase": phase}
        failed: Run | None = None
        disturbed, drawn = None, schedule.workload_seed(self.seed, phase, plan.index)
        for position, record in enumerate(self._executed(plan, drawn)):
            name = record["arm"]
            self._keep(phase, plan.index, attempt, position, record)
            runs.setdefault(name, []).append(record | {"position": position})
            disturbed = disturbed or machine.disturbance(0.0, record["steal_percent"] or 0.0)
            failed = failed if record["ok"] else record
        changed = self._watch.changed()
        gone = f"{changed} changed during the run" if changed else None
        why = gone or (failed["why"] if failed else None)
        close = {"type": "block", **key, "ok": why is None, "why": why}
        self.append(close | {"order": list(plan.order), "disturbed": disturbed})
        if gone:
            self.event("changed-binary", gone)
            kept = "its blocks so far are kept, start a new run"
            raise Stopped(f"{self._place()}{changed} changed during run {self.file.id}; {kept}")
        return runs, failed

    def _executed(self, plan: schedule.Block, drawn: int) -> Iterator[Run]:
        """The records of a block's runs, in the order in which they ran. If runs are one by one, the first failure ends
        the block."""
        arms = [self.arms[name] for name in plan.order]
        if self.chosen.shared:
            self._shared = self._shared or Shared(self.runner, self.chosen)
            yield from self._shared.block(arms, plan.pads, self.repeat, drawn)
            return
        for arm, pad in zip(arms, plan.pads, strict=True):
            record = self.runner.run(arm, pad, self.repeat, drawn)
            yield record
            if not record["ok"]:
                return

    def _must_part(self, failed: Run, times: int) -> bool:
        """Goes on one by one where the arms cannot run at the same time, although each of them could run alone: they
        write the same file, use the same port, or choose their processors."""
        cannot = failed["why"] == MOVED or (times == ATTEMPTS and failed["arm"] not in self._failed_alone)
        if self._proven or not self.chosen.shared or self.spec.schedule != "auto" or not cannot:
            return False
        self.follow(Chosen(schedule.ONE_BY_ONE, f"{self.chosen.name}: {failed['arm']} failed: {failed['why']}"))
        self.keep_schedule()
        return True

    def said_of(self, arm: Arm) -> str:
        """The arm's command, for messages."""
        return " ".join(self.workload_on(arm).argv)

    def _place(self) -> str:
        """Prefix of a message: the workload, in a suite's session."""
        return "".join(f"{what} '{name}': " for what, name in self.tag.items())

    def _look_for_load(self, runs: dict[str, list[Run]]) -> None:
        """Warns, once a run, of load by other programs: the load average without our own. In turns that is unknown,
        since a freezer of version 1 lets it count the programs that stand still."""
        if not self.warned_of_load and self.chosen.name != schedule.TURNS:
            timed = [run for entries in runs.values() for run in entries if run["wall_s"]]
            shares = [present(run["cpu_s"]) / present(run["wall_s"]) for run in timed] or [len(self.chosen.processors)]
            self.warned_of_load = self.warn_of_load(machine.load_1m() - statistics.fmean(shares))
