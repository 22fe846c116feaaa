"""The full text of every sentence about two arms, and the exact limits at which one sentence replaces another."""

import math
from dataclasses import replace

import numpy as np
import pytest

from hakmem_lab.judge.analysis import comparison
from hakmem_lab.judge.explain import beside, explain
from hakmem_lab.judge.statistics.means import Means
from hakmem_lab.judge.statistics.paired import Interval, as_log, paired_interval
from hakmem_lab.judge.statistics.verdict import Decision, Guardrail, GuardrailStatus, Verdict
from hakmem_lab.judge.two_arms import judged_row, means_row
from hakmem_lab.kinds.replay.result import one_verdict
from hakmem_lab.plan.metrics import Metric

INF = math.inf
FAILED, UNSURE, HELD = GuardrailStatus.FAILED, GuardrailStatus.OPEN, GuardrailStatus.HELD


def interval(low, estimate, high, n=20):
    """From percentages."""
    low, estimate, high = (as_log(x / 100) if abs(x) < INF else x for x in (low, estimate, high))
    return Interval(estimate, low, high, 0.95, n)


BETTER, WORSE, OPEN = interval(1, 3, 5), interval(-5, -3, -1.5), interval(-2, 1, 4)
UNBOUND = interval(-INF, 1, INF, 6)


def decision(verdict, shown, equivalence=None, **keys):
    given = {
        "final": True, "least": 6, "vetoed_by": (), "margin": 0.01, "guardrails": (), "plain": shown.estimate,
        "means": None, "torn": False, "mean_open": False, "consistent": True,
    }  # fmt: skip
    return Decision(verdict, shown, equivalence or interval(-0.5, 0.1, 0.25), **given | keys)


def rail(name, status, estimate=-12.0):
    return Guardrail(name, 0.05, status, interval(estimate - 1, estimate, estimate + 1))


def said(given, metric="wall", **keys):
    """(headline, reasons) for a result of two arms."""
    pair = "c", "t"
    means = [means_row(given.means, pair, Metric(metric))] if given.means else []
    found = explain({
        "verdict": str(given.verdict), "margin": given.margin, "metric": Metric(metric).record(),
        "comparisons": [judged_row(given, pair, metric), *means], "guardrails": [g.row() for g in given.guardrails],
        "arms": [{"name": "c"}, {"name": "t"}], **keys,
    })  # fmt: skip
    return found.headline, " ".join(found.reasons)


UNPROVEN = "Whether the difference reaches the margin of {} is undecided."
POSSIBLE = "Better, equal and worse are all still possible."
UNDECIDED, FASTER = "t undecided against c [-2, +4] %", "t 3 % faster than c [1, 5]"
SLOWER, SMALL = "t 3.1 % slower than c [1.5, 5.3]", "t 0.9 % faster than c [0.2, 2.0]"
BREAKS = ", but peak memory 13.6 % higher [12.4, 14.9] breaks the limit of 5 % higher"
SHORT = "t undecided against c, too few blocks for an interval"
UNCLEAR = "Whether peak memory keeps the limit of 5 % higher is undecided."


