"""Pictures of one kind each: the effects that an A/A can see, a matrix, percentiles of requests, system calls."""

import math
from collections.abc import Sequence

from hakmem_lab.show import numbers
from hakmem_lab.show.numbers import finite
from hakmem_lab.show.report.axis import Axis, measured
from hakmem_lab.show.report.model import LoadedRun, Table
from hakmem_lab.show.report.pictures.forms import Chart, Mark, Panel, Row, Series, rows
from hakmem_lab.show.report.svg import Pen, Picture, arm_colour, arm_marker
from hakmem_lab.store.results import Calls, Percentiles, SyscallSide


def smallest_effect(run: LoadedRun) -> Picture | None:
    """The smallest true effect the machine can see with a number of blocks."""
    record = (run.result.get("aa") or {}).get("smallest_effect_percent") or {}
    points = sorted((int(blocks), finite(effect)) for blocks, effect in record.items() if str(blocks).isdigit())
    known = {blocks: effect for blocks, effect in points if effect is not None}
    if not known:
        return None
    x = Axis(0, max(known) * 1.06, "blocks", "{:.0f}".format, whole=True)
    y = Axis(0, max(known.values()) * 1.15, written=lambda value: f"{value:.3g} %")
    body = [[str(blocks), f"{numbers.number(effect)} %"] for blocks, effect in known.items()]
    text = "; ".join(f"{effect} with {blocks} blocks" for blocks, effect in body) + "."
    drawing = Chart(x, y, [Series([*known], [*known.values()], "arm-1", marker="o")], 137).draw()
    table = Table("The smallest effect by number of blocks", ["Blocks", "Effect"], body)
    caption = "More blocks see smaller effects; below the line a difference is likely to stay INCONCLUSIVE."
    return Picture("smallest-effect", "The smallest effect to be seen", text, drawing, table, caption)


LEVELS = ("off", "on")


def interaction(run: LoadedRun) -> Picture | None:
    """The median of the primary metric at the four points of a 2×2 matrix; None for any other shape. The arms are in
    standard order: the first factor changes fastest."""
    factors = list((run.header.get("spec") or {}).get("factors") or {})
    names = [str(arm.get("name")) for arm in run.header.get("arms") or []]
    medians = {str(arm.get("name")): arm for arm in run.result.get("arms") or []}
    found = [medians.get(name, {}) for name in names]
    values = [value for arm in found if (value := finite(arm.get("median"))) is not None]
    if len(factors) != 2 or len(names) != 4 or len(values) != 4:
        return None
    (first, second), unit = factors, (run.result.get("metric") or {}).get("unit")
    ends = [[finite(arm.get(end)) for arm in found] for end in ("ci_low", "ci_high")]
    series = [
        Series([level * 0.03, 1 + level * 0.03], values[2 * level :][:2], arm_colour(level),
               f"{second} {LEVELS[level]}", arm_marker(level), size=7, dash="5 2" * level,
               low=ends[0][2 * level :][:2], high=ends[1][2 * level :][:2])
        for level in (0, 1)
    ]  # fmt: skip
    y = Axis.around([*values, *(end for each in ends for end in each if end is not None)], written=measured(unit))
    x = Axis(-0.35, 1.35, ticks=[(level, f"{first[:20]} {LEVELS[level]}") for level in (0, 1)])
    body = [[LEVELS[i & 1], LEVELS[i >> 1], numbers.measure(value, unit)] for i, value in enumerate(values)]
    description = "; ".join(f"{first} {r[0]} with {second} {r[1]}: {r[2]}" for r in body) + "."
    caption = (
        f"Median {run.metric_name} at the four points. Parallel lines: the settings do not depend on each "
        "other. Read the interaction's interval before believing that they do."
    )
    table = Table("The four points of the matrix", [first, second, "Median"], body)
    drawing = Chart(x, y, series, left=68).draw()
    return Picture("interaction", "Do the two settings depend on each other?", description, drawing, table, caption)


# (key of the result, its name, 1 / (1 − p)); the latter is its place on the axis, which spreads the tail evenly.
PERCENTILES = (
    ("p50_us", "p50", 2),
    ("p90_us", "p90", 10),
    ("p99_us", "p99", 100),
    ("p999_us", "p99.9", 1000),
    ("p9999_us", "p99.99", 10000),
)


def latency(run: LoadedRun) -> Picture | None:
    """Response time by percentile for each arm, with intervals; the service time of each arm dotted."""
    arms = [a for a in (run.result.get("latency") or {}).get("arms") or [] if finite(a.get("p50_us")) is not None]
    if not arms:
        return None
    own = [_curve(position, arm, str(arm.get("name", "?"))) for position, arm in enumerate(arms)]
    service = [_curve(i, times) for i, arm in enumerate(arms) if (times := arm.get("service"))]
    service = [each for each in service if each.xs]
    values = [value for each in (*own, *service) for value in each.ys]
    y = Axis(min(values) / 1.3, max(values) * 1.3, log=True, written=measured("s", 1e-6))
    x = Axis(1.7, 14000, "percentile of requests", log=True, ticks=[(place, name) for _, name, place in PERCENTILES])
    columns = ["Side", "Rate", *(name for _, name, _ in PERCENTILES), "Greatest"]
    body = [
        [
            str(a.get("name", "?")),
            numbers.number(a.get("rate_per_s"), "/s"),
            *(numbers.microseconds(a.get(k)) for k, _, _ in PERCENTILES),
            numbers.microseconds(a.get("max_us")),
        ]
        for a in arms
    ]
    title = "Latency by percentile"
    description = "; ".join(f"{r[0]}: p50 {r[2]}, p99 {r[4]}, p99.9 {r[5]}" for r in body) + "."
    caption = "Open loop, from the moment a request was due. Both axes are logarithmic; bars: intervals."
    if service:
        caption += " Dotted: service time, which leaves out waiting."
    drawing = Chart(x, y, [*own, *service], 194, left=62).draw()
    return Picture("latency", title, description, drawing, Table(title, columns, body), caption)


