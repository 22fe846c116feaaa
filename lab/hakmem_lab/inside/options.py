"""The options of a process that runs: read, and changed through its memory as hak_option_set would change them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hakmem_lab.errors import LabError
from hakmem_lab.inside.layout import Layout, Option
from hakmem_lab.inside.memory import Process

AUTO = -1
WORDS = {"off": 0, "dense": 1, "auto": AUTO}
SUFFIXES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
KIB = 1024


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
        if self.option.kind == "HUGE" or value == AUTO:
            return next((word for word, number in WORDS.items() if number == value), str(value))
        if self.option.kind == "BYTES":
            suffix = next(each for each in ("G", "M", "K", "") if value % SUFFIXES[each] == 0 and (value or not each))
            return f"{value // SUFFIXES[suffix]}{suffix}"
        return str(value)


def changeable(memory: Process, layout: Layout) -> list[Setting]:
    """Those that may be changed at any time."""
    found = []
    for number, option in enumerate(layout.options):
        if option.when == "ANY":
            value = memory.read(layout.root("hak_option_values") + 8 * number, 8)
            given = memory.read(layout.root("hak_option_given") + number, 1)
            found.append(Setting(number, option, int.from_bytes(value, "little", signed=True), given != b"\0"))
    return found


def parse(setting: Setting, text: str) -> int:
    """Raises LabError where the option has no such value."""
    option = setting.option
    if option.kind == "HUGE":
        value = WORDS.get(text.lower())
        if value is None:
            raise LabError(f"{option.name}: '{text}' is none of {', '.join(WORDS)}")
        return value
    suffixes = "KMG" if option.kind == "BYTES" else ""
    found = re.fullmatch(rf"(\d+)([{suffixes}]?)" if suffixes else r"(\d+)()", text.upper())
    value = int(found[1]) * SUFFIXES[found[2]] if found else None
    if value is None or not option.low <= value <= option.high:
        what = "a number of bytes such as 64M" if suffixes else "a number"
        high = "" if option.high == (1 << 63) - 1 else f" up to {option.high}"
        raise LabError(f"{option.name}: '{text}' is not {what} from {option.low}{high}")
    return value


def write(memory: Process, layout: Layout, setting: Setting) -> None:
    """Gives the process the setting's value. Raises LabError where its memory cannot be written."""
    value = setting.value.to_bytes(8, "little", signed=True)
    memory.write(layout.root("hak_option_values") + 8 * setting.number, value)
    memory.write(layout.root("hak_option_given") + setting.number, bytes([setting.given]))


def target_kib(values: Mapping[str, int], counters: Mapping[str, int], slab_kib: int = 64) -> int:
    """What the release policy lets stay resident of free memory until it decays; target.c computes it the same way."""
    warm = values["WARM_POOL_SIZE"] * slab_kib
    share = counters["used_kib"] * values["RETAIN_PERCENT"] // 100
    least = max(values["RETAIN"] // KIB - counters["cached_kib"], 0)
    return max(warm, least, share + counters["learned_kib"])


def preview(settings: list[Setting], changed: Setting, reading: Mapping) -> str:
    """What a change would do, in one line, as far as can be known."""
    counters = reading["counters"]
    before = {each.name: each.value for each in settings}
    dirty, used, new = counters["dirty_kib"], counters["used_kib"], changed.value
    was, will = target_kib(before, counters), target_kib(before | {changed.name: new}, counters)
    left = f"{new // KIB - used:,} KiB more can be had" if new // KIB > used else "malloc fails from now on"
    stays = f"{was:,} KiB now, {will:,} KiB then; {max(dirty - will, 0):,} KiB go back soon"
    texts = {
        "WARM_POOL_SIZE": f"free memory that may stay until it decays: {stays}",
        "RETAIN": f"free memory that may stay until it decays: {stays}",
        "RETAIN_PERCENT": f"free memory that may stay until it decays: {stays}",
        "RETAIN_LEARNED": f"when memory is next asked for again; {counters['learned_kib']:,} KiB are learned now",
        "DECAY_MS": f"{dirty:,} KiB are free and resident; what is unused for {new:,} ms goes back at the next chance",
        "MEMORY_LIMIT": f"{used:,} KiB are in use: {left if new else 'no limit'}",
        "HUGE_PAGES": "for memory that is mapped from now on",
    }
    return texts.get(changed.name, "from now on")
