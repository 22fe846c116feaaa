"""`hak heap top` on a terminal: its screen, and its keys."""

import contextlib
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Iterator

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from hakmem_lab.errors import one_line
from hakmem_lab.inside.unserved import OTHER
from hakmem_lab.inside.watch import Watch
from hakmem_lab.show.terminal import table_of
from hakmem_lab.show.terminal.process import class_cells, kib, region_cells, region_heads, thread_cells

KEYS = {"\x1b[A": "up", "\x1b[B": "down", "\x1bOA": "up", "\x1bOB": "down", "\r": "enter", "\n": "enter"}
KEYS |= {"\x1b": "escape", "\x7f": "back", "\b": "back"}
BAR, ROWS_LEFT = 20, 24  # width of a bar; lines other than the table of a view
HELP = "c classes  t threads  r regions  o options  u undo  q quit"


def show(watch: Watch, interval: float) -> None:
    """Refreshes the display until the user quits or the process ends."""
    console = Console(highlight=False)
    with _keys() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        while not watch.ended():
            watch.read()
            live.update(screen(watch, console.height), refresh=True)
            for key in keys(interval):
                watch.key(key)
                if watch.ended():
                    break
                live.update(screen(watch, console.height), refresh=True)


@contextlib.contextmanager
def _keys() -> Iterator:
    """Yields keys(seconds), which yields each key pressed within this time. Restores the terminal afterwards."""
    file = sys.stdin.fileno()
    before = termios.tcgetattr(file)

    def keys(seconds: float) -> Iterator[str]:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            if not select.select([file], [], [], left)[0]:
                return
            data = os.read(file, 64).decode(errors="replace")
            if not data:
                yield "q"
                return
            yield from split(data)

    try:
        tty.setcbreak(file)
        yield keys
    finally:
        termios.tcsetattr(file, termios.TCSADRAIN, before)


def split(data: str) -> Iterator[str]:
    while data:
        name = next((code for code in sorted(KEYS, key=len, reverse=True) if data.startswith(code)), data[0])
        yield KEYS.get(name, name)
        data = data[len(name) :]


def screen(watch: Watch, height: int) -> Group:
    reading = watch.reading
    changed = reading["counters"]["difference_kib"] if "counters" in reading else 0
    head = f"process {reading['pid']}: {kib(reading['rss_kib'])} KiB resident; read in {reading['seconds']:.2f} s"
    head += f", meanwhile its counters changed by {kib(changed)} KiB" if changed else ""
    table = {"classes": _classes, "threads": _threads, "options": _options, "regions": _regions}[watch.view]
    view = table(watch, max(height - ROWS_LEFT, 4))
    return Group(Text(head, style="bold"), _owners(watch), view, _line(watch), Text(HELP, style="dim"))


def _rate(value: float | None) -> str:
    return "" if value is None or abs(value) < 0.05 else f"{value:+,.0f}" if abs(value) >= 10 else f"{value:+.1f}"


def _owners(watch: Watch):
    rates, whole = watch.rates(), max(watch.reading["rss_kib"], 1)
    rows = (
        [row["owner"], kib(row["kib"]), _rate(rates.get(row["owner"])), "█" * round(max(row["kib"], 0) / whole * BAR)]
        for row in watch.reading["rows"]
    )
    return table_of("", ("owner", "KiB", "KiB/s", ""), rows, -1)


def _classes(watch: Watch, most: int):
    live = watch.changes("classes", "block_bytes", "live_blocks")
    resident = watch.changes("classes", "block_bytes", "resident_kib")
    largest, rows = sorted(watch.reading["classes"], key=lambda row: -row["resident_kib"])[:most], []
    for row in sorted(largest, key=lambda row: row["block_bytes"] or 1 << 62):
        size, _, alive, cached, free, *_, there = class_cells(row)
        each = row["block_bytes"]
        rows.append([size, alive, _rate(live.get(each)), cached, free, there, _rate(resident.get(each))])
    return table_of("", ("bytes", "live", "a second", "cached", "free", "resident KiB", "KiB/s"), rows)


def _threads(watch: Watch, most: int):
    heads = ("thread", "name", "cached KiB", "KiB/s", "blocks", "refills and overflows a second")
    cached = watch.changes("threads", "thread", "cached_kib")
    events = watch.changes("threads", "thread", "events")
    rows = []
    for row in watch.reading["threads"][:most]:
        *first, blocks = thread_cells(row)
        rows.append([*first, _rate(cached.get(row["thread"])), blocks, _rate(events.get(row["thread"]))])
    return table_of("", heads, rows)


def _regions(watch: Watch, most: int):
    resident = watch.changes("regions", "name", "resident_kib")
    rows = ([*region_cells(row), _rate(resident.get(row["name"]))] for row in watch.reading["regions"][:most])
    return table_of("", (*region_heads, "KiB/s"), rows)


def _options(watch: Watch, _: int):
    marks = {watch.selected: "> "}
    rows = (
        [marks.get(number, "  ") + each.name, each.shown(), "user" if each.given else "profile"]
        for number, each in enumerate(watch.settings)
    )
    return table_of("", ("option", "value", "set by"), rows)


def _line(watch: Watch) -> Text:
    """The current question to the user, or the last message."""
    if watch.asked is not None:
        was = watch.settings[watch.selected]
        change = f"{was.name}: {was.shown()} -> {watch.asked.shown()}: {watch.said}"
        return Text(f"{change}. y: do it, any other key: no", "bold")
    if watch.typed is not None:
        typed = f"{watch.settings[watch.selected].name} = {watch.typed}_"
        return Text(f"{typed}  (enter: see what it does, escape: leave)", "bold")
    if not watch.reading.get("served", True) and not watch.said:
        none = "it has no options of hakmem: " if watch.view == "options" else ""
        return Text(none + OTHER.format(watch.reading["pid"]))
    if watch.view == "options" and not watch.said:
        return Text("up and down choose, enter changes")
    return Text(one_line(watch.said))
