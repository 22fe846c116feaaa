"""Forest plots: comparisons with the margin's band, guardrails, effects of a matrix, a sweep's candidates.

May import: rows, answers, words, directions, svg, numbers, model, palette.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from hakmem_lab.judge import words
from hakmem_lab.judge.words import Style
from hakmem_lab.show import answers
from hakmem_lab.show import hosts as fleets
from hakmem_lab.show.report import numbers
from hakmem_lab.show.report.directions import place
from hakmem_lab.show.report.model import LoadedRun, Record
from hakmem_lab.show.report.numbers import finite
from hakmem_lab.show.report.pictures.rows import VERDICT_COLOURS, VERDICT_MARKERS, Panel, Row, draw_panels, limits
from hakmem_lab.show.report.svg import SENTINELS, Picture, Table, element

DRAWN_ROWS = 24


def comparison_name(comparison: Record) -> str:
    """What a comparison compares: its own name, else treatment against control."""
    name = comparison.get("name")
    return str(name) if name else f"{comparison.get('treatment', '?')} against {comparison.get('control', '?')}"


def _end(value: object, side: float) -> float:
    """Where an end of an interval stands; one that is missing or infinite is open to its side."""
    known = finite(value)
    return side * math.inf if known is None else place(known)


def _row(run: LoadedRun, record: Record, text: str, *, hollow: bool = False) -> Row:
    verdict = str(record.get("verdict") or "")
    found = answers.change_of(run.result, record)
    has_interval = any(finite(record.get(end)) is not None for end in ("ci_low", "ci_high"))
    value = finite(record.get("estimate"))
    return Row(
        text,
        found.with_interval() if found else numbers.UNKNOWN,
        place(value) if value is not None else None,
        _end(record.get("ci_low"), -1) if has_interval else None,
        _end(record.get("ci_high"), 1) if has_interval else None,
        VERDICT_COLOURS.get(verdict, SENTINELS["ink"]),
        VERDICT_MARKERS.get(verdict, "o"),
        hollow or not has_interval,
    )


def _panel(rows: Sequence[Row], how: Style, margin: float, title: str = "") -> Panel:
    values = [value for row in rows for value in (row.value, row.low, row.high)]
    margin = math.log1p(margin)
    return Panel(rows, limits(values, margin), how, title, margin=margin)


def _describe(rows: Sequence[Row]) -> str:
    return "; ".join(f"{row.text}: {row.figure}" for row in rows[:12]) + ("; …" if len(rows) > 12 else "") + "."


def _style(run: LoadedRun, record: Record) -> Style:
    found = answers.change_of(run.result, record)
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
        several = len({answers.metric(run.result, c) for c in members}) > 1
        rows = []
        for comparison in members:
            noun = answers.metric(run.result, comparison)
            treatment = str(comparison.get("treatment") or comparison_name(comparison))
            text = noun if pair else short.get(treatment, treatment)
            rows.append(_row(run, comparison, text + (f" · {noun}" if several and not pair else "")))
        title = _PANEL_TITLES.get(family, own)
        if not pair and not several:
            title = answers.metric(run.result, members[0])
        shown = "" if len(groups) == 1 and pair else title[:1].upper() + title[1:]
        has_primary = any(c.get("metric") in (None, primary) for c in members)
        panels.append(_panel(rows, how, margin if has_primary else 0.0, shown))
    return panels


def forest(run: LoadedRun, key: str) -> Picture | None:
    """Every comparison with its interval, a panel for each family of metrics, the band of ±margin in the primary's."""
    comparisons = [c for c in run.result.get("comparisons") or [] if finite(c.get("estimate")) is not None]
    if not comparisons:
        return None
    margin = _margin(run)
    names = {comparison_name(comparison) for comparison in comparisons}
    panels = _panels(run, comparisons[:DRAWN_ROWS], margin)
    caption = "Point: estimate; line: interval; an arrow: the interval goes on."
    subject = names.pop() if len(names) == 1 else f"Against {comparisons[0].get('control')}"
    caption = f"{subject}. {caption}"
    if margin:
        caption += f" Grey: ±{answers.margin_text(run.result)}, too little to matter."
    caption += " ▲ GO, ▼ NO-GO, ■ NEUTRAL, ◆ INCONCLUSIVE, ● no verdict asked."
    if len(comparisons) > DRAWN_ROWS:
        caption += f" The first {DRAWN_ROWS} of {len(comparisons)} comparisons are drawn; the table has all."
    body = [
        [comparison_name(c), answers.metric(run.result, c), *_told(run, c),
         str(c.get("verdict") or numbers.UNKNOWN)]
        for c in comparisons
    ]  # fmt: skip
    columns = ["Comparison", "Metric", "Change", "Interval", "Verdict"]
    table = Table("Comparisons: estimate and interval", columns, body)
    return _picture("forest", key, "How much better or worse?", panels, table, caption)


def _picture(name: str, key: str, title: str, panels: Sequence[Panel], table: Table, caption: str) -> Picture:
    said = _describe([row for panel in panels for row in panel.rows])
    svg = element(draw_panels(panels), key, title, "Forest plot. " + said)
    return Picture(name, title, said, svg, table, caption)


