"""The store: one append-only JSON Lines file a run. Imports errors only.

A record is one line. Lines are only ever added; the closing record of a block is written through to the disk before
the next block starts, so that neither an interrupted nor a killed laboratory loses a finished block.
"""

import datetime
import gzip
import json
import math
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from .errors import LabError, nearest

SCHEMA = 1
DURABLE = {"header", "block", "look", "event", "result", "decision"}


def default_folder() -> Path:
    """$HAK_STORE, or hakmem-lab in the user's data folder."""
    if chosen := os.environ.get("HAK_STORE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "hakmem-lab"


def now_utc() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def plain(value: object) -> object:
    """The value as JSON can say it: an infinite end of an interval becomes null."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float) or hasattr(value, "dtype"):
        number = float(value)
        return number if math.isfinite(number) else None
    return str(value) if isinstance(value, Path) else value


class RunFile:
    """One run of the laboratory. Not safe for two writers: `lock` refuses the second."""

    def __init__(self, path: Path):
        self.path = path
        self._fd: int | None = None

    @property
    def id(self) -> str:
        return self.path.name.partition(".jsonl")[0]

    @classmethod
    def create(cls, folder: Path, kind: str, header: dict) -> "RunFile":
        """Raises LabError where the folder cannot be written."""
        stamp = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
        run = cls(folder / f"{stamp}-{kind}-{secrets.token_hex(2)}.jsonl")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            run._open(os.O_CREAT | os.O_EXCL)
            run.append({"type": "header", "schema": SCHEMA, "id": run.id, "kind": kind, "created": now_utc(), **header})
        except OSError as error:
            raise LabError(
                f"cannot write to the store {folder}: {error.strerror}; choose another with --store"
            ) from None
        return run

    def _open(self, flags: int = 0) -> None:
        import fcntl

        self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | flags, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise LabError(f"another hak is writing to {self.path}; wait for it or stop it") from None

    def continue_writing(self) -> None:
        """Opens an existing run for more records; a torn last line is closed so that it stays alone."""
        self._open()
        size = os.fstat(self._fd).st_size
        if size and os.pread(self._fd, 1, size - 1) != b"\n":
            os.write(self._fd, b"\n")

    def append(self, record: dict) -> None:
        """Writes one line, all of it or an OSError. The file keeps everything that was appended before."""
        data = json.dumps(plain(record), ensure_ascii=False, allow_nan=False).encode() + b"\n"
        start = os.fstat(self._fd).st_size
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._fd, view) :]
            if record["type"] in DURABLE:
                os.fsync(self._fd)
        except OSError:
            os.ftruncate(self._fd, start)  # only what this call has written: half a line helps nobody
            raise

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def records(self) -> Iterator[dict]:
        """Every whole record, in the order of writing."""
        opened = gzip.open if self.path.suffix == ".gz" else open
        with opened(self.path, "rt", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    record = json.loads(line)
                except ValueError:
                    continue
                if isinstance(record, dict) and "type" in record:
                    yield record

    def header(self) -> dict:
        first = next(self.records(), None)
        if first is None or first["type"] != "header" or first.get("schema") != SCHEMA:
            raise LabError(f"{self.path} is not a run of this laboratory (schema {SCHEMA})")
        return first


class Store:
    """All runs of a folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def runs(self) -> list[RunFile]:
        """Oldest first."""
        return [RunFile(path) for path in sorted(self.folder.glob("*.jsonl"))]

    def find(self, name: str) -> RunFile:
        """A run by its id, the beginning of it, a path (.jsonl, or .jsonl.gz to read only), or 'last'."""
        if name.endswith((".jsonl", ".jsonl.gz")) and Path(name).is_file():
            return RunFile(Path(name))
        runs = self.runs()
        if name == "last" and runs:
            return max(runs, key=lambda run: run.path.stat().st_mtime_ns)
        matching = [run for run in runs if run.id.startswith(name)]
        if len(matching) == 1:
            return matching[0]
        if matching:
            raise LabError(
                f"'{name}' begins the names of {len(matching)} runs: {', '.join(r.id for r in matching[:5])}"
            )
        raise LabError(f"no run '{name}' in {self.folder}: {nearest(name, [run.id for run in runs] + ['last'])}")
