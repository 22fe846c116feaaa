"""Guardrails from a given interval: the exact limits of each status, and how it changes a verdict."""

import pytest

from hakmem_lab.judge.statistics.paired import Interval, as_log, as_ratio
from hakmem_lab.judge.statistics.verdict import Guardrail, GuardrailStatus, Verdict, status, with_guardrails

HELD, FAILED, OPEN = GuardrailStatus.HELD, GuardrailStatus.FAILED, GuardrailStatus.OPEN
TOLERATED = -as_log(0.05)
TINY = 1e-12


def interval(low, high):
    return Interval((low + high) / 2, low, high, 0.9, 20)


@pytest.mark.parametrize(
    ("low", "high", "word"),
    [
        (TOLERATED, 0.1, HELD),
        (TOLERATED - TINY, 0.1, OPEN),
        (-1.0, TOLERATED, OPEN),
        (-1.0, TOLERATED - TINY, FAILED),
        (-1.0, 1.0, OPEN),
    ],
)
def test_where_each_word_begins(low, high, word):
    assert status(interval(low, high), 0.05) is word
    assert Guardrail.of("rss", interval(low, high), 0.05) == Guardrail("rss", 0.05, word, interval(low, high))


def test_a_limit_of_nothing_is_one_and_a_gain_is_none():
    assert status(interval(0.0, 0.1), 0.0) is HELD
    assert status(interval(-0.1, -TINY), 0.0) is FAILED
    with pytest.raises(ValueError, match="tolerated worsening"):
        status(interval(0.0, 0.1), -0.01)


@pytest.mark.parametrize(
    ("statuses", "word"),
    [
        ([], Verdict.GO),
        ([HELD, HELD], Verdict.GO),
        ([HELD, OPEN], Verdict.INCONCLUSIVE),
        ([OPEN], Verdict.INCONCLUSIVE),
        ([HELD, FAILED], Verdict.NO_GO),
        ([OPEN, FAILED], Verdict.NO_GO),
    ],
)
def test_they_hold_back_a_go_and_nothing_else(statuses, word):
    guardrails = [Guardrail("rss", 0.05, each, interval(-1, 1)) for each in statuses]
    vetoed_by = ("rss",) if word is Verdict.NO_GO else ()
    assert with_guardrails(Verdict.GO, guardrails) == (word, vetoed_by)
    for other in (Verdict.NO_GO, Verdict.NEUTRAL, Verdict.INCONCLUSIVE):
        assert with_guardrails(other, guardrails) == (other, ())


@pytest.mark.parametrize(("found", "word"), [(HELD, "held"), (FAILED, "failed"), (OPEN, "open")])
def test_a_row_states_ratios(found, word):
    row = Guardrail("rss", 0.05, found, Interval(-0.02, -0.1, 0.03, 0.9, 20)).row()
    ends = {"estimate": as_ratio(-0.02), "ci_low": as_ratio(-0.1), "ci_high": as_ratio(0.03)}
    assert row == {"metric": "rss", "limit": 0.05, "level": 0.9, "status": word} | ends
