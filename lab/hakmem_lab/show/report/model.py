"""The data of a report: one run of the store, read into lists by type of record.

Also writes a specification as TOML, so that it can be saved and run again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, cast

from hakmem_lab.judge import words
from hakmem_lab.show.numbers import UNKNOWN
from hakmem_lab.store.records import Record, Run, Sample
from hakmem_lab.store.results import Result

MEASURED_PHASES = ("measure", "select", "confirm")


@dataclass
class Table:
    """The numbers behind a picture, or a table of its own: the caption, the column heads and rows of text. note: below
    it."""

    caption: str
    columns: list[str]
    rows: Sequence[Sequence[str | Cell]]
    note: str = ""

    def __bool__(self) -> bool:
        return bool(self.rows)


@dataclass(frozen=True)
class Cell:
    """A tinted cell; its text has the same meaning without the tint."""

    text: str
    tone: str

    def __str__(self) -> str:
        return self.text


_TONES = {word: word.lower() for word in ("GO", "NO-GO", "NEUTRAL", "INCONCLUSIVE")} | {"open": "inconclusive"}


def text_of(value: object) -> str:
    return UNKNOWN if value is None or value == "" else str(value)


def verdict_cell(word: object) -> str | Cell:
    """The cell of a verdict, or of a suite's pass, miss or open; a ~ marks a target inside the interval."""
    text = str(word or "")
    tone = _TONES.get(text)
    for start, mark, meaning in (("pass", "✓", "go"), ("miss", "✕", "no-go")):
        if text.startswith(start):
            text, tone = f"{mark} {text}", "inconclusive" if "~" in text else meaning
    return Cell(text, tone) if tone else text_of(word)


_UNWRITABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isprintable() else _UNWRITABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {_cleaned(name): _cleaned(each) for name, each in value.items()}
    return [_cleaned(each) for each in value] if isinstance(value, (list, tuple)) else value


def _place(record: Mapping[str, Any]) -> tuple[Any, ...]:
    return record.get("phase", "measure"), record.get("block"), record.get("attempt")


@dataclass
class LoadedRun:
    """The records of one run. `blocks` may be empty: then every successful run counts."""

    header: Record
    runs: list[Run] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    events: list[Record] = field(default_factory=list)
    looks: list[Record] = field(default_factory=list)
    decisions: list[Record] = field(default_factory=list)
    result: Result = field(default_factory=Result)
    blocks: list[Record] = field(default_factory=list)

    @classmethod
    def from_records(cls, records: Iterable[Mapping[str, Any]], result: Result | None = None) -> LoadedRun:
        """Sort records by their `type`; one without a type is a run. `result` replaces a stored result."""
        loaded = cls(header={})
        lists = {name: getattr(loaded, f"{name}s") for name in ("run", "sample", "event", "look", "decision", "block")}
        for each in records:
            record = dict(each)
            kind = record.get("type", "run")
            if kind == "header":
                loaded.header = record
            elif kind == "result":
                loaded.result = cast(Result, record)
            elif kind in lists:
                lists[kind].append(record)
        if result is not None:
            loaded.result = result
        return loaded

    def cleaned(self) -> LoadedRun:
        """The run with every text made writable: control characters and lone surrogates are replaced."""
        return LoadedRun(**{each.name: _cleaned(getattr(self, each.name)) for each in fields(self)})

    @property
    def id(self) -> str:
        return str(self.header.get("id") or self.result.get("id") or "run")

    @property
    def kind(self) -> str:
        return str(self.result.get("kind") or self.header.get("kind") or "run")

    @property
    def question(self) -> str:
        """The question of the run; without one, the compared arms and the program."""
        asked = self.result.get("question") or self.header.get("question")
        if asked:
            return str(asked)
        first, *others = self.arm_names or [self.kind]
        subject = f"{', '.join(others)} against {first}" if others else first
        replayed = (self.header.get("spec") or {}).get("trace")
        program = str(replayed or (self.header.get("command") or {}).get("program") or "").rpartition("/")[2]
        return f"{subject} on {program}" if program else subject

    @property
    def metric_name(self) -> str:
        return words.metric_name(self.result)

    @cached_property
    def counted(self) -> list[Run]:
        """Runs that count: successful, in a measuring phase, and in a block that succeeded."""
        closed = {_place(block) for block in self.blocks if block.get("ok")}
        return [
            run
            for run in self.runs
            if run.get("ok", True)
            and run.get("phase", "measure") in MEASURED_PHASES
            and (not self.blocks or _place(run) in closed)
        ]

    @cached_property
    def arm_names(self) -> list[str]:
        """Names of the arms in the order of the result, else of the header, else of first appearance."""
        for source in (self.result.get("arms"), self.header.get("arms")):
            names = [str(arm["name"]) for arm in source or [] if arm.get("name")]
            if names:
                return names
        return list(dict.fromkeys(str(run["arm"]) for run in self.runs if run.get("arm")))


def dumps(table: Mapping[str, Any]) -> str:
    """The table as TOML; keys whose value is None are left out, since TOML has no such value."""
    import tomli_w  # which pages alone need

    return tomli_w.dumps(_known(table))


def _known(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _known(each) for name, each in value.items() if each is not None}
    return [_known(each) for each in value if each is not None] if isinstance(value, (list, tuple)) else value
