"""The store: one append-only JSON Lines file a run.

A record is one line, and lines are only ever added. The closing record of a block reaches the disk before the next
block starts, so that no finished block is lost if hak is interrupted or killed. Kinds without blocks flush their
records, such as samples, every few seconds.
"""

import datetime
import gzip
import json
import math
import os
import re
import secrets
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast, overload

from hakmem_lab.errors import LabError, StoreError, decoded, nearest, one_line, refused
from hakmem_lab.store.records import Record
from hakmem_lab.store.results import Result

SCHEMA = 1
RESULT_VERSION = 1  # a result of another version, or without one, is formed again from its records
DRAWS = 100
# Keys that a header needs for its run to be listed and exported.
DESCRIBED = ("arms", "command", "machine", "question")
# Old name -> name of a kind, and of the part of its results.
RENAMED = {"scorecard": "suite"}
# A command in sentences of earlier versions, and its present name.
FORMER_COMMAND, COMMAND = re.compile(r"\bhak aa\b"), "hak doctor --machine"
# Kind -> keys of its stored specs that this version does not know, and does not need.
GONE = {"suite": ("history", "milestone")}
DURABLE = {"header", "block", "look", "event", "result", "decision"}
SYNC_S = 10.0
CLOSED = -1


def default_folder() -> Path:
    """$HAK_STORE, or hakmem-lab in the user's data folder."""
    if chosen := os.environ.get("HAK_STORE"):
        return Path(chosen)
    data = Path(os.environ.get("XDG_DATA_HOME", ""))
    if not data.is_absolute():  # by the XDG standard, a relative path is ignored
        data = Path.home() / ".local" / "share"
    return data / "hakmem-lab"


def now_utc() -> str:
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


@overload
def plain(value: Result) -> Result: ...
@overload
def plain(value: Record) -> Record: ...
@overload
def plain(value: object) -> object: ...
def plain(value: object) -> object:
    """The value in types that JSON has; infinities and NaN become null."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if hasattr(value, "tolist"):  # NumPy's, without importing it
        return plain(value.tolist())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value) if isinstance(value, Path) else value


def last_result(records: Sequence[Record]) -> Result | None:
    """The result of this version that no later record, other than a human's decision, has made old."""
    last = next((record for record in reversed(records) if record["type"] != "decision"), None)
    valid = last and last["type"] == "result" and last.get("version") == RESULT_VERSION
    return cast(Result, last) if valid else None


def _as_named_now(record: Record) -> Record:
    """A header or a result with the present name of its kind; an event or a result whose sentences name present
    commands."""
    if record["type"] in ("event", "result"):
        record = {key: _said_now(value) for key, value in record.items()}
    kind = RENAMED.get(record["kind"], record["kind"]) if isinstance(record.get("kind"), str) else None
    if kind not in GONE:
        return record
    found = {RENAMED.get(key, key): value for key, value in record.items()} | {"kind": kind}
    if isinstance(spec := found.get("spec"), dict):
        found["spec"] = {key: value for key, value in spec.items() if key not in GONE[kind]} | {"kind": kind}
    return found


def _said_now(value: Any) -> Any:
    if isinstance(value, list):
        return [_said_now(each) if isinstance(each, str) else each for each in value]
    return FORMER_COMMAND.sub(COMMAND, value) if isinstance(value, str) else value


