"""Rows of estimates with their intervals: comparisons with the margin's band, guardrails, effects, candidates.

Labels stand above the interval, so that the picture stays readable at the width of a phone. The line of no change and
the margin's band run through the intervals only, never through a label.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from hakmem_lab.judge import explain, words
from hakmem_lab.judge.words import Style
from hakmem_lab.show import figures, numbers
from hakmem_lab.show.numbers import finite
from hakmem_lab.show.report import svg
from hakmem_lab.show.report.model import LoadedRun, Record, Table, text_of
from hakmem_lab.show.report.svg import SENTINELS, Picture, canvas, label, place

ROW_IN = 0.5
TITLE_IN = 0.3
LINE_IN = 0.19
LINE_CHARACTERS = 50
STRIP = 0.15


@dataclass
class Row:
    """One estimate; all values in the unit of the axis. A missing end of the interval is open."""

    text: str
    figure: str
    value: float | None
    low: float | None = None
    high: float | None = None
    colour: str = SENTINELS["ink"]
    marker: str = "o"
    hollow: bool = False


@dataclass
class Panel:
    """Rows with a common axis. `how`: names the directions of an axis of log-ratios; None: a plain axis."""

    rows: Sequence[Row]
    bounds: tuple[float, float]
    how: Style | None = None
    title: str = ""
    zero: float | None = 0.0
    margin: float = 0.0
    axis_label: str = ""
    axes: Axes = field(init=False)


VERDICT_MARKERS = {"GO": "^", "NO-GO": "v", "NEUTRAL": "s", "INCONCLUSIVE": "D"}
VERDICT_COLOURS = {verdict: SENTINELS[verdict.lower()] for verdict in VERDICT_MARKERS}


def limits(values: Sequence[float | None], margin: float = 0.0) -> tuple[float, float]:
    """The bounds of an axis that holds the finite values, zero and the band of ±`margin`, with some space."""
    known = [value for value in values if value is not None and math.isfinite(value)]
    low, high = min([0.0, -1.6 * margin, *known]), max([0.0, 1.6 * margin, *known])
    if low == high:
        low, high = -0.01, 0.01
    air = 0.06 * (high - low)
    return low - air, high + air


def two_lines(pairs: Sequence[tuple[str, str]]) -> bool:
    return any(len(name) + len(figure) + 2 > LINE_CHARACTERS for name, figure in pairs)


def head(axis: Axes, above: float, texts: tuple[str, str], step: float, muted: bool = False) -> None:
    """Writes the name of a row and its figure: on one line, or one below the other where `step` is above 0."""
    side = axis.get_yaxis_transform()
    colour = SENTINELS["muted" if muted else "ink"]
    axis.text(0, above, label(texts[0], 44), transform=side, va="center", color=colour)
    across, align = (0, "left") if step else (1, "right")
    axis.text(across, above + step, texts[1], transform=side, ha=align, va="center", color=SENTINELS["muted"])


def draw_panels(panels: Sequence[Panel]) -> Figure:
    """Draws the panels from top to bottom. An open end of an interval, or one outside the bounds, becomes an arrow."""
    tall = {id(p): ROW_IN + LINE_IN * two_lines([(row.text, row.figure) for row in p.rows]) for p in panels}
    heights = [len(p.rows) * tall[id(p)] + (TITLE_IN if p.title else 0.06) for p in panels]
    figure, axes = canvas(*heights, left_in=0.2, bottom_in=0.56)
    for panel, axis in zip(panels, axes, strict=True):
        panel.axes = axis
        _draw_panel(axis, panel, tall[id(panel)])
    return figure


def _draw_panel(axis: Axes, panel: Panel, row_in: float) -> None:
    """The vertical axis is in inches from the top."""
    top = TITLE_IN if panel.title else 0.06
    axis.set_ylim(top + len(panel.rows) * row_in, 0)
    axis.spines["left"].set_visible(False)
    axis.set_yticks([])
    if panel.how is not None:
        svg.across(axis, *panel.bounds, panel.how)
    else:
        axis.set_xlim(*panel.bounds)
        axis.set_xlabel(panel.axis_label)
    if panel.title:
        axis.text(0, 0.08, panel.title, transform=axis.get_yaxis_transform(), va="center", fontweight="bold")
    for position, row in enumerate(panel.rows):
        above = top + position * row_in + 0.08
        step = LINE_IN if row_in > ROW_IN else 0.0
        head(axis, above, (row.text, row.figure), step)
        line = above + step + 0.23
        if panel.margin > 0:
            axis.fill_between(
                [-panel.margin, panel.margin], line - STRIP, line + STRIP, color=SENTINELS["band"], linewidth=0
            )
        if panel.zero is not None:
            axis.plot([panel.zero] * 2, [line - STRIP, line + STRIP], color=SENTINELS["muted"], linewidth=1)
        _draw_row(axis, line, row, panel.bounds)


def _draw_row(axis: Axes, line: float, row: Row, bounds: tuple[float, float]) -> None:
    left, right = bounds
    if row.value is None or not math.isfinite(row.value):
        return
    low = row.low if row.low is not None else row.value
    high = row.high if row.high is not None else row.value
    axis.plot([max(low, left), min(high, right)], [line, line], color=row.colour, linewidth=2.4)
    for end, edge, shape in ((low, left, "<"), (high, right, ">")):
        if (end < left) if shape == "<" else (end > right):
            axis.plot([edge], [line], shape, color=row.colour, markersize=7, clip_on=False)
    axis.plot(
        [min(max(row.value, left), right)], [line], row.marker, color=row.colour, markersize=8,
        markerfacecolor=SENTINELS["paper"] if row.hollow else row.colour, markeredgewidth=1.6,
    )  # fmt: skip


DRAWN_ROWS = 24


def _end(value: object, side: float) -> float:
    """The position of an interval's end; a missing or infinite end is open."""
    known = finite(value)
    return side * math.inf if known is None else place(known)


