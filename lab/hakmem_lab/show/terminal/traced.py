"""Prints the contents of a trace on the terminal."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from hakmem_lab.errors import one_line
from hakmem_lab.show.terminal import number, output, table_of
from hakmem_lab.trace.contents import left_out, words
from hakmem_lab.trace.stacks import not_shown, without_plumbing

BAR = 30
PROCESSES, THREADS, SIZES = 12, 8, 8  # shown; --json has all
NAME = 60  # characters of a process's name in a table
QUANTILES = (0.5, 0.9, 0.99)
FREQUENT = 0.01  # a size with at least this share of the allocations is listed
KIB = 1024


def show(result: Mapping[str, Any]) -> None:
    console = output()
    console.print(one_line(headline(result)), style="bold", soft_wrap=True)
    if result["partial"]:
        console.print(f"partial: {result['partial']}", style="bold yellow", soft_wrap=True)
    for line in left_out(result["end"]):
        console.print(line, style="bold yellow", soft_wrap=True)
    if command := words(result["info"], "command"):
        console.print(f"recorded: {command}", soft_wrap=True)
    processes = sorted(result["processes"], key=lambda each: (-each["operations"], each["process"]))
    if len(processes) > 1:
        console.print()
        console.print(table_of_processes(processes))
    for process in processes[:1]:
        _show_process(console, process)
    if len(processes) > 1:
        console.print("The busiest process is shown; --process N shows another one, --json has all.", soft_wrap=True)


def headline(result: Mapping[str, Any]) -> str:
    processes = result["processes"]
    operations = sum(each["operations"] - each["inherited"] for each in processes)
    threads = many(sum(each["thread_count"] for each in processes), "thread")
    who = f"{many(len(processes), 'process', 'processes')}, {threads}"
    parts = [many(operations, "operation"), who, number(result["file_bytes"] / KIB, "KiB")]
    if operations and len(processes) == result["process_count"]:
        parts.append(f"{result['file_bytes'] / operations:.2f} bytes an operation")
    return f"{result['trace']}: {'; '.join(parts)}"


def many(count: int, one: str, more: str = "") -> str:
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def name(process: Mapping[str, Any]) -> str:
    """The process's command, without the directory of the program."""
    text = words(process["about"], "command") or words(process["about"], "executable") or "?"
    program, space, rest = text.partition(" ")
    return (program.rpartition("/")[2] or program) + space + rest


def shortened(text: str) -> str:
    return text if len(text) <= NAME else f"{text[: NAME - 1]}…"


def size(value: float) -> str:
    return f"{value:,.0f} B" if value < KIB else number(value / KIB, "KiB")


def often(value: float) -> str:
    return f"{number(value / 1e6)} million" if value >= 1e6 else number(value)


def seconds(ns: float) -> str:
    return f"{ns:.0f} ns" if ns < 1000 else number(ns / 1e9, "s")


def share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def table_of_processes(processes: Sequence[Mapping[str, Any]]):
    left = f" (the {PROCESSES} busiest of {len(processes)})" if len(processes) > PROCESSES else ""
    heads, rows = ("process", "what", "operations", "threads", "most live", "for"), []
    for each in processes[:PROCESSES]:
        lasted = seconds(each["ended_ns"] - each["began_ns"])
        figures = (f"{each['operations']:,}", f"{each['thread_count']:,}", size(each["peak_bytes"]), lasted)
        rows.append((str(each["process"]), shortened(name(each)), *figures))
    return table_of(f"processes{left}", heads, rows, 1)


def _show_process(console, process: Mapping[str, Any]) -> None:
    console.print()
    console.print(f"process {process['process']}: {name(process)}", style="bold", soft_wrap=True)
    for text in facts(process):
        console.print(f"  {text}", soft_wrap=True)
    if process["sizes"]:
        console.print()
        console.print(sizes(process))
    if process["life_operations"]:
        console.print(lifetimes(process))
    if process["thread_count"] > 1:
        console.print(threads(process))


