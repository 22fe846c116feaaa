"""The interaction plot of a 2×2 matrix: one line per level of the second factor; parallel lines do not interact.

May import: distribution, svg, numbers, model, palette.
"""

from __future__ import annotations

import numpy as np
from matplotlib.ticker import FuncFormatter, MaxNLocator

from hakmem_lab.show.report import numbers
from hakmem_lab.show.report.model import LoadedRun
from hakmem_lab.show.report.numbers import finite
from hakmem_lab.show.report.svg import Picture, Table, arm_colour, arm_marker, canvas, element, label

LEVELS = ("off", "on")


def _points(run: LoadedRun) -> tuple[list[str], dict[str, tuple[int, int]]] | None:
    """The two factors of a 2×2 matrix and where each arm stands (off 0, on 1); None for any other design.

    The arms are in standard order: the first factor changes fastest.
    """
    factors = list((run.header.get("spec") or {}).get("factors") or {})
    names = [str(arm.get("name")) for arm in run.header.get("arms") or []]
    if len(factors) != 2 or len(names) != 4:
        return None
    return factors, {name: (index & 1, index >> 1) for index, name in enumerate(names)}


def interaction(run: LoadedRun, key: str) -> Picture | None:
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
    title = "Do the two settings depend on each other?"
    description = "; ".join(f"{first} {r[0]} with {second} {r[1]}: {r[2]}" for r in rows) + "."
    caption = (
        f"Median {run.metric_name} at the four points. Parallel lines: the settings do not depend on each "
        "other. Read the interaction's interval before believing that they do."
    )
    table = Table("The four points of the matrix", [first, second, "Median"], rows)
    return Picture("interaction", title, description, element(figure, key, title, description), table, caption)
