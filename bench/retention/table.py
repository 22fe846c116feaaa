"""What the runs of the retention programs say: a table a figure, and a summary."""

import collections
import math
import statistics

# Column, heading, unit in which the yardstick is printed, and the value below which nothing is told apart.
FIGURES = [
    ("cpu_ms", "CPU time", "ms", 1, 20),
    ("faults", "page faults", "faults", 1, 1000),
    ("peak_kib", "peak memory", "MiB", 1024, 4096),
    ("rss_free_kib", "memory right after the last free", "MiB", 1024, 4096),
    ("tail_kib", "memory 5 s later, 400 small calls a second", "MiB", 1024, 4096),
    ("tail_silent_kib", "memory 5 s later, no call", "MiB", 1024, 4096),
    ("last_faults", "page faults of the last cycle", "faults", 1, 1000),
    ("learned", "cycles before one faults less than a tenth of the first (-1: none)", "cycles", 1, 0),
]
ABSOLUTE = {"learned"}
HIGH, CHANGED = 1.5, 0.1


def medians(rows):
    """{pattern: {library: {figure: median}}}; failed runs are left out."""
    values = collections.defaultdict(lambda: collections.defaultdict(lambda: collections.defaultdict(list)))
    for row in rows:
        for figure, value in (row["figures"] or {}).items():
            values[row["pattern"]][row["library"]][figure].append(value)
    return {
        pattern: {
            library: {figure: statistics.median(series) for figure, series in figures.items()}
            for library, figures in libraries.items()
        }
        for pattern, libraries in values.items()
    }


def geometric_mean(ratios):
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))


def lines_of(rows):
    """Rows of cells, the first column to the left, the others to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.rjust(width) if column else cell.ljust(width) for column, (cell, width) in enumerate(zip(row, widths, strict=True)))
        for row in rows
    )  # fmt: skip


def yardstick(libraries, names, figure, choose):
    values = [libraries[name][figure] for name in names if figure in libraries.get(name, {})]
    return choose(values) if values else None


def compared(figures_of, names, peers, best):
    """For each figure: every library divided by the peers' median, and the judged ones by the better of `best`."""
    judged = [name for name in names if name not in peers and name not in best]
    parts = [summary(figures_of, names, judged, peers, best)]
    for figure, heading, unit, scale, floor in FIGURES:
        rows = []
        for pattern, libraries in figures_of.items():
            middle = yardstick(libraries, peers, figure, statistics.median)
            lowest = yardstick(libraries, best, figure, min)
            if not any(figure in figures for figures in libraries.values()):
                continue
            cells = [pattern, "-" if middle is None else f"{middle / scale:.0f}"]
            cells += [cell(libraries, name, figure, middle, floor) for name in names]
            cells += [cell(libraries, name, figure, lowest, floor) for name in judged if figure not in ABSOLUTE]
            rows.append(cells)
        if rows:
            head = [heading, f"peers, {unit}", *names]
            head += [f"{name}/best" for name in judged if figure not in ABSOLUTE]
            parts.append(lines_of([head, *rows]))
    return "\n\n".join(parts)


def ratio(libraries, name, figure, yard, floor):
    """None where a run is missing. Both sides count as the floor at least."""
    value = libraries.get(name, {}).get(figure)
    if value is None or yard is None:
        return None
    return max(value, floor) / max(yard, floor)


def cell(libraries, name, figure, yard, floor):
    if figure in ABSOLUTE:
        return f"{libraries[name][figure]:.0f}" if figure in libraries.get(name, {}) else "-"
    value = ratio(libraries, name, figure, yard, floor)
    return "-" if value is None else f"{value:.2f}"


def ratios_of(figures_of, name, figure, floor, yard_names, choose):
    ratios = {
        pattern: ratio(libraries, name, figure, yardstick(libraries, yard_names, figure, choose), floor)
        for pattern, libraries in figures_of.items()
    }
    return {pattern: value for pattern, value in ratios.items() if value is not None}


def summary(figures_of, names, judged, peers, best):
    """Geometric means and the number of rows above HIGH; of the judged libraries, which rows these are."""
    shown = [name for name in names if name in figures_of[next(iter(figures_of))]]
    means, worst = [[f"mean ÷ median of the peers (rows above {HIGH})", *shown, *(f"{name}/best" for name in judged)]], []
    for figure, heading, _, _, floor in FIGURES:
        if figure in ABSOLUTE:
            continue
        cells = []
        for name, names_of_yard, choose in [(name, peers, statistics.median) for name in shown] + [
            (name, best, min) for name in judged
        ]:
            ratios = ratios_of(figures_of, name, figure, floor, names_of_yard, choose)
            high = sorted((value, pattern) for pattern, value in ratios.items() if value > HIGH)[::-1]
            cells.append(f"{geometric_mean(ratios.values()):.3f} ({len(high)})" if ratios else "-")
            if name in judged and high:
                yard = "the better of " + ", ".join(best) if choose is min else "the peers"
                rows = ", ".join(f"{pattern} {value:.1f}" for value, pattern in high)
                worst.append(f"{name}, {heading}, above {HIGH} x {yard}: {rows}")
        if any(cell != "-" for cell in cells):
            means.append([heading, *cells])
    return "\n".join([lines_of(means), "", *worst])


def swept(figures_of, names):
    """Change of each row in percent of the first library; the second, `same`, is the noise."""
    base, *others = names
    parts, totals = [], [["changes of the mean, %; rows changed by more than 10 %", *others]]
    for figure, heading, _, _, floor in FIGURES:
        if figure in ABSOLUTE:
            continue
        rows, changes = [], {name: [] for name in others}
        for pattern, libraries in figures_of.items():
            yard = libraries.get(base, {}).get(figure)
            cells = [ratio(libraries, name, figure, yard, floor) for name in others]
            if all(value is None for value in cells):
                continue
            rows.append([pattern] + ["-" if value is None else f"{100 * value - 100:+.0f}" for value in cells])
            for name, value in zip(others, cells, strict=True):
                changes[name] += [] if value is None else [value]
        if rows:
            parts.append(lines_of([[f"{heading}, %", *others], *rows]))
            totals.append([heading] + [change_cell(changes[name]) for name in others])
    return "\n\n".join([lines_of(totals), *parts])


def change_cell(ratios):
    if not ratios:
        return "-"
    many = sum(abs(value - 1) > CHANGED for value in ratios)
    return f"{100 * geometric_mean(ratios) - 100:+.1f} ({many})"
