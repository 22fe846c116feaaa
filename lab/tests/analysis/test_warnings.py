"""Warnings are one list: each has a condition and a sentence, and the most severe comes first."""

import re
import string

import pytest

from hakmem_lab.judge.warnings import EVENTS, ROWS, Warn, ordered
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.show.terminal import render

RESULT = {"id": "r", "blocks": 3, "metric": Metric("wall").record(), "comparisons": [], "arms": [], "verdict": None}


@pytest.mark.parametrize("warn", ROWS, ids=lambda warn: warn.name)
def test_a_row_has_a_condition_and_a_sentence_that_begins_with_no_pronoun(warn):
    row = warn.value
    assert row.condition and row.sentence
    assert not re.match(r"(it|they|that|this|these|what|who|others?)\b", row.sentence, re.I)
    names = {name for text in row[1:3] for _, name, _, _ in string.Formatter().parse(text) if name}
    said = warn.said(**dict.fromkeys(names, 3))
    assert said.row is warn and said.endswith(row.remedy.format(**dict.fromkeys(names, 3)))


def test_rows_and_events_are_distinct():
    assert len({row.value.condition for row in ROWS}) == len(ROWS)
    assert {warn.value.event for warn in ROWS if warn.value.event} == {*EVENTS}


def test_the_most_severe_comes_first_and_each_once():
    texts = [Warn.DIRTY.said(), "of an old run", Warn.UNSERVED.said(text="x"), Warn.DIRTY.said()]
    assert ordered(texts) == ["x", str(Warn.DIRTY.said()), "of an old run"]


@pytest.mark.parametrize(("every", "shown"), [(False, ["first"]), (True, ["first", "second", "third"])])
def test_the_terminal_shows_one_warning_unless_asked_for_all(capsys, every, shown):
    render.show(RESULT | {"warnings": ["first", "second", "third"]}, every)
    out = capsys.readouterr().out
    assert re.findall(r"^warning: (\w+)$", out, re.M) == shown
    assert ("2 more warnings: hak runs show r -v" in out) is not every