def _curve(position: int, arm: Percentiles, name: str = "") -> Series:
    """One arm's percentiles. Without a name, the percentiles of its service time, as a dotted line."""
    points = [(x, finite(arm.get(key)), percentile) for key, percentile, x in PERCENTILES]
    known = [(x * (1 + 0.03 * position), value, p) for x, value, p in points if value is not None and value > 0]
    ends = [_pair((arm.get("intervals") or {}).get(p)) for _, _, p in known]
    return Series(
        [x for x, *_ in known], [value for _, value, _ in known], arm_colour(position), name,
        arm_marker(position) if name else "", size=6, dash="" if name else "1.5 3",
        low=[low for low, _ in ends], high=[high for _, high in ends],
    )  # fmt: skip


def _pair(ends: object) -> tuple[float | None, float | None]:
    """The ends of an interval above 0."""
    low, high = map(finite, ends) if isinstance(ends, (list, tuple)) and len(ends) == 2 else (None, None)
    return (low, high) if low is not None and high is not None and low > 0 else (None, None)


DRAWN_CALLS = 12


def syscalls(run: LoadedRun) -> Picture | None:
    """System calls per operation: the total, then each call, a bar for each arm."""
    record = run.result.get("syscalls") or {}
    given = record.get("arms") or []
    arms = [arm for arm in given if finite(arm.get("per_op")) is not None]
    whole = not arms
    if whole:  # for a command without a length to vary
        counts: list[tuple[SyscallSide, Calls]] = [(arm, arm.get("whole") or {}) for arm in given]
        arms = [arm | {"per_op": found["calls"], "per_call": found.get("per_call") or {}}
                for arm, found in counts if finite(found.get("calls")) is not None]  # fmt: skip
    if not arms:
        return None
    groups, budget = ["all calls", *_calls(arms)], finite(record.get("budget"))
    per = "of the whole process" if whole else "an operation"
    names = [str(arm.get("name", "?")) for arm in arms]
    body = [[group, *(numbers.number(_rate(arm, group)) for arm in arms)] for group in groups]
    title = f"System calls {per}"
    description = "; ".join(f"{name}: {rate}" for name, rate in zip(names, body[0][1:], strict=True)) + "."
    caption = "" if whole else "Counted in steady state, as the difference of a short and a long run. "
    caption += "No bar: not one call." + (f" Broken line: the budget, {numbers.number(budget)}." if budget else "")
    table = Table(title, ["Call", *names], body)
    drawing = _draw_calls(arms, names, groups[: DRAWN_CALLS + 1], budget, f"calls {per} (logarithmic; lower is better)")
    return Picture("syscalls", title, description, drawing, table, caption)


def _draw_calls(
    arms: Sequence[SyscallSide], names: Sequence[str], groups: Sequence[str], budget: float | None, text: str
) -> Pen:
    rates = [[_rate(arm, group) for arm in arms] for group in groups]
    known = [rate for group in rates for rate in (*group, budget or 0.0) if rate > 0 and math.isfinite(rate)]
    low, high = min(known, default=0.1) / 10, max(known, default=10.0) * 3
    drawn = [
        Row(group, "", [[Mark(rate or None, low, rate, arm_colour(i), arm_marker(i), width=5, size=7)]
                        for i, rate in enumerate(own)])
        for group, own in zip(groups, rates, strict=True)
    ]  # fmt: skip
    across = Axis(low, high, text, _power, log=True)
    legend = [(name, arm_colour(i), arm_marker(i)) for i, name in enumerate(names)]
    return rows([Panel(drawn, across, bound=budget, height=14)], legend)


def _power(value: float) -> str:
    return f"{value:.0e}".replace("e-0", f"e{numbers.MINUS}").replace("e+0", "e")


def _calls(arms: Sequence[SyscallSide]) -> list[str]:
    """Names of the calls, the most frequent in any arm first."""
    most: dict[str, float] = {}
    for arm in arms:
        for call, rate in (arm.get("per_call") or {}).items():
            most[str(call)] = max(most.get(str(call), 0.0), finite(rate) or 0.0)
    return sorted(most, key=lambda call: -most[call])


def _rate(arm: SyscallSide, group: str) -> float:
    value = arm.get("per_op") if group == "all calls" else (arm.get("per_call") or {}).get(group)
    return finite(value) or 0.0
