"""`hak top`: what is shown and what is asked, without a terminal: keys in, state out."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hakmem_lab.errors import LabError
from hakmem_lab.inside import explain, layout, options
from hakmem_lab.inside.memory import Gone, Process
from hakmem_lab.inside.options import Setting

VIEWS = ("classes", "threads", "options")


class Subject:
    """The process. Its options are changed by `apply` alone. Where they lie is looked up each time: it may have become
    another program."""

    def __init__(self, pid: int):
        self.pid = pid
        self.settings()

    def read(self) -> dict:
        return explain.process(self.pid)

    def settings(self) -> list[Setting]:
        with Process(self.pid) as memory:
            return options.changeable(memory, layout.find(memory))

    def apply(self, setting: Setting) -> None:
        with Process(self.pid) as memory:
            options.write(memory, layout.find(memory), setting)


@dataclass
class Watch:
    """What the screen shows. typed: a new value that is being written; asked: one that waits for a yes."""

    subject: Subject
    reading: Mapping = field(default_factory=dict)
    before: Mapping | None = None
    seconds: float = 0.0  # between the two readings
    view: str = VIEWS[0]
    settings: list[Setting] = field(default_factory=list)
    selected: int = 0
    typed: str | None = None
    asked: Setting | None = None
    said: str = ""
    undo: list[Setting] = field(default_factory=list)
    _ended: bool = False
    _at: float = 0.0

    def ended(self) -> bool:
        return self._ended

    def read(self) -> None:
        """One that fails is said, unless it is the first, or the process has ended."""
        now = time.monotonic()
        try:
            reading, settings = self.subject.read(), self.subject.settings()
        except LabError as error:
            if isinstance(error, Gone) or not self.reading:
                raise
            self.said = str(error)
            return
        self.before, self.seconds = self.reading or None, now - self._at if self._at else 0.0
        self.reading, self._at, self.settings = reading, now, settings

    def rates(self) -> dict[str, float]:
        """KiB a second by owner, since the reading before."""
        if self.before is None or self.seconds <= 0:
            return {}
        was = {row["owner"]: row["kib"] for row in self.before["rows"]}
        return {row["owner"]: (row["kib"] - was.get(row["owner"], 0)) / self.seconds for row in self.reading["rows"]}

    def changes(self, name: str, key: str, column: str) -> dict:
        """The change a second of a column, by row."""
        if self.before is None or self.seconds <= 0:
            return {}
        was = {row[key]: row[column] for row in self.before[name]}
        return {row[key]: (row[column] - was.get(row[key], 0)) / self.seconds for row in self.reading[name]}

    def key(self, key: str) -> None:
        """What a key does: a character, or one of up, down, enter, escape, back."""
        if self.asked is not None:
            self._answer(key)
        elif self.typed is not None:
            self._type(key)
        elif key in ("q", "escape"):
            self._ended = True
        elif key in "cto" and len(key) == 1:
            self.view, self.said = VIEWS["cto".index(key)], ""
        elif key == "u":
            self._undo()
        elif self.view == "options":
            self._choose(key)

    def _choose(self, key: str) -> None:
        if key in ("up", "down"):
            self.selected = max(0, min(self.selected + (1 if key == "down" else -1), len(self.settings) - 1))
        elif key == "enter" and self.settings:
            self.typed, self.said = "", ""

    def _type(self, key: str) -> None:
        typed = self.typed or ""
        if key == "escape":
            self.typed = None
        elif key == "back":
            self.typed = typed[:-1]
        elif key == "enter":
            self.typed = None
            self._ask(typed)
        elif len(key) == 1 and key.isprintable():
            self.typed = typed + key

    def _ask(self, text: str) -> None:
        setting = self.settings[self.selected]
        try:
            value = options.parse(setting, text)
        except LabError as error:
            self.said = str(error)
            return
        self.asked = replace(setting, value=value, given=True)
        self.said = options.preview(self.settings, self.asked, self.reading)

    def _answer(self, key: str) -> None:
        asked, self.asked = self.asked, None
        assert asked is not None
        if key != "y":
            self.said = "not changed"
            return
        was = self.settings[self.selected]
        self.subject.apply(asked)
        self.undo.append(was)
        self.said = f"{asked.name} is {asked.shown()} now; u takes it back to {was.shown()}"
        self.settings = self.subject.settings()

    def _undo(self) -> None:
        if not self.undo:
            self.said = "nothing was changed"
            return
        was = self.undo.pop()
        self.subject.apply(was)
        self.said = f"{was.name} is {was.shown()} again"
        self.settings = self.subject.settings()
