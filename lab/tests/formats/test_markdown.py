"""The Markdown comment on a change: it matches the result, and no text in a result acts as markup."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_results import NASTY, made, row
from markdown_it import MarkdownIt

from hakmem_lab.errors import one_line
from hakmem_lab.judge import explain
from hakmem_lab.show import formats
from hakmem_lab.show.formats import code, plain
from hakmem_lab.show.terminal import render

READER = MarkdownIt("commonmark").enable("table")
TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=40)


def said(markdown):
    """The words that a reader sees in each cell and line."""
    found = []
    for token in READER.parse(markdown):
        if token.type == "inline":
            found.append("".join(child.content for child in token.children))
    return found


def squeezed(text):
    return " ".join(text.split())


@given(TEXTS)
def test_words_mean_themselves(words):
    shown = said(f"| {plain(words)} | end |\n| --- | --- |\n")
    assert [squeezed(cell) for cell in shown] == [squeezed(one_line(words)), "end"]


@given(TEXTS.filter(str.strip))
def test_a_programs_text_is_code(words):
    (heading, _), *_ = [said(f"| {code(words)} | end |\n| --- | --- |\n")]
    assert squeezed(heading) == squeezed(one_line(words))


@pytest.mark.xdist_group("published")
def test_a_comment_of_every_published_experiment(published):
    for name, result in published.items():
        text = formats.text("markdown", [result])
        shown = [squeezed(line) for line in said(text)]
        title = f"{result['verdict']}: " if result["verdict"] else ""
        assert shown[0] == squeezed(title + explain.explain(result).headline), name
        assert result["id"] in text
        for comparison in result.get("comparisons") or []:
            assert comparison["treatment"] in shown
        rows = [re.sub(r"\\\|", "", line).count("|") for line in text.splitlines() if line.startswith("| ")]
        assert all(count >= 4 for count in rows)


@pytest.mark.xdist_group("published")
def test_the_terminal_begins_as_the_comment_and_the_page(published, capsys):
    for name, result in published.items():
        render.show(result | {"question": ""})
        shown = squeezed(capsys.readouterr().out)
        said = explain.explain(result)
        begin = [result["verdict"] or "", *said.clauses, *said.reasons]
        assert shown.startswith(squeezed(" ".join(begin))), name
        assert "output" not in said.headline, name


def test_text_of_programs_stays_text():
    failure = {"block": 1, "arm": NASTY, "why": NASTY}
    result = made(
        withheld=NASTY, question=NASTY, warnings=[NASTY], failures=[failure], comparisons=[row(control=NASTY)]
    )
    text = formats.text("markdown", [result])
    shown = [squeezed(line) for line in said(text)]
    assert shown[:2] == [f"GO: {NASTY}", f"Warning: {NASTY}"]
    assert NASTY in shown
    assert f"1 failed run, the first: {NASTY}: {NASTY}" in shown
    kinds = {child.type for token in READER.parse(text) for child in token.children or []}
    assert kinds <= {"text", "text_special", "code_inline", "em_open", "em_close", "html_inline"}
    inline = [child.content for token in READER.parse(text) for child in token.children or []]
    assert "<b>" not in inline


def test_open_ends_and_missing_figures():
    text = formats.text("markdown", [made()])
    assert "| `t` | time | 2.1 % faster \\[1.4, open\\] | GO |" in text
    assert "| `c` | 100\u00a0ms | – | 2.00\u00a0MiB | 1.00\u00a0MiB | 100 | 12 |" in text


def test_figures_of_sides_that_ran_together_name_their_schedule():
    rows = [row("GO", schedule="together"), row(metric="cpu", schedule="one-by-one")]
    text = formats.text("markdown", [made(comparisons=rows, schedule="together")])
    assert "| verdict | schedule |" in text
    cells = [line.split(" | ") for line in text.splitlines() if line.startswith("| `t` | ")]
    assert [line[-1] for line in cells if len(line) == 5] == ["together |", "one-by-one |"]
    assert "(run 20260101-000000-ab-0000, schedule together)" in formats.text("github", [made(comparisons=rows)])
    assert "(schedule together)</system-out>" in formats.text("junit", [made(comparisons=rows, schedule="together")])
    alone = [made(comparisons=[row("GO", schedule="one-by-one")], schedule="one-by-one")]
    assert "schedule" not in "".join(formats.text(name, alone) for name in ("markdown", "github", "junit"))


def test_several_runs_stand_one_below_the_other():
    text = formats.text("markdown", [made(), made("NO-GO")])
    assert [line for line in text.splitlines() if line.startswith("###")] == [
        "### GO: t 2.1 % faster than c \\[1.4, open\\]",
        "### NO-GO: t 2.1 % faster than c \\[1.4, open\\]",
    ]


def test_builds_are_named():
    builds = {"pairs": [{}] * 6, "blocks_each": 2, "fixed": [], "least": -0.01, "most": 0.03}
    assert "6 builds, 2 blocks each: from 1.0 % slower to 3.0 % faster" in formats.text(
        "markdown", [made(builds=builds)]
    )
