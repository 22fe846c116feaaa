"""The headline gives an answer with a direction, and never claims more than the intervals show."""

from __future__ import annotations

import pytest
from factories import aa, ab, compare, matrix, soak, suite, sweep, syscalls

from hakmem_lab.judge.explain import change_of, explain, winner
from hakmem_lab.show import figures, numbers
from hakmem_lab.show.report import LoadedRun
from hakmem_lab.show.report.tables import earlier

UNSEEN = " Slow or failing runs rarer than 1 in 40 would not have been seen."


def spaced(text: str) -> str:
    return text.replace(numbers.THIN, " ").replace(numbers.JOIN, " ")


def told(run: LoadedRun, **changes: object) -> tuple[str, str]:
    """(answer, detail) for a run, with these changes in its leading comparison."""
    run.result["comparisons"][0] |= changes
    return spaced(explain(run.result).headline), spaced(explain(run.result).more)


def test_a_go_says_how_much_and_how_sure() -> None:
    answer, detail = told(ab())
    assert answer == "hakmem is 2.1 % faster than glibc"
    assert detail == "Surely 1.4 to 2.8 % faster, with 95 % confidence; surely at least the 1 % that matters." + UNSEEN


def test_the_margin_is_claimed_only_where_the_interval_is_beyond_it() -> None:
    _, detail = told(ab(), ci_low=0.004)
    assert detail.endswith("whether it is at least the 1 % that matters is not shown." + UNSEEN)


def test_more_memory_is_said_as_more() -> None:
    run = ab()
    run.result |= {"verdict": "NO-GO", "metric": {"name": "rss", "unit": "KiB", "higher_is_better": False}}
    answer, detail = told(run, metric="rss", estimate=-0.2308, ci_low=-0.25, ci_high=-0.2, verdict="NO-GO")
    assert answer == "hakmem needs 30 % more peak memory than glibc"
    assert detail.startswith("Surely 25 to 33 % more")


def test_a_guardrail_that_failed_is_part_of_the_answer() -> None:
    run = ab()
    run.result["verdict"] = "NO-GO"
    run.result["guardrails"] = [
        {"metric": "rss", "limit": 0.05, "estimate": -0.2308, "ci_low": -0.25, "ci_high": -0.2, "status": "failed"}
    ]
    answer, detail = told(run)
    assert answer == "hakmem is 2.1 % faster than glibc, but at the price of 30 % more peak memory"
    assert "of peak memory no more than 5 % more is tolerated. Slow or failing runs rarer" in detail


def test_what_is_not_decided_claims_no_direction() -> None:
    run = ab()
    run.result |= {"verdict": "INCONCLUSIVE", "guardrails": []}
    answer, detail = told(run, estimate=0.004, ci_low=-0.01, ci_high=0.02, verdict="INCONCLUSIVE")
    assert answer == "Not decided: hakmem is 1.0 % slower to 2.0 % faster against glibc"
    assert detail == "Better, equal and worse are all still possible."


def test_a_neutral_one_says_within_what() -> None:
    run = ab()
    run.result["verdict"] = "NEUTRAL"
    answer, detail = told(run, verdict="NEUTRAL", equivalence_low=-0.006, equivalence_high=0.005)
    assert answer == "hakmem is as fast as glibc, within 1 %"
    assert detail == "Any difference is smaller than the 1 % that matters, with 95 % confidence." + UNSEEN


def test_a_verdict_that_the_laboratory_withholds_is_not_given_by_the_page() -> None:
    run = ab()
    run.result |= {"verdict": "INCONCLUSIVE", "withheld": "No verdict on this machine: too many false ones"}
    said = explain(run.result)
    assert (said.headline, said.more) == ("No verdict on this machine: too many false ones", "")


def test_usually_better_and_rarely_much_worse_is_said() -> None:
    run = ab()
    run.result |= {"verdict": "INCONCLUSIVE"}
    answer, detail = told(run, torn=True)
    assert answer == "hakmem is usually faster than glibc, rarely but badly slower"
    assert detail == "The typical run and the mean of all runs point in opposite directions."