@pytest.mark.parametrize(
    ("given", "headline", "reasons"),
    [
        (decision(Verdict.GO, BETTER), FASTER, ""),
        (decision(Verdict.GO, BETTER, margin=0.0101), FASTER, UNPROVEN.format("1.01 %")),
        (decision(Verdict.NO_GO, WORSE), SLOWER, ""),
        (decision(Verdict.NO_GO, WORSE, margin=0.02), SLOWER, UNPROVEN.format("2 %")),
        (decision(Verdict.NO_GO, BETTER, vetoed_by=("rss",), guardrails=(rail("rss", FAILED), rail("cpu", HELD))),
         FASTER + BREAKS, ""),
        (decision(Verdict.NEUTRAL, OPEN), "t within 1 % of c [-0.5, +0.3] %", ""),
        (decision(Verdict.NEUTRAL, OPEN, guardrails=(rail("rss", FAILED),)),
         f"t within 1 % of c [-0.5, +0.3] %{BREAKS}", ""),
        (decision(Verdict.INCONCLUSIVE, OPEN), UNDECIDED, POSSIBLE),
        (decision(Verdict.INCONCLUSIVE, interval(0.2, 0.9, 2)), SMALL, UNPROVEN.format("1 %")),
        (decision(Verdict.INCONCLUSIVE, OPEN, consistent=False), UNDECIDED,
         "The effect changed during the run, so no single size describes it: hak runs report shows its blocks."),
        (decision(Verdict.INCONCLUSIVE, replace(UNBOUND, n=5)), SHORT,
         "5 blocks are too few for a verdict: at least 6 are needed."),
        (decision(Verdict.INCONCLUSIVE, UNBOUND), SHORT,
         "6 blocks are too few for a verdict at this early look."),
        (decision(Verdict.INCONCLUSIVE, interval(-2, 1, INF)), "t undecided against c [-2.0, open] %", POSSIBLE),
        (decision(Verdict.INCONCLUSIVE, BETTER, guardrails=(rail("rss", UNSURE), rail("cpu", HELD))), FASTER, UNCLEAR),
        (decision(Verdict.INCONCLUSIVE, interval(0.2, 0.9, 2), guardrails=(rail("rss", UNSURE),)), SMALL,
         f"{UNPROVEN.format('1 %')} {UNCLEAR}"),
    ],
)  # fmt: skip
def test_the_whole_sentence(given, headline, reasons):
    assert said(given) == (headline, reasons)


def test_builds_are_counted_as_builds():
    few = decision(Verdict.INCONCLUSIVE, replace(UNBOUND, n=5))
    assert said(few, counted="builds")[1] == "5 builds are too few for a verdict: at least 6 are needed."


@pytest.mark.parametrize(
    ("estimate", "mean", "far", "headline"),
    [
        (2, -3, (1, 4), "t 2.0 % faster than c [1.0, 3.0], but by the mean of all runs 3 % slower [1, 5]"),
        (-2, 3, (4, 1), "t 2.0 % slower than c [1.0, 3.1], but by the mean of all runs 3 % faster [1, 5]"),
        (0.5, -3, (2, 2), "t undecided against c [-0.5, +1.5] %, but by the mean of all runs 3 % slower [1, 5]"),
    ],
)
def test_what_torn_runs_did(estimate, mean, far, headline):
    other = Means(*2 * (interval(mean - 2, mean, mean + 2),), (40, 44), far, (0.1, 0.1))
    given = decision(Verdict.INCONCLUSIVE, interval(estimate - 1, estimate, estimate + 1), means=other, torn=True)
    assert said(given) == (
        headline,
        f"{far[1]} of the 44 runs of t and {far[0]} of the 40 of c were more than twice as bad as the median. No rule "
        "decides which of the two averages matters.",
    )


@pytest.mark.parametrize(
    ("verdict", "shown", "mean", "text"),
    [
        (Verdict.GO, BETTER, interval(-4, 1, 6), "undecided [-4, +6] %"),
        (Verdict.NO_GO, WORSE, interval(-4, -1, 6), "undecided [-4, +6] %"),
        (Verdict.NEUTRAL, OPEN, interval(-9, 3, 15), "undecided [-10, +15] %"),
    ],
)
def test_a_verdict_that_the_mean_does_not_support_says_so(verdict, shown, mean, text):
    other = Means(mean, mean, (40, 44), (0, 2), (0.1, 0.1))
    given = decision(verdict, shown, means=other, mean_open=True)
    assert f"Mean of all runs: {text}." in said(given)[1]
    assert "Mean" not in said(replace(given, mean_open=False))[1]
    rows = [judged_row(given, ("c", name), "wall") for name in "tu"] + [
        means_row(other, ("c", name), Metric("wall")) for name in "tu"
    ]
    several = explain({"verdict": None, "margin": 0.01, "metric": Metric("wall").record(), "comparisons": rows})
    assert several.reasons == (f"t and u: Mean of all runs: {text}.",)


def test_what_is_withheld_is_all_that_is_said():
    found = explain({"verdict": "INCONCLUSIVE", "withheld": "No verdict: t failed twice", "so_far": ["It ended."],
                     "comparisons": [judged_row(decision(Verdict.GO, BETTER), ("c", "t"), "wall")]})  # fmt: skip
    assert (found.line, found.caveats) == ("INCONCLUSIVE: No verdict: t failed twice. It ended.", ())


