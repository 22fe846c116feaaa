"""Memory: peak and mean of each arm with their intervals, and the memory over time of a typical run of each.

May import: distribution, rows, series, svg, numbers, words, model, palette.
"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from hakmem_lab.judge import words
from hakmem_lab.show.report import numbers
from hakmem_lab.show.report.model import LoadedRun, Record
from hakmem_lab.show.report.numbers import finite
from hakmem_lab.show.report.pictures.distribution import scale
from hakmem_lab.show.report.pictures.rows import LINE_IN, head
from hakmem_lab.show.report.series import MemoryOverTime, memory_over_time
from hakmem_lab.show.report.svg import SENTINELS, Picture, Table, arm_colour, arm_marker, canvas, element, label

ROW_IN = 0.5
KIB_PER_MIB = 1024
MEASURES = (("rss_mean_kib", "KiB"), ("rss_peak_kib", "KiB"), ("rss_area_kib_s", "KiB s"))


def _figure(arm: Record, name: str, unit: str) -> str:
    """A median with its interval."""
    low, high = (arm.get("intervals") or {}).get(name) or (None, None)
    return numbers.between(arm.get(name), low, high, unit)


def _table(arms: list[Record]) -> Table:
    rows = [[str(a.get("name", "?")), *(_figure(a, name, unit) for name, unit in MEASURES)] for a in arms]
    return Table(
        "Resident memory by arm: medians over the runs, with 95\u202f% intervals",
        ["Arm", "Mean", "Peak", "Area (mean × time)"],
        rows,
    )


def _arms(run: LoadedRun) -> list[Record]:
    return [arm for arm in run.result.get("arms") or [] if finite(arm.get("rss_peak_kib")) is not None]


def memory(run: LoadedRun, key: str) -> Picture | None:
    """Peak and mean resident memory of each arm: medians over its runs, with their intervals."""
    arms = _arms(run)
    if not arms:
        return None
    table = _table(arms)
    short = words.short_names([str(arm.get("name", "?")) for arm in arms])
    row_in = ROW_IN + 2 * LINE_IN
    figure, (axis,) = canvas(len(arms) * row_in + 0.1, left_in=0.34)
    ends: list[float] = []
    for position, (arm, row) in enumerate(zip(arms, table.rows, strict=True)):
        above = position * row_in + 0.12
        head(axis, above, (short[row[0]], f"peak {row[2]}"), LINE_IN)
        head(axis, above + 2 * LINE_IN, (f"mean {row[1]}", ""), 0.0, muted=True)
        ends += _line(axis, above + 2 * LINE_IN + 0.22, position, arm)
    axis.set_ylim(len(arms) * row_in + 0.1, 0)
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    if not scale(axis, min(ends), max(ends)):
        axis.set_xlim(0, max(ends) * 1.06)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} MiB"))
    axis.set_xlabel("resident memory (less is better)")
    title = "Memory"
    description = "; ".join(f"{row[0]}: peak {row[2]}, mean {row[1]}" for row in table.rows) + "."
    svg = element(figure, key, title, description)
    caption = "Filled: peak; hollow: mean over the time of the run; strokes across: the ends of their intervals."
    return Picture("memory", title, description, svg, table, caption)


def _line(axis: Axes, line: float, position: int, arm: Record) -> list[float]:
    """Mean and peak of an arm, the ends of their intervals as strokes; the values drawn, in MiB."""
    colour, drawn = arm_colour(position), []
    for name, face in (("rss_mean_kib", SENTINELS["paper"]), ("rss_peak_kib", colour)):
        value = finite(arm.get(name))
        if value is None:
            continue
        drawn.append(value / KIB_PER_MIB)
        for end in (arm.get("intervals") or {}).get(name) or ():
            known = finite(end)
            if known is not None:
                axis.plot([known / KIB_PER_MIB] * 2, [line - 0.1, line + 0.1], color=colour, linewidth=1.6)
        axis.plot(drawn[-1:], [line], "o", color=colour, markerfacecolor=face, markersize=8, zorder=3)
    axis.plot(drawn, [line] * len(drawn), color=colour, linewidth=2.4)
    return drawn


def over_time(run: LoadedRun, key: str) -> Picture | None:
    """The memory of each arm over the time of its runs: the median run, the middle half of the runs shaded."""
    found = memory_over_time(run)
    if not found:
        return None
    figure, (axis,) = canvas(2.3, left_in=0.75, top_in=0.2 + 0.24 * len(found))
    names = words.short_names(list(found))
    end_s = max(float(each.t_s[-1]) for each in found.values())
    unit, factor = ("s", 1.0) if end_s >= 2 else ("ms", 1e3)
    for position, (arm, each) in enumerate(found.items()):
        _curve(axis, position, each, factor, label(names[arm], 40))
    axis.set_xlim(0, end_s * factor)
    axis.set_ylim(0, max(float(each.high.max()) for each in found.values()) / KIB_PER_MIB * 1.08)
    axis.xaxis.set_major_locator(MaxNLocator(nbins=6))
    axis.yaxis.set_major_locator(MaxNLocator(nbins=5))
    axis.set_xlabel(f"time since the start, {unit}")
    axis.set_ylabel("resident, MiB")
    figure.legend(loc="upper left", bbox_to_anchor=(0.02, 1.0), borderaxespad=0.2)
    arms = [arm for arm in _arms(run) if str(arm.get("name")) in found]
    title = "Memory over time"
    table = _table(arms)
    description = "; ".join(f"{r[0]}: mean {r[1]}, peak {r[2]}, area {r[3]}" for r in table.rows) + "."
    caption = (
        "Line: the median of the runs; shade: the middle half of them. How much of it the program held at that time "
        "(live bytes) is known of soaks alone."
    )
    svg = element(figure, key, title, description)
    return Picture("memory-over-time", title, description, svg, table, caption)


def _curve(axis: Axes, position: int, each: MemoryOverTime, factor: float, name: str) -> None:
    colour, t = arm_colour(position), each.t_s * factor
    axis.fill_between(t, each.low / KIB_PER_MIB, each.high / KIB_PER_MIB, color=colour, alpha=0.2, linewidth=0)
    axis.plot(
        t, each.median / KIB_PER_MIB, color=colour, label=name, marker=arm_marker(position),
        markevery=max(1, len(t) // 6), markersize=5,
    )  # fmt: skip
