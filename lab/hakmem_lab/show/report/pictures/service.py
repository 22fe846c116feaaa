"""Tail latency by percentile, and system calls per operation; both on logarithmic axes.

May import: distribution, rows, svg, numbers, model, palette.
"""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from hakmem_lab.show.report import numbers
from hakmem_lab.show.report.model import LoadedRun, Record
from hakmem_lab.show.report.numbers import finite
from hakmem_lab.show.report.pictures.distribution import log_bounds
from hakmem_lab.show.report.svg import SENTINELS, Picture, Table, arm_colour, arm_marker, canvas, element, label

# Key of the result, its name, and 1 / (1 − p): the axis spreads the tail evenly.
PERCENTILES = (
    ("p50_us", "p50", 2),
    ("p90_us", "p90", 10),
    ("p99_us", "p99", 100),
    ("p999_us", "p99.9", 1000),
    ("p9999_us", "p99.99", 10000),
)
DRAWN_CALLS = 12


def latency(run: LoadedRun, key: str) -> Picture | None:
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
    columns = ["Arm", "Rate", *(name for _, name, _ in PERCENTILES), "Greatest"]
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
    svg = element(figure, key, title, description)
    return Picture("latency", title, description, svg, Table(title, columns, rows), caption)


def _curve(axis: Axes, position: int, arm: Record, name: str | None) -> None:
    """One arm's percentiles; without a name it is the service time of the arm: dotted, hollow."""
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


def syscalls(run: LoadedRun, key: str) -> Picture | None:
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
    svg = element(figure, key, title, description)
    table = Table(title, ["Call", *names], rows)
    return Picture("syscalls", title, description, svg, table, _calls_caption(whole, budget))


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
    """The counts of a command without a length to vary, which are of the whole process, in the place of rates."""
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
