"""Pictures of the runs: dots and box of each arm, its worst runs, its memory, and its memory over time. Also the ratios
of the blocks, with the running estimate and the planned looks.
"""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from hakmem_lab.judge import explain, words
from hakmem_lab.judge.statistics.paired import as_ratio, median_interval
from hakmem_lab.show import figures, numbers
from hakmem_lab.show.numbers import finite
from hakmem_lab.show.report import svg
from hakmem_lab.show.report.model import LoadedRun, Record, Table
from hakmem_lab.show.report.pictures.forest import LINE_IN, head, two_lines
from hakmem_lab.show.report.series import (
    DRAWN_POINTS,
    BlockRatios,
    Envelope,
    Floats,
    block_ratios,
    memory_curves,
    running_estimate,
    thin_sorted,
    values_by_arm,
)
from hakmem_lab.show.report.svg import SENTINELS, Picture, arm_colour, arm_marker, canvas, label

ROW_IN = 0.6


def scale(axis: Axes, low: float, high: float, *, which: str = "x") -> bool:
    """Makes the axis logarithmic where the values span more than a factor of 30, else linear. Returns whether it is
    logarithmic."""
    log = low > 0 and high / low > 30
    target = axis.xaxis if which == "x" else axis.yaxis
    if log:
        (axis.set_xscale if which == "x" else axis.set_yscale)("log")
        target.set_major_locator(LogLocator(base=10, numticks=6))
        target.set_minor_formatter(NullFormatter())
    else:
        target.set_major_locator(MaxNLocator(nbins=5))
    return log


def distribution(run: LoadedRun) -> Picture | None:
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
    columns = ["Side", "Runs", "Least", "Lower quartile", "Median", "Upper quartile", "Greatest"]
    rows = []
    for arm, v in arms.items():
        least, lower, _, upper, greatest = (
            numbers.measure(float(q), unit) for q in np.quantile(v, (0, 0.25, 0.5, 0.75, 1))
        )
        rows.append([arm, str(len(v)), least, lower, _median(v, unit), upper, greatest])
    caption = "Dots: single runs; box: the middle half; bar: the median, its 95\u202f% interval in brackets."
    if any(thinned):
        caption += f" Of {len(everything)} runs {DRAWN_POINTS} are drawn, evenly by rank, with the extremes."
    description = "; ".join(f"{row[0]}: median {row[4]}, from {row[2]} to {row[6]}" for row in rows) + "."
    table = Table(f"{name} by side", columns, rows)
    return Picture("distribution", f"Every run: {name}", description, figure, table, caption)


def _median(values: Floats, unit: object) -> str:
    return numbers.between(*median_interval(values.tolist()), unit)


def _strip(axis: Axes, line: float, position: int, values: Floats, limit: int) -> bool:
    """Draws one arm's dots and box around `line`. Returns whether dots were left out."""
    shown, thinned = thin_sorted(values, limit)
    # The golden ratio spreads the dots evenly, and identically in every drawing.
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
    """Bounds of whole decades around the positive values; (0.1, 10) if there are none."""
    positive = [value for value in values if value > 0 and math.isfinite(value)]
    if not positive:
        return 0.1, 10.0
    return 10 ** math.floor(math.log10(min(positive))), 10 ** math.ceil(math.log10(max(positive)) + 1e-9)


SHARES = ((2, "half"), (10, "1 in 10"), (100, "1 in 100"), (1000, "1 in 1000"))


