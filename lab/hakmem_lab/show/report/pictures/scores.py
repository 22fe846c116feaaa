"""A suite: every workload's ratio to each arm.

Ratios are above 1 where the subject is better.
"""

import math

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from hakmem_lab.show.kinds.suite import figure_text, row_arms, row_name
from hakmem_lab.show.numbers import finite
from hakmem_lab.show.report.model import LoadedRun, Record, Table
from hakmem_lab.show.report.svg import SENTINELS, Picture, arm_colour, arm_marker, canvas, label

LABEL_IN = 0.2
LANE_IN = 0.13
TITLE_IN = 0.26


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


def _family(row: Record) -> str:
    """The name of the axis for a row: memory, times, rates and system calls have separate axes."""
    unit = str(row.get("unit") or "")
    if unit in ("KiB", "MiB", "B"):
        return "Memory"
    return "Rates" if unit.endswith("/s") else "System calls" if unit == "per operation" else "Time"


def scores(run: LoadedRun) -> Picture | None:
    """Every workload is a row, with a lane for each arm's ratio and interval. Each sort of metric has its own axis. A
    tick marks the bar of a row."""
    rows = [row for row in (run.result.get("suite") or {}).get("rows") or [] if row.get("arms")]
    arms = row_arms(rows)
    groups: dict[str, list[Record]] = {}
    for row in rows:
        if any(_ratio(row, arm) for arm in arms):
            groups.setdefault(_family(row), []).append(row)
    if not groups:
        return None
    row_in = LABEL_IN + LANE_IN * len(arms)
    heights = [TITLE_IN + row_in * len(members) for members in groups.values()]
    figure, axes = canvas(*heights, left_in=0.3, top_in=0.2 + 0.24 * math.ceil(len(arms) / 2))
    for axis, (family, members) in zip(axes, groups.items(), strict=True):
        _panel(axis, family, members, arms, row_in)
    for position, arm in enumerate(arms):
        axes[0].plot([], [], arm_marker(position), color=arm_colour(position), label=label(arm, 22))
    figure.legend(loc="upper left", ncols=2, bbox_to_anchor=(0.02, 1.0), borderaxespad=0.2)
    body = [
        [row_name(row), *(figure_text((row.get("arms") or {}).get(arm) or {}, row) for arm in arms)] for row in rows
    ]
    title = "Ratios by workload"
    description = f"{len(rows)} rows against {', '.join(arms)}; the table has every ratio and its interval."
    table = Table(title, ["Workload", *arms], body)
    caption = (
        "Right of 1 is better. Line: interval; hollow: too few blocks for one. A short upright bar: what the row has "
        "to reach."
    )
    return Picture("scores", title, description, figure, table, caption)


def _panel(axis: Axes, family: str, rows: list[Record], arms: list[str], row_in: float) -> None:
    """The vertical axis is in inches from the top. The bounds hold every value; an interval beyond them ends in an
    arrow."""
    values = [v for row in rows for arm in arms for v in (_ratio(row, arm), finite(row.get("bar"))) if v]
    low, high = min([*values, 0.95]) / 1.12, max([*values, 1.05]) * 1.12
    axis.set_xscale("log")
    axis.set_xlim(low, high)
    axis.set_ylim(TITLE_IN + row_in * len(rows), 0)
    side = axis.get_yaxis_transform()
    axis.text(0, 0.1, family, transform=side, va="center", fontweight="bold")
    for position, row in enumerate(rows):
        _draw(axis, TITLE_IN + position * row_in, row, arms, (low, high))
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    axis.xaxis.set_major_locator(FixedLocator(_nice(low, high)))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}×"))
    axis.set_xlabel("times as good (right of 1: less)" if family == "Memory" else "times as good (right of 1: better)")


def _draw(axis: Axes, top: float, row: Record, arms: list[str], bounds: tuple[float, float]) -> None:
    """Draws a row: its name, then a line for each arm. The mark at 1 and the bar cross only the lines of the arms."""
    axis.text(0, top + 0.09, label(row_name(row)), transform=axis.get_yaxis_transform(), va="center")
    lanes = top + LABEL_IN, top + LABEL_IN + LANE_IN * len(arms) - 0.02
    axis.plot([1, 1], lanes, color=SENTINELS["muted"], linewidth=1, zorder=0.4)
    bar = finite(row.get("bar"))
    if bar is not None and bar > 0:
        axis.plot([bar, bar], lanes, color=SENTINELS["ink"], linewidth=2.4)
    for place, arm in enumerate(arms):
        value, colour = _ratio(row, arm), arm_colour(place)
        if value is None:
            continue
        line = top + LABEL_IN + LANE_IN * (place + 0.4)
        ends = _ratio(row, arm, "ci_low"), _ratio(row, arm, "ci_high")
        known = ends[0] is not None and ends[1] is not None
        if ends[0] is not None and ends[1] is not None:
            axis.plot([max(ends[0], bounds[0]), min(ends[1], bounds[1])], [line] * 2, color=colour, linewidth=2)
            for end, edge, shape in ((bounds[0] - ends[0], bounds[0], "<"), (ends[1] - bounds[1], bounds[1], ">")):
                if end > 0:
                    axis.plot([edge], [line], shape, color=colour, markersize=6, clip_on=False)
        face = colour if known else SENTINELS["paper"]
        axis.plot([value], [line], arm_marker(place), color=colour, markerfacecolor=face, markersize=5.5)
