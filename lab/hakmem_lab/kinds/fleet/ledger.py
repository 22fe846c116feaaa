"""The file of a fleet's run: every record of every host once, every block counted once.

A record is known by its part and its serial number in it: one that comes twice is written once. A block is known by its
place among those of the whole fleet. What is counted is its first attempt that ended well: of several that are
collected at once, the one that ended first; one that comes later, when the block is counted already, is kept under the
phase `again`, and counts for nothing. An attempt is written when it is whole; one that a host did not live to end is
not, and the block is measured again.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hakmem_lab.errors import Stopped
from hakmem_lab.run import endings
from hakmem_lab.store.runs import RunFile, now_utc
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


class Ledger:
    """Writes to one run's file, and knows what is in it already."""

    def __init__(self, file: RunFile):
        self.file = file
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

    def append(self, record: dict) -> None:
        """Raises Stopped where the store takes no more."""
        try:
            with signals.held():
                self.file.append(record)
        except OSError as error:
            raise endings.cannot_write(self.file, error) from None

    def event(self, what: str, text: str, **more: object) -> None:
        self.append({"type": "event", "time": now_utc(), "what": what, "text": text, **more})

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
        """What was collected at once: (number of a part, its records in their order)."""
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

    def stopped(self, why: object) -> Stopped:
        return endings.cannot_go_on(self.file, why)