def tail(run: LoadedRun) -> Picture | None:
    """The worst runs of each arm, by their share of the runs. Drawn only where the typical run and the mean of all runs
    disagree. A latency run has the picture of its percentiles instead."""
    arms = {arm: values for arm, values in values_by_arm(run).items() if len(values) > 1}
    if not explain.torn(run.result) or not arms or run.result.get("latency"):
        return None
    metric = run.result.get("metric") or {}
    unit, higher = metric.get("unit"), bool(metric.get("higher_is_better"))
    names = words.short_names(list(arms))
    figure, (axis,) = canvas(2.4, left_in=0.9, top_in=0.2 + 0.24 * len(arms))
    axis.set_xscale("log")
    everything = np.concatenate(list(arms.values()))
    scale(axis, float(everything.min()), float(everything.max()), which="y")
    for position, (arm, values) in enumerate(arms.items()):
        worst = _worst_first(values, higher)
        share = len(worst) / np.arange(1, len(worst) + 1)
        axis.plot(
            share, worst, color=arm_colour(position), marker=arm_marker(position), markersize=4, markevery=_rare(share),
            label=label(f"{names[arm]}, mean {numbers.measure(float(values.mean()), unit)}", 46),
        )  # fmt: skip
    longest = max(len(values) for values in arms.values())
    places = [(x, text) for x, text in SHARES if x <= longest]
    axis.xaxis.set_major_locator(FixedLocator([x for x, _ in places]))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xticklabels([text for _, text in places])
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: numbers.plain_measure(value, unit)))
    axis.set_xlabel("the worst share of the runs begins at")
    figure.legend(loc="upper left", bbox_to_anchor=(0.02, 1.0), borderaxespad=0.2)
    rows = [[arm, *(_of(_worst_first(v, higher), x, unit) for x, _ in places), numbers.measure(float(v.mean()), unit)]
            for arm, v in arms.items()]  # fmt: skip
    description = "; ".join(f"{row[0]}: half {row[1]}, mean {row[-1]}" for row in rows) + "."
    caption = (
        "To the right rarer, worse runs: where the lines cross, the side that is usually better becomes the worse."
    )
    table = Table(f"{run.metric_name}: half of the runs, a tenth, … are this bad or worse",
                  ["Side", *(text for _, text in places), "Mean"], rows)  # fmt: skip
    return Picture("tail", "The rare runs", description, figure, table, caption)


def _rare(share: Floats) -> slice:
    """The runs that get a dot: the rare ones, since dots of the others would overlap."""
    return slice(0, int((share >= SHARES[1][0]).sum()))


def _worst_first(values: Floats, higher_is_better: bool) -> Floats:
    return np.sort(values) if higher_is_better else np.sort(values)[::-1]


def _of(worst_first: Floats, share: int, unit: object) -> str:
    """The best value in the worst 1 / `share` of the runs; unknown where there are fewer than `share` runs."""
    count = len(worst_first) // share
    return numbers.measure(float(worst_first[count - 1]), unit) if count else numbers.UNKNOWN


MEMORY_ROW_IN = 0.5
KIB_PER_MIB = 1024
MEASURES = (("rss_mean_kib", "KiB"), ("rss_peak_kib", "KiB"), ("rss_area_kib_s", "KiB s"))


def _figure(arm: Record, name: str, unit: str) -> str:
    low, high = (arm.get("intervals") or {}).get(name) or (None, None)
    return numbers.between(arm.get(name), low, high, unit)


def _table(arms: list[Record]) -> Table:
    rows = [[str(a.get("name", "?")), *(_figure(a, name, unit) for name, unit in MEASURES)] for a in arms]
    return Table(
        "Resident memory by side: medians over the runs, with 95\u202f% intervals",
        ["Side", "Mean", "Peak", "Area (mean × time)"],
        rows,
    )


def _arms(run: LoadedRun) -> list[Record]:
    return [arm for arm in run.result.get("arms") or [] if finite(arm.get("rss_peak_kib")) is not None]


