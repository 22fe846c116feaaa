"""The file of a run: the records of every kind, and how a run stops and goes on. Also the files on which a run depends:
programs, libraries, and files that its commands name, such as scripts and data.

A file that a command names may be an output of its program. That cannot be known in advance, so a file is dropped from
the dependencies once the program has changed it.
"""

import hashlib
import itertools
import os
import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from hakmem_lab import __version__
from hakmem_lab.errors import LabError, Stopped
from hakmem_lab.plan import project
from hakmem_lab.plan.arms import Arm
from hakmem_lab.plan.model import Model
from hakmem_lab.plan.peers import file_sha256
from hakmem_lab.plan.project import find_program
from hakmem_lab.plan.spec import normalised, spec_hash
from hakmem_lab.plan.stdin import SILENCE
from hakmem_lab.run import endings, preflight
from hakmem_lab.run.workload import Workload
from hakmem_lab.store.query import earlier_runs, question_hash
from hakmem_lab.store.records import Record
from hakmem_lab.store.results import Result
from hakmem_lab.store.runs import RunFile, now_utc
from hakmem_lab.system import machine, signals
from hakmem_lab.system.launcher import SLOW_S, Launcher
from hakmem_lab.system.scripts import interpreters


def _programs(workload: Workload) -> list[Path]:
    """Programs other than the one under test: interpreters of a script, a server's client and its warm-up client."""
    server, readers = workload.server, interpreters(Path(workload.subject()[0]))
    if server is None:
        paths = [Path(words[0]) for words in workload.others]
        return [*readers, *paths, *itertools.chain(*map(interpreters, paths))]
    return [*readers, Path(workload.argv[0]), *([find_program(server.warm_up[0])] if server.warm_up else [])]


def named_files(workload: Workload) -> list[Path]:
    """Readable regular files among the arguments of all commands, relative to their folder, and their standard
    input."""
    server = workload.server
    words = [*workload.argv[1:], *itertools.chain(*(each[1:] for each in workload.others))]
    words += [*(workload.subject()[1:] if server else [])]
    words += server.warm_up[1:] if server and server.warm_up else []
    paths = dict.fromkeys(os.path.join(workload.cwd or "", word) for word in words if word)
    paths |= dict.fromkeys([workload.stdin] if workload.stdin else [])
    return [Path(path) for path in paths if os.path.isfile(path) and os.access(path, os.R_OK)]


def input_hashes(workload: Workload, written: Collection[Path] = ()) -> dict[str, str]:
    """SHA-256 of every file other than the program under test, by its path in records; without the files `written`."""
    programs = [path for path in _programs(workload) if os.access(path, os.R_OK)]
    files = [*programs, *(path for path in named_files(workload) if path not in written)]
    return {project.shown(path): file_sha256(path) for path in files}


def changed_input(stored: Mapping[str, str], workload: Workload) -> str | None:
    """The first of the stored files that is missing or has changed. Older runs name a file without its folder."""
    now = input_hashes(workload) if stored else {}
    for name, digest in stored.items():
        if digest not in (other for shown, other in now.items() if name in (shown, Path(shown).name)):
            return name
    return None


def files_under_test(workload: Workload, arms: Iterable[Arm]) -> dict[Path, bool]:
    """File -> False if the program under test may change it itself, else True."""
    programs = [Path(workload.subject()[0]), *_programs(workload)]
    libraries = [arm.library.path for arm in arms if arm.library.path]
    return dict.fromkeys(named_files(workload), False) | dict.fromkeys([*programs, *libraries], True)


def stamp(path: Path) -> tuple | None:
    """Values that change with a file's content; None where the file is missing."""
    try:
        info = path.stat()
    except OSError:
        return None
    return info.st_mtime_ns, info.st_size, info.st_ino


def _hash(path: Path) -> str | None:
    try:
        return file_sha256.__wrapped__(path)
    except OSError:
        return None


class Watch:
    """Watches files for changes. files: as from `files_under_test`. A file that the program may change is moved to
    `written` when it changes, unless an earlier check found it unchanged."""

    def __init__(self, files: Mapping[Path, bool]):
        self._seen = {path: (stamp(path), _hash(path)) for path in files}
        self._steady = {path for path, fixed in files.items() if fixed}
        self.written: list[Path] = []

    def changed(self) -> Path | None:
        for path, (before, digest) in list(self._seen.items()):
            now = stamp(path)
            if now == before:
                self._steady.add(path)
            elif _hash(path) == digest:
                self._seen[path] = (now, digest)
            elif path in self._steady:
                return path
            else:
                del self._seen[path]
                self.written.append(path)
        return None