def facts(process: Mapping[str, Any]) -> list[str]:
    kinds, made = process["kinds"], process["allocations"] - process["inherited"]
    lasted_ns = process["ended_ns"] - process["began_ns"]
    rate = f", {often(made / lasted_ns * 1e9)} a second" if lasted_ns else ""
    inherited = f"begins with {many(process['inherited'], 'block')} of the process that it was forked from"
    found = [inherited] if process["inherited"] else []
    found += [
        f"{made:,} allocations of {size(process['allocated_bytes'])} in {seconds(lasted_ns)}{rate}",
        f"{process['grown'] + process['shrunk']:,} reallocations that changed a size, {process['grown']:,} of them up",
        f"{process['handed_over']:,} operations on a block of another thread "
        f"({share(process['handed_over'], process['operations'])}), {kinds['wait']:,} waits that keep their order",
        f"most live: {size(process['peak_bytes'])}, {seconds(process['peak_time_ns'] - process['began_ns'])} after the "
        f"begin; {many(process['peak_blocks'], 'block')}",
        f"never freed: {many(process['kept_blocks'], 'block')}, {size(process['kept_bytes'])}",
    ]
    frequent = [row for row in process["small_sizes"] if row[1] >= FREQUENT * made]
    if frequent:
        frequent.sort(key=lambda row: -row[1])
        parts = (f"{value:,} B ({share(count, made)})" for value, count in frequent[:SIZES])
        found.append("most often: " + ", ".join(parts))
    if process["touch_known_bytes"]:
        touched = share(process["touched_bytes"], process["touch_known_bytes"])
        found.append(f"of {size(process['touch_known_bytes'])} in large blocks {touched} were touched")
    if process["unknown_frees"] or process["lost_frees"]:
        found.append(
            f"{process['unknown_frees']:,} frees of blocks that were not recorded, left out; "
            f"{process['lost_frees']:,} frees that were not seen, put where the address was handed out again"
        )
    if process["lost"]:
        found.append(f"{process['lost']:,} operations on blocks that are not in this partial trace")
    return found


def sizes(process: Mapping[str, Any]):
    """The sizes by powers of two, which are wider than the buckets of the counts."""
    count: Counter[int] = Counter()
    held: Counter[int] = Counter()
    for least, blocks, all_bytes in process["sizes"]:
        power = least.bit_length()
        count[power] += blocks
        held[power] += all_bytes
    blocks, all_bytes, rows = count.total(), held.total(), []
    for power in sorted(count):
        label = str(power) if power < 2 else f"{1 << (power - 1):,} to {(1 << power) - 1:,}"
        part = count[power] / blocks
        shares = (f"{100 * part:.1f}", f"{100 * held[power] / max(all_bytes, 1):.1f}")
        rows.append((label, f"{count[power]:,}", *shares, "█" * round(part * BAR)))
    return table_of("sizes that were asked for", ("bytes", "blocks", "% of blocks", "% of bytes", ""), rows, -1)


def lifetimes(process: Mapping[str, Any]):
    heads = ("counted in", *(f"{100 * each:g} % below" for each in QUANTILES))
    measures = (
        ("operations meanwhile", "life_operations", process["operations"], lambda value: f"{value:,}"),
        ("bytes allocated meanwhile", "life_bytes", process["allocated_bytes"], size),
        ("time, as far as known", "life_ns", process["ended_ns"] - process["began_ns"], seconds),
    )
    rows = (
        [label, *(written(min(quantile(process[key], each), most)) for each in QUANTILES)]
        for label, key, most, written in measures
    )
    return table_of("lifetimes of the blocks that were freed", heads, rows)


def quantile(histogram: Sequence[Sequence[int]], wanted: float) -> int:
    """The end of the bucket that holds the quantile: at most a quarter above the true value."""
    left = wanted * sum(row[1] for row in histogram)
    for least, count, _ in histogram:
        left -= count
        if left <= 0:
            return least + (1 << max(least.bit_length() - 3, 0))
    return 0


def threads(process: Mapping[str, Any]):
    rows = sorted(process["threads"], key=lambda row: (-row[1], row[0]))
    left = f" (the {THREADS} busiest of {process['thread_count']:,})" if process["thread_count"] > THREADS else ""
    cells = ([f"{value:,}" for value in row] for row in rows[:THREADS])
    return table_of(f"threads{left}", ("thread", "operations", "allocations", "on blocks of others"), cells)


