"""Guardrails from a given interval: exactly where each word begins, and what it does to a verdict."""

import pytest

from hakmem_lab.judge.statistics import guardrails
from hakmem_lab.judge.statistics.paired import Interval, as_log, as_ratio
from hakmem_lab.judge.statistics.verdict import Guardrail, GuardrailStatus, Verdict

HELD, FAILED, UNCLEAR = GuardrailStatus.HELD, GuardrailStatus.FAILED, GuardrailStatus.UNCLEAR
TOLERATED = -as_log(0.05)
TINY = 1e-12


def interval(low, high):
    return Interval((low + high) / 2, low, high, 0.9, 20)


@pytest.mark.parametrize(
    ("low", "high", "status"),
    [
        (TOLERATED, 0.1, HELD),
        (TOLERATED - TINY, 0.1, UNCLEAR),
        (-1.0, TOLERATED, UNCLEAR),
        (-1.0, TOLERATED - TINY, FAILED),
        (-1.0, 1.0, UNCLEAR),
    ],
)
def test_where_each_word_begins(low, high, status):
    assert guardrails.status(interval(low, high), 0.05) is status
    assert guardrails.judged("rss", interval(low, high), 0.05) == Guardrail("rss", 0.05, status, interval(low, high))


def test_a_limit_of_nothing_is_one_and_a_gain_is_none():
    assert guardrails.status(interval(0.0, 0.1), 0.0) is HELD
    assert guardrails.status(interval(-0.1, -TINY), 0.0) is FAILED
    with pytest.raises(ValueError, match="tolerated worsening"):
        guardrails.status(interval(0.0, 0.1), -0.01)


@pytest.mark.parametrize(
    ("statuses", "word"),
    [
        ([], Verdict.GO),
        ([HELD, HELD], Verdict.GO),
        ([HELD, UNCLEAR], Verdict.INCONCLUSIVE),
        ([UNCLEAR], Verdict.INCONCLUSIVE),
        ([HELD, FAILED], Verdict.NO_GO),
        ([UNCLEAR, FAILED], Verdict.NO_GO),
    ],
)
def test_they_hold_back_a_go_and_nothing_else(statuses, word):
    rails = [Guardrail("rss", 0.05, status, interval(-1, 1)) for status in statuses]
    assert guardrails.checked(Verdict.GO, rails) is word
    for other in (Verdict.NO_GO, Verdict.NEUTRAL, Verdict.INCONCLUSIVE):
        assert guardrails.checked(other, rails) is other


@pytest.mark.parametrize(("status", "word"), [(HELD, "held"), (FAILED, "failed"), (UNCLEAR, "open")])
def test_a_row_states_ratios(status, word):
    row = guardrails.row(Guardrail("rss", 0.05, status, Interval(-0.02, -0.1, 0.03, 0.9, 20)))
    ends = {"estimate": as_ratio(-0.02), "ci_low": as_ratio(-0.1), "ci_high": as_ratio(0.03)}
    assert row == {"metric": "rss", "limit": 0.05, "level": 0.9, "status": word} | ends