SEED_BITS = 31
WRITTEN = "written"
AnySpec = TypeVar("AnySpec", bound=Model)


def folder_hash() -> str:
    """Hash of the current folder, because relative paths depend on it and a record must not contain the path."""
    return hashlib.sha256(str(Path.cwd()).encode()).hexdigest()[:16]


def asked_header(spec: Model, source: str, seed: int) -> Record:
    asked = normalised(spec)
    return {
        "question": asked["question"],
        "spec": asked,
        "spec_hash": spec_hash(spec),
        "spec_file": source if source.endswith(".toml") else None,
        "seed": seed,
        "machine": machine.facts(),
        "folder_hash": folder_hash(),
        "folder": project.shown(Path.cwd()),
        "lab_version": __version__,
    }


def with_earlier(folder: Path, header: Record) -> Record:
    """The header, extended by the earlier runs of the folder with the same question."""
    header = header | {"question_hash": question_hash(header)}
    return header | {"earlier": earlier_runs(folder, header)}


def record_header(
    spec: Model, arms: Sequence[Arm], workload: Workload, source: str, seed: int, written: Collection[Path] = ()
) -> Record:
    """Everything that a result depends on. written: files that a command names and its program writes."""
    top, subject = project.root(), workload.subject()
    return asked_header(spec, source, seed) | {
        "arms": [arm.record() for arm in arms],
        "command": {
            "argv": [project.shown(workload.argv[0]), *workload.argv[1:]],
            "program": project.shown(subject[0]),
            "sha256": file_sha256(Path(subject[0])),
        },
        "inputs": input_hashes(workload, written),
        "git": project.git_state(top),
        "build": project.build_facts(top),
    }


def check_unchanged(header: Record, arms: Sequence[Arm], workload: Workload) -> None:
    """Raises LabError where the folder, a library, the program or an input of a stored run has changed. Older headers
    have no inputs."""
    run = header["id"]
    if header["folder_hash"] != folder_hash():
        where = header.get("folder") or "another folder"
        raise LabError(f"run {run} was begun in {where}; go there, and resume it")
    for arm, stored in zip(arms, header["arms"], strict=True):
        if arm.library.sha256 != stored["sha256"]:
            raise LabError(f"{stored['name']} is not the library that run {run} began with; start a new run")
    program = workload.subject()[0]
    if file_sha256(Path(program)) != header["command"]["sha256"]:
        raise LabError(f"{program} is not the program that run {run} began with; start a new run")
    if changed := changed_input(header.get("inputs", {}), workload):
        raise LabError(f"{changed} is not what run {run} began with; start a new run")


class Written:
    """Writes to the file of one run. tag: keys that every record gets, where several parts of a run share a file."""

    def __init__(self, file: RunFile | None = None, tag: dict[str, str] | None = None):
        self._file, self.tag = file, tag or {}

    @property
    def file(self) -> RunFile:
        """The file of a run that has begun."""
        assert self._file is not None
        return self._file

    @file.setter
    def file(self, file: RunFile) -> None:
        self._file = file

    def append(self, record: Mapping[str, Any]) -> None:
        """Raises Stopped where the store cannot be written, or standard input came too late for the program."""
        try:
            with signals.held():
                self.file.append({**record, **self.tag})
        except OSError as error:
            raise endings.cannot_write(self.file, error) from None
        if SILENCE.broken():
            text = "standard input came after the program had begun without it; write it to a file: --input FILE"
            self.event("stopped", text)
            raise Stopped(f"{text}. What was measured is kept: hak runs show {self.file.id}")

    def event(self, what: str, text: str, **more: object) -> None:
        self.append({"type": "event", "time": now_utc(), "what": what, "text": text, **more})

    def stopped(self, why: object) -> Stopped:
        """The exception that ends a run that can be continued later; its text says how."""
        return endings.cannot_go_on(self.file, why)


