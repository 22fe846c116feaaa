"""A fleet's run: its file begins with the first host that can measure, and ends with what all of them say.

The file of a fleet's run: every record of every host once, every block counted once.

A record is known by its part and its serial number in it: one that comes twice is written once. A block is known by its
place among those of the whole fleet. What is counted is its first attempt that ended well: of several that are
collected at once, the one that ended first; one that comes later, when the block is counted already, is kept under the
phase `again`, and counts for nothing. An attempt is written when it is whole; one that a host did not live to end is
not, and the block is measured again.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from hakmem_fleet.part import FleetSpec, Job
from hakmem_lab.errors import LabError
from hakmem_lab.run import endings
from hakmem_lab.run.recorder import Written, asked_header, with_earlier
from hakmem_lab.store.runs import RunFile
from hakmem_lab.system import signals

ATTEMPTS_OF_A_PART = 1000  # attempt = that times the part's number + its own
AGAIN = "again"
HOST = "host"
LEFT, LOST, CLOSED = "host-left-out", "host-lost", "collection-closed"  # events
OF_A_HOST = ("machine", "arms", "command", "repeat", "lab_version", "git", "created")


@dataclass
class Attempt:
    """The records of one attempt at a block, its closing one last."""

    part: int
    records: list[dict]

    @property
    def block(self) -> int:
        return self.records[-1]["block"]

    def order(self) -> tuple[float, int]:
        return self.records[-1].get("finished", 0.0), self.part


class Ledger(Written):
    """Writes to one run's file, and knows what is in it already."""

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
        """The number of a part, by its own header; one that is not known yet is entered."""
        about = header["fleet"]
        if header["id"] not in self._parts:
            number = len(self._parts)
            own = {key: header.get(key) for key in OF_A_HOST}
            self.append({"type": HOST, "part": number, "part_id": header["id"], **about, **own})
            self._parts[header["id"]], self._hosts[number] = number, about["host"]
        return self._parts[header["id"]]

    def add(self, collected: Iterable[tuple[int, Sequence[dict]]]) -> None:
        """Records collected together: (number of a part, its records in order)."""
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
            own = asked_header(self.spec, self._source, self.job.seed) | {"job": self.job.plain()}
            own |= {key: header.get(key) for key in OF_THE_FIRST_HOST}
            own = with_earlier(self._folder, own)
            with signals.held():
                self._ledger = Ledger(RunFile.create(self._folder, self.spec.kind, own))
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

    def finish(self, analyse: Callable[[dict, list[dict]], dict]) -> dict:
        file = self.ledger.file
        result = analyse(file.header(), list(file.records()))
        self.ledger.append({"type": "result", **result})
        return result
