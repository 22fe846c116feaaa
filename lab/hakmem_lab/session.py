"""A run of the laboratory: preflight, header, blocks; stopped and continued without losing a finished block.

Imports everything below the kinds. What a kind does with the blocks is the kind's business.
"""

import errno
import math
import random
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from . import __version__, machine, preflight, project, schedule, ui
from .arms import Arm, parse_arm
from .errors import LabError
from .metrics import Metric
from .peers import file_sha256
from .runner import Runner, Workload
from .spec import BlockSpec, CommonSpec, normalised, spec_hash
from .store import RunFile, now_utc

STEADY_S = 0.1
REPEAT_LIMIT = 100
ATTEMPTS = 3
SEED_BITS = 31


class Stopped(Exception):
    """The run cannot go on; what it has measured is in the store. Exit status 3."""


class Interrupted(Exception):
    """The user stopped it; it can be resumed. Exit status 130."""


Blocks = list[dict[str, list[dict]]]


def finished_blocks(records: Iterable[dict], phase: str) -> Blocks:
    """Of every block that ended well, in order: the runs of each arm."""
    runs: dict[tuple[int, int], dict[str, list[dict]]] = {}
    done: dict[int, dict[str, list[dict]]] = {}
    for record in records:
        if record.get("phase") != phase:
            continue
        if record["type"] == "run":
            runs.setdefault((record["block"], record["attempt"]), {}).setdefault(record["arm"], []).append(record)
        elif record["type"] == "block" and record["ok"]:
            done[record["block"]] = runs[record["block"], record["attempt"]]
    return [done[index] for index in sorted(done)]


def attempts_made(records: Iterable[dict], phase: str) -> dict[int, int]:
    """Block -> how often it was begun."""
    made: dict[int, int] = {}
    for record in records:
        if record["type"] == "run" and record.get("phase") == phase:
            made[record["block"]] = max(made.get(record["block"], 0), record["attempt"] + 1)
    return made


def record_header(spec: CommonSpec, arms: Sequence[Arm], workload: Workload, source: str, seed: int) -> dict:
    """Everything that a result depends on."""
    top = project.root()
    subject = workload.subject()
    return {
        "question": spec.question,
        "spec": normalised(spec),
        "spec_hash": spec_hash(spec),
        "spec_file": source if source.endswith(".toml") else None,
        "seed": seed,
        "machine": machine.facts(),
        "arms": [arm.record() for arm in arms],
        "command": {"argv": list(workload.argv), "program": subject[0], "sha256": file_sha256(Path(subject[0]))},
        "git": project.git_state(top),
        "build": project.build_facts(top),
        "lab_version": __version__,
    }


class Watch:
    """Whether the files under test are still what they were."""

    def __init__(self, paths: Iterable[Path]):
        self._seen = {path: (self._stamp(path), self._hash(path)) for path in paths}

    @staticmethod
    def _stamp(path: Path) -> tuple | None:
        try:
            info = path.stat()
        except OSError:
            return None
        return info.st_mtime_ns, info.st_size, info.st_ino

    @staticmethod
    def _hash(path: Path) -> str | None:
        try:
            return file_sha256.__wrapped__(path)
        except OSError:
            return None

    def changed(self) -> Path | None:
        for path, (stamp, digest) in self._seen.items():
            now = self._stamp(path)
            if now != stamp:
                if self._hash(path) != digest:
                    return path
                self._seen[path] = (now, digest)
        return None


