"""Pictures of one kind each: an A/A's noise, the points of a matrix, percentiles of requests, system calls."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from hakmem_lab.show import numbers
from hakmem_lab.show.kinds.aa import false_rates
from hakmem_lab.show.numbers import finite
from hakmem_lab.show.report.model import LoadedRun, Record, Table
from hakmem_lab.show.report.pictures.forest import Panel, Row, draw_panels
from hakmem_lab.show.report.pictures.runs import log_bounds
from hakmem_lab.show.report.series import correlations
from hakmem_lab.show.report.svg import SENTINELS, Picture, arm_colour, arm_marker, canvas, label


def false_verdicts(run: LoadedRun) -> Picture | None:
    """The share of A/A comparisons that gave GO or NO-GO, against the bound."""
    record = run.result.get("aa") or {}
    known = list(false_rates(record).items())
    if not known:
        return None
    known.append(("Both", sum(rate for _, rate in known)))
    bound = finite(record.get("bound"))
    above = bound is not None and known[-1][1] > bound
    tone = (SENTINELS["no-go"], "v") if above else (SENTINELS["go"], "o")
    rows = [
        Row(name, numbers.percent(rate), rate, 0.0, rate, *(tone if name == "Both" else ())) for name, rate in known
    ]
    top = max([rate for _, rate in known] + [bound or 0.0, 0.01]) * 1.25
    panel = Panel(rows, (0, top), axis_label="share of comparisons of a program with itself")
    figure = draw_panels([panel])
    axis = panel.axes
    axis.xaxis.set_major_locator(MaxNLocator(nbins=5))
    axis.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value * 100:.3g} %"))
    if bound is not None:
        axis.axvline(bound, color=SENTINELS["ink"], linestyle=(0, (5, 3)), linewidth=1.2)
    text = "; ".join(f"{name}: {numbers.percent(rate)}" for name, rate in known)
    text += f"; bound {numbers.percent(bound)}." if bound is not None else "."
    caption = (
        "Broken line: the bound for both together, which chance alone would explain. "
        f"From {numbers.number(record.get('resamples'))} resampled comparisons."
    )
    body = [[name, numbers.percent(rate)] for name, rate in known]
    body.append(["Bound", numbers.percent(bound)])
    table = Table("Rates of false verdicts", ["Verdict", "Rate"], body)
    return Picture("false-verdicts", "False verdicts", text, figure, table, caption)


def autocorrelation(run: LoadedRun) -> Picture | None:
    """Autocorrelation of the values in the order they were measured, with the bounds of pure noise."""
    ordered = sorted(run.counted, key=lambda record: finite(record.get("started")) or 0.0)
    values = np.array([v for v in (finite(record.get("value")) for record in ordered) if v is not None])
    given = (run.result.get("aa") or {}).get("autocorrelation")
    known = [finite(value) or 0.0 for value in given] if isinstance(given, list) else None
    series = correlations(values) if known is None else np.array(known)
    if not len(series):
        return None
    lags = np.arange(1, len(series) + 1)
    figure, (axis,) = canvas(1.9, left_in=0.7)
    if len(values):
        noise = 1.96 / math.sqrt(len(values))
        axis.axhspan(-noise, noise, color=SENTINELS["band"], linewidth=0)
    axis.axhline(0, color=SENTINELS["muted"], linewidth=1)
    axis.vlines(lags, 0, series, color=SENTINELS["arm-1"], linewidth=2.4)
    axis.plot(lags, series, "o", color=SENTINELS["arm-1"], markersize=5)
    axis.set_ylim(min(-0.3, float(series.min()) * 1.1), max(0.6, float(series.max()) * 1.1))
    axis.yaxis.set_major_locator(MaxNLocator(nbins=5))
    axis.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True))
    axis.set_xlabel("runs apart")
    text = f"Autocorrelation at lag 1: {series[0]:.2f}.".replace("-", numbers.MINUS)
    caption = (
        "Grey band: what independent runs would show. Bars above it: noise comes in spells, so interleaving matters."
    )
    rows = [[str(lag), f"{value:.2f}".replace("-", numbers.MINUS)] for lag, value in zip(lags, series, strict=True)]
    table = Table("Autocorrelation", ["Runs apart", "Correlation"], rows)
    return Picture("autocorrelation", "Does a run resemble the one before?", text, figure, table, caption)


def smallest_effect(run: LoadedRun) -> Picture | None:
    """The smallest true effect the machine can see with a number of blocks."""
    record = (run.result.get("aa") or {}).get("smallest_effect_percent") or {}
    points = sorted((int(blocks), finite(effect)) for blocks, effect in record.items() if str(blocks).isdigit())
    known = [(blocks, effect) for blocks, effect in points if effect is not None]
    if not known:
        return None
    figure, (axis,) = canvas(1.9, left_in=0.8)
    axis.plot([b for b, _ in known], [e for _, e in known], "o-", color=SENTINELS["arm-1"], markersize=6)
    axis.set_xlim(0, known[-1][0] * 1.06)
    axis.set_ylim(0, max(e for _, e in known) * 1.15)
    axis.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.3g} %"))
    axis.yaxis.set_major_locator(MaxNLocator(nbins=5))
    axis.set_xlabel("blocks")
    rows = [[str(blocks), f"{numbers.number(effect)} %"] for blocks, effect in known]
    text = "; ".join(f"{effect} with {blocks} blocks" for blocks, effect in rows) + "."
    table = Table("The smallest effect by number of blocks", ["Blocks", "Effect"], rows)
    caption = "More blocks see smaller effects; below the line a difference is likely to stay INCONCLUSIVE."
    return Picture("smallest-effect", "The smallest effect to be seen", text, figure, table, caption)


LEVELS = ("off", "on")


def _points(run: LoadedRun) -> tuple[list[str], dict[str, tuple[int, int]]] | None:
    """The two factors of a 2×2 matrix, and each arm's levels (off 0, on 1); None for any other design.

    The arms are in standard order: the first factor changes fastest.
    """
    factors = list((run.header.get("spec") or {}).get("factors") or {})
    names = [str(arm.get("name")) for arm in run.header.get("arms") or []]
    if len(factors) != 2 or len(names) != 4:
        return None
    return factors, {name: (index & 1, index >> 1) for index, name in enumerate(names)}


def interaction(run: LoadedRun) -> Picture | None:
    """The median of the primary metric at the four points of a 2×2 matrix; None for any other shape."""
    design = _points(run)
    if design is None:
        return None
    (first, second), place = design
    records = {place[str(a.get("name"))]: a for a in run.result.get("arms") or [] if str(a.get("name")) in place}
    values = {point: finite(arm.get("median")) for point, arm in records.items()}
    known = {point: value for point, value in values.items() if value is not None}
    if len(known) != 4:
        return None
    metric = run.result.get("metric") or {}
    unit = metric.get("unit")
    figure, (axis,) = canvas(2.3, left_in=0.95, top_in=0.7)
    for level in (0, 1):
        ends = np.array([known[(0, level)], known[(1, level)]])
        shift = (level - 0.5) * 0.03
        axis.plot(
            np.array([0, 1]) + shift, ends, color=arm_colour(level), marker=arm_marker(level), markersize=7,
            linestyle="-" if level == 0 else (0, (5, 2)), label=label(f"{second} {LEVELS[level]}", 44),
        )  # fmt: skip
        for column in (0, 1):
            arm = records[(column, level)]
            low, high = finite(arm.get("ci_low")), finite(arm.get("ci_high"))
            if low is not None and high is not None:
                axis.plot([column + shift] * 2, [low, high], color=arm_colour(level), linewidth=2.2)
    axis.set_xlim(-0.35, 1.35)
    axis.set_xticks([0, 1], [label(f"{first} {level}", 24) for level in LEVELS])
    axis.yaxis.set_major_locator(MaxNLocator(nbins=5))
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: numbers.plain_measure(value, unit)))
    figure.legend(loc="upper left", bbox_to_anchor=(0.02, 1.0), borderaxespad=0.2)
    rows = [[LEVELS[p[0]], LEVELS[p[1]], numbers.measure(value, unit)] for p, value in sorted(known.items())]
    description = "; ".join(f"{first} {r[0]} with {second} {r[1]}: {r[2]}" for r in rows) + "."
    caption = (
        f"Median {run.metric_name} at the four points. Parallel lines: the settings do not depend on each "
        "other. Read the interaction's interval before believing that they do."
    )
    table = Table("The four points of the matrix", [first, second, "Median"], rows)
    return Picture("interaction", "Do the two settings depend on each other?", description, figure, table, caption)


# (key of the result, its name, 1 / (1 − p)); the latter is its place on the axis, which spreads the tail evenly.
PERCENTILES = (
    ("p50_us", "p50", 2),
    ("p90_us", "p90", 10),
    ("p99_us", "p99", 100),
    ("p999_us", "p99.9", 1000),
    ("p9999_us", "p99.99", 10000),
)
DRAWN_CALLS = 12


def latency(run: LoadedRun) -> Picture | None:
    """Response time by percentile for each arm, with intervals; the service time of each arm dotted."""
    arms = [a for a in (run.result.get("latency") or {}).get("arms") or [] if finite(a.get("p50_us")) is not None]
    if not arms:
        return None
    figure, (axis,) = canvas(2.7, left_in=0.85, top_in=0.15 + 0.24 * len(arms))
    axis.set_xscale("log")
    axis.set_yscale("log")
    dotted = False
    for position, arm in enumerate(arms):
        _curve(axis, position, arm, label(arm.get("name", "?"), 44))
        service = arm.get("service")
        if isinstance(service, dict) and any(finite(service.get(k)) for k, _, _ in PERCENTILES):
            _curve(axis, position, service, None)
            dotted = True
    axis.xaxis.set_major_locator(FixedLocator([x for _, _, x in PERCENTILES]))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.set_xticklabels([name for _, name, _ in PERCENTILES])
    axis.set_xlim(1.7, 14000)
    axis.yaxis.set_major_locator(LogLocator(base=10, numticks=7))
    axis.yaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: numbers.plain_measure(value * 1e-6, "s")))
    axis.grid(axis="y")
    axis.set_xlabel("percentile of requests")
    figure.legend(loc="upper left", bbox_to_anchor=(0.02, 1.0), borderaxespad=0.2)
    columns = ["Side", "Rate", *(name for _, name, _ in PERCENTILES), "Greatest"]
    rows = [
        [
            str(a.get("name", "?")),
            numbers.number(a.get("rate_per_s"), "/s"),
            *(numbers.microseconds(a.get(k)) for k, _, _ in PERCENTILES),
            numbers.microseconds(a.get("max_us")),
        ]
        for a in arms
    ]
    title = "Latency by percentile"
    description = "; ".join(f"{r[0]}: p50 {r[2]}, p99 {r[4]}, p99.9 {r[5]}" for r in rows) + "."
    caption = "Open loop, from the moment a request was due. Both axes are logarithmic; bars: intervals."
    if dotted:
        caption += " Dotted: service time, which leaves out waiting."
    return Picture("latency", title, description, figure, Table(title, columns, rows), caption)


def _curve(axis: Axes, position: int, arm: Record, name: str | None) -> None:
    """Draws one arm's percentiles. Without a name, they are those of its service time: dotted, hollow."""
    points = [(x, finite(arm.get(k)), p) for k, p, x in PERCENTILES]
    known = [(x, value, p) for x, value, p in points if value is not None and value > 0]
    colour = arm_colour(position)
    axis.plot(
        [x for x, _, _ in known], [value for _, value, _ in known], color=colour, label=name,
        marker=arm_marker(position) if name else "", linestyle="-" if name else ":", markersize=6,
    )  # fmt: skip
    ends = arm.get("intervals") or {}
    for x, _, percentile in known:
        pair = ends.get(percentile) or ends.get(percentile.replace(".", ""))
        low, high = (
            (finite(end) for end in pair) if isinstance(pair, (list, tuple)) and len(pair) == 2 else (None, None)
        )
        if low is not None and high is not None and low > 0:
            axis.plot([x * (1 + 0.03 * position)] * 2, [low, high], color=colour, linewidth=2.4)


