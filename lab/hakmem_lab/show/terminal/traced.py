"""What is in a trace, on the terminal."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hakmem_lab.errors import one_line
from hakmem_lab.show.terminal.tables import add_row, new_table, number, output
from hakmem_lab.trace.contents import words

BAR = 30
PROCESSES, SHOWN, THREADS, SIZES = 12, 3, 8, 8  # processes in the table, those shown in full; --json has all
QUANTILES = (0.5, 0.9, 0.99)
FREQUENT = 0.01  # of the allocations: a size that is named
KIB = 1024


def show(result: Mapping[str, Any]) -> None:
    console = output()
    console.print(one_line(headline(result)), style="bold", markup=False, soft_wrap=True)
    if result["partial"]:
        console.print(f"partial: {result['partial']}", style="bold yellow", markup=False, soft_wrap=True)
    if command := words(result["info"], "command"):
        console.print(f"recorded: {command}", markup=False, soft_wrap=True)
    processes = sorted(result["processes"], key=lambda each: (-each["operations"], each["process"]))
    if len(processes) > 1:
        console.print()
        console.print(table_of_processes(processes))
    for process in processes[:SHOWN]:
        _show_process(console, process)
    if len(processes) > SHOWN:
        console.print(f"{len(processes) - SHOWN} more processes: --process NUMBER shows one, --json has all")


def headline(result: Mapping[str, Any]) -> str:
    processes = result["processes"]
    operations = sum(each["operations"] for each in processes)
    parts = [
        f"{operations:,} operations",
        f"{many(len(processes), 'process', 'processes')}, "
        f"{many(sum(each['thread_count'] for each in processes), 'thread')}",
        f"{number(result['file_bytes'] / KIB, 'KiB')}",
    ]
    if operations and len(processes) == result["process_count"]:
        parts.append(f"{result['file_bytes'] / operations:.2f} bytes an operation")
    return f"{result['trace']}: {'; '.join(parts)}"


def many(count: int, one: str, more: str = "") -> str:
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def name(process: Mapping[str, Any]) -> str:
    return words(process["about"], "command") or words(process["about"], "executable") or "?"


def size(value: float) -> str:
    return f"{value:,.0f} B" if value < KIB else number(value / KIB, "KiB")


def often(value: float) -> str:
    return f"{number(value / 1e6)} million" if value >= 1e6 else number(value)


def seconds(ns: float) -> str:
    return number(ns / 1e9, "s")


def share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def table_of_processes(processes: Sequence[Mapping[str, Any]]):
    left = f" (the {PROCESSES} busiest of {len(processes)})" if len(processes) > PROCESSES else ""
    table = new_table(f"processes{left}", "process", "what", "operations", "threads", "most live", "for")
    table.columns[1].justify = "left"
    for each in processes[:PROCESSES]:
        lasted = seconds(each["ended_ns"] - each["began_ns"])
        figures = (f"{each['operations']:,}", f"{each['thread_count']:,}", size(each["peak_bytes"]), lasted)
        add_row(table, str(each["process"]), name(each), *figures)
    return table


def _show_process(console, process: Mapping[str, Any]) -> None:
    console.print()
    console.print(f"process {process['process']}: {name(process)}", style="bold", markup=False, soft_wrap=True)
    for text in facts(process):
        console.print(f"  {text}", markup=False, soft_wrap=True)
    if process["allocations"]:
        console.print()
        console.print(sizes(process))
        console.print(lifetimes(process))
    if process["thread_count"] > 1:
        console.print(threads(process))


def facts(process: Mapping[str, Any]) -> list[str]:
    kinds, made = process["kinds"], process["allocations"]
    lasted_ns = process["ended_ns"] - process["began_ns"]
    rate = f", {often(made / lasted_ns * 1e9)} a second" if lasted_ns else ""
    found = [
        f"{made:,} allocations of {size(process['allocated_bytes'])} in {seconds(lasted_ns)}{rate}",
        f"{process['grown'] + process['shrunk']:,} reallocations that changed a size, {process['grown']:,} of them up",
        f"{process['handed_over']:,} operations on a block of another thread "
        f"({share(process['handed_over'], process['operations'])}), {kinds['wait']:,} waits that keep their order",
        f"most live: {size(process['peak_bytes'])}, {seconds(process['peak_time_ns'])} after the begin; "
        f"{process['peak_blocks']:,} blocks",
        f"never freed: {process['kept_blocks']:,} blocks, {size(process['kept_bytes'])}",
    ]
    frequent = [row for row in process["small_sizes"] if row[1] >= FREQUENT * made]
    if frequent:
        frequent.sort(key=lambda row: -row[1])
        parts = (f"{value:,} B ({share(count, made)})" for value, count in frequent[:SIZES])
        found.append("most often: " + ", ".join(parts))
    if process["touch_known_bytes"]:
        touched = share(process["touched_bytes"], process["touch_known_bytes"])
        found.append(f"of {size(process['touch_known_bytes'])} in large blocks {touched} were touched")
    if process["lost"]:
        found.append(f"{process['lost']:,} operations on blocks that are not in this partial trace")
    return found


def sizes(process: Mapping[str, Any]):
    """By powers of two; the buckets of the counts are finer."""
    count, held = Counter(), Counter()
    for least, blocks, all_bytes in process["sizes"]:
        power = least.bit_length()
        count[power] += blocks
        held[power] += all_bytes
    table = new_table("sizes that were asked for", "bytes", "blocks", "% of blocks", "% of bytes", "")
    table.columns[-1].justify = "left"
    blocks, all_bytes = count.total(), held.total()
    for power in sorted(count):
        label = "0" if power == 0 else f"{1 << (power - 1):,} to {(1 << power) - 1:,}"
        part = count[power] / blocks
        shares = (f"{100 * part:.1f}", f"{100 * held[power] / max(all_bytes, 1):.1f}")
        add_row(table, label, f"{count[power]:,}", *shares, "█" * round(part * BAR))
    return table


def lifetimes(process: Mapping[str, Any]):
    columns = [f"{100 * each:g} % below" for each in QUANTILES]
    table = new_table("lifetimes of the blocks that were freed", "counted in", *columns)
    rows = (
        ("operations meanwhile", "life_operations", lambda value: f"{value:,}"),
        ("bytes allocated meanwhile", "life_bytes", size),
        ("time, as far as known", "life_ns", seconds),
    )
    for label, key, written in rows:
        add_row(table, label, *(_quantile(process[key], each, written) for each in QUANTILES))
    return table


def _quantile(histogram: Sequence[Sequence[int]], wanted: float, written) -> str:
    """The end of the bucket that holds it: a quarter of a power of two above the truth at most."""
    left = wanted * sum(row[1] for row in histogram)
    for least, count, _ in histogram:
        left -= count
        if left <= 0:
            return written(least + max(1 << max(least.bit_length() - 3, 0), 1))
    return "-"


def threads(process: Mapping[str, Any]):
    rows = sorted(process["threads"], key=lambda row: (-row[1], row[0]))
    left = f" (the {THREADS} busiest of {process['thread_count']:,})" if process["thread_count"] > THREADS else ""
    table = new_table(f"threads{left}", "thread", "operations", "allocations", "on blocks of others")
    for row in rows[:THREADS]:
        add_row(table, *(f"{value:,}" for value in row))
    return table
