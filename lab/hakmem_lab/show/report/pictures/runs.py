"""Pictures of the runs: dots and box of each arm, its worst runs, and its memory over time. Also the ratios
of the blocks, with the running estimate and the planned looks.
"""

import math
from collections.abc import Sequence

import numpy as np

from hakmem_lab.judge import explain, words
from hakmem_lab.judge.statistics.paired import as_ratio, median_interval
from hakmem_lab.show import figures, numbers
from hakmem_lab.show.numbers import finite
from hakmem_lab.show.report import axis
from hakmem_lab.show.report.axis import Axis, measured, place
from hakmem_lab.show.report.model import LoadedRun, Table
from hakmem_lab.show.report.pictures.forms import Chart, Dots, Panel, Row, Series, rows
from hakmem_lab.show.report.series import (
    DRAWN_POINTS,
    BlockRatios,
    Floats,
    block_ratios,
    memory_curves,
    running_estimate,
    thin_sorted,
    values_by_arm,
)
from hakmem_lab.show.report.svg import Picture, arm_colour, arm_marker
from hakmem_lab.store.results import Comparison, Estimate, SideRow


def distribution(run: LoadedRun) -> Picture | None:
    """Every run's primary metric by arm: dots, and a box of the quartiles with the median."""
    arms = values_by_arm(run)
    if not arms:
        return None
    metric, name, short = run.result.get("metric") or {}, run.metric_name, words.short_names(list(arms))
    unit, total = metric.get("unit"), sum(map(len, arms.values()))
    across = Axis.around(np.concatenate(list(arms.values())), written=measured(unit))
    better = "higher is better" if metric.get("higher_is_better") else "lower is better"
    across.label = f"{name[:30]} ({better})" + (", logarithmic" if across.log else "")
    thinned, drawn, body = False, [], []
    for position, (arm, values) in enumerate(arms.items()):
        shown, fewer = thin_sorted(values, DRAWN_POINTS // len(arms))
        thinned |= fewer
        median = numbers.between(*median_interval(values.tolist()), unit)
        quartiles = np.quantile(values, (0.25, 0.5, 0.75))
        line = [Dots(shown, quartiles, arm_colour(position), arm_marker(position))]
        drawn.append(Row(short[arm], f"median {median}", [line]))
        least, lower, upper, greatest = (
            numbers.measure(float(each), unit) for each in (values.min(), quartiles[0], quartiles[2], values.max())
        )
        body.append([arm, str(len(values)), least, lower, median, upper, greatest])
    caption = "Dots: single runs; box: the middle half; bar: the median, its 95\u202f% interval in brackets."
    if thinned:
        caption += f" Of {total} runs {DRAWN_POINTS} are drawn, evenly by rank, with the extremes."
    description = "; ".join(f"{row[0]}: median {row[4]}, from {row[2]} to {row[6]}" for row in body) + "."
    columns = ["Side", "Runs", "Least", "Lower quartile", "Median", "Upper quartile", "Greatest"]
    table = Table(f"{name} by side", columns, body)
    return Picture(
        "distribution", f"Every run: {name}", description, rows([Panel(drawn, across, height=25)]), table, caption
    )


SHARES = ((2, "half"), (10, "1 in 10"), (100, "1 in 100"), (1000, "1 in 1000"))


def tail(run: LoadedRun) -> Picture | None:
    """The worst runs of each arm, by their share of the runs. Drawn only where the typical run and the mean of all runs
    disagree. A latency run has the picture of its percentiles instead."""
    arms = {arm: values for arm, values in values_by_arm(run).items() if len(values) > 1}
    if not explain.torn(run.result) or not arms or run.result.get("latency"):
        return None
    metric, names = run.result.get("metric") or {}, words.short_names(list(arms))
    unit, sign = metric.get("unit"), 1 if metric.get("higher_is_better") else -1
    series, body = [], []
    longest = max(len(values) for values in arms.values())
    places = [(float(x), text) for x, text in SHARES if x <= longest]
    for position, (arm, values) in enumerate(arms.items()):
        worst, mean = sign * np.sort(sign * values), numbers.measure(float(values.mean()), unit)
        share = len(worst) / np.arange(1, len(worst) + 1)
        rare = range(int((share >= SHARES[1][0]).sum()))  # dots of the others would overlap
        series.append(
            Series(share, worst, arm_colour(position), f"{names[arm]}, mean {mean}", arm_marker(position), rare)
        )
        body.append([arm, *(_of(worst, int(x), unit) for x, _ in places), mean])
    y = Axis.around(np.concatenate(list(arms.values())), written=measured(unit))
    x = Axis(1.0, float(longest), "the worst share of the runs begins at", log=True, ticks=places)
    description = "; ".join(f"{row[0]}: half {row[1]}, mean {row[-1]}" for row in body) + "."
    caption = (
        "To the right rarer, worse runs: where the lines cross, the side that is usually better becomes the worse."
    )
    table = Table(f"{run.metric_name}: half of the runs, a tenth, … are this bad or worse",
                  ["Side", *(text for _, text in places), "Mean"], body)  # fmt: skip
    return Picture("tail", "The rare runs", description, Chart(x, y, series, left=65).draw(), table, caption)


def _of(worst_first: Floats, share: int, unit: object) -> str:
    """The best value in the worst 1 / `share` of the runs; unknown where there are fewer than `share` runs."""
    count = len(worst_first) // share
    return numbers.measure(float(worst_first[count - 1]), unit) if count else numbers.UNKNOWN


MEASURES = (("rss_mean_kib", "KiB"), ("rss_peak_kib", "KiB"), ("rss_area_kib_s", "KiB s"))


def _ends(arm: SideRow, name: str) -> tuple[float | None, float | None]:
    low, high = (arm.get("intervals") or {}).get(name) or (None, None)
    return finite(low), finite(high)


def _table(arms: list[SideRow]) -> Table:
    body = [
        [str(a.get("name", "?")), *(numbers.between(a.get(name), *_ends(a, name), unit) for name, unit in MEASURES)]
        for a in arms
    ]
    columns = ["Side", "Mean", "Peak", "Area (mean × time)"]
    return Table("Resident memory by side: medians over the runs, with 95\u202f% intervals", columns, body)


def _arms(run: LoadedRun) -> list[SideRow]:
    return [arm for arm in run.result.get("arms") or [] if finite(arm.get("rss_peak_kib")) is not None]


def memory_over_time(run: LoadedRun) -> Picture | None:
    """The memory of each arm over the time of its runs: the median run, the middle half of the runs shaded."""
    found = memory_curves(run)
    if not found:
        return None
    names = words.short_names(list(found))
    series = [
        Series(each.t_s, each.median, arm_colour(i), names[arm], arm_marker(i), range(0, len(each.t_s), 10),
               low=each.low, high=each.high, shade=0.2)
        for i, (arm, each) in enumerate(found.items())
    ]  # fmt: skip
    x = Axis(0, max(float(each.t_s[-1]) for each in found.values()), "time since the start", measured("s"))
    y = axis.of_memory(max(float(each.high.max()) for each in found.values()) * 1.08, "resident")
    table = _table([arm for arm in _arms(run) if str(arm.get("name")) in found])
    description = "; ".join(f"{r[0]}: mean {r[1]}, peak {r[2]}, area {r[3]}" for r in table.rows) + "."
    caption = (
        "Line: the median of the runs; shade: the middle half of them. How much of it the program held at that time "
        "(live bytes) is known of soaks alone."
    )
    drawing = Chart(x, y, series, left=72).draw()
    return Picture("memory-over-time", "Memory over time", description, drawing, table, caption)


DRAWN_COMPARISONS = 8


def _primary(run: LoadedRun) -> list[tuple[Comparison, BlockRatios]]:
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
    margin, alone = math.log1p(finite(run.result.get("margin")) or 0.0), len(pairs) == 1
    found = explain.change_of(run.result, pairs[0][0])
    how = found.style if found else words.style_of(None)
    series, body = list[Series](), []
    for position, (comparison, ratios) in enumerate(pairs):
        name, (counts, log_ratio) = figures.comparison_name(comparison), running_estimate(ratios.log_ratios)
        colour, named, shape = ("ink", "", "") if alone else (arm_colour(position), name, arm_marker(position))
        series.append(Series(counts, log_ratio, colour, named, shape, range(0, len(counts), len(counts) // 6 or 1)))
        body += [[name, str(n), _said(run, comparison, float(value))]
                 for n, value in zip(counts, log_ratio, strict=True)]  # fmt: skip
    most, changes = max(len(ratios.blocks) for _, ratios in pairs), pairs[0][1].log_ratios
    low, high = np.quantile(changes if alone else np.concatenate([each.ys for each in series]), (0.02, 0.98))
    low, high = min(float(low), -1.6 * margin, 0.0), max(float(high), 1.6 * margin, 0.0)
    air = max(0.15 * (high - low), 1e-4)
    y = axis.upwards(low - air, high + air, how)
    caption, rules = f"Line: the running estimate (Hodges–Lehmann); up is better ({axis.sides(how)[1]}).", []
    if alone:
        dots, notes = _points(changes, y)
        looks = _looks(run.result.get("looks") or [])
        series, rules = [*dots, *series, *looks], [(x, "line", "") for each in looks for x in each.xs]
        caption = f"Dots: the ratio within each block. {caption} Bars: the estimate and interval at each planned look."
        caption = " ".join([caption, *notes])
    x = Axis(0, most + 1, "blocks finished", "{:.0f}".format, count=6, whole=True)
    last = "; ".join(f"{row[0]}: {row[2]} after {row[1]} blocks" for row in {row[0]: row for row in body}.values())
    chart = Chart(x, y, series, 180, 0.0, (-margin, margin) if margin else None, rules, left=80)
    table = Table("The running estimate", ["Comparison", "Blocks", "Running estimate"], body)
    return Picture("blocks", "Block by block", f"The running estimate ends at {last}.", chart.draw(), table, caption)


def _said(run: LoadedRun, comparison: Comparison, log_ratio: float) -> str:
    """An intermediate estimate in words. It has no interval, since only the looks have intervals."""
    shown: Estimate = {"estimate": as_ratio(log_ratio)}
    if metric := comparison.get("metric"):
        shown["metric"] = metric
    found = explain.change_of(run.result, shown)
    return found.short if found else numbers.UNKNOWN


def _points(change: Floats, y: Axis) -> tuple[list[Series], list[str]]:
    """A dot for each block, and notes for the caption. Outliers become carets at the edge, and too many dots are
    thinned."""
    at = np.arange(1, len(change) + 1)
    above, below = change > y.high, change < y.low
    step = max(1, -(-len(change) // DRAWN_POINTS))
    parts = (("o", ~above & ~below & (at % step == 0), 4, 0.55), ("^", above, 6, 1.0), ("v", below, 6, 1.0))
    found = [
        Series(at[chosen], change[chosen], "arm-1", marker=shape, width=0, size=size, alpha=alpha)
        for shape, chosen, size, alpha in parts
    ]
    outside, notes = int(above.sum() + below.sum()), []
    if outside:
        notes.append(f"{outside} of {len(change)} blocks lie outside and are carets on the edge.")
    if step > 1:
        notes.append(f"One block in {step} is drawn; the estimate uses all {len(change)}.")
    return found, notes


def _looks(looks: Sequence[Comparison]) -> list[Series]:
    """The estimate and the interval at each look; an open end reaches the edge of the picture."""
    found = []
    for look in looks:
        at, value = finite(look.get("blocks")), finite(look.get("estimate"))
        if at is not None:
            low, high = finite(look.get("ci_low")), finite(look.get("ci_high"))
            low, high = place(-1.0 if low is None else low), math.inf if high is None else place(high)
            ys = [0.0 if value is None else place(value)]
            shape = "" if value is None else "D"
            found.append(Series([at], ys, "arm-2", marker=shape, width=0, size=6, low=[low], high=[high]))
    return found
