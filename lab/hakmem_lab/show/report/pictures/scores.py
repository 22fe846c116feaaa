"""A suite: every workload's ratio to each arm. Ratios are above 1 where the subject is better."""

from hakmem_lab.show.kinds.suite import figure_text, row_arms, row_name
from hakmem_lab.show.numbers import finite
from hakmem_lab.show.report.axis import Axis
from hakmem_lab.show.report.model import LoadedRun, Table
from hakmem_lab.show.report.pictures.forms import Mark, Panel, Row, rows
from hakmem_lab.show.report.svg import Picture, arm_colour, arm_marker
from hakmem_lab.store.results import CardRow

# Ticks of an axis of ratios, by how far it reaches.
_NICE = (
    (1.25, (0.9, 0.95, 1.0, 1.05, 1.1)),
    (2, (0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.25, 1.5, 1.75)),
    (5, (0.5, 0.7, 1.0, 1.4, 2.0)),
    (float("inf"), (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0)),
)


def _ratio(row: CardRow, arm: str, key: str = "ratio") -> float | None:
    value = finite(((row.get("arms") or {}).get(arm) or {}).get(key))
    return value if value is not None and value > 0 else None


def _family(row: CardRow) -> str:
    """The name of the axis for a row: memory, times, rates and system calls have separate axes."""
    unit = str(row.get("unit") or "")
    if unit in ("KiB", "MiB", "B"):
        return "Memory"
    return "Rates" if unit.endswith("/s") else "System calls" if unit == "per operation" else "Time"


def scores(run: LoadedRun) -> Picture | None:
    """Every workload is a row, with a line for each arm's ratio and interval. Each sort of metric has its own axis. A
    stroke marks the bar of a row."""
    found = [row for row in (run.result.get("suite") or {}).get("rows") or [] if row.get("arms")]
    arms = row_arms(found)
    groups: dict[str, list[CardRow]] = {}
    for row in found:
        if any(_ratio(row, arm) for arm in arms):
            groups.setdefault(_family(row), []).append(row)
    if not groups:
        return None
    panels = [_panel(family, members, arms) for family, members in groups.items()]
    legend = [(arm, arm_colour(position), arm_marker(position)) for position, arm in enumerate(arms)]
    body = [
        [row_name(row), *(figure_text((row.get("arms") or {}).get(arm) or {}, row) for arm in arms)] for row in found
    ]
    title = "Ratios by workload"
    description = f"{len(found)} rows against {', '.join(arms)}; the table has every ratio and its interval."
    table = Table(title, ["Workload", *arms], body)
    caption = (
        "Right of 1 is better. Line: interval; hollow: too few blocks for one. A short upright bar: what the row has "
        "to reach."
    )
    return Picture("scores", title, description, rows(panels, legend, columns=2), table, caption)


def _panel(family: str, found: list[CardRow], arms: list[str]) -> Panel:
    """The bounds hold every value; an interval beyond them ends in an arrow."""
    values = [v for row in found for arm in arms for v in (_ratio(row, arm), finite(row.get("bar"))) if v]
    low, high = min([*values, 0.95]) / 1.12, max([*values, 1.05]) * 1.12
    chosen = next(ticks for most, ticks in _NICE if high / low < most)
    better = "less" if family == "Memory" else "better"
    across = Axis(low, high, f"times as good (right of 1: {better})", log=True,
                  ticks=[(tick, f"{tick:g}×") for tick in chosen if low <= tick <= high])  # fmt: skip
    drawn = []
    for row in found:
        bar = finite(row.get("bar"))
        lines = [[_mark(row, arm, position)] for position, arm in enumerate(arms)]
        drawn.append(Row(row_name(row), "", lines, bar if bar is not None and bar > 0 else None))
    return Panel(drawn, across, family, zero=1.0, height=9.4)


def _mark(row: CardRow, arm: str, position: int) -> Mark:
    value, low, high = (_ratio(row, arm, key) for key in ("ratio", "ci_low", "ci_high"))
    if low is None or high is None:
        return Mark(value, None, None, arm_colour(position), arm_marker(position), hollow=True, size=5.5)
    return Mark(value, low, high, arm_colour(position), arm_marker(position), width=2, size=5.5)