def syscalls(run: LoadedRun) -> Picture | None:
    """System calls per operation: the total, then each call, a bar for each arm."""
    record = run.result.get("syscalls") or {}
    given = [arm for arm in record.get("arms") or [] if isinstance(arm, dict)]
    arms = [arm for arm in given if finite(arm.get("per_op")) is not None]
    whole = not arms
    if whole:
        arms = [_whole(arm) for arm in given if finite((arm.get("whole") or {}).get("calls")) is not None]
    if not arms:
        return None
    calls = _calls(arms)
    groups = ["all calls", *calls[:DRAWN_CALLS]]
    budget = finite(record.get("budget"))
    per = "of the whole process" if whole else "an operation"
    figure = _draw_calls(arms, groups, budget, f"calls {per} (logarithmic; lower is better)")
    names = [str(arm.get("name", "?")) for arm in arms]
    rows = [[group, *(numbers.number(_rate(arm, group)) for arm in arms)] for group in ["all calls", *calls]]
    title = f"System calls {per}"
    description = "; ".join(f"{name}: {rate}" for name, rate in zip(names, rows[0][1:], strict=True)) + "."
    table = Table(title, ["Call", *names], rows)
    return Picture("syscalls", title, description, figure, table, _calls_caption(whole, budget))


def _draw_calls(arms: list[Record], groups: list[str], budget: float | None, axis_label: str) -> Figure:
    rates = {group: [_rate(arm, group) for arm in arms] for group in groups}
    low, high = log_bounds([rate for group in rates.values() for rate in group] + ([budget] if budget else []))
    step = 0.2
    height = 0.34 + step * len(arms)
    figure, (axis,) = canvas(len(groups) * height, left_in=0.2, top_in=0.25 + 0.24 * len(arms))
    axis.set_xscale("log")
    axis.set_xlim(low / 3, high * 3)
    for row, group in enumerate(groups):
        axis.text(
            0, row * height + 0.13, label(group), transform=axis.get_yaxis_transform(), va="center",
            bbox={"facecolor": SENTINELS["paper"], "edgecolor": "none", "pad": 1},
        )  # fmt: skip
        for position, rate in enumerate(rates[group]):
            _bar(axis, row * height + 0.34 + step * position, rate, low / 3, position)
    for position, arm in enumerate(arms):
        axis.plot(
            [], [], color=arm_colour(position), marker=arm_marker(position), label=label(arm.get("name", "?"), 44)
        )
    if budget:
        axis.axvline(budget, color=SENTINELS["ink"], linestyle=(0, (5, 3)), linewidth=1.2)
    axis.set_ylim(len(groups) * height, -0.05)
    axis.set_yticks([])
    axis.spines["left"].set_visible(False)
    axis.xaxis.set_major_locator(LogLocator(base=10, numticks=7))
    axis.xaxis.set_minor_locator(NullLocator())
    axis.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:.0e}".replace("e-0", "e−").replace("e+0", "e"))
    )
    axis.set_xlabel(axis_label)
    figure.legend(loc="upper left", bbox_to_anchor=(0.02, 1.0), borderaxespad=0.2)
    return figure