class Session:
    """Runs blocks of arms and keeps their records."""

    def __init__(self, spec: BlockSpec, arms: Sequence[Arm], progress: ui.Progress):
        self.spec, self.progress = spec, progress
        self.arms = {arm.name: arm for arm in arms}
        self.workload = Workload.of(spec)
        self.metrics = [Metric(spec.metric, spec.higher_is_better), *map(Metric, spec.guardrails)]
        self.seed, self.repeat = 0, 1
        self.file: RunFile | None = None
        self.runner = Runner(self.workload, self.metrics)
        self._watch = Watch({Path(self.workload.subject()[0])} | {a.library.path for a in arms if a.library.path})

    def __enter__(self) -> "Session":
        return self

    def __exit__(self, *_: object) -> None:
        self.runner.close()
        if self.file:
            self.file.close()

    def begin(self, folder: Path, source: str, runs_of: Callable[[int], tuple[int, int]]) -> None:
        """Preflight, one trial of every arm, the header. runs_of(arms) -> (runs at most, runs until the first look).

        Raises LabError, with nothing stored, where an arm cannot be measured.
        """
        for arm in self.arms.values():
            self.progress.update(0, 1, f"preflight: {arm.name}")
            preflight.check_arm(arm, self.workload)
        trials = []
        for arm in self.arms.values():
            self.progress.update(0, 1, f"trial: {arm.name}")
            trial = self.runner.run(arm, 0)
            if not trial["ok"]:
                raise LabError(f"{arm.name}: {' '.join(self.workload.argv)}: {trial['why']}")
            trials.append(trial)
        longest_s = statistics.fmean(trial["wall_s"] for trial in trials)
        self.repeat = self._repeats(min(trial["wall_s"] for trial in trials))
        self.seed = self.spec.seed if self.spec.seed is not None else random.SystemRandom().getrandbits(SEED_BITS)
        header = record_header(self.spec, list(self.arms.values()), self.workload, source, self.seed)
        self.file = RunFile.create(folder, self.spec.kind, header | {"repeat": self.repeat})
        for position, trial in enumerate(trials):
            self.append({"type": "run", "block": -1, "attempt": 0, "position": position, "phase": "calibrate"} | trial)
        self._announce(longest_s * self.repeat, *runs_of(len(self.arms)))
        self.warm_up()

    def resume(self, file: RunFile, header: dict) -> None:
        """Continues a stored run. Raises LabError where what is under test is no longer what it was."""
        for arm, stored in zip(self.arms.values(), header["arms"], strict=True):
            if arm.library.sha256 != stored["sha256"]:
                raise LabError(f"{stored['name']} is not the library that run {file.id} began with; start a new run")
        program = Path(header["command"]["program"])
        if file_sha256(program) != header["command"]["sha256"]:
            raise LabError(f"{program} is not the program that run {file.id} began with; start a new run")
        self.file, self.seed, self.repeat = file, header["seed"], header["repeat"]
        file.continue_writing()
        self.append({"type": "event", "time": now_utc(), "what": "resumed", "text": "resumed"})

    def _repeats(self, wall_s: float) -> int:
        """Executions that make up one run of at least 100 ms, unless the spec says."""
        if self.spec.repeat != "auto":
            return self.spec.repeat
        return min(REPEAT_LIMIT, math.ceil(STEADY_S / wall_s)) if wall_s < STEADY_S and not self.spec.server else 1

    def _announce(self, run_s: float, most: int, first: int) -> None:
        text = f"run {self.file.id}: at most {ui.duration(run_s * most)} ({most} runs)"
        if first < most:
            text += f", {ui.duration(run_s * first)} if the first look settles it"
        if self.repeat > 1:
            text += f"; a run is {self.repeat} executions, since one takes only {run_s / self.repeat * 1e3:.1f} ms"
        self.progress.say(text)
        if trouble := machine.disturbance(machine.load_1m(), 0.0):
            self._event("load", trouble)

    def _event(self, what: str, text: str) -> None:
        self.append({"type": "event", "time": now_utc(), "what": what, "text": text})
        self.progress.say(f"warning: {text}")

    def note_unfit(self, reason: str) -> None:
        """The run goes on, since its data may serve, but gives no verdict."""
        self._event("fitness", reason)

    def append(self, record: dict) -> None:
        try:
            self.file.append(record)
        except OSError as error:
            why = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror
            raise Stopped(
                f"cannot write to {self.file.path}: {why}. Every finished block is kept; make room, then: "
                f"hak resume {self.file.id}"
            ) from None

    def warm_up(self) -> None:
        """Runs that count for nothing: caches of the file system, the processor's clock."""
        for index in range(self.spec.warm_up):
            for position, arm in enumerate(self.arms.values()):
                record = self.runner.run(arm, 0, self.repeat)
                self.append(
                    {"type": "run", "block": index, "attempt": 0, "position": position, "phase": "warm-up"} | record
                )

    def run_blocks(self, phase: str, names: Sequence[str], count: int) -> Blocks:
        """All blocks of the phase up to `count`, running those that are not in the store yet."""
        records = list(self.file.records())
        blocks, made = finished_blocks(records, phase), attempts_made(records, phase)
        self.progress.restart()
        for index in range(len(blocks), count):
            self.progress.update(index, count, f"blocks ({phase})" if phase != "measure" else "blocks")
            blocks.append(self._block(phase, names, index, made.get(index, 0)))
        self.progress.restart()
        return blocks

    def _block(self, phase: str, names: Sequence[str], index: int, attempt: int) -> dict[str, list[dict]]:
        """One whole block; again from its beginning where a run of it fails."""
        plan = schedule.block(names, self.seed, index)
        for attempt in range(attempt, attempt + ATTEMPTS):  # noqa: B020, PLR1704
            if changed := self._watch.changed():
                self._event("changed-binary", f"{changed} changed during the run")
                raise Stopped(
                    f"{changed} changed during run {self.file.id}; its blocks so far are kept, start a new run"
                )
            runs, failed = self._attempt(plan, phase, attempt)
            if failed is None:
                return runs
            self.progress.say(f"block {index}: {failed['arm']}: {failed['why']}; the block is run again")
        raise Stopped(
            f"{failed['arm']} failed {ATTEMPTS} times in block {index} of run {self.file.id}: {failed['why']}. "
            f"What was measured is kept: hak show {self.file.id}"
        )

    def _attempt(self, plan: schedule.Block, phase: str, attempt: int) -> tuple[dict[str, list[dict]], dict | None]:
        runs: dict[str, list[dict]] = {}
        key = {"block": plan.index, "attempt": attempt, "phase": phase}
        failed, disturbed = None, None
        for position, (name, pad) in enumerate(zip(plan.order, plan.pads, strict=True)):
            record = self.runner.run(self.arms[name], pad, self.repeat)
            self.append({"type": "run", **key, "position": position} | record)
            runs.setdefault(name, []).append(record)
            disturbed = disturbed or machine.disturbance(0.0, record["steal_percent"])
            if not record["ok"]:
                failed = record
                break
        self.append({"type": "block", **key, "ok": failed is None, "why": failed and failed["why"],
                      "order": list(plan.order), "disturbed": disturbed})  # fmt: skip
        return runs, failed

    def interrupted(self) -> Interrupted:
        """Records that the user stopped the run, and says how to go on."""
        self.append({"type": "event", "time": now_utc(), "what": "interrupted", "text": "interrupted by the user"})
        return Interrupted(f"interrupted; nothing finished is lost. Go on with: hak resume {self.file.id}")


def parse_arms(named: dict[str, str], where: dict[str, str] | None = None) -> list[Arm]:
    """Arms from name -> text."""
    return [parse_arm(text, name, (where or {}).get(name, name)) for name, text in named.items()]
