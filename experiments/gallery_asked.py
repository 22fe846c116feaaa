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
    found = sorted(
        ((often, row) for row in rows if (often := rate(row)) is not None),
        key=lambda each: each[0],
    )
    size, lines = -(-len(found) // PARTS), []
    for start in range(0, len(found), size or 1):
        part = found[start : start + size]
        measures = [(row, timed) for _, row in part if (timed := row.measure(gallery.TIME))]
        words = [timed.by_reference[SUBJECT]["word"] for _, timed in measures]
        cost = {row.title: 1 / timed.by_reference[SUBJECT]["ratio"] for row, timed in measures}
        best = min(cost, key=cost.__getitem__)
        counts = [words.count(word) for word in (*FASTER, SAME)]
        cells = [
            f"{told(part[0][0])} to {told(part[-1][0])}",
            str(len(part)),
            *map(str, counts),
        ]
        cells += [
            str(len(part) - sum(counts)),
            f"{median(cost.values()):.2f} ×",
            f"{best} ({cost[best]:.2f} ×)",
        ]
        lines.append(cells)
    return lines
