"""Forest plots: comparisons with the margin's band, guardrails, effects of a matrix, a sweep's candidates.

May import: rows, svg, numbers, model, palette.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from matplotlib.figure import Figure

from hakmem_lab.report import numbers
from hakmem_lab.report.model import LoadedRun, Record, metric_label
from hakmem_lab.report.numbers import finite
from hakmem_lab.report.palette import SENTINELS
from hakmem_lab.report.pictures.rows import (
    VERDICT_COLOURS,
    VERDICT_MARKERS,
    Row,
    draw_rows,
    limits,
    percent_axis,
)
from hakmem_lab.report.svg import Picture, Table, element

RATIO_AXIS = "change (right of 0: the treatment is better)"
DRAWN_ROWS = 24


def comparison_name(comparison: Record) -> str:
    """What a comparison compares: its own name, else treatment against control."""
    name = comparison.get("name")
    return str(name) if name else f"{comparison.get('treatment', '?')} against {comparison.get('control', '?')}"


def _open(value: object, side: float) -> float:
    """An end of an interval; one that is missing or infinite is open to its side."""
    known = finite(value)
    return side * math.inf if known is None else known


def _row(record: Record, text: str, *, hollow: bool = False) -> Row:
    verdict = str(record.get("verdict") or "")
    has_interval = any(record.get(end) is not None for end in ("ci_low", "ci_high"))
    return Row(
        text,
        numbers.estimate(record),
        finite(record.get("estimate")),
        _open(record.get("ci_low"), -1) if has_interval else None,
        _open(record.get("ci_high"), 1) if has_interval else None,
        VERDICT_COLOURS.get(verdict, SENTINELS["ink"]),
        VERDICT_MARKERS.get(verdict, "o"),
        hollow,
    )


def _forest(rows: Sequence[Row], margin: float, axis_label: str = RATIO_AXIS) -> Figure:
    values = [value for row in rows for value in (row.value, row.low, row.high)]
    return draw_rows(rows, axis_label=axis_label, bounds=limits(values, margin), margin=margin, ticks=percent_axis)


def _describe(rows: Sequence[Row]) -> str:
    return "; ".join(f"{row.text}: {row.figure}" for row in rows[:12]) + ("; …" if len(rows) > 12 else "") + "."


def forest(run: LoadedRun, key: str) -> Picture | None:
    """Every comparison, all metrics, with the band of ±margin."""
    comparisons = [c for c in run.result.get("comparisons") or [] if finite(c.get("estimate")) is not None]
    if not comparisons:
        return None
    margin = finite(run.result.get("margin")) or 0.0
    primary = (run.result.get("metric") or {}).get("name")
    rows = []
    names = {comparison_name(comparison) for comparison in comparisons}
    for comparison in comparisons[:DRAWN_ROWS]:
        metric = comparison.get("metric")
        if len(names) == 1 and len(comparisons) > 1:
            rows.append(_row(comparison, metric_label(metric or primary)))
            continue
        suffix = f" · {metric_label(metric)}" if metric and metric != primary else ""
        rows.append(_row(comparison, comparison_name(comparison) + suffix))
    caption = "Point: estimate; line: interval; an arrow: the interval goes on."
    if len(names) == 1:
        caption = f"{names.pop()}. {caption}"
    if margin:
        caption += f" Grey band: ±{numbers.percent(margin, signed=False)}, differences too small to matter."
    caption += " Shape: ▲ GO, ▼ NO-GO, ■ NEUTRAL, ◆ INCONCLUSIVE, ● no verdict asked."
    if len(comparisons) > DRAWN_ROWS:
        caption += f" The first {DRAWN_ROWS} of {len(comparisons)} comparisons are drawn; the table has all."
    table = Table(
        "Comparisons: estimate and interval",
        ["Comparison", "Metric", "Change", "Interval", "Verdict"],
        [
            [
                comparison_name(c),
                metric_label(c.get("metric") or primary),
                numbers.percent(c.get("estimate")),
                numbers.interval(c.get("ci_low"), c.get("ci_high")),
                str(c.get("verdict") or numbers.UNKNOWN),
            ]
            for c in comparisons
        ],
    )
    title = "How much better or worse?"
    svg = element(_forest(rows, margin), key, title, "Forest plot. " + _describe(rows))
    return Picture("forest", title, _describe(rows), svg, table, caption)


def effects(run: LoadedRun, key: str) -> Picture | None:
    """What the settings of a matrix do, at each level of the others first; the interaction has its own shape."""
    records = [e for e in run.result.get("effects") or [] if finite(e.get("estimate")) is not None]
    if not records:
        return None
    shapes = {"main": "o", "interaction": "D", "simple": "s", "combined": "s"}
    rows = []
    for record in records:
        row = _row(record, str(record.get("name") or "effect"))
        row.marker = shapes.get(str(record.get("kind")), "o")
        row.hollow = record.get("kind") == "combined"
        row.colour = SENTINELS["arm-4"] if record.get("kind") == "interaction" else SENTINELS["ink"]
        rows.append(row)
    table = Table(
        "Effects of the matrix",
        ["Effect", "Kind", "Change", "Interval", "p", "Reading"],
        [
            [
                str(e.get("name") or "effect"),
                str(e.get("kind") or numbers.UNKNOWN),
                numbers.percent(e.get("estimate")),
                numbers.interval(e.get("ci_low"), e.get("ci_high")),
                numbers.probability(e.get("p")),
                str(e.get("reading") or numbers.UNKNOWN),
            ]
            for e in records
        ],
    )
    caption = (
        "■ one setting at a level of the others, □ several against none, ◆ interaction, ● main effect, an average: "
        "contrasts within each block. Settings depend on each other where the interaction's interval leaves out 0."
    )
    margin = finite(run.result.get("margin")) or 0.0
    title = "Effects and their interaction"
    svg = element(_forest(rows, margin, "change (right of 0: better)"), key, title, "Forest plot. " + _describe(rows))
    return Picture("effects", title, _describe(rows), svg, table, caption)


def selection(run: LoadedRun, key: str) -> Picture | None:
    """A sweep: the candidates on the selection runs, and the chosen one on its fresh confirmation runs."""
    chosen = run.result.get("selection") or {}
    candidates = [c for c in chosen.get("candidates") or [] if finite(c.get("estimate")) is not None]
    confirmation = chosen.get("confirmation") or {}
    if not candidates and not confirmation:
        return None
    rows = []
    for candidate in candidates:
        mark = " (chosen)" if candidate.get("arm") == chosen.get("chosen") else ""
        rows.append(_row(candidate, f"{candidate.get('arm', '?')}{mark}", hollow=True))
    if confirmation:
        rows.append(_row(confirmation, f"Confirmed: {confirmation.get('treatment') or chosen.get('chosen')}"))
    table = Table(
        "Candidates on the selection runs, then the confirmation on fresh runs",
        ["Arm", "Runs", "Change", "Interval"],
        [
            [
                str(c.get("arm", "?")),
                "selection",
                numbers.percent(c.get("estimate")),
                numbers.interval(c.get("ci_low"), c.get("ci_high")),
            ]
            for c in candidates
        ]
        + (
            [
                [
                    str(confirmation.get("treatment") or chosen.get("chosen") or "?"),
                    "confirmation",
                    numbers.percent(confirmation.get("estimate")),
                    numbers.interval(confirmation.get("ci_low"), confirmation.get("ci_high")),
                ]
            ]
            if confirmation
            else []
        ),
    )
    caption = (
        "Hollow: the selection runs, which flatter the best of many and are not to be quoted. "
        "Filled: the chosen arm again, on fresh runs against the default; only this figure counts."
    )
    margin = finite(run.result.get("margin")) or 0.0
    title = "Candidates, and the one confirmed"
    svg = element(_forest(rows, margin), key, title, "Forest plot. " + _describe(rows))
    return Picture("selection", title, _describe(rows), svg, table, caption)
