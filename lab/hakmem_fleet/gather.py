"""The file of a fleet's run. It is created as soon as a host can measure, and ends with the fleet's result.

The file holds every record of every host once, and counts every block once.

A record is identified by its part and its serial number in that part; a duplicate is not written. A block is identified
by its number in the whole fleet. The first successful attempt at a block counts; of several that are collected at once,
the one that ended first. A later attempt is stored under the phase `again` and is not counted. Only complete attempts
are written: if a host dies during one, the block is measured again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from hakmem_fleet.part import FleetSpec, Job
from hakmem_lab.errors import LabError
from hakmem_lab.judge.repeated import Analyse
from hakmem_lab.run import endings
from hakmem_lab.run.recorder import Written, asked_header, with_earlier
from hakmem_lab.store.results import Result
from hakmem_lab.store.runs import RunFile
from hakmem_lab.system import signals

ATTEMPTS_OF_A_PART = 1000  # attempt in the run's file = part * this + attempt in the part
AGAIN = "again"
HOST = "host"
LEFT, LOST, CLOSED = "host-left-out", "host-lost", "collection-closed"  # events
OF_A_HOST = ("machine", "arms", "command", "repeat", "lab_version", "git", "created")


@dataclass
class Attempt:
    """The records of one attempt at a block; the last one is the block's own record."""

    part: int
    records: list[dict]

    @property
    def block(self) -> int:
        return self.records[-1]["block"]

    def order(self) -> tuple[float, int]:
        return self.records[-1].get("finished", 0.0), self.part


class Ledger(Written):
    """Writes to one run's file, and keeps track of the records that it already holds."""

    def __init__(self, file: RunFile):
        super().__init__(file)
        self._seen: set[tuple[int, int]] = set()
        self._parts: dict[str, int] = {}
        self.counted: dict[int, str] = {}  # block -> host
        self._hosts: dict[int, str] = {}
        for record in file.records():
            if record["type"] == HOST:
                self._parts[record["part_id"]] = record["part"]
                self._hosts[record["part"]] = record["host"]
            elif "serial" in record:
                self._seen.add((record["part"], record["serial"]))
                self._count(record)

    def _count(self, record: dict) -> None:
        if record["type"] == "block" and record["ok"] and record["phase"] != AGAIN:
            self.counted[record["block"]] = self._hosts[record["part"]]

    def part(self, header: dict) -> int:
        """The number of the part with this header; an unknown part is entered first."""
        about = header["fleet"]
        if header["id"] not in self._parts:
            number = len(self._parts)
            own = {key: header.get(key) for key in OF_A_HOST}
            self.append({"type": HOST, "part": number, "part_id": header["id"], **about, **own})
            self._parts[header["id"]], self._hosts[number] = number, about["host"]
        return self._parts[header["id"]]

    def add(self, collected: Iterable[tuple[int, Sequence[dict]]]) -> None:
        """Add records that were collected together: (number of a part, its records in order)."""
        attempts: list[Attempt] = []
        for part, records in collected:
            own: list[dict] = []
            for record in records:
                if (part, record["serial"]) in self._seen:
                    continue
                if record.get("phase") != "measure":
                    self._write(part, record)
                    continue
                own.append(record)
                if record["type"] == "block":
                    attempts.append(Attempt(part, own))
                    own = []
        for attempt in sorted(attempts, key=Attempt.order):
            late = attempt.block in self.counted
            for record in attempt.records:
                self._write(attempt.part, record | {"phase": AGAIN} if late else record)

    def _write(self, part: int, record: dict) -> None:
        host = self._hosts[part]
        placed = record | {"part": part, "host": host}
        if record["type"] == "event":
            placed["text"] = f"{host}: {record['text']}"
        if "attempt" in record:
            placed["attempt"] = part * ATTEMPTS_OF_A_PART + record["attempt"]
        self.append(placed)
        self._seen.add((part, record["serial"]))
        self._count(placed)


OF_THE_FIRST_HOST = ("arms", "command", "inputs", "git", "build")


class Gathering:
    """A context manager: on leaving, it records an interruption, if any, and closes the run's file."""

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
        """The number of a host's part; the first part creates the run's file. Raises LabError."""
        if self._ledger is None:
            own = asked_header(self.spec, self._source, self.job.seed) | {"job": self.job.plain()}
            own |= {key: header.get(key) for key in OF_THE_FIRST_HOST}
            own = with_earlier(self._folder, own)
            with signals.held():
                self._ledger = Ledger(RunFile.create(self._folder, self.spec.kind, own))
            for host, why in self._left_out:
                self.leave_out(host, why)
        return self.ledger.part(header)

    def collect(self, files: Iterable[Path]) -> list[str]:
        """Add the records of these parts that the run lacks; return an error for each file that cannot be read.

        Parts of other jobs are ignored. Raises LabError if the run's file cannot be created.
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

    def finish(self, analyse: Analyse) -> Result:
        file = self.ledger.file
        result = analyse(file.header(), list(file.records()))
        self.ledger.append({"type": "result", **result})
        return result
