"""Stored runs for Python: `hakmem_lab.load("last").runs.polars()`.

Frames need polars or pandas (`pip install 'hakmem-lab[frames]'`). Rows are plain dictionaries and need neither.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from hakmem_lab.errors import LabError
from hakmem_lab.store import query, records
from hakmem_lab.store.results import Result
from hakmem_lab.store.runs import DESCRIBED, RunFile, Store, default_folder

if TYPE_CHECKING:
    import pandas
    import polars

POLARS_TYPES = {records.INTEGER: "Int64", records.REAL: "Float64", records.TEXT: "String", records.TRUTH: "Boolean"}
PANDAS_TYPES = {records.INTEGER: "Int64", records.REAL: "Float64", records.TEXT: "string", records.TRUTH: "boolean"}


class Table(Sequence[dict]):
    """Rows of one kind, with the columns of `hak runs export`; a value that a row lacks is None."""

    def __init__(self, columns: Mapping[str, str], rows: Sequence[dict]):
        self._columns, self._rows = columns, rows

    def __getitem__(self, index: Any) -> Any:
        return self._rows[index]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict]:
        return iter(self._rows)

    def __repr__(self) -> str:
        return f"<Table of {len(self)} rows: {', '.join(self.columns)}>"

    @property
    def columns(self) -> list[str]:
        return list(self._columns)

    def polars(self) -> "polars.DataFrame":
        """A polars frame; raises LabError where polars is not installed."""
        frames = _module("polars")
        types = {name: getattr(frames, POLARS_TYPES[kind]) for name, kind in self._columns.items()}
        return frames.DataFrame([self._flat(row) for row in self._rows], schema=types)

    def pandas(self) -> "pandas.DataFrame":
        """A pandas frame with nullable types; raises LabError where pandas is not installed."""
        frames = _module("pandas")
        rows = [self._flat(row) for row in self._rows]
        kinds = {name: PANDAS_TYPES[kind] for name, kind in self._columns.items()}
        return frames.DataFrame({n: frames.array([row[n] for row in rows], dtype=kind) for n, kind in kinds.items()})

    def _flat(self, row: dict) -> dict:
        """A row of single values; a nested value becomes JSON."""
        return {name: query.flat(row[name], kind) for name, kind in self._columns.items()}


def _module(name: str) -> ModuleType:
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise LabError(f"{name} is not installed: pip install 'hakmem-lab[frames]'") from None


class Run:
    """One stored run. Its parts are read at their first use, and cached."""

    def __init__(self, file: RunFile):
        self._file = file
        file.header()

    def __repr__(self) -> str:
        return f"<Run {self.id}: {self.header['question'] or ' '.join(self.header['command']['argv'])}>"

    @property
    def id(self) -> str:
        return self.header["id"]

    @property
    def path(self) -> Path:
        return self._file.path

    @cached_property
    def header(self) -> records.Record:
        """The header, with everything that the result depends on: spec, arms, machine, inputs."""
        return self._file.header(*DESCRIBED)

    @cached_property
    def records(self) -> list[records.Record]:
        return list(self._file.records())

    @cached_property
    def result(self) -> Result:
        """The result: verdict, headline, comparisons, and the parts of its kind."""
        from hakmem_lab import kinds

        return kinds.result_of(self._file)

    @cached_property
    def _tables(self) -> dict[str, list[dict]]:
        return query.tables([self._file])

    def table(self, name: str) -> Table:
        """A table of `hak runs export --sql` by its name: headers, arms, runs, blocks, samples, events, results."""
        if name not in records.COLUMNS:
            raise LabError(f"there is no table '{name}': there are {', '.join(records.COLUMNS)}")
        return Table(records.COLUMNS[name], self._tables[name])

    @property
    def runs(self) -> Table:
        """Every execution of the program, including trials and repeated blocks (see `phase` and `ok`)."""
        return self.table("runs")

    @property
    def blocks(self) -> Table:
        return self.table("blocks")

    @property
    def arms(self) -> Table:
        return self.table("arms")

    @property
    def samples(self) -> Table:
        """Memory and throughput of a soak, one row for each sample."""
        return self.table("samples")

    @property
    def events(self) -> Table:
        return self.table("events")


def load(name: str | os.PathLike = "last", store: str | os.PathLike | None = None) -> Run:
    """A stored run by its id, the beginning of the id, a file, or `last`. store: a folder other than the user's.

    Raises LabError where there is none.
    """
    return Run(Store(Path(store) if store else default_folder()).find(os.fspath(name)))


def load_all(store: str | os.PathLike | None = None) -> list[Run]:
    """All runs of a store, oldest first. Raises LabError where a file is no run."""
    return [Run(file) for file in Store(Path(store) if store else default_folder()).runs()]