def test_both_averages_are_said_with_their_directions() -> None:
    run = ab()
    run.result |= {"verdict": "INCONCLUSIVE"}
    mean = {"name": "hakmem against glibc", "metric": "mean of wall", "control": "glibc", "treatment": "hakmem",
            "estimate": -0.2, "ci_low": -0.3, "ci_high": -0.1, "runs": [120, 118], "far_off": [0, 3]}  # fmt: skip
    run.result["comparisons"].insert(1, mean)
    _, detail = told(run, torn=True)
    assert detail == (
        "In the typical block 2.1 % faster [1.4, 2.8], by the mean of the runs 25 % slower [11, 43]; 3 of the 118 runs "
        "of hakmem and 0 of the 120 of glibc were more than twice as bad as the median. Which of the two matters is "
        "not for a rule."
    )


def test_the_other_average_has_the_direction_of_its_metric() -> None:
    result = ab().result | {"metric": {"name": r"regex:Rate = (\d+)", "unit": "", "higher_is_better": True}}
    row = {"metric": "mean of Rate", "estimate": 0.1, "ci_low": 0.05, "ci_high": 0.15}
    found = change_of(result, row)
    assert (found.text, figures.metric(result, row)) == ("10 % higher Rate", "mean of Rate")


def test_of_several_arms_better_worse_and_level_ones_are_named() -> None:
    assert spaced(explain(compare().result).headline) == (
        "Against glibc: hakmem 3.7 % faster, but 5.3 % more peak memory and mimalloc 3.2 % faster; "
        "jemalloc 2.7 % slower; tcmalloc level"
    )


def test_a_winner_is_one_whose_interval_overlaps_no_other() -> None:
    run = compare()
    assert winner(run.result) is None
    assert explain(run.result).word == "BETTER ONES FOUND"
    run.result["comparisons"][0] |= {"estimate": 0.06, "ci_low": 0.05, "ci_high": 0.07}
    assert winner(run.result) == "hakmem"
    assert explain(run.result).word == "CLEAR WINNER"
    run.result["comparisons"][1]["ci_high"] = None
    assert winner(run.result) is None


def test_without_a_better_one_nothing_is_green() -> None:
    run = compare()
    for row in run.result["comparisons"]:
        row["verdict"] = "NO-GO"
    assert explain(run.result).tone == "no-go"
    for row in run.result["comparisons"]:
        row["verdict"] = "INCONCLUSIVE"
    assert explain(run.result).word == "NOT DECIDED"


def test_settings_that_depend_on_each_other_are_answered_by_simple_effects() -> None:
    run = matrix()
    run.result["final"] = True
    assert spaced(explain(run.result).headline) == "C5: 2.6 % faster; C6: 3.1 % faster"
    run.result["effects"][-1] |= {"ci_low": 0.002, "ci_high": 0.022}
    assert spaced(explain(run.result).headline).startswith("The settings depend on each other. C5 with C6: 3 % faster")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (sweep, "HAKMEM_CAPACITY=64 is as fast as default, within 1 %"),
        (soak, "Memory did not grow: the slope is inside the budget"),
        (syscalls, "System calls: glibc one in 3,200 operations, hakmem one in 8.9 million operations and mimalloc"),
        (aa, "This machine is fit to measure"),
        (suite, "hakmem reaches 0 of 5 bars, 5 open"),
    ],
)
def test_each_kind_has_its_answer(make: object, text: str) -> None:
    assert text in spaced(explain(make().result).headline)


def test_earlier_runs_of_the_same_question_are_counted() -> None:
    run = ab()
    assert earlier(run) == ""
    run.header["earlier_runs"] = 2
    assert earlier(run) == "2 earlier runs of the same question: of many tries one looks good by chance."
    run.header["earlier_runs"] = None
    run.header["earlier"] = [{"id": "run-a", "verdict": "INCONCLUSIVE"}, {"id": "run-b", "verdict": None}]
    assert "2 earlier runs of the same question (run-a: INCONCLUSIVE, run-b: no verdict)" in earlier(run)
    run.header["earlier"] = [f"run-{n}" for n in range(7)]
    assert "(run-0, run-1, run-2, run-3, run-4 and 2 more)" in earlier(run)
