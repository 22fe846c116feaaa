"""A result on the terminal."""

from collections.abc import Iterator

from hakmem_lab.judge import explain, words
from hakmem_lab.run import endings
from hakmem_lab.show import figures, kinds, tables
from hakmem_lab.show.kinds import tune
from hakmem_lab.show.terminal import STYLES, filled, number, output, table_of
from hakmem_lab.store.results import Result


def show(result: Result, every: bool = False) -> None:
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


def _tables(result: Result) -> Iterator[object]:
    """Tables, and lines of text, in the order of reading."""
    heads, arms = figures.arms_table(result)
    shown, more = tune.foremost(result, arms, "name")
    title = "Sides, in the blocks that chose" if result.get("selection") else "Sides"
    medians = ([arm["name"], *figures.arm_figures(result, arm, number, number)] for arm in shown)
    yield from filled(title, ("median of", *heads), medians)
    if more:
        yield more
    for table in tables.of(result):
        yield table_of(table.caption, table.columns, [[*map(str, row)] for row in table.rows])
        yield from filter(None, [table.note])
    if selection := result.get("selection"):
        title = "Selection (biased upwards by having been selected; only the confirmation counts)"
        candidates, more = tune.foremost(result, selection["candidates"], "arm")
        marks = {selection["chosen"]: "  <- chosen"}
        effects, note = figures.told_cells(result, candidates)
        names = (row["arm"] + marks.get(row["arm"], "") for row in candidates)
        yield from filled(title, ("candidate", "effect [interval]"), zip(names, effects, strict=True))
        yield from filter(None, [note, more])
    for tables_of in kinds.of(result, "tables"):
        yield from tables_of(result)
    if text := words.builds(result):
        yield text
