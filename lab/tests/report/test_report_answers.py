"""The headline gives an answer with a direction, and never claims more than the intervals show."""

from __future__ import annotations

import pytest
from factories import aa, ab, compare, matrix, soak, suite, sweep, syscalls

from hakmem_lab.judge.explain import change_of, explain
from hakmem_lab.show import figures, numbers
from hakmem_lab.show.report import LoadedRun
from hakmem_lab.show.report.tables import earlier

UNSEEN = "Slow or failing runs rarer than 1 in 40 would not have been seen."


def spaced(text: str) -> str:
    return text.replace(numbers.THIN, " ").replace(numbers.JOIN, " ")


def told(run: LoadedRun, **changes: object) -> tuple[str, str]:
    """(answer, detail) for a run, with these changes in its leading comparison."""
    run.result["comparisons"][0] |= changes
    return spaced(explain(run.result).headline), spaced(explain(run.result).more)


def test_a_go_says_how_much_and_how_sure() -> None:
    answer, detail = told(ab())
    assert answer == "hakmem 2.1 % faster than glibc [1.4, 2.8]"
    assert detail == UNSEEN


def test_the_margin_is_claimed_only_where_the_interval_is_beyond_it() -> None:
    _, detail = told(ab(), ci_low=0.004)
    assert detail == f"Whether the difference reaches the margin of 1 % is undecided. {UNSEEN}"


def test_more_memory_is_said_as_higher() -> None:
    run = ab()
    run.result |= {"verdict": "NO-GO", "metric": {"name": "rss", "unit": "KiB", "higher_is_better": False}}
    answer, _ = told(run, metric="rss", estimate=-0.2308, ci_low=-0.25, ci_high=-0.2, verdict="NO-GO")
    assert answer == "hakmem peak memory 30 % higher than glibc [25, 33]"


def test_a_guardrail_that_failed_is_part_of_the_answer() -> None:
    run = ab()
    run.result["verdict"] = "NO-GO"
    run.result["guardrails"] = [
        {"metric": "rss", "limit": 0.05, "estimate": -0.2308, "ci_low": -0.25, "ci_high": -0.2, "status": "failed"}
    ]
    answer, _ = told(run)
    assert answer == (
        "hakmem 2.1 % faster than glibc [1.4, 2.8], but peak memory 30 % higher [25, 33] breaks the limit of 5 % higher"
    )


def test_what_is_undecided_claims_no_direction() -> None:
    run = ab()
    run.result |= {"verdict": "INCONCLUSIVE", "guardrails": []}
    answer, detail = told(run, estimate=0.004, ci_low=-0.01, ci_high=0.02, verdict="INCONCLUSIVE")
    assert answer == "hakmem undecided against glibc [-1.0, +2.0] %"
    assert detail == "Better, equal and worse are all still possible."


def test_a_neutral_one_says_within_what() -> None:
    run = ab()
    run.result["verdict"] = "NEUTRAL"
    answer, detail = told(run, verdict="NEUTRAL", equivalence_low=-0.006, equivalence_high=0.005)
    assert answer == "hakmem within 1 % of glibc [-0.6, +0.5] %"
    assert detail == UNSEEN


def test_a_verdict_that_the_laboratory_withholds_is_not_given_by_the_page() -> None:
    run = ab()
    run.result |= {"verdict": "INCONCLUSIVE", "withheld": "No verdict on this machine: too many false ones"}
    said = explain(run.result)
    assert (said.headline, said.more) == ("No verdict on this machine: too many false ones", "")


def test_averages_that_contradict_each_other_are_said() -> None:
    run = ab()
    run.result |= {"verdict": "INCONCLUSIVE"}
    answer, detail = told(run, torn=True)
    assert answer == "hakmem 2.1 % faster than glibc [1.4, 2.8]"
    assert detail == "The typical block and the mean of all runs point in opposite directions."


def test_both_averages_are_said_with_their_directions() -> None:
    run = ab()
    run.result |= {"verdict": "INCONCLUSIVE"}
    mean = {"name": "hakmem against glibc", "metric": "mean of wall", "control": "glibc", "treatment": "hakmem",
            "estimate": -0.2, "ci_low": -0.3, "ci_high": -0.1, "runs": [120, 118], "far_off": [0, 3]}  # fmt: skip
    run.result["comparisons"].insert(1, mean)
    answer, detail = told(run, torn=True)
    assert answer == "hakmem 2.1 % faster than glibc [1.4, 2.8], but by the mean of all runs 25 % slower [11, 43]"
    assert detail == (
        "3 of the 118 runs of hakmem and 0 of the 120 of glibc were more than twice as bad as the median. No rule "
        "decides which of the two averages matters."
    )


def test_the_other_average_has_the_direction_of_its_metric() -> None:
    result = ab().result | {"metric": {"name": r"regex:Rate = (\d+)", "unit": "", "higher_is_better": True}}
    row = {"metric": "mean of Rate", "estimate": 0.1, "ci_low": 0.05, "ci_high": 0.15}
    found = change_of(result, row)
    assert (found.named(), figures.metric(result, row)) == ("Rate 10 % higher [5, 15]", "mean of Rate")


def test_each_of_several_arms_has_its_clause() -> None:
    assert explain(compare().result).clauses == (
        "hakmem 3.7 % faster than glibc [3.0, 4.4], peak memory 5.3 % higher [4.0, 6.6]",
        "mimalloc 3.2 % faster than glibc [2.5, 3.9]",
        "jemalloc 2.7 % slower than glibc [1.9, 3.4]",
        "tcmalloc within 1 % of glibc [-0.9, +0.5] %",
    )


def test_the_verdicts_of_several_arms_are_counted() -> None:
    run = compare()
    assert (explain(run.result).word, explain(run.result).tone) == ("2 GO, 1 NO-GO, 1 NEUTRAL", "go")
    for row in run.result["comparisons"]:
        row["verdict"] = "NO-GO"
    assert explain(run.result).tone == "no-go"
    for row in run.result["comparisons"]:
        row["verdict"] = "INCONCLUSIVE"
    assert explain(run.result).tone == "inconclusive"


def test_settings_that_depend_on_each_other_are_answered_by_simple_effects() -> None:
    run = matrix()
    run.result["final"] = True
    assert spaced(explain(run.result).headline) == "C5: 2.6 % faster [1.8, 3.4]; C6: 3.1 % faster [2.0, 4.2]"
    run.result["effects"][-1] |= {"ci_low": 0.002, "ci_high": 0.022}
    assert spaced(explain(run.result).headline).startswith("The settings depend on each other. C5 with C6: 3 % faster")


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (sweep, "HAKMEM_CAPACITY=64 within 1 % of default"),
        (soak, "Memory did not grow: the slope is inside the budget"),
        (syscalls, "System calls: glibc one in 3,200 operations, hakmem one in 8.9 million operations and mimalloc"),
        (aa, "This machine is fit to measure"),
        (suite, "hakmem reaches 0 of 5 bars, 5 undecided"),
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
