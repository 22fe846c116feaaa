"""A verdict and its repetitions under other conditions, side by side, on terminal and page."""

from hakmem_lab.judge.words import MEAN_OF
from hakmem_lab.show import figures
from hakmem_lab.store.results import Comparison, Condition, Result

TITLE = "The same under other conditions"


def table(result: Result) -> tuple[list[str], list[list[str]]]:
    """(columns, rows); no rows where nothing was repeated."""
    others = result.get("conditions") or []
    columns = ["arm", "metric", "alone", *(str(each["title"]) for each in others)]
    if not others:
        return columns, []
    found = [_by_name(each) for each in others]
    rows = []
    for name, row in _by_name(result).items():
        arm, metric = name
        if metric.startswith(MEAN_OF):
            continue
        there = [_cell(result, each.get(name)) for each in found]
        rows.append([arm, figures.metric(result, row), _cell(result, row), *there])
    return columns, rows


def _by_name(result: Result | Condition) -> dict[tuple[str, str], Comparison]:
    return {(str(row["treatment"]), str(row["metric"])): row for row in result.get("comparisons") or []}


def _cell(result: Result, row: Comparison | None) -> str:
    if row is None:
        return "-"
    text = figures.told(result, row)
    return f"{row['verdict']}: {text}" if row.get("verdict") else text
