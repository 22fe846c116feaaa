"""The comparison as it came in: the ratio of every block, the running estimate and the planned looks."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from hakmem_lab.judge import explain, words
from hakmem_lab.judge.statistics.paired import as_ratio
from hakmem_lab.show import figures, numbers
from hakmem_lab.show.numbers import finite
from hakmem_lab.show.report import svg
from hakmem_lab.show.report.model import LoadedRun, Record, Table
from hakmem_lab.show.report.series import DRAWN_POINTS, BlockRatios, block_ratios, running_estimate
from hakmem_lab.show.report.svg import SENTINELS, Picture, arm_colour, arm_marker, canvas, label

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
    """An estimate on the way, in words; its interval is that of the looks."""
    found = explain.change_of(run.result, {"metric": comparison.get("metric"), "estimate": as_ratio(log_ratio)})
    return found.short if found else numbers.UNKNOWN


def _points(axis: Axes, ratios: BlockRatios, margin: float) -> str:
    """Dots of the blocks; outliers sit on the edge as carets, a crowd is thinned. Returns what the caption must say."""
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
