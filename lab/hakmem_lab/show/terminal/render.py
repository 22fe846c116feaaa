"""A result on the terminal."""

from collections.abc import Iterator, Sequence

from hakmem_lab.judge import explain, words
from hakmem_lab.run import endings
from hakmem_lab.show import conditions, figures, kinds
from hakmem_lab.show.kinds import tune
from hakmem_lab.show.terminal import STYLES, filled, number, output


def show(result: dict, every: bool = False) -> None:
    """Prints the verdict, a line for each side, and the figures behind it. every: all warnings, not only the worst."""
    console = output()
    if result.get("question"):
        console.print(result["question"], style="italic")
    found = explain.explain(result)
    if found.verdict:
        console.print(found.verdict, style=STYLES[found.verdict], end="  ")
    for text in filter(None, (*found.clauses, *found.reasons)):
        console.print(text)
    warnings = [text for text in (*result.get("warnings", []), *found.caveats) if text not in endings.SHOWN]
    for text in warnings if every else warnings[:1]:
        console.print(f"warning: {text}", style="yellow")
    if (more := len(warnings) - 1) > 0 and not every:
        console.print(f"{more} more warning{'s' * (more > 1)}: hak runs show {result['id']} -v", style="dim")
    for table in _tables(result):
        console.print(table)
    if result.get("failures"):
        first, count = result["failures"][0], len(result["failures"])
        said = f"{count} failed run{'s' * (count != 1)}, the first: {first['arm']}: {first['why']}"
        console.print(said, style="yellow")
    console.print(
        f"run {result['id']}, {result['blocks']} blocks; hak runs report {result['id']}", style="dim", soft_wrap=True
    )
    for where, line in tune.service_lines(result):  # last and together, since users copy them
        console.print(f"{where}\n{line}", soft_wrap=True)


def by_side(rows: Sequence[dict]) -> list[dict]:
    """The comparisons with those of one side together; sides and metrics in their order."""
    sides = list(dict.fromkeys(row["treatment"] for row in rows))
    return sorted(rows, key=lambda row: sides.index(row["treatment"]))


def _tables(result: dict) -> Iterator:
    """Tables, and lines of text, in the order of reading."""
    heads, arms = figures.arms_table(result)
    shown, more = tune.foremost(result, arms, "name")
    title = "Sides, in the blocks that chose" if result.get("selection") else "Sides"
    medians = ([arm["name"], *figures.arm_figures(result, arm, number, number)] for arm in shown)
    yield from filled(title, ("median of", *heads), medians)
    if more:
        yield more
    if rows := by_side(result.get("comparisons") or []):
        result = result | {"comparisons": rows}
        schedules = figures.schedules(result)
        effects, note = figures.told_cells(result, rows)
        heads = ["side", "metric", f"effect [{100 * rows[0]['level']:.3g} % interval]", "verdict"]
        heads += ["schedule"] if any(schedules) else []
        cells = (
            [row["treatment"], figures.metric(result, row), effect, row.get("verdict") or ""]
            + ([schedule] if any(schedules) else [])
            for row, effect, schedule in zip(rows, effects, schedules, strict=True)
        )
        yield from filled(f"Against {rows[0]['control']}", heads, cells)
        yield from filter(None, [note])
    yield from filled(conditions.TITLE, *conditions.table(result))
    if selection := result.get("selection"):
        title = "Selection (biased upwards by having been selected; only the confirmation counts)"
        shown, more = tune.foremost(result, selection["candidates"], "arm")
        marks = {selection["chosen"]: "  <- chosen"}
        effects, note = figures.told_cells(result, shown)
        names = (row["arm"] + marks.get(row["arm"], "") for row in shown)
        yield from filled(title, ("candidate", "effect [interval]"), zip(names, effects, strict=True))
        yield from filter(None, [note, more])
    rows = result.get("guardrails") or []
    several = figures.of_several(rows)
    for_each = [[*([row["arm"]] if several else []), figures.metric(result, row), explain.tolerated(result, row),
                 figures.told(result, row), row["status"]] for row in rows]  # fmt: skip
    yield from filled(
        "Guardrails", (*(["side"] if several else []), "metric", "tolerated", "effect [interval]", "status"), for_each
    )
    for tables in kinds.of(result, "tables"):
        yield from tables(result)
    if text := words.builds(result):
        yield text
