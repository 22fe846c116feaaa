"""Rows of estimates with their intervals: comparisons with the margin's band, guardrails, effects, candidates."""

import math
from collections.abc import Sequence
from typing import Any

from hakmem_lab.judge import explain, words
from hakmem_lab.judge.words import Style
from hakmem_lab.show import figures, numbers, tables
from hakmem_lab.show.numbers import finite
from hakmem_lab.show.report import axis
from hakmem_lab.show.report.axis import place
from hakmem_lab.show.report.model import LoadedRun, Table
from hakmem_lab.show.report.pictures.forms import Mark, Panel, Row, rows
from hakmem_lab.show.report.svg import Picture
from hakmem_lab.store.results import Comparison, Estimate

VERDICT_MARKERS = {"GO": "^", "NO-GO": "v", "NEUTRAL": "s", "INCONCLUSIVE": "D"}
DRAWN_ROWS = 24


def limits(values: Sequence[float | None], margin: float = 0.0) -> tuple[float, float]:
    """The bounds of an axis that holds the finite values, zero and the band of ±`margin`, with some space."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    low, high = min([0.0, -1.6 * margin, *known]), max([0.0, 1.6 * margin, *known])
    if low == high:
        low, high = -0.01, 0.01
    air = 0.06 * (high - low)
    return low - air, high + air


def _end(value: object, side: float) -> float:
    """The position of an interval's end; a missing or infinite end is open."""
    known = finite(value)
    return side * math.inf if known is None else place(known)


def row_of(run: LoadedRun, record: Estimate, text: str, **mark: Any) -> Row:
    """A record with its change; mark: fields of its mark."""
    verdict = str(record.get("verdict") or "")
    found = explain.change_of(run.result, record)
    has_interval = any(finite(record.get(end)) is not None for end in ("ci_low", "ci_high"))
    value = finite(record.get("estimate"))
    drawn = {
        "low": _end(record.get("ci_low"), -1) if has_interval else None,
        "high": _end(record.get("ci_high"), 1) if has_interval else None,
        "colour": verdict.lower() if verdict in VERDICT_MARKERS else "ink",
        "marker": VERDICT_MARKERS.get(verdict, "o"),
        "hollow": not has_interval,
    }
    one = Mark(place(value) if value is not None else None, **drawn | mark)
    return Row(text, found.told() if found else numbers.UNKNOWN, [[one]])


def panel_of(found: Sequence[Row], how: Style, margin: float, title: str = "") -> Panel:
    marks = [mark for row in found for mark in row.lines[0] if isinstance(mark, Mark)]
    values = [end for mark in marks for end in (mark.value, mark.low, mark.high)]
    margin = math.log1p(margin)
    return Panel(found, axis.directed(*limits(values, margin), how), title, zero=0.0, margin=margin)


def _style(run: LoadedRun, record: Estimate) -> Style:
    found = explain.change_of(run.result, record)
    return found.style if found else words.style_of(words.described(run.result, record.get("metric")))


_PANEL_TITLES = {"time": "Time", "cpu": "CPU time", "memory": "Memory", "counts": "Counts", "latency": "Latency"}


def _panels(run: LoadedRun, comparisons: Sequence[Comparison], margin: float) -> list[Panel]:
    """A panel for each family of metrics: time and memory have no common axis. The margin is the primary metric's."""
    primary = (run.result.get("metric") or {}).get("name")
    pair = len({(c.get("control"), c.get("treatment")) for c in comparisons}) == 1
    groups: dict[tuple[str, str], list[Comparison]] = {}
    for comparison in comparisons:
        how = _style(run, comparison)
        own = how.noun if how.family in ("rate", "other") else ""
        groups.setdefault((how.family, own), []).append(comparison)
    panels = []
    short = words.short_names(run.arm_names)
    for (family, own), members in groups.items():
        how = _style(run, members[0])
        several = len({figures.metric(run.result, c) for c in members}) > 1
        found = []
        for comparison in members:
            noun = figures.metric(run.result, comparison)
            treatment = str(comparison.get("treatment") or figures.comparison_name(comparison))
            text = noun if pair else short.get(treatment, treatment)
            found.append(row_of(run, comparison, text + (f" · {noun}" if several and not pair else "")))
        title = _PANEL_TITLES.get(family, own)
        if not pair and not several:
            title = figures.metric(run.result, members[0])
        shown = "" if len(groups) == 1 and pair else title[:1].upper() + title[1:]
        has_primary = any(c.get("metric") in (None, primary) for c in members)
        panels.append(panel_of(found, how, margin if has_primary else 0.0, shown))
    return panels