def memory(run: LoadedRun) -> Picture | None:
    """Peak and mean resident memory of each arm: medians over its runs, with their intervals."""
    arms = _arms(run)
    if not arms:
        return None
    table = _table(arms)
    short = words.short_names([str(arm.get("name", "?")) for arm in arms])
    row_in = MEMORY_ROW_IN + 2 * LINE_IN
    figure, (axis,) = canvas(len(arms) * row_in + 0.1, left_in=0.34)
    ends: list[float] = []
    for position, (arm, row) in enumerate(zip(arms, table.rows, strict=True)):
        above = position * row_in + 0.12
        head(axis, above, (short[str(row[0])], f"peak {row[2]}"), LINE_IN)
        head(axis, above + 2 * LINE_IN, (f"mean {row[1]}", ""), 0.0, muted=True)
        ends += _line(axis, above + 2 * LINE_IN + 0.22, position, arm)
    axis.set_ylim(len(arms) * row_in + 0.1, 0)
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    if not scale(axis, min(ends), max(ends)):
        axis.set_xlim(0, max(ends) * 1.06)
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} MiB"))
    axis.set_xlabel("resident memory (less is better)")
    description = "; ".join(f"{row[0]}: peak {row[2]}, mean {row[1]}" for row in table.rows) + "."
    caption = "Filled: peak; hollow: mean over the time of the run; strokes across: the ends of their intervals."
    return Picture("memory", "Memory", description, figure, table, caption)


def _line(axis: Axes, line: float, position: int, arm: Record) -> list[float]:
    """Draws mean and peak of an arm, with strokes at the ends of their intervals. Returns the two values in MiB."""
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


def memory_over_time(run: LoadedRun) -> Picture | None:
    """The memory of each arm over the time of its runs: the median run, the middle half of the runs shaded."""
    found = memory_curves(run)
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
    table = _table(arms)
    description = "; ".join(f"{r[0]}: mean {r[1]}, peak {r[2]}, area {r[3]}" for r in table.rows) + "."
    caption = (
        "Line: the median of the runs; shade: the middle half of them. How much of it the program held at that time "
        "(live bytes) is known of soaks alone."
    )
    return Picture("memory-over-time", "Memory over time", description, figure, table, caption)


