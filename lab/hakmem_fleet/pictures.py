"""Rows of hosts with their intervals."""

from hakmem_fleet import shown
from hakmem_lab.show.numbers import finite
from hakmem_lab.show.report.axis import directed
from hakmem_lab.show.report.model import LoadedRun
from hakmem_lab.show.report.pictures.forest import DRAWN_ROWS, margin_of, panel_of, picture_of, row_of
from hakmem_lab.show.report.svg import Picture


def hosts(run: LoadedRun) -> Picture | None:
    """A fleet: the average, every host, every kind of host, and what a further host may expect."""
    lines = list(shown.lines(run.result))
    mean = next((c for c in run.result.get("comparisons") or [] if finite(c.get("estimate")) is not None), None)
    if not lines or mean is None:
        return None
    groups = [group for group in (shown.OF_HOSTS, shown.OF_KINDS) if any(line.group == group for line in lines)]
    how, margin = lines[0].change.style, margin_of(run)
    further = [line for line in lines if line.group == shown.OF_A_FURTHER]
    whole = [
        row_of(run, mean, "On average"),
        *(row_of(run, line.record, line.name) for line in further),
    ]
    panels = [panel_of(whole, how, margin, "Fleet")]
    for group in groups:
        drawn = [line for line in lines if line.group == group][:DRAWN_ROWS]
        rows = [row_of(run, line.record, line.name) for line in drawn]
        panels.append(panel_of(rows, how, margin, group))
    bounds = min(panel.axis.low for panel in panels), max(panel.axis.high for panel in panels)
    for panel in panels:
        panel.axis = directed(*bounds, how)  # the same for all panels, so that they can be compared
    table = shown.hosts_table(run.result)
    caption = (
        "The intervals of all hosts hold together, and so do those of all kinds. A further host's interval is where "
        f"its own effect lies. {shown.spread(run.result)}."
    )
    if any(len([line for line in lines if line.group == group]) > DRAWN_ROWS for group in groups):
        caption += f" The first {DRAWN_ROWS} of each group are drawn; the table has all."
    return picture_of("hosts", "Which host gains, which loses?", panels, table, caption)
