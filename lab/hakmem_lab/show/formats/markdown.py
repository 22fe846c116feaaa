"""A comment on a change: the verdict as the headline, one table of figures, the rest folded away."""

import re
from collections.abc import Iterator, Sequence

from hakmem_lab.errors import one_line
from hakmem_lab.judge import words
from hakmem_lab.show import answers, tuning
from hakmem_lab.show.formats.judgements import judgements, sentence
from hakmem_lab.show.report import numbers

SHOWN_CARD_ROWS = 40


def text(results: Sequence[dict]) -> str:
    return "\n---\n\n".join("\n".join(_lines(result)) + "\n" for result in results)


def plain(text: object) -> str:
    """Words that mean themselves: nothing in them is markup, a column, or a line of its own."""
    return re.sub(r"([\\`*_\[\]<>#|~])", r"\\\1", one_line(str(text)))


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
    first, more = answers.said(result)
    yield f"### {title}{plain(first)}"
    yield ""
    if more:
        yield plain(more)
        yield ""
    if result["question"]:
        yield f"*{plain(result['question'])}*"
        yield ""
    yield from _comparisons(result)
    yield from _effects(result)
    yield from _judged(result)
    for where, line in tuning.service_lines(result):
        yield f"{plain(where)} {code(line, cell=False)}"
        yield ""
    details = [*_arms(result), *_notes(result)]
    yield f"<details><summary>Run {result['id']}, {result['blocks']} blocks</summary>"
    yield ""
    yield from details
    yield "</details>"


def _comparisons(result: dict) -> Iterator[str]:
    rows = result.get("comparisons") or []
    if rows:
        head = f"against {code(rows[0]['control'])}, {100 * rows[0]['level']:.4g} % interval"
        cells = [(code(row["treatment"]), *_told(result, row), row.get("verdict") or "") for row in rows]
        yield from table(("arm", "metric", head, "verdict"), cells)


def _told(result: dict, row: dict) -> tuple[str, str]:
    """The metric and its change."""
    return plain(answers.metric(result, row)), plain(answers.told(result, row))


def _effects(result: dict) -> Iterator[str]:
    rows = result.get("effects") or []
    yield from table(
        ("effect", "kind", "size and interval", "reading"),
        [(plain(row["name"]), row["kind"], plain(answers.told(result, row)), row["reading"] or "") for row in rows],
    )


def _judged(result: dict) -> Iterator[str]:
    """Guardrails, and the bars of a suite: what is judged beside the headline."""
    rows = [row for row in judgements(result) if row.text != sentence(result)]
    if result.get("guardrails") or result.get("suite"):
        shown = [(plain(row.name), plain(row.text), row.verdict) for row in rows]
        yield from table(("judged", "figures", "verdict"), shown[:SHOWN_CARD_ROWS])
        if len(shown) > SHOWN_CARD_ROWS:
            yield f"and {len(shown) - SHOWN_CARD_ROWS} more"
            yield ""


def _arms(result: dict) -> Iterator[str]:
    heads, rows = answers.arms_table(result)
    rows, more = tuning.foremost(result, rows, "name")
    cells = [(code(arm["name"]), *answers.arm_figures(result, arm, _figure, numbers.measure)) for arm in rows]
    yield from table(("median of", *map(plain, heads)), cells)
    if more:
        yield from (plain(more), "")


def _figure(value: object, unit: str) -> str:
    if unit == "s":
        return numbers.seconds(value)
    return numbers.memory(value) if unit == "KiB" else numbers.number(value)


def _notes(result: dict) -> Iterator[str]:
    notes = []
    if builds := words.builds(result):
        notes.append(f"- {plain(builds)}")
    notes += [f"- warning: {plain(text)}" for text in result["warnings"]]
    if failures := result["failures"]:
        first = failures[0]
        notes.append(
            f"- {len(failures)} failed runs, the first: {code(first['arm'], False)}: {code(first['why'], False)}"
        )
    yield from notes
    if notes:
        yield ""