# Tables by stack: (title, key of the figure that also selects and orders the stacks, key of a further figure).
QUESTIONS: tuple[tuple[str, str, str], ...] = (
    ("who allocates most", "bytes", "calls"),
    ("who has most at the peak", "peak_bytes", ""),
    ("what is freed by the next call of its thread", "temporaries", "calls"),
    ("what is never freed", "kept_bytes", "kept"),
    ("what has grown in the second half of the time", "grown_bytes", ""),
)
STACKS, CALLERS = 8, 5


def show_stacks(result: Mapping[str, Any]) -> None:
    console = output()
    console.print(f"process {result['process']}: {name(result)}", style="bold", soft_wrap=True)
    if result["partial"]:
        console.print(f"partial: {result['partial']}", style="bold yellow", soft_wrap=True)
    console.print(f"  {sampled(result)}", soft_wrap=True)
    for line in not_shown(result):
        console.print(f"  {line}", soft_wrap=True)
    stacks = without_plumbing(result["stacks"])
    for question, key, beside in QUESTIONS:
        rows = sorted((each for each in stacks if each[key] >= 1), key=lambda each: -each[key])
        if rows:
            console.print()
            console.print(_stacks(question, key, beside, rows))


def show_pages(result: Mapping[str, Any]) -> None:
    from hakmem_lab.trace.blame import confirmed

    console = output()
    console.print(f"{result['answer']}.", style="bold", soft_wrap=True)
    console.print(f"process {result['process']}: {name(result)}, replayed on {result['allocator']}; in all it holds "
                  f"{size(KIB * result['settled_kib'])} {result['moment']}", soft_wrap=True)  # fmt: skip
    for line in not_shown(result):
        console.print(line, soft_wrap=True)
    cells = []
    for row in result["tested"]:
        error = "" if row["error"] is None else f"{100 * row['error']:+.0f} %"
        figures = (f"{row['blocks']:,}", size(row["bytes"]), size(KIB * row["predicted_kib"]))
        observed = f"{number(row['observed_kib'], 'KiB')}{'' if confirmed(row) else ', not confirmed'}"
        cells.append((called(row["frames"]), *figures, observed, error))
    if cells:
        heads = ("where", "survivors", "bytes", "predicted", "less without them", "error")
        console.print(table_of("Which stacks keep pages, and what a replay without them holds less", heads, cells))
    if result["untested"]:
        console.print(f"{many(result['untested'], 'more stack')} not tested; --without NAME tests one", soft_wrap=True)


def sampled(result: Mapping[str, Any]) -> str:
    samples = sum(each["samples"] for each in result["stacks"])
    whole = f"{size(result['allocated_bytes'])} in {many(result['allocations'], 'allocation')}"
    if result["mean_bytes"] == 1:
        return f"{whole}; {many(samples, 'call')} with their stacks"
    error = 100 / math.sqrt(samples) if samples else 100.0
    about = f"about ±{error:.0f} %, by {many(samples, 'sample')}, one in {size(result['mean_bytes'])}"
    return f"{size(result['allocated_bytes'])} {about}, in {many(result['allocations'], 'allocation')}"


def _stacks(question: str, key: str, beside: str, rows: Sequence[Mapping[str, Any]]):
    whole = sum(each[key] for each in rows)
    written = (lambda value: f"{value:,.0f}") if key == "temporaries" else size
    columns = ["of its calls" if key == "temporaries" else beside] if beside else []
    left = f" (the first {STACKS} of {len(rows):,})" if len(rows) > STACKS else ""
    heads, cells = ("where", key.removesuffix("_bytes"), "%", *columns, "samples"), []
    for each in rows[:STACKS]:
        part = share(each[key], each[beside]) if key == "temporaries" else f"{each[beside]:,.0f}" if beside else ""
        figures = (written(each[key]), f"{100 * each[key] / whole:.1f}", *([part] if beside else []))
        cells.append((called(each["frames"]), *figures, f"{each['samples']:,}"))
    return table_of(f"{question}{left}", heads, cells)


def called(frames: Sequence[str]) -> str:
    """The allocating function and its callers."""
    shown = map(shortened, frames[:CALLERS])
    return one_line(" ← ".join(shown) + (" ← …" if len(frames) > CALLERS else ""))
