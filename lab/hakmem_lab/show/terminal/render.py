"""A result on the terminal."""

from hakmem_lab.judge import words
from hakmem_lab.show.terminal import by_kind
from hakmem_lab.show.terminal.tables import STYLES, add_row, interval, new_table, number, output


def show(result: dict) -> None:
    """The verdict first, then what it rests on."""
    console = output()
    if result.get("question"):
        console.print(result["question"], style="italic", markup=False)
    verdict = result.get("verdict")
    if verdict:
        console.print(f"{verdict}", style=STYLES[verdict], end="  ", markup=False)
    console.print(result["headline"], markup=False)
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


def _arms(result: dict):
    rows = [arm for arm in result.get("arms", []) if arm.get("n") and arm.get("wall_s") is not None]
    if not rows:
        return
    metric = result["metric"]
    own = metric["name"].startswith("regex:")
    heads = ["median of", *(["output"] if own else []), "wall", "CPU", "peak RSS", "mean RSS", "faults", "runs"]
    table = new_table("Arms, in the blocks that chose" if result.get("selection") else "Arms", *heads)
    for arm in rows:
        cells = [number(arm["median"], metric["unit"])] if own else []
        cells += [number(arm["wall_s"], "s"), number(arm["cpu_s"], "s"), number(arm["rss_peak_kib"], "KiB")]
        cells += [number(arm["rss_mean_kib"], "KiB"), number(arm["minor_faults"]), str(arm["n"])]
        add_row(table, arm["name"], *cells)
    yield table


def _comparisons(result: dict):
    rows = result.get("comparisons") or []
    if not rows:
        return
    level = f"{100 * rows[0]['level']:.3g} %"
    table = new_table(f"Against {rows[0]['control']}", "arm", "metric", f"effect [{level} interval]", "verdict")
    for row in rows:
        name = "output" if row["metric"].startswith("regex:") else row["metric"]
        add_row(table, row["treatment"], name, _effect(row, result), row.get("verdict") or "")
    yield table


def _effect(row: dict, result: dict) -> str:
    """An estimate with its interval, in words that name the direction."""
    own = row["metric"] == result["metric"]["name"]
    higher = own and result["metric"]["higher_is_better"]
    return words.effect(row["metric"], row["estimate"], row["ci_low"], row["ci_high"], higher)


def _effects(result: dict):
    rows = result.get("effects") or []
    if rows:
        table = new_table("Effects", "effect", "kind", "estimate [interval]", "reading")
        for row in rows:
            add_row(table, row["name"], row["kind"], interval(row), row["reading"] or "")
        yield table


def _selection(result: dict):
    selection = result.get("selection")
    if selection:
        table = new_table(
            "Selection (biased upwards by having been selected; only the confirmation counts)",
            "candidate",
            "estimate [interval]",
        )
        for row in selection["candidates"]:
            mark = "  <- chosen" if row["arm"] == selection["chosen"] else ""
            add_row(table, row["arm"] + mark, interval(row))
        yield table


def _guardrails(result: dict):
    rows = result.get("guardrails") or []
    if rows:
        several = ["arm"] if any("arm" in row for row in rows) else []
        table = new_table("Guardrails", *several, "metric", "may get worse by", "effect [interval]", "status")
        for row in rows:
            cells = [f"{100 * row['limit']:.3g} %", _effect(row, result), row["status"]]
            add_row(table, *(row["arm"] for _ in several), row["metric"], *cells)
        yield table


def _kind_tables(result: dict):
    """Tables that only one kind has."""
    for key, build in by_kind.TABLES.items():
        if result.get(key):
            yield from build(result[key])
