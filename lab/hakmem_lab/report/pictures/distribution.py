"""Distributions per arm (strip and box), and memory per arm (peak and mean).

May import: rows, series, svg, numbers, model, palette.
"""

from __future__ import annotations

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from hakmem_lab.report import numbers
from hakmem_lab.report.model import LoadedRun
from hakmem_lab.report.numbers import finite
from hakmem_lab.report.palette import SENTINELS, arm_colour, arm_marker
from hakmem_lab.report.series import DRAWN_POINTS, Floats, thin_sorted, values_by_arm
from hakmem_lab.report.svg import Picture, Table, canvas, element, label

ROW_IN = 0.62
KIB_PER_MIB = 1024


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
    figure, (axis,) = canvas(len(arms) * ROW_IN + 0.1, left_in=0.2)
    everything = np.concatenate(list(arms.values()))
    low, high = float(everything.min()), float(everything.max())
    logarithmic = scale(axis, low, high)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: numbers.plain_measure(value, unit)))
    thinned = [
        _strip(axis, position, arm, values, unit, DRAWN_POINTS // len(arms))
        for position, (arm, values) in enumerate(arms.items())
    ]
    axis.set_ylim(len(arms) - 0.45, -0.62)
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    better = "higher is better" if metric.get("higher_is_better") else "lower is better"
    axis.set_xlabel(f"{label(name, 30)} ({better})" + (", logarithmic" if logarithmic else ""))
    columns = ["Arm", "Runs", "Least", "Lower quartile", "Median", "Upper quartile", "Greatest"]
    rows = [
        [arm, str(len(v)), *(numbers.measure(float(q), unit) for q in np.quantile(v, (0, 0.25, 0.5, 0.75, 1)))]
        for arm, v in arms.items()
    ]
    caption = "Dots: single runs; box: the middle half; bar: the median."
    if any(thinned):
        caption += f" Of {len(everything)} runs {DRAWN_POINTS} are drawn, evenly by rank, with the extremes."
    title = f"Every run: {name}"
    description = "; ".join(f"{row[0]}: median {row[4]}, from {row[2]} to {row[6]}" for row in rows) + "."
    svg = element(figure, key, title, description)
    return Picture("distribution", title, description, svg, Table(f"{name} by arm", columns, rows), caption)


def _strip(axis: Axes, position: int, arm: str, values: Floats, unit: object, limit: int) -> bool:
    """One arm's dots and box; whether dots were left out."""
    shown, thinned = thin_sorted(values, limit)
    # The golden ratio spreads the dots evenly and the same way on every drawing.
    jitter = (np.arange(len(shown)) * 0.618034 % 1 - 0.5) * 0.3
    axis.plot(
        shown, position + 0.08 + jitter, arm_marker(position),
        color=arm_colour(position), alpha=0.8 if len(shown) < 60 else 0.4, markersize=4, markeredgewidth=0,
    )  # fmt: skip
    quartiles = np.quantile(values, (0.25, 0.5, 0.75))
    axis.fill_between(
        quartiles[[0, 2]], position - 0.1, position + 0.26, facecolor="none", edgecolor=SENTINELS["ink"], linewidth=1.2
    )
    axis.plot([quartiles[1]] * 2, [position - 0.1, position + 0.26], color=SENTINELS["ink"], linewidth=2.6)
    side = axis.get_yaxis_transform()
    axis.text(0, position - 0.32, label(arm, 38), transform=side, va="center")
    axis.text(
        1, position - 0.32, f"median {numbers.measure(float(quartiles[1]), unit)}",
        transform=side, ha="right", va="center", color=SENTINELS["muted"],
    )  # fmt: skip
    return thinned


def memory(run: LoadedRun, key: str) -> Picture | None:
    """Peak and mean resident memory of each arm (medians over its runs)."""
    arms = [arm for arm in run.result.get("arms") or [] if finite(arm.get("rss_peak_kib")) is not None]
    if not arms:
        return None
    figure, (axis,) = canvas(len(arms) * ROW_IN + 0.05, left_in=0.2)
    values = [v / KIB_PER_MIB for arm in arms for v in map(finite, map(arm.get, ("rss_peak_kib", "rss_mean_kib"))) if v]
    for position, arm in enumerate(arms):
        peak, mean = finite(arm.get("rss_peak_kib")), finite(arm.get("rss_mean_kib"))
        colour = arm_colour(position)
        at = [position + 0.05]
        if mean is not None and peak is not None:
            axis.plot([mean / KIB_PER_MIB, peak / KIB_PER_MIB], at * 2, color=colour, linewidth=2.4)
            axis.plot([mean / KIB_PER_MIB], at, "o", color=colour, markerfacecolor=SENTINELS["paper"], markersize=8)
        if peak is not None:
            axis.plot([peak / KIB_PER_MIB], at, "o", color=colour, markersize=8)
        side = axis.get_yaxis_transform()
        text = f"peak {numbers.memory(peak)}" + (f", mean {numbers.memory(mean)}" if mean is not None else "")
        axis.text(0, position - 0.28, label(arm.get("name", "?"), 30), transform=side, va="center")
        axis.text(1, position - 0.28, text, transform=side, ha="right", va="center", color=SENTINELS["muted"])
    axis.set_ylim(len(arms) - 0.55, -0.6)
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    if not scale(axis, min(values or [1]), max(values or [1])):
        axis.set_xlim(0, max(values or [1]) * 1.06)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} MiB"))
    axis.set_xlabel("resident memory (lower is better)")
    rows = [
        [str(a.get("name", "?")), numbers.memory(a.get("rss_peak_kib")), numbers.memory(a.get("rss_mean_kib"))]
        for a in arms
    ]
    title = "Memory"
    description = "; ".join(f"{row[0]}: peak {row[1]}, mean {row[2]}" for row in rows) + "."
    table = Table("Resident memory by arm, medians over the runs", ["Arm", "Peak", "Mean"], rows)
    svg = element(figure, key, title, description)
    caption = "Filled: peak; hollow: mean over the time of the run."
    return Picture("memory", title, description, svg, table, caption)


def log_bounds(values: list[float]) -> tuple[float, float]:
    """Whole decades around the positive values, (0.1, 10) when there are none."""
    positive = [value for value in values if value > 0 and math.isfinite(value)]
    if not positive:
        return 0.1, 10.0
    return 10 ** math.floor(math.log10(min(positive))), 10 ** math.ceil(math.log10(max(positive)) + 1e-9)
