"""A result on the terminal."""

from hakmem_lab.judge import words
from hakmem_lab.show import answers, kinds
from hakmem_lab.show.kinds import tune
from hakmem_lab.show.terminal import STYLES, add_row, new_table, number, output


def show(result: dict) -> None:
    """The verdict first, then what it rests on."""
    console = output()
    if result.get("question"):
        console.print(result["question"], style="italic", markup=False)
    said = answers.explain(result)
    if said.verdict:
        console.print(said.verdict, style=STYLES[said.verdict], end="  ", markup=False)
    for text in filter(None, (said.answer, said.more)):
        console.print(text, markup=False)
    for build in (_arms, _comparisons, _effects, _selection, _guardrails, _kind_tables):
        for table in build(result):
            console.print(table)
    for text in result.get("warnings", []):
        console.print(f"warning: {text}", style="yellow", markup=False)
    if result.get("failures"):
        first = result["failures"][0]
        console.print(
            f"{len(result['failures'])} failed runs, the first: {first['arm']}: {first['why']}",
            style="yellow",
            markup=False,
        )
    console.print(
        f"run {result['id']}, {result['blocks']} blocks; hak report {result['id']}", style="dim", markup=False
    )
    for where, line in tune.service_lines(result):  # last, and in one piece: they are to be copied
        console.print(f"{where}\n{line}", markup=False, soft_wrap=True)


def _arms(result: dict):
    heads, rows = answers.arms_table(result)
    if rows:
        title = "Arms, in the blocks that chose" if result.get("selection") else "Arms"
        table = new_table(title, "median of", *heads)
        shown, more = tune.foremost(result, rows, "name")
        for arm in shown:
            add_row(table, arm["name"], *answers.arm_figures(result, arm, number, number))
        yield table
        if more:
            yield more


def _comparisons(result: dict):
    rows = result.get("comparisons") or []
    if not rows:
        return
    level = f"{100 * rows[0]['level']:.3g} %"
    table = new_table(f"Against {rows[0]['control']}", "arm", "metric", f"effect [{level} interval]", "verdict")
    for row in rows:
        add_row(
            table, row["treatment"], answers.metric(result, row), answers.told(result, row), row.get("verdict") or ""
        )
    yield table


def _effects(result: dict):
    rows = result.get("effects") or []
    if rows:
        table = new_table("Effects", "effect", "kind", "effect [interval]", "reading")
        for row in rows:
            add_row(table, row["name"], row["kind"], answers.told(result, row), row["reading"] or "")
        yield table


def _selection(result: dict):
    selection = result.get("selection")
    if selection:
        table = new_table(
            "Selection (biased upwards by having been selected; only the confirmation counts)",
            "candidate",
            "effect [interval]",
        )
        shown, more = tune.foremost(result, selection["candidates"], "arm")
        for row in shown:
            mark = "  <- chosen" if row["arm"] == selection["chosen"] else ""
            add_row(table, row["arm"] + mark, answers.told(result, row))
        yield table
        if more:
            yield more


def _guardrails(result: dict):
    rows = result.get("guardrails") or []
    if rows:
        several = ["arm"] if any("arm" in row for row in rows) else []
        table = new_table("Guardrails", *several, "metric", "tolerated", "effect [interval]", "status")
        for row in rows:
            cells = [
                answers.metric(result, row),
                answers.tolerated(result, row),
                answers.told(result, row),
                row["status"],
            ]
            add_row(table, *(row["arm"] for _ in several), *cells)
        yield table


def _kind_tables(result: dict):
    """Tables that only one kind has."""
    for tables in kinds.of(result, "tables"):
        yield from tables(result)
    if text := words.builds(result):
        yield text