def _margin(run: LoadedRun) -> float:
    return finite(run.result.get("margin")) or 0.0


def _told(run: LoadedRun, record: Record) -> list[str]:
    """A change and its interval, in words."""
    found = answers.change_of(run.result, record)
    return [found.short, found.between or numbers.UNKNOWN] if found else [numbers.UNKNOWN] * 2


def effects(run: LoadedRun, key: str) -> Picture | None:
    """What the settings of a matrix do, at each level of the others first; the interaction has its own shape."""
    records = [e for e in run.result.get("effects") or [] if finite(e.get("estimate")) is not None]
    if not records:
        return None
    shapes = {"main": "o", "interaction": "D", "simple": "s", "combined": "s"}
    rows = []
    for record in records:
        row = _row(run, record, str(record.get("name") or "effect"))
        row.marker = shapes.get(str(record.get("kind")), "o")
        row.hollow = record.get("kind") == "combined"
        row.colour = SENTINELS["arm-4"] if record.get("kind") == "interaction" else SENTINELS["ink"]
        rows.append(row)
    table = Table(
        "Effects of the matrix",
        ["Effect", "Kind", "Change", "Interval", "Reading"],
        [
            [
                str(e.get("name") or "effect"),
                str(e.get("kind") or numbers.UNKNOWN),
                *_told(run, e),
                str(e.get("reading") or numbers.UNKNOWN),
            ]
            for e in records
        ],
    )
    caption = (
        "■ one setting at a level of the others, □ several against none, ◆ interaction, ● main effect, an average: "
        "contrasts within each block. Settings depend on each other where the interaction's interval leaves out 0."
    )
    panel = _panel(rows, _style(run, records[0]), _margin(run))
    return _picture("effects", key, "Effects and their interaction", [panel], table, caption)


def selection(run: LoadedRun, key: str) -> Picture | None:
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
        rows.append(_row(run, candidate, f"{candidate.get('arm', '?')}{mark}", hollow=True))
    if confirmation:
        rows.append(_row(run, confirmation, f"Confirmed: {confirmation.get('treatment') or chosen.get('chosen')}"))
    table = Table(
        "Candidates on the selection runs, then the confirmation on fresh runs",
        ["Arm", "Runs", "Change", "Interval"],
        [
            [
                str(c.get("arm", "?")),
                "selection",
                *_told(run, c),
            ]
            for c in candidates
        ]
        + (
            [
                [
                    str(confirmation.get("treatment") or chosen.get("chosen") or "?"),
                    "confirmation",
                    *_told(run, confirmation),
                ]
            ]
            if confirmation
            else []
        ),
    )
    most = f" of the first {DRAWN_ROWS} candidates" if len(candidates) > DRAWN_ROWS else ""
    caption = (
        f"Hollow: the selection runs{most}, which flatter the best of many and are not to be quoted. "
        "Filled: the chosen arm again, on fresh runs against the default; only this figure counts."
    )
    panel = _panel(rows, _style(run, shown[0]), _margin(run))
    return _picture("selection", key, "Candidates, and the one confirmed", [panel], table, caption)


def hosts(run: LoadedRun, key: str) -> Picture | None:
    """A fleet: the average, every host, every kind of host, and what a further host may expect."""
    lines = list(fleets.lines(run.result))
    mean = next((c for c in run.result.get("comparisons") or [] if finite(c.get("estimate")) is not None), None)
    if not lines or mean is None:
        return None
    groups = [group for group in (fleets.OF_HOSTS, fleets.OF_KINDS) if any(line.group == group for line in lines)]
    how, margin = lines[0].change.style, _margin(run)
    further = [line for line in lines if line.group == fleets.OF_A_FURTHER]
    whole = [_row(run, mean, "On average"), *(_row(run, line.record | {"metric": None}, line.name) for line in further)]
    panels = [_panel(whole, how, margin, "Fleet")]
    for group in groups:
        drawn = [line for line in lines if line.group == group][:DRAWN_ROWS]
        rows = [_row(run, line.record | {"metric": None}, line.name) for line in drawn]
        panels.append(_panel(rows, how, margin, group))
    bounds = min(panel.bounds[0] for panel in panels), max(panel.bounds[1] for panel in panels)
    for panel in panels:
        panel.bounds = bounds  # one axis for all, so that they can be compared
    body = [
        [line.name, line.group, str(line.blocks or numbers.UNKNOWN), line.change.short,
         line.change.between or numbers.UNKNOWN, line.reading]
        for line in lines
    ]  # fmt: skip
    table = Table("Hosts of the fleet", ["Host", "Group", "Blocks", "Change", "Interval", "Shown"], body)
    caption = (
        "The intervals of all hosts hold together, and so do those of all kinds. A further host's interval is where "
        f"its own effect lies. {fleets.spread(run.result)}."
    )
    if any(len([line for line in lines if line.group == group]) > DRAWN_ROWS for group in groups):
        caption += f" The first {DRAWN_ROWS} of each group are drawn; the table has all."
    return _picture("hosts", key, "Which host gains, which loses?", panels, table, caption)
