"""The page of what a recorded program allocates by stack: its timeline, and a flame graph of each question.

May import: page, svg, palette.
"""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from hakmem_lab.show.report.page import reading
from hakmem_lab.show.report.svg import SENTINELS, Picture, Table, arm_colour, canvas, drawing, element, label
from hakmem_lab.show.terminal import traced
from hakmem_lab.trace.stacks import tree, without_plumbing

DRAWN, BANDS, TABLE_ROWS = 0.002, 7, 100  # a frame's least share of the whole
DEEPEST, WIDTH, ROW, LETTER = 48, 480, 15, 6.2


def render(result: Mapping[str, Any]) -> str:
    with drawing():
        pictures = [_timeline(result, "p1")]
    for position, (question, key, _) in enumerate(traced.QUESTIONS[:4], 2):
        if any(row[key] >= 1 for row in result["stacks"]):
            pictures.append(_flames(result, key, f"By stack: {question}", f"p{position}"))
    return reading(
        result,
        heading=f"What {traced.name(result)} allocates, by stack",
        headline=f"{traced.sampled(result)}.",
        pictures=pictures,
        tables=[_table(result)],
        note="A frame is as wide as its share; hold the pointer over it for its figures. Callers are above.",
    )


def _table(result: Mapping[str, Any]) -> Table:
    rows = sorted(without_plumbing(result["stacks"]), key=lambda row: -row["bytes"])
    keys = ("calls", "temporaries", "kept", "samples")
    return Table(
        f"The {min(len(rows), TABLE_ROWS)} stacks that allocate most, of {len(rows):,}",
        ["Where", "Allocated", "At the peak", "Never freed", "Calls", "Freed at once", "Kept blocks", "Samples"],
        [[traced.called(row["frames"]), *(traced.size(row[key]) for key in ("bytes", "peak_bytes", "kept_bytes")),
          *(f"{row[key]:,.0f}" for key in keys)] for row in rows[:TABLE_ROWS]],
    )  # fmt: skip


def _timeline(result: Mapping[str, Any], key: str) -> Picture:
    """Live bytes over time, the stacks that have most of them by themselves."""
    ordered = sorted(without_plumbing(result["stacks"]), key=lambda row: -max(row["live"]))
    parts = [(traced.called(row["frames"][:2]), np.array(row["live"])) for row in ordered[:BANDS]]
    rest = sum((np.array(row["live"]) for row in ordered[BANDS:]), np.zeros(len(ordered[0]["live"])))
    parts += [("all others", rest)] if len(ordered) > BANDS else []
    times = np.arange(1, len(rest) + 1) * result["stretch_ns"] / 1e9
    figure, (axis,) = canvas(2.4, bottom_in=0.7 + 0.22 * len(parts))
    colours = [SENTINELS["muted"] if name == "all others" else arm_colour(i) for i, (name, _) in enumerate(parts)]
    values = [series / 2**20 for _, series in parts]
    axis.stackplot(times, *values, colors=colours, labels=[label(name, 60) for name, _ in parts], linewidth=0)
    axis.set_xlim(times[0], max(times[-1], times[0] * 1.01))
    axis.set_ylim(bottom=0)
    axis.set_xlabel("time, s")
    axis.set_ylabel("MiB live")
    axis.legend(loc="upper left", bbox_to_anchor=(-0.1, -0.24), borderaxespad=0.0)
    rows = [[name, *(f"{series[at]:,.0f}" for at in (len(series) // 2, -1)), f"{series.max():,.0f}"]
            for name, series in parts]  # fmt: skip
    table = Table("Bytes live over time", ["Stack", "In the middle", "At the end", "Most"], rows)
    described = "; ".join(f"{row[0]}: {row[3]} bytes at most, {row[2]} at the end" for row in rows) + "."
    title = "Live bytes over time, by stack"
    return Picture("growth", title, described, element(figure, key, title, described), table)


def _frames(node: Mapping[str, Any], left: float, depth: int, whole: float) -> Iterator[tuple[str, float, float, int]]:
    """(function, where it begins, its value, its depth), those that can be seen."""
    for function, child in sorted(node["below"].items(), key=lambda item: -item[1]["value"]):
        if child["value"] >= DRAWN * whole and depth < DEEPEST:
            yield function, left, child["value"], depth
            yield from _frames(child, left, depth + 1, whole)
            left += child["value"]


def _flames(result: Mapping[str, Any], value: str, title: str, key: str) -> Picture:
    root = tree(result["stacks"], value)
    frames = [*_frames(root, 0.0, 0, root["value"])]
    written = (lambda number: f"{number:,.0f}") if value == "temporaries" else traced.size
    scale, parts = WIDTH / root["value"], []
    for function, left, amount, depth in frames:
        text = label(function, max(int(amount * scale / LETTER), 1)) if amount * scale > 4 * LETTER else ""
        says = f"{label(function, 300)}: {written(amount)}, {100 * amount / root['value']:.1f} %"
        colour = f"var(--arm-{sum(function.encode()) % 8 + 1})"
        parts.append(
            f'<g><title>{html.escape(says)}</title><rect x="{left * scale:.1f}" y="{depth * ROW}" '
            f'width="{max(amount * scale - 0.5, 0.5):.1f}" height="{ROW - 1}" fill="{colour}" fill-opacity="0.3"/>'
            f'<text x="{left * scale + 2:.1f}" y="{depth * ROW + 11}" font-size="10" fill="var(--ink)">'
            f"{html.escape(text)}</text></g>"
        )
    height = (max((depth for *_, depth in frames), default=0) + 1) * ROW
    rows = [[label(function, 80), written(amount), f"{100 * amount / root['value']:.1f}"]
            for function, _, amount, _ in sorted(frames, key=lambda frame: -frame[2])[:TABLE_ROWS]]  # fmt: skip
    described = "; ".join(f"{function} {share} %" for function, _, share in rows[:12]) + "."
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="picture" role="img" viewBox="0 0 {WIDTH} {height}" '
        f'aria-labelledby="{key}-t" aria-describedby="{key}-d"><title id="{key}-t">{html.escape(title)}</title>'
        f'<desc id="{key}-d">{html.escape(described)}</desc>{"".join(parts)}</svg>'
    )
    return Picture(value, title, described, svg, Table(title, ["Function", "Value", "%"], rows))
