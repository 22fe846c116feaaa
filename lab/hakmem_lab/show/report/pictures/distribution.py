"""Distributions per arm: strip and box.

May import: rows, series, svg, numbers, words, model, palette, statistics.
"""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from hakmem_lab.judge import words
from hakmem_lab.judge.statistics.paired import median_interval
from hakmem_lab.show.report import numbers
from hakmem_lab.show.report.model import LoadedRun
from hakmem_lab.show.report.pictures.rows import LINE_IN, head, two_lines
from hakmem_lab.show.report.series import DRAWN_POINTS, Floats, thin_sorted, values_by_arm
from hakmem_lab.show.report.svg import SENTINELS, Picture, Table, arm_colour, arm_marker, canvas, element, label

ROW_IN = 0.6


def scale(axis: Axes, low: float, high: float, *, which: str = "x") -> bool:
    """A logarithmic axis where the values span more than a factor of 30, else linear; whether it is logarithmic."""
    log = low > 0 and high / low > 30
    target = axis.xaxis if which == "x" else axis.yaxis
    if log:
        (axis.set_xscale if which == "x" else axis.set_yscale)("log")
        target.set_major_locator(LogLocator(base=10, numticks=6))
        target.set_minor_formatter(NullFormatter())
    else:
        target.set_major_locator(MaxNLocator(nbins=5))
    return log


def distribution(run: LoadedRun, key: str) -> Picture | None:
    """Every run's primary metric by arm: dots, and a box of the quartiles with the median."""
    arms = values_by_arm(run)
    if not arms:
        return None
    metric = run.result.get("metric") or {}
    unit = metric.get("unit")
    name = run.metric_name
    short = words.short_names(list(arms))
    heads = {arm: (short[arm], f"median {_median(values, unit)}") for arm, values in arms.items()}
    step = LINE_IN if two_lines(list(heads.values())) else 0.0
    row_in = ROW_IN + step
    figure, (axis,) = canvas(len(arms) * row_in + 0.1, left_in=0.34)
    everything = np.concatenate(list(arms.values()))
    low, high = float(everything.min()), float(everything.max())
    logarithmic = scale(axis, low, high)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: numbers.plain_measure(value, unit)))
    thinned = []
    for position, (arm, values) in enumerate(arms.items()):
        above = position * row_in + 0.12
        head(axis, above, heads[arm], step)
        thinned.append(_strip(axis, above + step + 0.28, position, values, DRAWN_POINTS // len(arms)))
    axis.set_ylim(len(arms) * row_in + 0.1, 0)
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    better = "higher is better" if metric.get("higher_is_better") else "lower is better"
    axis.set_xlabel(f"{label(name, 30)} ({better})" + (", logarithmic" if logarithmic else ""))
    columns = ["Arm", "Runs", "Least", "Lower quartile", "Median", "Upper quartile", "Greatest"]
    rows = []
    for arm, v in arms.items():
        least, lower, _, upper, greatest = (
            numbers.measure(float(q), unit) for q in np.quantile(v, (0, 0.25, 0.5, 0.75, 1))
        )
        rows.append([arm, str(len(v)), least, lower, _median(v, unit), upper, greatest])
    caption = "Dots: single runs; box: the middle half; bar: the median, its 95\u202f% interval in brackets."
    if any(thinned):
        caption += f" Of {len(everything)} runs {DRAWN_POINTS} are drawn, evenly by rank, with the extremes."
    title = f"Every run: {name}"
    description = "; ".join(f"{row[0]}: median {row[4]}, from {row[2]} to {row[6]}" for row in rows) + "."
    svg = element(figure, key, title, description)
    return Picture("distribution", title, description, svg, Table(f"{name} by arm", columns, rows), caption)


def _median(values: Floats, unit: object) -> str:
    return numbers.between(*median_interval(values.tolist()), unit)


def _strip(axis: Axes, line: float, position: int, values: Floats, limit: int) -> bool:
    """One arm's dots and box around `line`; whether dots were left out."""
    shown, thinned = thin_sorted(values, limit)
    # The golden ratio spreads the dots evenly and the same way on every drawing.
    jitter = (np.arange(len(shown)) * 0.618034 % 1 - 0.5) * 0.2
    axis.plot(
        shown, line + jitter, arm_marker(position),
        color=arm_colour(position), alpha=0.8 if len(shown) < 60 else 0.4, markersize=4, markeredgewidth=0,
    )  # fmt: skip
    quartiles = np.quantile(values, (0.25, 0.5, 0.75))
    axis.fill_between(
        quartiles[[0, 2]], line - 0.12, line + 0.12, facecolor="none", edgecolor=SENTINELS["ink"], linewidth=1.2
    )
    axis.plot([quartiles[1]] * 2, [line - 0.12, line + 0.12], color=SENTINELS["ink"], linewidth=2.6)
    return thinned


def log_bounds(values: list[float]) -> tuple[float, float]:
    """Whole decades around the positive values, (0.1, 10) when there are none."""
    positive = [value for value in values if value > 0 and math.isfinite(value)]
    if not positive:
        return 0.1, 10.0
    return 10 ** math.floor(math.log10(min(positive))), 10 ** math.ceil(math.log10(max(positive)) + 1e-9)