def row_of(run: LoadedRun, record: Record, text: str, *, hollow: bool = False) -> Row:
    verdict = str(record.get("verdict") or "")
    found = explain.change_of(run.result, record)
    has_interval = any(finite(record.get(end)) is not None for end in ("ci_low", "ci_high"))
    value = finite(record.get("estimate"))
    return Row(
        text,
        found.told() if found else numbers.UNKNOWN,
        place(value) if value is not None else None,
        _end(record.get("ci_low"), -1) if has_interval else None,
        _end(record.get("ci_high"), 1) if has_interval else None,
        VERDICT_COLOURS.get(verdict, SENTINELS["ink"]),
        VERDICT_MARKERS.get(verdict, "o"),
        hollow or not has_interval,
    )


def panel_of(rows: Sequence[Row], how: Style, margin: float, title: str = "") -> Panel:
    values = [value for row in rows for value in (row.value, row.low, row.high)]
    margin = math.log1p(margin)
    return Panel(rows, limits(values, margin), how, title, margin=margin)


def _style(run: LoadedRun, record: Record) -> Style:
    found = explain.change_of(run.result, record)
    return found.style if found else words.style_of(words.described(run.result, record.get("metric")))


_PANEL_TITLES = {"time": "Time", "cpu": "CPU time", "memory": "Memory", "counts": "Counts", "latency": "Latency"}


def _panels(run: LoadedRun, comparisons: Sequence[Record], margin: float) -> list[Panel]:
    """A panel for each family of metrics: time and memory have no common axis. The margin is the primary metric's."""
    primary = (run.result.get("metric") or {}).get("name")
    pair = len({(c.get("control"), c.get("treatment")) for c in comparisons}) == 1
    groups: dict[tuple[str, str], list[Record]] = {}
    for comparison in comparisons:
        how = _style(run, comparison)
        own = how.noun if how.family in ("rate", "other") else ""
        groups.setdefault((how.family, own), []).append(comparison)
    panels = []
    short = words.short_names(run.arm_names)
    for (family, own), members in groups.items():
        how = _style(run, members[0])
        several = len({figures.metric(run.result, c) for c in members}) > 1
        rows = []
        for comparison in members:
            noun = figures.metric(run.result, comparison)
            treatment = str(comparison.get("treatment") or figures.comparison_name(comparison))
            text = noun if pair else short.get(treatment, treatment)
            rows.append(row_of(run, comparison, text + (f" · {noun}" if several and not pair else "")))
        title = _PANEL_TITLES.get(family, own)
        if not pair and not several:
            title = figures.metric(run.result, members[0])
        shown = "" if len(groups) == 1 and pair else title[:1].upper() + title[1:]
        has_primary = any(c.get("metric") in (None, primary) for c in members)
        panels.append(panel_of(rows, how, margin if has_primary else 0.0, shown))
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
    body = [
        [figures.comparison_name(c), figures.metric(run.result, c), *figures.cells(run.result, c),
         str(c.get("verdict") or numbers.UNKNOWN)]
        for c in comparisons
    ]  # fmt: skip
    columns = ["Comparison", "Metric", "Change", "Interval", "Verdict"]
    table = Table("Comparisons: estimate and interval", columns, body)
    return picture_of("forest", "How much better or worse?", panels, table, caption)


