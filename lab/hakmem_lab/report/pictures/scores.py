"""The scorecard: every workload's ratio to each arm, and the history of the ratios with change points.

Ratios are above 1 where the project is better. May import: distribution, svg, numbers, model, palette.
"""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from hakmem_lab.report import numbers
from hakmem_lab.report.model import LoadedRun, Record
from hakmem_lab.report.numbers import finite
from hakmem_lab.report.palette import SENTINELS, arm_colour, arm_marker
from hakmem_lab.report.svg import Picture, Table, canvas, element, label

ROW_IN = 0.5
HISTORY_LINES = 8


def row_name(row: Record) -> str:
    """A workload, with its metric where it names one."""
    return " · ".join(str(row[name]) for name in ("workload", "metric") if row.get(name)) or "?"


def row_arms(rows: list[Record]) -> list[str]:
    """Names of the arms of all rows, in order of appearance."""
    return list(dict.fromkeys(str(name) for row in rows for name in row.get("arms") or {}))


def ratio_text(value: object) -> str:
    """A ratio with two decimals, 1.04×."""
    known = finite(value)
    return numbers.UNKNOWN if known is None else f"{known:.2f}×"


def _ratio(row: Record, arm: str, key: str = "ratio") -> float | None:
    value = finite(((row.get("arms") or {}).get(arm) or {}).get(key))
    return value if value is not None and value > 0 else None


def _nice(low: float, high: float) -> list[float]:
    """Ticks for a logarithmic axis of ratios: halves and doubles far out, finer near 1."""
    fine = [0.9, 0.95, 1.0, 1.05, 1.1]
    near = [0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75]
    coarse = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]
    middle = [0.5, 0.7, 1.0, 1.4, 2.0]
    chosen = fine if high / low < 1.25 else near if high / low < 2 else middle if high / low < 5 else coarse
    return [tick for tick in chosen if low <= tick <= high] or [1.0]


def scores(run: LoadedRun, key: str) -> Picture | None:
    """A row per workload, a dot per arm, on a logarithmic axis around 1; the bar of each row as a tick."""
    rows = [row for row in (run.result.get("scorecard") or {}).get("rows") or [] if row.get("arms")]
    arms = row_arms(rows)
    values = [v for row in rows for arm in arms for v in (_ratio(row, arm), finite(row.get("bar"))) if v]
    if not values:
        return None
    figure, (axis,) = canvas(len(rows) * ROW_IN, left_in=0.2, top_in=0.2 + 0.24 * math.ceil(len(arms) / 2))
    low, high = min([*values, 0.95]) / 1.08, max([*values, 1.05]) * 1.08
    axis.set_xscale("log")
    axis.set_xlim(low, high)
    axis.axvline(1, color=SENTINELS["muted"], linewidth=1)
    for position, row in enumerate(rows):
        _draw(axis, position, row, arms)
    for position, arm in enumerate(arms):
        axis.plot([], [], arm_marker(position), color=arm_colour(position), label=label(arm, 22))
    axis.set_ylim(len(rows) - 0.4, -0.65)
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    axis.xaxis.set_major_locator(FixedLocator(_nice(low, high)))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    axis.set_xlabel("ratio (logarithmic; right of 1: better)")
    figure.legend(loc="upper left", ncols=2, bbox_to_anchor=(0.02, 1.0), borderaxespad=0.2)
    body = [[row_name(row), *(ratio_text(_ratio(row, arm)) for arm in arms)] for row in rows]
    title = "Ratios by workload"
    description = f"{len(rows)} workloads against {', '.join(arms)}; the table has every ratio."
    table = Table(title, ["Workload", *arms], body)
    caption = "Right of 1 is better. A short upright bar: what the row has to reach."
    return Picture("scores", title, description, element(figure, key, title, description), table, caption)


def _draw(axis: Axes, position: int, row: Record, arms: list[str]) -> None:
    axis.text(0, position - 0.32, label(row_name(row)), transform=axis.get_yaxis_transform(), va="center")
    axis.axhline(position + 0.08, color=SENTINELS["line"], linewidth=0.8, zorder=0.4)
    bar = finite(row.get("bar"))
    if bar is not None and bar > 0:
        axis.plot([bar, bar], [position - 0.14, position + 0.3], color=SENTINELS["ink"], linewidth=2.4)
    for place, arm in enumerate(arms):
        value = _ratio(row, arm)
        if value is None:
            continue
        ends = _ratio(row, arm, "ci_low"), _ratio(row, arm, "ci_high")
        if ends[0] and ends[1]:
            axis.plot(ends, [position + 0.08] * 2, color=arm_colour(place), linewidth=2)
        axis.plot([value], [position + 0.08], arm_marker(place), color=arm_colour(place), markersize=7)


def history(run: LoadedRun, key: str) -> Picture | None:
    """The ratios of each workload over revisions, a hollow ring where a change was found."""
    record = run.result.get("scorecard") or {}
    entries = record.get("history") or []
    workloads = list(dict.fromkeys(str(w) for entry in entries for w in entry.get("ratios") or {}))
    if len(entries) < 2 or not workloads:
        return None
    drawn = workloads[:HISTORY_LINES]
    figure, (axis,) = canvas(2.4, left_in=0.75, top_in=0.2 + 0.24 * math.ceil(len(drawn) / 2))
    axis.axhline(1, color=SENTINELS["muted"], linewidth=1)
    for position, workload in enumerate(drawn):
        ratios = [finite((entry.get("ratios") or {}).get(workload)) for entry in entries]
        known = [(place, ratio) for place, ratio in enumerate(ratios) if ratio is not None]
        axis.plot(
            [p for p, _ in known], [r for _, r in known], color=arm_colour(position),
            marker=arm_marker(position), markersize=4, label=label(workload, 22),
        )  # fmt: skip
        for place in (record.get("change_points") or {}).get(workload) or []:
            at = ratios[place] if isinstance(place, int) and 0 <= place < len(ratios) else None
            if at is not None:
                axis.plot(
                    [place], [at], "o", markersize=13, markerfacecolor="none", markeredgewidth=1.6,
                    color=SENTINELS["ink"],
                )  # fmt: skip
    axis.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    revisions = [str(entry.get("revision") or entry.get("created") or "?")[:8] for entry in entries]
    axis.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: revisions[int(value)] if 0 <= int(value) < len(revisions) else "")
    )
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g}×"))
    axis.yaxis.set_major_locator(MaxNLocator(nbins=5))
    axis.set_xlabel("revision")
    figure.legend(loc="upper left", ncols=2, bbox_to_anchor=(0.02, 1.0), borderaxespad=0.2)
    body = [
        [
            revision,
            str(entry.get("created") or ""),
            *(ratio_text((entry.get("ratios") or {}).get(w)) for w in workloads),
        ]
        for revision, entry in zip(revisions, entries, strict=True)
    ]
    changes = sum(len(places or []) for places in (record.get("change_points") or {}).values())
    title = "History of the ratios"
    description = f"{len(entries)} revisions, {len(workloads)} workloads, {changes} changes found."
    caption = "A ring: the level changed here. Ratios only: absolute numbers of different days are not compared."
    if len(workloads) > len(drawn):
        caption += f" The first {len(drawn)} workloads are drawn; the table has all."
    table = Table(title, ["Revision", "Created", *workloads], body)
    return Picture("history", title, description, element(figure, key, title, description), table, caption)
