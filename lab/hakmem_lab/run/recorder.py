"""The file of a run: what every kind writes into it, and how a run stops and goes on."""

import hashlib
import random
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Self

from hakmem_lab import __version__
from hakmem_lab.errors import LabError, Stopped
from hakmem_lab.judge.planning import rule
from hakmem_lab.plan import project
from hakmem_lab.plan.arms import Arm
from hakmem_lab.plan.peers import file_sha256
from hakmem_lab.plan.spec import CommonSpec, normalised, spec_hash
from hakmem_lab.run import endings, preflight
from hakmem_lab.run import endings as ui
from hakmem_lab.run.inputs import Watch, changed_input, files_under_test, input_hashes, named_files, stamp
from hakmem_lab.run.runner import Workload
from hakmem_lab.store.query import earlier_runs, question_hash
from hakmem_lab.store.runs import RunFile, now_utc
from hakmem_lab.system import machine, signals

__all__ = ["Recorder", "Watch", "check_unchanged", "files_under_test", "record_header"]

SEED_BITS = 31
WRITTEN = "written"


def folder_hash() -> str:
    """Of the current folder, which relative paths in commands depend on; a record need not say where that is."""
    return hashlib.sha256(str(Path.cwd()).encode()).hexdigest()[:16]


def record_header(
    spec: CommonSpec,
    arms: Sequence[Arm],
    workload: Workload,
    source: str,
    seed: int,
    written: Collection[Path] = (),
) -> dict:
    """Everything that a result depends on. written: files named by a command that its program writes."""
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
        "command": {
            "argv": [project.shown(workload.argv[0]), *workload.argv[1:]],
            "program": project.shown(subject[0]),
            "sha256": file_sha256(Path(subject[0])),
        },
        "inputs": input_hashes(workload, written),
        "git": project.git_state(top),
        "build": project.build_facts(top),
        "folder_hash": folder_hash(),
        "lab_version": __version__,
    }


def check_unchanged(header: dict, arms: Sequence[Arm], workload: Workload) -> None:
    """Raises LabError where what a stored run began with is no longer what it was; older headers know no inputs."""
    run = header["id"]
    if header["folder_hash"] != folder_hash():
        raise LabError(f"run {run} was begun in another folder; go there, and resume it")
    for arm, stored in zip(arms, header["arms"], strict=True):
        if arm.library.sha256 != stored["sha256"]:
            raise LabError(f"{stored['name']} is not the library that run {run} began with; start a new run")
    program = workload.subject()[0]
    if file_sha256(Path(program)) != header["command"]["sha256"]:
        raise LabError(f"{program} is not the program that run {run} began with; start a new run")
    if changed := changed_input(header.get("inputs", {}), workload):
        raise LabError(f"{changed} is not what run {run} began with; start a new run")


class Recorder:
    """Keeps the records of one run. A context manager: on leaving, nothing that it started still runs, and the run's
    file is closed; it is the one that says what becomes of a run that was interrupted, or has lost its launcher.

    tag: keys that every record gets, where several parts of a run share a file.
    """

    def __init__(
        self,
        spec: CommonSpec,
        arms: Sequence[Arm],
        workload: Workload,
        progress: ui.Progress,
        tag: dict[str, str] | None = None,
    ):
        self.spec, self.workload, self.progress, self.tag = spec, workload, progress, tag or {}
        self.arms = {arm.name: arm for arm in arms}
        self._file: RunFile | None = None
        self.seed = 0
        self.warned_of_load = False
        self._stamps = {path: stamp(path) for path in named_files(workload)}

    @property
    def file(self) -> RunFile:
        """Of a run that has begun."""
        assert self._file is not None
        return self._file

    @file.setter
    def file(self, file: RunFile) -> None:
        self._file = file

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            with signals.held():
                self.release()
        except signals.INTERRUPTS as late:
            error = late
        try:
            if self._file:
                endings.conclude(self, error)
        finally:
            if self._file:
                self._file.close()

    def release(self) -> None:
        """Ends what was started and still runs."""

    def check_arms(self) -> None:
        """Preflight of every arm. Raises LabError."""
        for arm in self.arms.values():
            self.progress.update(0, 1, " ".join(["preflight:", *self.tag.values(), arm.name]))
            preflight.check_arm(arm, self.workload.on(arm))
        self.progress.restart()

    def written_files(self) -> list[Path]:
        """Of the files that the commands name those that the trials have changed: they are no inputs."""
        return [path for path, before in self._stamps.items() if stamp(path) != before]

    def create(self, folder: Path, source: str, **more: object) -> None:
        """The file with its header; `more`: further keys of it. Raises LabError where the folder cannot be written."""
        self.seed = self.spec.seed if self.spec.seed is not None else random.SystemRandom().getrandbits(SEED_BITS)
        arms, written = list(self.arms.values()), self.written_files()
        header = record_header(self.spec, arms, self.workload, source, self.seed, written) | more
        header |= {"question_hash": question_hash(header), **rule(self.spec.kind)}
        header["earlier"] = earlier_runs(folder, header)
        with signals.held():
            self.file = RunFile.create(folder, self.spec.kind, header)
        # The load average still holds what a run before this one did; only work that goes on now disturbs.
        self.warned_of_load = self.warn_of_load(min(machine.load_1m(), machine.busy_processors()))

    def reopen(self, file: RunFile, header: dict) -> None:
        """Continues a stored run. Raises LabError where what is under test is no longer what it was."""
        written = {name for r in file.records() if r.get("what") == WRITTEN for name in r["files"]}
        kept = {name: digest for name, digest in header.get("inputs", {}).items() if name not in written}
        check_unchanged(header | {"inputs": kept}, list(self.arms.values()), self.workload)
        file.continue_writing()
        self.file, self.seed = file, header["seed"]
        self.event("resumed", "resumed")

    def records(self) -> list[dict]:
        return list(self.file.records())

    def append(self, record: dict) -> None:
        """Raises Stopped where the store takes no more."""
        try:
            with signals.held():
                self.file.append(record | self.tag)
        except OSError as error:
            raise endings.cannot_write(self.file, error) from None

    def event(self, what: str, text: str, **more: object) -> None:
        self.append({"type": "event", "time": now_utc(), "what": what, "text": text, **more})

    def warn(self, what: str, text: str) -> None:
        """An event that the user should see now."""
        self.event(what, text)
        self.progress.say(f"warning: {text}")

    def warn_of_load(self, load: float) -> bool:
        """Whether others keep the machine busy: their load, in processors."""
        trouble = machine.disturbance(load, 0.0)
        if trouble:
            self.warn("load", trouble)
        return bool(trouble)

    def stopped(self, why: object) -> Stopped:
        """For a run that cannot go on, but can be continued later; says how."""
        return endings.cannot_go_on(self.file, why)

    def finish(self, result: dict) -> dict:
        """Stores the result and returns it."""
        self.append({"type": "result", **result})
        return result
