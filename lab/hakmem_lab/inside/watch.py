"""The state of `hak heap top`, without its terminal: keys go in, state comes out. It also reads the options of the
process, and changes them in its memory as hak_option_set would.
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hakmem_lab.errors import LabError
from hakmem_lab.inside import explain, layout
from hakmem_lab.inside.layout import Layout, Option
from hakmem_lab.inside.memory import Gone, Process

AUTO = -1
WORDS = {"off": 0, "dense": 1, "auto": AUTO}
NO_END = (1 << 63) - 1
SIZES = ("BYTES", "LIMIT")  # kinds of options with a suffix
AUTO_PERCENT = 90  # of MEMORY_LIMIT=auto
SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
KIB, SLAB_KIB = 1024, 64
PEAK_PART = 2  # as in src/base/numbers.def


@dataclass(frozen=True)
class Setting:
    """An option with its value in a process. given: set by the user, and not by the profile."""

    number: int
    option: Option
    value: int
    given: bool

    @property
    def name(self) -> str:
        return self.option.name

    def shown(self, value: int | None = None) -> str:
        value = self.value if value is None else value
        if self.option.kind == "LIMIT" and value < 0:
            return f"auto:{-value}%"
        if self.option.kind == "HUGE" or value == AUTO:
            return next((word for word, number in WORDS.items() if number == value), str(value))
        if self.option.kind in SIZES:
            if value == NO_END:
                return "no limit"
            suffix = next(each for each in ("G", "M", "K", "") if value % SUFFIXES[each] == 0 and (value or not each))
            return f"{value // SUFFIXES[suffix]}{suffix}"
        return str(value)


def changeable(memory: Process, layout: Layout) -> list[Setting]:
    """Options that may be changed at any time."""
    found = []
    for number, option in enumerate(layout.options):
        if option.when == "ANY":
            value = memory.read(layout.root("hak_option_values") + 8 * number, 8)
            given = memory.read(layout.root("hak_option_given") + number, 1)
            found.append(Setting(number, option, int.from_bytes(value, "little", signed=True), given != b"\0"))
    return found


def parse_setting(setting: Setting, text: str) -> int:
    """The value that the text gives. Raises LabError if the option does not allow it."""
    option = setting.option
    if option.kind == "HUGE":
        value = WORDS.get(text.lower())
        if value is None:
            raise LabError(f"{option.name}: '{text}' is not one of {', '.join(WORDS)}")
        return value
    share = re.fullmatch(r"auto(?::(\d+)%?)?", text.lower()) if option.kind == "LIMIT" else None
    if share and 1 <= int(share[1] or AUTO_PERCENT) <= 100:
        return -int(share[1] or AUTO_PERCENT)
    suffixes = "KMG" if option.kind in SIZES else ""
    found = re.fullmatch(rf"(\d+)([{suffixes}]?)" if suffixes else r"(\d+)()", text.upper())
    value = int(found[1]) * SUFFIXES[found[2]] if found else None
    low = max(option.low, 0)
    if value is None or not low <= value <= option.high:
        what = "a number of bytes such as 64M" if suffixes else "a number"
        high = "" if option.high == NO_END else f" up to {option.high}"
        raise LabError(f"{option.name}: '{text}' is not {what} from {low}{high}")
    return value


def write_setting(memory: Process, layout: Layout, setting: Setting) -> None:
    """Write the setting's value into the process. Raises LabError if its memory cannot be written."""
    value = setting.value.to_bytes(8, "little", signed=True)
    memory.write(layout.root("hak_option_values") + 8 * setting.number, value)
    memory.write(layout.root("hak_option_given") + setting.number, bytes([setting.given]))