class RunFile:
    """One run of the laboratory. A lock on the file refuses a second writer."""

    def __init__(self, path: Path):
        self.path = path
        self._fd = CLOSED
        self._synced = 0.0

    @property
    def id(self) -> str:
        return self.path.name.partition(".jsonl")[0]

    @classmethod
    def create(cls, folder: Path, kind: str, header: Record) -> "RunFile":
        """Creates a run with its header. Raises LabError where the folder cannot be written."""
        with refused(f"cannot write to the store {folder}", "; choose another with --store", StoreError):
            folder.mkdir(parents=True, exist_ok=True)
            run = cls._fresh(folder, kind)
            run._begin({"type": "header", "schema": SCHEMA, "id": run.id, "kind": kind, "created": now_utc(), **header})
        return run

    @classmethod
    def _fresh(cls, folder: Path, kind: str) -> "RunFile":
        """A run with an empty file under a new name."""
        stamp = datetime.datetime.now(datetime.UTC).strftime("%Y%m%d-%H%M%S")
        for draw in range(DRAWS):
            run = cls(folder / f"{stamp}-{kind}-{secrets.token_hex(2)}.jsonl")
            try:
                run._open(os.O_CREAT | os.O_EXCL)
            except FileExistsError:
                if draw == DRAWS - 1:
                    raise
            else:
                break
        return run

    def _begin(self, header: Record) -> None:
        """Writes the header. If that fails, it removes the file, since a file without a header is no run."""
        try:
            self.append(header)
        except BaseException:
            self.close()
            self.path.unlink(missing_ok=True)
            raise

    def _open(self, flags: int = 0) -> None:
        import fcntl

        self._fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | flags, 0o644)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise StoreError(f"another hak is writing to {self.path}; wait for it or stop it") from None

    def continue_writing(self) -> None:
        """Opens an existing run for more records. An incomplete last line is ended, so that it does not join the next
        record.

        Raises LabError where the file cannot be written.
        """
        if self.path.suffix == ".gz":
            raise StoreError(f"{self.path} is compressed, and can only be read")
        try:
            self._open()
            size = os.fstat(self._fd).st_size
            if size and os.pread(self._fd, 1, size - 1) != b"\n":
                os.write(self._fd, b"\n")
        except OSError as error:
            self.close()
            raise StoreError(f"cannot write to {self.path}: {error.strerror}") from None

    def append(self, record: Mapping[str, Any]) -> None:
        """Writes one line completely, or raises OSError and leaves the file as it was."""
        # A word of a command may hold invalid UTF-8, in Python lone surrogates, which JSON can only hold as escapes.
        version = {"version": RESULT_VERSION} if record["type"] == "result" else {}
        text = json.dumps(plain({**record, **version}), ensure_ascii=False, allow_nan=False)
        data = text.encode(errors="backslashreplace") + b"\n"
        start = os.fstat(self._fd).st_size
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(self._fd, view) :]
            if record["type"] in DURABLE or time.monotonic() - self._synced >= SYNC_S:
                os.fsync(self._fd)
                self._synced = time.monotonic()
        except OSError:
            os.ftruncate(self._fd, start)  # removes only the partial line of this call
            raise

    def close(self) -> None:
        if self._fd != CLOSED:
            os.close(self._fd)
            self._fd = CLOSED

    def records(self) -> Iterator[Record]:
        """Every whole record, in the order of writing."""
        opened = gzip.open if self.path.suffix == ".gz" else open
        with opened(self.path, "rt", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    record = decoded(json.loads, line)
                except ValueError:
                    continue
                if isinstance(record, dict) and "type" in record:
                    yield _as_named_now(record)

    def result(self) -> Result | None:
        """The last result; None if the run has none."""
        found: Result | None = None
        for record in self.records():
            found = cast(Result, record) if record["type"] == "result" else found
        return found

    def header(self, *keys: str) -> Record:
        """The first record. Raises LabError where the file is no run, or its header lacks one of the keys."""
        try:
            first = next(self.records(), None)
        except (OSError, EOFError) as error:
            raise LabError(f"{self.path} cannot be read: {error}") from None
        if (
            first is None
            or first["type"] != "header"
            or first.get("schema") != SCHEMA
            or {"id", "kind", *keys} - {*first}
        ):
            raise LabError(f"{self.path} is not a run of this laboratory (schema {SCHEMA})")
        return first


def readable(files: Iterable[RunFile]) -> Iterator[RunFile]:
    """Yields the files that are runs, and warns of the others on standard error."""
    for file in files:
        try:
            file.header(*DESCRIBED)
        except LabError as error:
            print(f"hak: warning: {one_line(str(error))}; it is left out", file=sys.stderr)
        else:
            yield file


class Store:
    """All runs of a folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def runs(self) -> list[RunFile]:
        """Oldest first. Raises LabError where the store is no folder."""
        if self.folder.exists() and not self.folder.is_dir():
            raise StoreError(f"the store {self.folder} is no folder; choose another with --store")
        return [RunFile(path) for path in sorted(self.folder.glob("*.jsonl"))]

    def find(self, name: str) -> RunFile:
        """A run by its id, the beginning of the id, a path (.jsonl, or .jsonl.gz for reading), or 'last'."""
        if name.endswith((".jsonl", ".jsonl.gz")) and Path(name).is_file():
            return RunFile(Path(name))
        runs = self.runs()
        if not runs:
            raise LabError(f"no run '{name}': there are no runs in {self.folder}")
        if name == "last":
            newest_first = sorted(runs, key=lambda run: run.path.stat().st_mtime_ns, reverse=True)
            return next(readable(newest_first), newest_first[0])
        exact = [run for run in runs if run.id == name]
        matching = exact or [run for run in runs if run.id.startswith(name)]
        if len(matching) == 1:
            return matching[0]
        if matching:
            raise LabError(
                f"'{name}' begins the names of {len(matching)} runs: {', '.join(r.id for r in matching[:5])}"
            )
        raise LabError(f"no run '{name}' in {self.folder}: {nearest(name, [run.id for run in runs] + ['last'])}")
