"""A fleet's run: its file begins with the first host that can measure, and ends with what all of them say."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

from hakmem_lab import __version__
from hakmem_lab.errors import LabError
from hakmem_lab.kinds.fleet.job import FleetSpec, Job
from hakmem_lab.kinds.fleet.ledger import LEFT, Ledger
from hakmem_lab.plan.spec import normalised, spec_hash
from hakmem_lab.run import endings
from hakmem_lab.run.recorder import folder_hash
from hakmem_lab.store.query import earlier_runs, question_hash
from hakmem_lab.store.runs import RunFile
from hakmem_lab.system import machine, signals

OF_THE_FIRST_HOST = ("arms", "command", "inputs", "git", "build")


class Gathering:
    """A context manager: on leaving, the run's file is closed, and an interruption is said in it."""

    def __init__(self, spec: FleetSpec, job: Job, folder: Path, source: str, file: RunFile | None = None):
        self.spec, self.job, self._folder, self._source = spec, job, folder, source
        self._left_out: list[tuple[str, str]] = []
        self._ledger: Ledger | None = None
        if file is not None:
            file.continue_writing()
            self._ledger = Ledger(file)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if self._ledger is None:
            return
        try:
            endings.conclude(self._ledger, error)
        finally:
            self._ledger.file.close()

    @property
    def begun(self) -> bool:
        return self._ledger is not None

    @property
    def ledger(self) -> Ledger:
        assert self._ledger is not None
        return self._ledger

    def counted(self) -> dict[int, str]:
        """Block -> the host whose attempt counts."""
        return self.ledger.counted if self._ledger else {}

    def part(self, header: dict) -> int:
        """The number of a host's part; with the first one the file begins. Raises LabError."""
        if self._ledger is None:
            self._ledger = Ledger(self._created(header))
            for host, why in self._left_out:
                self.leave_out(host, why)
        return self.ledger.part(header)

    def collect(self, files: Iterable[Path]) -> list[str]:
        """What these files of parts hold and the run has not yet; what cannot be read, each with the reason.

        Parts of other jobs are left alone. Raises LabError where the run's file cannot be created.
        """
        found, unreadable = [], []
        for path in sorted(files):
            file = RunFile(path)
            try:
                header, records = file.header("fleet"), [record for record in file.records() if "serial" in record]
            except (LabError, OSError) as error:
                unreadable.append(str(error))
                continue
            if header["fleet"]["job"] == self.job.id:
                found.append((self.part(header), records))
        if found:
            self.ledger.add(found)
        return unreadable

    def leave_out(self, host: str, why: str, what: str = LEFT) -> None:
        if self._ledger is None:
            self._left_out.append((host, why))
        else:
            self.ledger.event(what, f"{host}: {why}", host=host, why=why)

    def reasons(self) -> list[str]:
        """Why hosts were left out before any could measure."""
        return [f"{host}: {why}" for host, why in self._left_out]

    def _created(self, first: dict) -> RunFile:
        header = {
            "question": self.spec.question,
            "spec": normalised(self.spec),
            "spec_hash": spec_hash(self.spec),
            "spec_file": self._source if self._source.endswith(".toml") else None,
            "seed": self.job.seed,
            "machine": machine.facts(),
            **{key: first.get(key) for key in OF_THE_FIRST_HOST},
            "folder_hash": folder_hash(),
            "lab_version": __version__,
            "job": self.job.plain(),
        }
        header["question_hash"] = question_hash(header)
        header["earlier"] = earlier_runs(self._folder, header)
        with signals.held():
            return RunFile.create(self._folder, self.spec.kind, header)

    def finish(self, analyse: Callable[[dict, list[dict]], dict]) -> dict:
        """The result, which is also the run's last record."""
        file = self.ledger.file
        result = analyse(file.header(), list(file.records()))
        self.ledger.append({"type": "result", **result})
        return result