def target_kib(values: Mapping[str, int], counters: Mapping[str, int]) -> int:
    """How much free memory may stay resident, computed as by hak_retain_target_locked in src/pages/retain.c."""
    least = values["RETAIN"] // KIB
    most = counters["peak_kib"] + counters["peak_kib"] // PEAK_PART
    allowed = min(max(least + counters["balance_kib"], 0), max(least, most - counters["used_kib"]))
    return max(values["WARM_POOL_SIZE"] * SLAB_KIB, min(allowed, max(least, values["RETAIN_MAX"] // KIB)))


def surplus_kib(values: Mapping[str, int], counters: Mapping[str, int]) -> int:
    """How much free memory is returned soon: what exceeds the target, or was free for a whole window."""
    dirty, warm = counters["dirty_kib"], values["WARM_POOL_SIZE"] * SLAB_KIB
    return max(dirty - target_kib(values, counters), min(counters["idle_kib"], dirty - warm), 0)


def preview(settings: list[Setting], changed: Setting, reading: Mapping) -> str:
    """The expected effect of a change, in one line."""
    counters = reading["counters"]
    before = {each.name: each.value for each in settings}
    dirty, used, new = counters["dirty_kib"], counters["used_kib"], changed.value
    then = before | {changed.name: new}
    was, will = target_kib(before, counters), target_kib(then, counters)
    share = f"the heap may fill {-new} % of what the control group may use, less what other processes in it use"
    left = f"{new // KIB - used:,} KiB more can be had" if new // KIB > used else "malloc fails from now on"
    stays = f"{was:,} KiB now, {will:,} KiB then; {surplus_kib(then, counters):,} KiB go back soon"
    waiting = f"free memory that may stay until it was idle for a window: {stays}"
    texts = dict.fromkeys(("WARM_POOL_SIZE", "RETAIN", "RETAIN_MAX"), waiting) | {
        "DECAY_MS": f"{dirty:,} KiB are free and resident; what is idle for {new:,} ms goes back at the next chance",
        "MEMORY_LIMIT": f"{used:,} KiB are in use: {share if new < 0 else left if new else 'no limit'}",
        "HUGE_PAGES": "for memory that is mapped from now on",
    }
    return texts.get(changed.name, "from now on")


VIEWS = ("classes", "threads", "options", "regions")


class Subject:
    """The watched process. Only `apply` changes it. The options' address is looked up each time, since the process may
    have become another program."""

    def __init__(self, pid: int):
        self.pid = pid
        self.settings()

    def read(self) -> dict:
        return explain.process(self.pid)

    def settings(self) -> list[Setting]:
        """Empty where another allocator serves the process."""
        with Process(self.pid) as memory:
            try:
                return changeable(memory, layout.find(memory))
            except layout.NotServed:
                return []

    def apply(self, setting: Setting) -> None:
        with Process(self.pid) as memory:
            write_setting(memory, layout.find(memory), setting)


@dataclass
class Watch:
    """The state of the screen. typed: the new value while the user types it; asked: a change to be confirmed."""

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
        """Take a reading. A failure is shown, or raised if it is the first reading or the process has ended."""
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
        """KiB per second by owner, since the previous reading."""
        return self.changes("rows", "owner", "kib")

    def changes(self, name: str, key: str, column: str) -> dict:
        """The change of a column per second, by row."""
        if self.before is None or self.seconds <= 0:
            return {}
        was = {row[key]: row[column] for row in self.before[name]}
        return {row[key]: (row[column] - was.get(row[key], 0)) / self.seconds for row in self.reading[name]}

    def key(self, key: str) -> None:
        """Handle a key: a character, or one of up, down, enter, escape, back."""
        if self.asked is not None:
            self._answer(key)
        elif self.typed is not None:
            self._type(key)
        elif key in ("q", "escape"):
            self._ended = True
        elif key in "ctor" and len(key) == 1:
            self.view, self.said = VIEWS["ctor".index(key)], ""
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
            value = parse_setting(setting, text)
        except LabError as error:
            self.said = str(error)
            return
        self.asked = replace(setting, value=value, given=True)
        self.said = preview(self.settings, self.asked, self.reading)

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
