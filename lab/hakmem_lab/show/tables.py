"""The tables about a result that the terminal and the page share."""

from collections.abc import Iterator, Sequence

from hakmem_lab.judge import explain
from hakmem_lab.show import conditions, figures
from hakmem_lab.show.numbers import UNKNOWN, finite
from hakmem_lab.show.report.model import Cell, Table, text_of, verdict_cell
from hakmem_lab.store.results import Comparison, Result

TONES = {"held": "go", "failed": "no-go", "open": "inconclusive"}


def known(table: Table) -> Table:
    """The table without empty columns."""
    empty = ("", UNKNOWN)
    kept = [i for i in range(len(table.columns)) if i == 0 or any(str(row[i]) not in empty for row in table.rows)]
    rows = [[row[i] for i in kept] for row in table.rows]
    return Table(table.caption, [table.columns[i] for i in kept], rows, table.note)


def by_side(rows: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons with those of one side together; sides and metrics in their order."""
    sides = list(dict.fromkeys(row.get("treatment") for row in rows))
    return sorted(rows, key=lambda row: sides.index(row.get("treatment")))


def comparisons(result: Result) -> Table:
    rows = by_side(result.get("comparisons") or [])
    level = finite(rows[0].get("level")) if rows else None
    head = f"effect [{100 * level:.3g} % interval]" if level is not None else "effect"
    effects, note = figures.told_cells(result, rows)
    schedules = figures.schedules(result | {"comparisons": rows})
    body: list[list[str | Cell]] = [
        [str(row.get("treatment") or figures.comparison_name(row)), figures.metric(result, row), effect,
         verdict_cell(row["verdict"]) if row.get("verdict") else "", schedule]
        for row, effect, schedule in zip(rows, effects, schedules, strict=True)
    ]  # fmt: skip
    caption = f"Against {rows[0].get('control') or UNKNOWN}" if rows else ""
    return known(Table(caption, ["side", "metric", head, "verdict", "schedule"], body, note))


def guardrails(result: Result) -> Table:
    rows = result.get("guardrails") or []
    several = figures.of_several(rows)
    body: list[list[str | Cell]] = [
        [*([text_of(row.get("arm"))] if several else []), figures.metric(result, row),
         explain.tolerated(result, row) or UNKNOWN, figures.told(result, row),
         Cell(text_of(row.get("status")), TONES.get(str(row.get("status")), "neutral"))]
        for row in rows
    ]  # fmt: skip
    columns = [*(["side"] if several else []), "metric", "tolerated", "effect [interval]", "status"]
    return Table("Guardrails: a failed one forbids GO", columns, body)


def effects(result: Result) -> Table:
    body = [
        [text_of(row.get("name")), text_of(row.get("kind")), figures.told(result, row), str(row.get("reading") or "")]
        for row in result.get("effects") or []
    ]
    return known(Table("Effects", ["effect", "kind", "effect [interval]", "reading"], body))


def of(result: Result) -> Iterator[Table]:
    """Those that have rows."""
    repeated = Table(conditions.TITLE, *conditions.table(result))
    yield from filter(None, [comparisons(result), repeated, guardrails(result), effects(result)])