class Recorder(Written, Generic[AnySpec]):
    """Keeps the records of one run. A context manager: on leaving, its programs have ended and the run's file is
    closed. It reports how to go on with a run that was interrupted or lost its launcher.
    """

    server_key = "[server] in a spec"  # where a user can say that the command is a server; empty: nowhere

    def __init__(
        self,
        spec: AnySpec,
        arms: Sequence[Arm],
        workload: Workload,
        progress: endings.Progress,
        tag: dict[str, str] | None = None,
    ):
        super().__init__(None, tag)
        self.spec, self.workload, self.progress = spec, workload, progress
        self.arms = {arm.name: arm for arm in arms}
        self.seed = 0
        self.warned_of_load = False
        self._stamps = {path: stamp(path) for path in named_files(workload)}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        Launcher.when_slow = None
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
        """Ends all programs that were started and still run."""

    def check_arms(self) -> None:
        for arm in self.arms.values():
            self.progress.update(0, 1, " ".join(["preflight:", *self.tag.values(), arm.name]))
            preflight.check_arm(arm, self.workload_on(arm))
        self.progress.restart()
        self.await_first_run()

    def await_first_run(self) -> None:
        """Until a run has ended, watches for a slow program, which may be a server."""
        Launcher.when_slow = None if self.progress.said_slow else self._say_slow

    def _say_slow(self) -> None:
        """Reports, once, that the first run takes long: it may never end."""
        Launcher.when_slow, self.progress.said_slow = None, True
        limit = f" It is ended after {self.workload.timeout_s:g} s"
        limit += f"; a shorter limit: {', or '.join(self.progress.limits)}" if self.progress.limits else ""
        self.progress.say(f"the first run has not ended after {SLOW_S:g} s.{self._ask_for_server()}{limit}")

    def _ask_for_server(self) -> str:
        """Advice to use a `[server]` where the command may be a server; empty if the spec has one or replays a
        trace."""
        if self.workload.server or not self.server_key:
            return ""
        where = self.progress.server_flag + self.server_key
        return f" Is it a server? Then give it a client: {where}, hak soak, or hak record PID."

    def append(self, record: Mapping[str, Any]) -> None:
        if record["type"] == "run":
            Launcher.when_slow = None
        super().append(record)

    def workload_on(self, arm: Arm) -> Workload:
        return self.workload.on(arm)

    def written_files(self) -> list[Path]:
        """Files that the commands name and the trials have changed: they are outputs, not inputs."""
        return [path for path, before in self._stamps.items() if stamp(path) != before]

    def create(self, folder: Path, source: str, **more: object) -> None:
        """Creates the file with its header; more: further keys of the header. Raises LabError where the folder cannot
        be written."""
        given = normalised(self.spec)["seed"]
        self.seed = random.SystemRandom().getrandbits(SEED_BITS) if given is None else given
        arms, written = list(self.arms.values()), self.written_files()
        header = record_header(self.spec, arms, self.workload, source, self.seed, written) | more
        header = with_earlier(folder, header)
        of_each = self.progress.parameters * (len(arms) if len(self.progress.parameters) == 1 else 1)
        for of_arm, values in zip(header["arms"], of_each, strict=False):
            of_arm.update({"parameters": values} if values else {})
        with signals.held():
            self.file = RunFile.create(folder, header["spec"]["kind"], header)
        for text in self.progress.early:
            self.event("lacking", text)
        for lacking in filter(None, dict.fromkeys(arm.left_out(self.workload.env) for arm in arms)):
            self.warn("left-out", lacking)
        if SILENCE.kept:
            text = "standard input was open but silent, and the programs had nothing to read; --input FILE gives it"
            self.warn("no-input", text)
        # The load average still contains the work of earlier runs; only present work disturbs.
        self.warned_of_load = self.warn_of_load(min(machine.load_1m(), machine.busy_processors()))

    def reopen(self, file: RunFile, header: Record) -> None:
        """Continues a stored run. Raises LabError where the program or another dependency has changed."""
        written = {name for r in file.records() if r.get("what") == WRITTEN for name in r["files"]}
        kept = {name: digest for name, digest in header.get("inputs", {}).items() if name not in written}
        check_unchanged(header | {"inputs": kept}, list(self.arms.values()), self.workload)
        file.continue_writing()
        self.file, self.seed = file, header["seed"]
        self.event("resumed", "resumed")

    def records(self) -> list[Record]:
        return list(self.file.records())

    def own_records(self) -> list[Record]:
        """The records with its tag, where several share a file."""
        return [record for record in self.records() if self.tag.items() <= record.items()]

    def tell(self, what: str, text: str, **more: object) -> None:
        """Stores an event and shows it at once."""
        self.event(what, text, **more)
        self.progress.say(text)

    def warn(self, what: str, text: str) -> None:
        """Stores and shows a warning about the figures."""
        self.event(what, text)
        self.progress.warn(text)

    def warn_of_load(self, load: float) -> bool:
        """Warns if other programs keep the machine busy; returns whether it did. load: in processors."""
        trouble = machine.disturbance(load, 0.0)
        if trouble:
            self.warn("load", trouble)
        return bool(trouble)

    def finish(self, result: Result) -> Result:
        self.append({"type": "result", **result})
        return result
