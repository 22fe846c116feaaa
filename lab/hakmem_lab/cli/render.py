"""Results on the terminal, and as JSON."""

import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path

from .. import words
from ..errors import LabError
from ..store import plain

WIDE_COLUMNS = 120
SIGNIFICANT, MOST_DIGITS, TINY = 3, 6, 1e-9
# Unit of a metric -> (factor, unit shown), the greatest first.
PREFIXES = {
    "KiB": ((1024.0**2, "GiB"), (1024.0, "MiB"), (1.0, "KiB")),
    "s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")),
}
STYLES = {"GO": "bold green", "NO-GO": "bold red", "NEUTRAL": "bold blue", "INCONCLUSIVE": "bold yellow"}
SUMMARY_KEYS = (
    "verdict",
    "headline",
    "final",
    "margin",
    "alpha",
    "blocks",
    "more_blocks",
    "metric",
    "question",
    "kind",
)
DETAIL_KEYS = ("comparisons", "guardrails", "looks", "builds", "effects", "hidden", "selection", "soak", "syscalls",
               "latency", "aa", "scorecard", "earlier", "failures", "warnings")  # fmt: skip


def percent(value: float | None, places: int | None = None) -> str:
    """A ratio minus one for people; an end of an interval that the data do not bound is 'open'."""
    if value is None or not math.isfinite(value) or value <= -1:
        return "open"
    digits = (1 if abs(value) >= 0.1 else 2) if places is None else places
    return f"{100 * value:+.{digits}f} %"


def interval(row: dict) -> str:
    """Estimate and interval in per cent, with the digits that the interval supports."""
    low, high = row["ci_low"], row["ci_high"]
    known = low is not None and high is not None
    digits = words.places(100 * low, 100 * high) if known else 0
    return f"{percent(row['estimate'], digits)} [{percent(low, digits)}, {percent(high, digits)}]"


def number(value: float | None, unit: str = "") -> str:
    """Three significant digits and all before the point, never an exponent, in the prefix that people use."""
    if value is None:
        return "-"
    steps = PREFIXES.get(unit, ((1.0, unit),))
    factor, shown = next(((f, name) for f, name in steps if abs(value) >= f), steps[-1])
    value /= factor
    digits = max(0, SIGNIFICANT - 1 - math.floor(math.log10(abs(value)))) if value else 0
    if digits > MOST_DIGITS:
        digits = 0 if abs(value) < TINY else MOST_DIGITS
    return f"{value:,.{digits}f} {shown}".strip()


def summary(result: dict) -> dict:
    """The object of --json: the first comparison's figures on top, everything else below."""
    first = (result.get("comparisons") or [{}])[0]
    found = {key: result.get(key) for key in SUMMARY_KEYS}
    found |= {key: first.get(key) for key in ("estimate", "ci_low", "ci_high", "level", "p")}
    found |= {"arms": result.get("arms", []), "run": result["id"]}
    return found | {key: result[key] for key in DETAIL_KEYS if key in result}


def write_text(text: str, path: Path, option: str, hint: str = "") -> None:
    """Raises LabError, which names the option that gave the path."""
    try:
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise LabError(f"{option}: cannot write {path}: {error.strerror}{hint}") from None


def write_object(found: object, path: Path, hint: str = "") -> None:
    """One JSON object to the path of --json; - is standard output."""
    text = json.dumps(found, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    if str(path) == "-":
        sys.stdout.write(text)
    else:
        write_text(text, path, "--json", hint)


def write_json(result: dict, path: Path) -> None:
    write_object(plain(summary(result)), path, f"; the result is kept: hak show {result['id']}")


def write_format(results: Sequence[dict], name: str) -> None:
    """On standard output, in one of `formats.NAMES`; as JSON, one object a result."""
    from .. import formats

    if name == "json":
        for result in results:
            write_json(result, Path("-"))
    else:
        sys.stdout.write(formats.text(name, results))


def output():
    """A console on standard output; where nobody sees a terminal's edge, lines are as wide as tables want to be."""
    from rich.console import Console

    return Console(highlight=False, width=None if sys.stdout.isatty() else WIDE_COLUMNS)


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


def new_table(title: str, *columns: str):
    """An empty table of rich; the first column is of words, the others are of figures."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right", overflow="fold")
    return table


def _cell(text: str):
    from rich.text import Text

    return Text(text, style=STYLES.get(text, ""))


def add_row(table, *cells: str) -> None:
    """A row of plain text, in which verdicts have their colours."""
    table.add_row(*(_cell(cell) for cell in cells))


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
    from . import render_kinds

    for key, build in render_kinds.TABLES.items():
        if result.get(key):
            yield from build(result[key])