def _calls_caption(whole: bool, budget: float | None) -> str:
    parts = [] if whole else ["Counted in steady state, as the difference of a short and a long run."]
    parts.append("No bar: not one call.")
    if budget:
        parts.append(f"Broken line: the budget, {numbers.number(budget)}.")
    return " ".join(parts)


def _whole(arm: Record) -> Record:
    """The counts of the whole process in place of rates, for a command without a length to vary."""
    return arm | {"per_op": arm["whole"]["calls"], "per_call": arm["whole"].get("per_call")}


def _calls(arms: list[Record]) -> list[str]:
    """Names of the calls, the most frequent in any arm first."""
    most: dict[str, float] = {}
    for arm in arms:
        for call, rate in (arm.get("per_call") or {}).items():
            most[str(call)] = max(most.get(str(call), 0.0), finite(rate) or 0.0)
    return sorted(most, key=lambda call: -most[call])


def _rate(arm: Record, group: str) -> float:
    value = arm.get("per_op") if group == "all calls" else (arm.get("per_call") or {}).get(group)
    return finite(value) or 0.0


def _bar(axis: Axes, y: float, rate: float, left: float, position: int) -> None:
    if rate > left:
        axis.plot([left, rate], [y, y], color=arm_colour(position), linewidth=5, solid_capstyle="butt")
        axis.plot([rate], [y], arm_marker(position), color=arm_colour(position), markersize=7)
    else:
        axis.text(left * 1.1, y, "0", va="center", color=arm_colour(position), fontsize=10)
