"""A process on the terminal: the findings of `hak doctor`, and a reading of `hak heap explain`."""

import textwrap
from collections.abc import Mapping

from hakmem_lab.doctor import Report
from hakmem_lab.errors import one_line
from hakmem_lab.inside.unserved import OTHER
from hakmem_lab.show.terminal import number, output, table_of

WIDTH, LEAST_WIDTH = 100, 60
STATES = {"ok": "green", "note": "blue", "problem": "bold red", "unknown": "yellow"}
STATE_WIDTH = 9
MARK = "-> "


def show_report(found: Report) -> None:
    """Prints the verdict, then a line for each check with its remedy below it."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, markup=False, soft_wrap=True)
    width = max(LEAST_WIDTH, min(WIDTH, console.width)) if console.is_terminal else WIDTH
    style = "bold green" if found.served else "bold red"
    for line in _wrapped(one_line(found.verdict), "", width):
        console.print(line, style=style)
    console.print()
    names = max(len(check.name) for check in found.checks)
    for check in found.checks:
        margin = " " * (STATE_WIDTH + names + 2)
        first, *rest = _wrapped(one_line(check.found), margin, width)
        state = Text(f"{check.state:<{STATE_WIDTH}}", STATES[check.state])
        console.print(state.append(f"{check.name:<{names}}  ", "default"), end="")
        console.print("\n".join([first.removeprefix(margin), *rest]))
        if check.remedy:
            for line in _wrapped(MARK + one_line(check.remedy), " " * STATE_WIDTH, width):
                console.print(line, style="bold")


def _wrapped(text: str, margin: str, width: int) -> list[str]:
    lines = textwrap.wrap(text, width, initial_indent=margin, subsequent_indent=margin, break_on_hyphens=False)
    return lines or [margin]


BAR = 30
CLASSES = 20  # shown; --json has all
REMEDY_WIDTH = 100


def kib(value: int) -> str:
    return f"{value:,}"


def size(value: int | None) -> str:
    return f"{value:,}" if value else "above 1 MiB"


def show_reading(result: Mapping) -> None:
    console = output()
    console.print(one_line(headline(result)), style="bold", soft_wrap=True)
    console.print()
    console.print(owners(result))
    if result.get("inside"):
        console.print(one_line(result["inside"]), soft_wrap=True)
        console.print()
    if not result.get("served", True):
        rows = ((one_line(row["name"]), kib(row["kib"])) for row in result["others"])
        console.print(table_of("anonymous memory by name", ("mapping", "KiB"), rows))
    else:
        console.print(classes(result))
    if result.get("regions"):
        console.print(regions(result))
    if result["threads"]:
        console.print(threads(result))
    if "counters" in result:
        console.print(free_memory(result["counters"]), soft_wrap=True)
        console.print()
    if result.get("served", True):
        _wastes(console, result)
    if "diff" in result:
        _difference(console, result["diff"])


def headline(result: Mapping) -> str:
    what = f"process {result['pid']}" if "pid" in result else f"core {result['core']}"
    text = f"{what}: {kib(result['rss_kib'])} KiB resident, {kib(result['sum_kib'])} KiB by owner"
    if not result.get("served", True):
        return f"{text}; {OTHER.format(result['pid'])}"
    if "core" in result:
        return text + "; of a core, the pages that are not all zeros"
    if result["stopped"]:
        return text + "; it was stopped meanwhile"
    changed = result["counters"]["difference_kib"]
    return text + f"; it ran meanwhile: its counters before and after differ by {kib(changed)} KiB"


def free_memory(counters: Mapping[str, int]) -> str:
    """A line about free memory: how much is resident, idle or purged, beside the memory in use."""
    text = f"free memory: {kib(counters['dirty_kib'])} KiB resident, of which {kib(counters['idle_kib'])} KiB were idle"
    text += f" for a window; {kib(counters['ghosts_kib'])} KiB were purged lately"
    return text + f"; {kib(counters['used_kib'])} KiB are in use, at most {kib(counters['peak_kib'])} KiB lately"


def owners(result: Mapping):
    changes = {row["owner"]: row["change_kib"] for row in result.get("diff", {}).get("rows", ())}
    whole, rows = max(result["rss_kib"], 1), []
    for row in result["rows"]:
        share = row["kib"] / whole
        change = [f"{changes.get(row['owner'], 0):+,}"] if changes else []
        bar = "█" * round(max(share, 0) * BAR)
        rows.append([row["owner"], kib(row["kib"]), f"{100 * share:.1f}", *change, bar])
    rows.append(["resident", kib(result["rss_kib"]), "100.0"])
    return table_of("", ("owner", "KiB", "%", *(["change"] if changes else []), ""), rows, -1)


def classes(result: Mapping):
    rows = sorted(result["classes"], key=lambda row: -row["resident_kib"])
    shown = sorted(rows[:CLASSES], key=lambda row: row["block_bytes"] or 1 << 62)
    left = f" (the {CLASSES} largest of {len(rows)}; --json has all)" if len(rows) > CLASSES else ""
    heads = ("bytes", "slabs", "live", "cached", "free", "asked", "live KiB", "rounding", "resident", "of free pages")
    cells = ([*class_cells(row), kib(row["free_pages_kib"])] for row in shown)
    return table_of(f"blocks by class{left}", heads, cells)


def class_cells(row: Mapping) -> list[str]:
    """Cells of one class: size; slabs; live, cached and free blocks; mean request; KiB that are live, lost to rounding,
    and resident."""
    blocks = (row["slabs"], row["live_blocks"], row["cached_blocks"] + row["depot_blocks"], row["free_blocks"])
    asked = f"{row['mean_asked']:,.0f}" if row["mean_asked"] else "-"
    sizes = (row["live_kib"], row["rounding_kib"], row["resident_kib"])
    return [size(row["block_bytes"]), *map(kib, blocks), asked, *map(kib, sizes)]


def threads(result: Mapping, most: int = 8):
    rows = result["threads"]
    left = f" (the first {most} of {len(rows)})" if len(rows) > most else ""
    return table_of(f"caches by thread{left}", ("thread", "name", "KiB", "blocks"), map(thread_cells, rows[:most]))


def thread_cells(row: Mapping) -> list[str]:
    return [str(row["thread"]), one_line(row["name"] or "-"), kib(row["cached_kib"]), kib(row["cached_blocks"])]


region_heads = ("region", "number", "used KiB", "at most", "limit", "live KiB", "blocks", "resident")


def regions(result: Mapping, most: int = 10):
    rows = result["regions"]
    left = sum(row["regions"] for row in rows[most:]) + result["regions_left_out"]
    more = f" (those that use most; {left:,} regions are left out)" if left else ""
    return table_of(f"regions by name{more}", region_heads, map(region_cells, rows[:most]))


def region_cells(row: Mapping) -> list[str]:
    name = one_line(row["name"] or "-") + (f" in {one_line(row['parent'])}" if row["parent"] else "")
    limit = kib(row["hard_limit"] // 1024) if row["hard_limit"] else "-"
    used, peak, live = (kib(row[each] // 1024) for each in ("used_bytes", "peak_bytes", "live_bytes"))
    return [name, kib(row["regions"]), used, peak, limit, live, kib(row["live_blocks"]), kib(row["resident_kib"])]


def _wastes(console, result: Mapping) -> None:
    margin = " " * 11
    console.print("largest wastes, and what to do", style="bold")
    for row in result["wastes"]:
        console.print(f"{number(row['kib'], 'KiB'):>9}  {one_line(row['what'])}", soft_wrap=True)
        for line in textwrap.wrap(MARK + row["remedy"], REMEDY_WIDTH, initial_indent=margin, subsequent_indent=margin):
            console.print(line, soft_wrap=True, style="dim")
    if not result["wastes"]:
        console.print("none of 4 KiB or more")


def _difference(console, diff: Mapping) -> None:
    console.print()
    title = f"classes, since {diff['since']}: {diff['rss_change_kib']:+,} KiB"
    figures = ("live_blocks", "live_kib", "free_kib", "resident_kib")
    rows = ([size(row["block_bytes"]), *(f"{row[each]:+,}" for each in figures)] for row in diff["classes"][:CLASSES])
    console.print(table_of(title, ("bytes", "live", "live KiB", "free KiB", "resident"), rows))


def show_block(found: Mapping) -> None:
    console = output()

    def say(text: str, style: str = "", margin: str = "") -> None:
        console.print(margin + one_line(text), soft_wrap=True, style=style)

    if "block" not in found:
        say(f"{found['address']}: {found['what']}", "bold")
        return
    inside = f", {found['offset']} bytes into it" if found["offset"] else ", its start"
    say(f"{found['address']}: {found['what']} at {found['block']}{inside}", "bold")
    say(f"{found['bytes']} bytes, {found['state']}")
    if slab := found.get("slab"):
        say(f"slab {slab['base']}: {slab['blocks']} blocks, {slab['carved']} ever handed out, {slab['free']} free")
    for each in found.get("stack", ()):
        say(f"allocated by {each}", margin="  ")
    if found.get("begins"):
        data = bytes.fromhex(found["begins"])
        for at in range(0, len(data), 16):
            part = data[at : at + 16]
            words = " ".join(f"{byte:02x}" for byte in part)
            shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
            say(f"+{at:<4}{words:<48} {shown}", margin="  ")
    for row in found.get("neighbours", ()):
        say(f"{row['block']}  {row['bytes']} bytes, {row['state']}", margin="  ")
