"""Every sentence as a whole, word by word, and exactly where one becomes the other."""

import math
from dataclasses import replace

import pytest

from hakmem_lab.judge.statistics import verdict
from hakmem_lab.judge.statistics.means import Means
from hakmem_lab.judge.statistics.paired import Interval, as_log
from hakmem_lab.judge.statistics.verdict import Decision, Guardrail, GuardrailStatus, Verdict

INF = math.inf
TINY = 1e-9


def interval(low, estimate, high, n=20):
    """From percentages."""
    low, estimate, high = (as_log(x / 100) if abs(x) < INF else x for x in (low, estimate, high))
    return Interval(estimate, low, high, 0.95, n)


def decision(verdict, shown, equivalence=None, **keys):
    given = {
        "final": True, "reason": "", "vetoed_by": (), "margin": 0.01, "guardrails": (),
        "plain": shown.estimate, "means": None, "torn": False, "consistent": True,
    }  # fmt: skip
    return Decision(verdict, shown, equivalence or interval(70, 80, 90), **given | keys)


def rail(name, status, estimate=-12.0):
    return Guardrail(name, 0.05, status, interval(estimate - 1, estimate, estimate + 1))


FAILED, UNSURE, HELD = GuardrailStatus.FAILED, GuardrailStatus.OPEN, GuardrailStatus.HELD
BETTER, WORSE, OPEN = interval(1, 3, 5), interval(-5, -3, -1.5), interval(-2, 1, 4)
SURELY = "The treatment is surely better, by about 3.00 % (between +1.00 % and +5.00 %)"
SURELY_WORSE = "The treatment is surely worse, by about 3.00 % (between −5.00 % and −1.50 %)"
UNPROVEN = "; that it is at least the 1 % that matters is not shown."
POSSIBLE = "The difference lies between −2.00 % and +4.00 %: better, equal and worse are all possible."
LEVEL = replace(interval(-0.5, 0.1, 0.25), level=0.9)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (decision(Verdict.GO, BETTER), f"{SURELY}, surely at least the 1 % that matters."),
        (decision(Verdict.GO, BETTER, margin=0.0101), SURELY + UNPROVEN.replace("1 %", "1.01 %")),
        (decision(Verdict.NO_GO, WORSE), f"{SURELY_WORSE}, surely at least the 1 % that matters."),
        (decision(Verdict.NO_GO, WORSE, margin=0.02), SURELY_WORSE + UNPROVEN.replace("1 %", "2 %")),
        (
            decision(Verdict.NO_GO, BETTER, vetoed_by=("rss",), guardrails=(rail("rss", FAILED), rail("cpu", FAILED))),
            f"{SURELY}, surely at least the 1 % that matters. But rss got worse by more than was tolerated (−12.00 %); "
            "cpu got worse by more than was tolerated (−12.00 %).",
        ),
        (
            decision(Verdict.NEUTRAL, OPEN, LEVEL, guardrails=(rail("rss", HELD),)),
            "Any difference is smaller than the 1 % that matters (between −0.50 % and +0.25 %, with 90 % "
            "confidence).",
        ),
        (
            decision(Verdict.NEUTRAL, OPEN, interval(-0.5, 0.1, 0.25), guardrails=(rail("rss", FAILED),)),
            "Any difference is smaller than the 1 % that matters (between −0.50 % and +0.25 %, with 95 % "
            "confidence); but rss got worse by "
            "more than was tolerated (−12.00 %).",
        ),
        (decision(Verdict.INCONCLUSIVE, OPEN), POSSIBLE),
        (
            decision(Verdict.INCONCLUSIVE, interval(0.2, 0.9, 2)),
            "The treatment is surely better, by about 0.90 % (between +0.20 % and +2.00 %), but whether by the 1 % "
            "that matters is open.",
        ),
        (
            decision(Verdict.INCONCLUSIVE, interval(-2, -0.9, -0.2)),
            "The treatment is surely worse, by about 0.90 % (between −2.00 % and −0.20 %), but whether by the 1 % that "
            "matters is open.",
        ),
        (
            decision(Verdict.INCONCLUSIVE, OPEN, consistent=False),
            "The effect changed during the run: no single size explains its parts. Look at its blocks: hak report.",
        ),
        (
            decision(Verdict.INCONCLUSIVE, interval(-INF, 1, INF, 5)),
            "5 blocks are too few for a verdict: at least 6 are needed.",
        ),
        (
            decision(Verdict.INCONCLUSIVE, interval(-INF, 1, INF, 6)),
            "6 blocks are too few for a verdict at this early look.",
        ),
        (
            decision(Verdict.INCONCLUSIVE, interval(-2, 1, INF)),
            "The difference lies between −2.00 % and no limit: better, equal and worse are all possible.",
        ),
        (
            decision(Verdict.INCONCLUSIVE, interval(-INF, 1, 4)),
            "The difference lies between no limit and +4.00 %: better, equal and worse are all possible.",
        ),
        (
            decision(
                Verdict.INCONCLUSIVE, BETTER,
                guardrails=(rail("rss", UNSURE), rail("cpu", HELD), rail("faults", UNSURE)),
            ),
            "The treatment is surely better (between +1.00 % and +5.00 %), but rss, faults may have got worse by more "
            "than is tolerated.",
        ),
        (
            decision(Verdict.INCONCLUSIVE, interval(0, 3, 5), guardrails=(rail("rss", UNSURE),)),
            "The difference lies between +0.00 % and +5.00 %: better, equal and worse are all possible.",
        ),
        (
            decision(Verdict.INCONCLUSIVE, interval(0.2, 0.9, 5), guardrails=(rail("rss", UNSURE),)),
            "The treatment is surely better, by about 0.90 % (between +0.20 % and +5.00 %), but whether by the 1 % "
            "that matters is open.",
        ),
    ],
)  # fmt: skip
def test_the_whole_sentence(given, sentence):
    assert verdict.reason(given, 6) == sentence