def _curve(axis: Axes, position: int, each: Envelope, factor: float, name: str) -> None:
    colour, t = arm_colour(position), each.t_s * factor
    axis.fill_between(t, each.low / KIB_PER_MIB, each.high / KIB_PER_MIB, color=colour, alpha=0.2, linewidth=0)
    axis.plot(
        t, each.median / KIB_PER_MIB, color=colour, label=name, marker=arm_marker(position),
        markevery=max(1, len(t) // 6), markersize=5,
    )  # fmt: skip


DRAWN_COMPARISONS = 8


def _primary(run: LoadedRun) -> list[tuple[Record, BlockRatios]]:
    name = (run.result.get("metric") or {}).get("name")
    pairs = []
    for comparison in run.result.get("comparisons") or []:
        if name and comparison.get("metric") not in (None, name):
            continue
        ratios = block_ratios(run, comparison)
        if len(ratios.blocks):
            pairs.append((comparison, ratios))
    return pairs[:DRAWN_COMPARISONS]


def blocks(run: LoadedRun) -> Picture | None:
    """Ratio per block with the running estimate; with several comparisons only the running estimates."""
    pairs = _primary(run)
    if not pairs:
        return None
    margin = finite(run.result.get("margin")) or 0.0
    legend = len(pairs) > 1
    found = explain.change_of(run.result, pairs[0][0])
    how = found.style if found else words.style_of(None)
    figure, (axis,) = canvas(2.5, left_in=1.12, top_in=0.24 + 0.24 * len(pairs) if legend else 0.18)
    if margin:
        axis.axhspan(-math.log1p(margin), math.log1p(margin), color=SENTINELS["band"], linewidth=0)
    axis.axhline(0, color=SENTINELS["muted"], linewidth=1)
    notes = [_points(axis, pairs[0][1], margin)] if not legend else []
    rows = []
    for position, (comparison, ratios) in enumerate(pairs):
        counts, log_ratio = running_estimate(ratios.log_ratios)
        colour = arm_colour(position) if legend else SENTINELS["ink"]
        shape = arm_marker(position) if legend else ""
        axis.plot(
            counts, log_ratio, color=colour, marker=shape, markevery=max(1, len(counts) // 6), markersize=5,
            label=label(figures.comparison_name(comparison), 44),
        )  # fmt: skip
        rows += [
            [figures.comparison_name(comparison), str(n), _said(run, comparison, float(value))]
            for n, value in zip(counts, log_ratio, strict=True)
        ]
    if not legend:
        _looks(axis, run.result.get("looks") or [])
    else:
        figure.legend(loc="upper left", bbox_to_anchor=(0.02, 1.0), borderaxespad=0.2)
        axis.margins(y=0.1)
    svg.upwards(axis, *axis.get_ylim(), how)
    axis.xaxis.set_major_locator(MaxNLocator(nbins=7, integer=True))
    axis.set_xlabel("blocks finished")
    axis.set_xlim(0, max(len(ratios.blocks) for _, ratios in pairs) + 1)
    last = "; ".join(f"{row[0]}: {row[2]} after {row[1]} blocks" for row in {row[0]: row for row in rows}.values())
    description = f"The running estimate ends at {last}."
    caption = f"Line: the running estimate (Hodges–Lehmann); up is better ({svg.sides(how)[1]})."
    if not legend:
        caption = (
            "Dots: the ratio within each block. " + caption + " Bars: the estimate and interval at each planned look."
        )
    caption = " ".join([caption, *filter(None, notes)])
    table = Table("The running estimate", ["Comparison", "Blocks", "Running estimate"], rows)
    return Picture("blocks", "Block by block", description, figure, table, caption)


def _said(run: LoadedRun, comparison: Record, log_ratio: float) -> str:
    """An intermediate estimate in words. It has no interval, since only the looks have intervals."""
    found = explain.change_of(run.result, {"metric": comparison.get("metric"), "estimate": as_ratio(log_ratio)})
    return found.short if found else numbers.UNKNOWN


def _points(axis: Axes, ratios: BlockRatios, margin: float) -> str:
    """Draws a dot for each block. Outliers become carets at the edge, and too many dots are thinned. Returns a text
    about both for the caption."""
    change = ratios.log_ratios
    place = np.arange(1, len(change) + 1)
    low, high = (float(q) for q in np.quantile(change, (0.02, 0.98)))
    low, high = min(low, -1.6 * margin, 0.0), max(high, 1.6 * margin, 0.0)
    air = max(0.15 * (high - low), 1e-4)
    bottom, top = low - air, high + air
    axis.set_ylim(bottom, top)
    outside = (change > top) | (change < bottom)
    step = max(1, -(-len(change) // DRAWN_POINTS))
    shown = ~outside & (place % step == 0 if step > 1 else True)
    axis.plot(place[shown], change[shown], "o", color=SENTINELS["arm-1"], alpha=0.55, markersize=4, markeredgewidth=0)
    for shape, chosen, at in (("^", change > top, top), ("v", change < bottom, bottom)):
        axis.plot(
            place[chosen], np.full(chosen.sum(), at), shape, color=SENTINELS["arm-1"], markersize=6, clip_on=False
        )
    notes = []
    if outside.any():
        notes.append(f"{int(outside.sum())} of {len(change)} blocks lie outside and are carets on the edge.")
    if step > 1:
        notes.append(f"One block in {step} is drawn; the estimate uses all {len(change)}.")
    return " ".join(notes)


def _looks(axis: Axes, looks: list[Record]) -> None:
    low_edge, high_edge = axis.get_ylim()
    for look in looks:
        place, low, high = (finite(look.get(name)) for name in ("blocks", "ci_low", "ci_high"))
        if place is None:
            continue
        axis.axvline(place, color=SENTINELS["line"], linewidth=1, zorder=0.5)
        low = low_edge if low is None else max(svg.place(low), low_edge)
        high = high_edge if high is None else min(svg.place(high), high_edge)
        axis.plot([place, place], [low, high], color=SENTINELS["arm-2"], linewidth=2.4)
        value = finite(look.get("estimate"))
        if value is not None and low_edge <= svg.place(value) <= high_edge:
            axis.plot([place], [svg.place(value)], "D", color=SENTINELS["arm-2"], markersize=6)