def forest(run: LoadedRun) -> Picture | None:
    """Every comparison with its interval. Each family of metrics has a panel; the primary metric's has the band of
    ±margin."""
    comparisons = [c for c in run.result.get("comparisons") or [] if finite(c.get("estimate")) is not None]
    if not comparisons:
        return None
    margin = margin_of(run)
    names = {figures.comparison_name(comparison) for comparison in comparisons}
    panels = _panels(run, comparisons[:DRAWN_ROWS], margin)
    caption = "Point: estimate; line: interval; an arrow: the interval goes on."
    subject = names.pop() if len(names) == 1 else f"Against {comparisons[0].get('control')}"
    caption = f"{subject}. {caption}"
    if margin:
        caption += f" Grey: ±{explain.margin_text(run.result)}, too little to matter."
    caption += " ▲ GO, ▼ NO-GO, ■ NEUTRAL, ◆ INCONCLUSIVE, ● no verdict asked."
    if len(comparisons) > DRAWN_ROWS:
        caption += f" The first {DRAWN_ROWS} of {len(comparisons)} comparisons are drawn; the table has all."
    return picture_of("forest", "How much better or worse?", panels, tables.comparisons(run.result), caption)


def picture_of(name: str, title: str, panels: Sequence[Panel], table: Table, caption: str) -> Picture:
    every = [row for panel in panels for row in panel.rows]
    said = "; ".join(f"{row.text}: {row.figure}" for row in every[:12]) + ("; …" if len(every) > 12 else "") + "."
    return Picture(name, title, said, rows(panels), table, caption, shape="Forest plot. ")


def margin_of(run: LoadedRun) -> float:
    return finite(run.result.get("margin")) or 0.0


_SHAPES: dict[str, dict[str, Any]] = {
    "interaction": {"marker": "D", "colour": "arm-4"},
    "simple": {"marker": "s"},
    "combined": {"marker": "s", "hollow": True},
}


def effects(run: LoadedRun) -> Picture | None:
    """The effects of a matrix's settings, beginning with those at each level of the others. Interactions have their own
    marker."""
    records = [e for e in run.result.get("effects") or [] if finite(e.get("estimate")) is not None]
    if not records:
        return None
    found = [
        row_of(run, each, str(each.get("name") or "effect"), **_SHAPES.get(str(each.get("kind")), {}))
        for each in records
    ]
    caption = (
        "■ one setting at a level of the others, □ several against none, ◆ interaction, ● main effect, an average: "
        "contrasts within each block. Settings depend on each other where the interaction's interval leaves out 0."
    )
    panel = panel_of(found, _style(run, records[0]), margin_of(run))
    return picture_of("effects", "Effects and their interaction", [panel], tables.effects(run.result), caption)


def selection(run: LoadedRun) -> Picture | None:
    """A sweep: the candidates on the selection runs, and the chosen one on its fresh confirmation runs."""
    chosen = run.result.get("selection") or {}
    candidates = [c for c in chosen.get("candidates") or [] if finite(c.get("estimate")) is not None]
    confirmation = chosen.get("confirmation") or {}
    if not candidates and not confirmation:
        return None
    shown = [*candidates, *([confirmation] if confirmation else [])]
    found = []
    for candidate in candidates[:DRAWN_ROWS]:
        mark = " (chosen)" if candidate.get("arm") == chosen.get("chosen") else ""
        found.append(row_of(run, candidate, f"{candidate.get('arm', '?')}{mark}", hollow=True))
    body = [[str(c.get("arm", "?")), "selection", *figures.cells(run.result, c)] for c in candidates]
    if confirmation:
        treatment = confirmation.get("treatment") or chosen.get("chosen")
        found.append(row_of(run, confirmation, f"Confirmed: {treatment}"))
        body.append([str(treatment or "?"), "confirmation", *figures.cells(run.result, confirmation)])
    title = "Candidates on the selection runs, then the confirmation on fresh runs"
    table = Table(title, ["Side", "Runs", "Change", "Interval"], body)
    most = f" of the first {DRAWN_ROWS} candidates" if len(candidates) > DRAWN_ROWS else ""
    caption = (
        f"Hollow: the selection runs{most}, which flatter the best of many and are not to be quoted. "
        "Filled: the chosen side again, on fresh runs against the default; only this figure counts."
    )
    panel = panel_of(found, _style(run, shown[0]), margin_of(run))
    return picture_of("selection", "Candidates, and the one confirmed", [panel], table, caption)