def test_an_estimate_at_the_margin_is_held_back_by_the_guardrail_alone():
    shown = Interval(as_log(0.01), TINY, 0.1, 0.95, 20)
    given = decision(Verdict.INCONCLUSIVE, shown, guardrails=(rail("rss", UNSURE),))
    assert "but rss may have got worse" in verdict.reason(given, 6)


@pytest.mark.parametrize(
    ("low", "high", "claimed"),
    [(0.01, 0.5, True), (0.01 - TINY, 0.5, False), (-0.5, -0.02, True), (-0.5, -0.005, False), (-0.02, 0.02, False)],
)
def test_the_margin_is_claimed_from_the_end_of_the_interval(low, high, claimed):
    found = decision(Verdict.INCONCLUSIVE, Interval(0.0, as_log(low), as_log(high), 0.95, 20))
    assert verdict.at_least_margin(found) is claimed


@pytest.mark.parametrize(("value", "text"), [(0.0205, "+2.05 %"), (-0.5, "−50.00 %"), (0.0, "+0.00 %")])
def test_percentages(value, text):
    assert verdict.percent(as_log(value)) == text
    assert verdict.size(as_log(value)) == text[1:]


@pytest.mark.parametrize("end", [-INF, INF])
def test_no_limit(end):
    assert verdict.percent(end) == "no limit"


@pytest.mark.parametrize(
    ("estimate", "mean", "far", "begin", "middle"),
    [
        (2, -3, (1, 4), "usually faster, rarely but badly slower: in the typical block by +2.00 %",
         "by the mean of the runs it was 3.00 % slower"),
        (-2, 3, (4, 1), "usually slower, rarely but much faster: in the typical block by −2.00 %",
         "by the mean of the runs it was 3.00 % faster"),
        (0.5, -3, (2, 2), "usually equal, not on average: in the typical block by +0.50 %",
         "by the mean of the runs it was 3.00 % slower"),
        (-0.5, 3, (0, 0), "usually equal, not on average: in the typical block by −0.50 %",
         "by the mean of the runs it was 3.00 % faster"),
        (1, -3, (0, 0), "usually faster, not on average: in the typical block by +1.00 %",
         "by the mean of the runs it was 3.00 % slower"),
    ],
)  # fmt: skip
def test_what_torn_runs_did(estimate, mean, far, begin, middle):
    other = Means(interval(mean - 2, mean, mean + 2), (40, 44), far, (0.1, 0.1), ("faster", "slower"))
    given = decision(Verdict.INCONCLUSIVE, interval(estimate - 1, estimate, estimate + 1), means=other, torn=True)
    assert verdict.reason(replace(given, torn=False), 6) == verdict.reason(replace(given, torn=False, means=None), 6)
    ends = " and ".join(f"{end:+.2f} %".replace("-", "−") for end in (mean - 2, mean + 2))
    assert verdict.reason(given, 6) == (
        f"The treatment was {begin}, but {middle} (between {ends}); {far[1]} of its 44 runs and {far[0]} of the "
        "control's 40 were more than twice as bad as the median. Which of the two matters is not for a rule."
    )