def test_what_is_better_and_worse_beside_an_open_metric_is_named():
    """The verdict on time is open, but those on CPU time and memory are decided."""
    rows = [{"metric": name, "treatment": "t", "estimate": at, "ci_low": at - 0.02, "ci_high": at + 0.02}
            for name, at in (("rss", -0.3), ("cpu", 0.12), ("faults", 0.5), ("pss", 0.005))]  # fmt: skip
    given = decision(Verdict.INCONCLUSIVE, OPEN)
    found = explain({"verdict": "INCONCLUSIVE", "margin": 0.01, "metric": Metric("wall").record(),
                     "comparisons": [judged_row(given, ("c", "t"), "wall"), *rows]})  # fmt: skip
    assert found.headline == f"{UNDECIDED}, CPU time 10.7 % lower [9.1, 12.3], peak memory 43 % higher [39, 47]"


def test_what_a_headline_calls_changed_is_wrong_in_at_most_alpha():
    """In 3,000 runs of 20 blocks with equal CPU time, counts how often the headline calls CPU time changed."""
    rng, named = np.random.default_rng(8), 0
    for d in rng.normal(0, 0.03, (3000, 20)):
        row = comparison(paired_interval(d), "c", "t", "cpu")
        named += bool(beside({"margin": 0.01, "comparisons": [row]}, {"treatment": "t"}))
    assert 60 < named <= 180


def suite_rows(*words):
    """Rows of a suite: for each word, one that says it of arm c."""
    return [{"arms": {"c": {"word": word}}} for word in words]


def test_a_suite_counts_losses_as_well_as_wins():
    found = explain({"suite": {"subject": "t", "rows": suite_rows("faster", "leaner", "slower", "same")}})
    assert found.headline == "Measures on which t is better and worse: c 2 and 1 of 4"


def test_a_tuning_says_how_many_candidates_it_has_tried():
    row = {"metric": "wall", "estimate": 0.001, "ci_low": -0.004, "ci_high": 0.005}
    tuned = {"tune": {"default": "glibc", "candidates": 8}, "verdict": "NEUTRAL", "metric": {"name": "wall"},
             "comparisons": [row], "selection": {"chosen": "a", "confirmation": row, "candidates": []}}  # fmt: skip
    said = explain(tuned).headline
    assert said == "Stay with glibc: the best of 8 candidates, a, is within the margin"


@pytest.mark.parametrize(("low", "high", "verdict"), [(8.0, 9.0, "GO"), (8.0, 11.0, "INCONCLUSIVE")])
def test_a_replay_gives_no_verdict_where_no_difference_of_the_program_is_predicted(low, high, verdict):
    rows = [{"arm": "c", "base": True} | dict.fromkeys(("predicted", "low", "high"), 10.0)]
    rows += [{"arm": "t", "base": False, "predicted": 8.5, "low": low, "high": high}]
    result = one_verdict({
        "verdict": "GO", "metric": Metric("wall").record(), "margin": 0.01, "alpha": 0.05,
        "comparisons": [judged_row(decision(Verdict.GO, BETTER), ("c", "t"), "wall")],
        "replay": {"base": "c", "quantities": [{"name": "wall", "unit": "s", "rows": rows}]},
    })  # fmt: skip
    found = explain(result)
    assert (result["verdict"], result["comparisons"][0]["verdict"]) == (verdict, verdict)
    assert ("undecided" in found.headline) == (verdict == "INCONCLUSIVE")


def test_an_arm_that_failed_is_named_beside_the_only_one_that_did_not():
    row = judged_row(decision(Verdict.GO, BETTER), ("c", "t"), "wall")
    given = {"metric": Metric("wall").record(), "margin": 0.01, "failed": {"u": "u failed twice (why), c never"}}
    assert explain(given | {"comparisons": [row]}).headline == f"{FASTER}; u failed twice (why), c never"
    assert explain(given | {"comparisons": []}).headline == "u failed twice (why), c never"
