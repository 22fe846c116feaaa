"""What the runs of the retention programs say: a summary, and a table a figure."""

import collections
import dataclasses
import math
import statistics

HIGH, CHANGED = 1.5, 0.1


@dataclasses.dataclass(frozen=True)
class Figure:
    """A figure of a run.

    `scale`: units of the program in one that is printed. `floor`: less counts as that much, because nothing is told
    apart below. `cost`: judged by the better of glibc and tcmalloc as well. `plain`: printed as it is, never divided.
    """

    key: str
    heading: str
    unit: str
    scale: float = 1
    floor: float = 0
    cost: bool = False
    plain: bool = False

    def of(self, libraries, name):
        return libraries.get(name, {}).get(self.key)

    def is_in(self, libraries):
        return any(self.key in figures for figures in libraries.values())

    def ratio(self, value, yard):
        return None if value is None or yard is None else max(value, self.floor) / max(yard, self.floor)


FIGURES = [
    Figure("cpu_ms", "CPU time", "ms", floor=20, cost=True),
    Figure("faults", "page faults", "faults", floor=1000, cost=True),
    Figure("peak_kib", "peak memory", "MiB", scale=1024, floor=4096),
    Figure("rss_free_kib", "memory right after the last free", "MiB", scale=1024, floor=4096),
    Figure("tail_kib", "memory 5 s later, 400 small calls a second", "MiB", scale=1024, floor=4096),
    Figure("tail_silent_kib", "memory 5 s later, no call", "MiB", scale=1024, floor=4096),
    Figure("last_faults", "page faults of the last cycle", "faults", floor=1000, cost=True),
    Figure("learned", "cycles before one faults less than a tenth of the first (-1: none)", "", plain=True),
]


@dataclasses.dataclass(frozen=True)
class Column:
    """A library, divided by the median or the least of others."""

    heading: str
    name: str
    yard: tuple
    least: bool = False

    def ratio(self, figure, libraries):
        values = [figure.of(libraries, name) for name in self.yard if figure.of(libraries, name) is not None]
        yard = (min if self.least else statistics.median)(values) if values else None
        return figure.ratio(figure.of(libraries, self.name), yard)

    def ratios(self, figure, figures_of):
        ratios = {pattern: self.ratio(figure, libraries) for pattern, libraries in figures_of.items()}
        return {pattern: ratio for pattern, ratio in ratios.items() if ratio is not None}


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

    def line(row):
        cells = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        return "  ".join([row[0].ljust(widths[0]), *cells[1:]])

    return "\n".join(line(row).rstrip() for row in rows)


def cell_of(ratio):
    return "-" if ratio is None else f"{ratio:.2f}"


def compared(figures_of, names, peers, best):
    """Every library divided by the peers' median, and those that are neither by the least of `best`."""
    judged = [name for name in names if name not in peers and name not in best]
    columns = [Column(name, name, tuple(peers)) for name in names]
    to_best = [Column(f"{name}/best", name, tuple(best), least=True) for name in judged]
    parts = [summary(figures_of, columns, to_best, judged)]
    for figure in FIGURES:
        shown = {pattern: libraries for pattern, libraries in figures_of.items() if figure.is_in(libraries)}
        if shown:
            parts.append(one_figure(figure, shown, columns, to_best if figure.cost else []))
    return "\n\n".join(parts)


def one_figure(figure, figures_of, columns, to_best):
    if figure.plain:
        rows = [
            [pattern] + [f"{figure.of(libraries, column.name) or 0:.0f}" for column in columns]
            for pattern, libraries in figures_of.items()
        ]
        return lines_of([[figure.heading, *(column.heading for column in columns)], *rows])
    rows = [[figure.heading, f"peers, {figure.unit}", *(column.heading for column in columns + to_best)]]
    for pattern, libraries in figures_of.items():
        values = [figure.of(libraries, name) for name in columns[0].yard if figure.of(libraries, name) is not None]
        middle = f"{statistics.median(values) / figure.scale:.0f}" if values else "-"
        rows.append([pattern, middle] + [cell_of(column.ratio(figure, libraries)) for column in columns + to_best])
    return lines_of(rows)


def summary(figures_of, columns, to_best, judged):
    """Geometric means and the number of rows above HIGH; of the judged libraries, which rows these are."""
    table = [[f"mean (rows above {HIGH})", *(column.heading for column in columns + to_best)]]
    high_rows = []
    for figure in FIGURES:
        if figure.plain or not any(figure.is_in(libraries) for libraries in figures_of.values()):
            continue
        cells = []
        for column in columns + to_best:
            ratios = column.ratios(figure, figures_of) if figure.cost or not column.least else {}
            high = sorted(((ratio, pattern) for pattern, ratio in ratios.items() if ratio > HIGH), reverse=True)
            cells.append(f"{geometric_mean(ratios.values()):.3f} ({len(high)})" if ratios else "-")
            if high and column.name in judged:
                rows = ", ".join(f"{pattern} {ratio:.1f}" for ratio, pattern in high)
                high_rows.append(f"{column.heading}, {figure.heading}, above {HIGH}: {rows}")
        table.append([figure.heading, *cells])
    return "\n".join([lines_of(table), "", *high_rows])


def swept(figures_of, names):
    """Change of each row in percent of the first library; the second, `same`, is the noise."""
    columns = [Column(name, name, (names[0],)) for name in names[1:]]
    headings = [column.heading for column in columns]
    totals, parts = [[f"change of the mean, % (rows changed by {CHANGED:.0%} and more)", *headings]], []
    for figure in FIGURES:
        shown = {pattern: libraries for pattern, libraries in figures_of.items() if figure.is_in(libraries)}
        if figure.plain or not shown:
            continue
        totals.append([figure.heading] + [change_of(column.ratios(figure, shown).values()) for column in columns])
        rows = [
            [pattern] + [percent_of(column.ratio(figure, libraries)) for column in columns]
            for pattern, libraries in shown.items()
        ]
        parts.append(lines_of([[f"{figure.heading}, %", *headings], *rows]))
    return "\n\n".join([lines_of(totals), *parts])


def percent_of(ratio):
    return "-" if ratio is None else f"{100 * ratio - 100:+.0f}"


def change_of(ratios):
    if not ratios:
        return "-"
    many = sum(abs(ratio - 1) >= CHANGED for ratio in ratios)
    return f"{100 * geometric_mean(ratios) - 100:+.1f} ({many})"
