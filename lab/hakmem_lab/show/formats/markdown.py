"""A comment on a change: the verdict as the headline, one table of figures, the rest folded away."""

import re
from collections.abc import Iterator, Sequence

from hakmem_lab.errors import one_line
from hakmem_lab.show.formats.judgements import judgements, metric_name
from hakmem_lab.show.report import numbers

SHOWN_CARD_ROWS = 40


def text(results: Sequence[dict]) -> str:
    return "\n---\n\n".join("\n".join(_lines(result)) + "\n" for result in results)


def plain(words: object) -> str:
    """Words that mean themselves: nothing in them is markup, a column, or a line of its own."""
    return re.sub(r"([\\`*_\[\]<>#|~])", r"\\\1", one_line(str(words)))


def code(words: object, cell: bool = True) -> str:
    """Text of a program, in which nothing is a link or the name of somebody. cell: in a table, whose bars end it."""
    inner = one_line(str(words)).replace("|", "\\|" if cell else "|")
    fence = "`" * (max((len(run) for run in re.findall("`+", inner)), default=0) + 1)
    return f"{fence} {inner} {fence}" if "`" in inner else f"`{inner}`"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The first column is of words, the others are of figures."""
    if rows:
        yield "| " + " | ".join(heads) + " |"
        yield "| --- |" + " ---: |" * (len(heads) - 1)
        yield from ("| " + " | ".join(row) + " |" for row in rows)
        yield ""


def _lines(result: dict) -> Iterator[str]:
    title = f"{result['verdict']}: " if result["verdict"] else ""
    yield f"### {title}{plain(result['headline'])}"
    yield ""
    if result["question"]:
        yield f"*{plain(result['question'])}*"
        yield ""
    yield from _comparisons(result)
    yield from _effects(result)
    yield from _judged(result)
    details = [*_arms(result), *_notes(result)]
    yield f"<details><summary>Run {result['id']}, {result['blocks']} blocks</summary>"
    yield ""
    yield from details
    yield "</details>"


def _comparisons(result: dict) -> Iterator[str]:
    rows = result.get("comparisons") or []
    if rows:
        head = f"better (+) or worse (−) than {code(rows[0]['control'])}, {100 * rows[0]['level']:.4g} % interval"
        cells = [
            (code(row["treatment"]), metric_name(row["metric"]), numbers.estimate(row), row.get("verdict") or "")
            for row in rows
        ]
        yield from table(("arm", "metric", head, "verdict"), cells)


def _effects(result: dict) -> Iterator[str]:
    rows = result.get("effects") or []
    yield from table(
        ("effect", "kind", "estimate and interval", "reading"),
        [(plain(row["name"]), row["kind"], numbers.estimate(row), row["reading"] or "") for row in rows],
    )


def _judged(result: dict) -> Iterator[str]:
    """Guardrails, and the bars of a scorecard: what is judged beside the headline."""
    rows = [row for row in judgements(result) if row.text != result["headline"]]
    if result.get("guardrails") or result.get("scorecard"):
        shown = [(plain(row.name), plain(row.text), row.verdict) for row in rows]
        yield from table(("judged", "figures", "verdict"), shown[:SHOWN_CARD_ROWS])
        if len(shown) > SHOWN_CARD_ROWS:
            yield f"and {len(shown) - SHOWN_CARD_ROWS} more"
            yield ""


def _arms(result: dict) -> Iterator[str]:
    rows = [arm for arm in result["arms"] if arm.get("n") and arm.get("wall_s") is not None]
    own = result["metric"]["name"].startswith("regex:")
    cells = []
    for arm in rows:
        figures = [numbers.measure(arm.get("median"), result["metric"]["unit"])] if own else []
        figures += [numbers.seconds(arm["wall_s"]), numbers.seconds(arm["cpu_s"]), numbers.memory(arm["rss_peak_kib"])]
        figures += [numbers.memory(arm["rss_mean_kib"]), numbers.number(arm["minor_faults"]), str(arm["n"])]
        cells.append((code(arm["name"]), *figures))
    heads = ("median of", *(["output"] if own else []), "wall", "CPU", "peak RSS", "mean RSS", "faults", "runs")
    yield from table(heads, cells)


def _notes(result: dict) -> Iterator[str]:
    notes = []
    if (builds := result.get("builds")) and builds["pairs"]:
        ends = f"{numbers.percent(builds['least'])} to {numbers.percent(builds['most'])}"
        notes.append(f"- {len(builds['pairs'])} builds of {builds['blocks_each']} blocks each: estimates from {ends}")
    notes += [f"- warning: {plain(words)}" for words in result["warnings"]]
    if failures := result["failures"]:
        first = failures[0]
        notes.append(
            f"- {len(failures)} failed runs, the first: {code(first['arm'], False)}: {code(first['why'], False)}"
        )
    yield from notes
    if notes:
        yield ""