def picture_of(name: str, title: str, panels: Sequence[Panel], table: Table, caption: str) -> Picture:
    rows = [row for panel in panels for row in panel.rows]
    said = "; ".join(f"{row.text}: {row.figure}" for row in rows[:12]) + ("; …" if len(rows) > 12 else "") + "."
    return Picture(name, title, said, draw_panels(panels), table, caption, shape="Forest plot. ")


def margin_of(run: LoadedRun) -> float:
    return finite(run.result.get("margin")) or 0.0


def effects(run: LoadedRun) -> Picture | None:
    """The effects of a matrix's settings, beginning with those at each level of the others. Interactions have their own
    marker."""
    records = [e for e in run.result.get("effects") or [] if finite(e.get("estimate")) is not None]
    if not records:
        return None
    shapes = {"main": "o", "interaction": "D", "simple": "s", "combined": "s"}
    rows = []
    for record in records:
        row = row_of(run, record, str(record.get("name") or "effect"))
        row.marker = shapes.get(str(record.get("kind")), "o")
        row.hollow = record.get("kind") == "combined"
        row.colour = SENTINELS["arm-4"] if record.get("kind") == "interaction" else SENTINELS["ink"]
        rows.append(row)
    columns = ["Effect", "Kind", "Change", "Interval", "Reading"]
    body = [
        [row.text, text_of(e.get("kind")), *figures.cells(run.result, e), text_of(e.get("reading"))]
        for row, e in zip(rows, records, strict=True)
    ]
    table = Table("Effects of the matrix", columns, body)
    caption = (
        "■ one setting at a level of the others, □ several against none, ◆ interaction, ● main effect, an average: "
        "contrasts within each block. Settings depend on each other where the interaction's interval leaves out 0."
    )
    panel = panel_of(rows, _style(run, records[0]), margin_of(run))
    return picture_of("effects", "Effects and their interaction", [panel], table, caption)


def selection(run: LoadedRun) -> Picture | None:
    """A sweep: the candidates on the selection runs, and the chosen one on its fresh confirmation runs."""
    chosen = run.result.get("selection") or {}
    candidates = [c for c in chosen.get("candidates") or [] if finite(c.get("estimate")) is not None]
    confirmation = chosen.get("confirmation") or {}
    if not candidates and not confirmation:
        return None
    shown = [*candidates, *([confirmation] if confirmation else [])]
    rows = []
    for candidate in candidates[:DRAWN_ROWS]:
        mark = " (chosen)" if candidate.get("arm") == chosen.get("chosen") else ""
        rows.append(row_of(run, candidate, f"{candidate.get('arm', '?')}{mark}", hollow=True))
    body = [[str(c.get("arm", "?")), "selection", *figures.cells(run.result, c)] for c in candidates]
    if confirmation:
        treatment = confirmation.get("treatment") or chosen.get("chosen")
        rows.append(row_of(run, confirmation, f"Confirmed: {treatment}"))
        body.append([str(treatment or "?"), "confirmation", *figures.cells(run.result, confirmation)])
    title = "Candidates on the selection runs, then the confirmation on fresh runs"
    table = Table(title, ["Side", "Runs", "Change", "Interval"], body)
    most = f" of the first {DRAWN_ROWS} candidates" if len(candidates) > DRAWN_ROWS else ""
    caption = (
        f"Hollow: the selection runs{most}, which flatter the best of many and are not to be quoted. "
        "Filled: the chosen side again, on fresh runs against the default; only this figure counts."
    )
    panel = panel_of(rows, _style(run, shown[0]), margin_of(run))
    return picture_of("selection", "Candidates, and the one confirmed", [panel], table, caption)
