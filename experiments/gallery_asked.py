"""What the programs of the gallery ask of their allocator: a line for each page, and a table for the index.

Calls are of the program, not of the allocator: a program that calls seldom gains little time from another allocator.
"""

from statistics import median

from hakmem_lab.kinds.suite.sheet import FASTER, SAME
from hakmem_lab.show import gallery
from hakmem_lab.show.gallery import Row
from hakmem_lab.show.terminal import number

SUBJECT = "hakmem"
PARTS = 4  # groups of programs in the table
TOP = """\
## How much time can another allocator save?

A program that calls its allocator seldom gains little. Each quarter of the programs has a line: calls that allocate or
resize a block, for each second of processor time on glibc, and what hakmem does to that time. Count the calls of your
own program: `hak compare --metric calls,cpu -- ./program args`.
"""
HEADS = [
    "calls a second",
    "programs",
    "faster",
    "slower",
    "same",
    "undecided",
    "median time",
    "the fastest",
]


def rate(row: Row) -> float | None:
    """Calls for each second of processor time on the reference; None where one of the two was not measured."""
    timed = row.measure(gallery.TIME)
    if not row.asked or not timed or timed.unit != "s" or not row.asked.calls.get(row.reference):
        return None
    return median(row.asked.calls[row.reference]) / timed.medians[row.reference]


def told(figure: float) -> str:
    """A number of calls in two digits."""
    return f"{float(f'{figure:.2g}'):,.0f}"


def spread(values: list[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def sentence(row: Row, server: bool) -> list[str]:
    """How often a program calls, on each side that was counted. server: it was counted while a client ran."""
    if not row.asked:
        return []
    counts, first = row.asked.calls, row.reference
    others = sorted(counts.keys() - {first})
    size = number(median(row.asked.bytes[first]) / 1024, "KiB")
    when = "While its client runs, it" if server else "An execution"
    often = rate(row)
    rates = f", {told(often)} calls a second of processor time" if often else ""
    alike = all(counts[each] == counts[first] for each in others)
    beside = [f"on {each} {'as many' if alike else spread(counts[each])}" for each in others]
    text = f"{when} calls the allocator {spread(counts[first])} times on {first}, for {size}{rates}"
    return [f"- {'; '.join([text, *beside])}."]


def ends(rows: list[Row]) -> list[str]:
    """A sentence for README.md: the quarter that calls most, and the one that calls least."""
    lines = [dict(zip(HEADS, line, strict=True)) for line in table(rows)]
    if len(lines) < PARTS:
        return []
    least, most = lines[0], lines[-1]
    return [
        f"Of the {most['programs']} programs that call their allocator most, {most['calls a second']} times a second "
        f"of processor time, {most['faster']} are faster than on glibc (median {most['median time']}); of the "
        f"{least['programs']} that call it least, {least['faster']} are. `hak compare --metric calls` counts your own."
    ]


def table(rows: list[Row]) -> list[list[str]]:
    """A line for each quarter of the programs, by how often they call."""
    found = []
    for row in rows:
        often, timed = rate(row), row.measure(gallery.TIME)
        if often is not None and timed and (cost := timed.cost(SUBJECT)):
            found.append((often, cost[0], row.title, timed.by_reference[SUBJECT]["word"]))
    found.sort()
    size, lines = -(-len(found) // PARTS), []
    for start in range(0, len(found), size or 1):
        rates, costs, titles, words = zip(*found[start : start + size], strict=True)
        counts = [words.count(word) for word in (*FASTER, SAME)]
        counts, best = [len(words), *counts, len(words) - sum(counts)], costs.index(min(costs))
        fastest = f"{titles[best]} ({costs[best]:.2f} ×)"
        lines.append([f"{told(rates[0])} to {told(rates[-1])}", *map(str, counts), f"{median(costs):.2f} ×", fastest])
    return lines
