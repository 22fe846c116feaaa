"""The terminal, the page and all formats describe a result in the same words."""

from __future__ import annotations

import re

import pytest
from factories import MAKERS
from hypothesis import given, settings
from hypothesis import strategies as st

from hakmem_lab.judge.digits import finite
from hakmem_lab.judge.explain import change_of, explain
from hakmem_lab.judge.words import NOTHING
from hakmem_lab.show import figures, formats
from hakmem_lab.show.report import LoadedRun
from hakmem_lab.show.report.tables import facts, findings
from hakmem_lab.show.terminal import render

METRICS = [
    {"name": "wall", "unit": "s", "higher_is_better": False},
    {"name": "rss", "unit": "KiB", "higher_is_better": False},
    {"name": "p99", "unit": "us", "higher_is_better": False},
    {"name": r"regex:phases = ([0-9.]+)", "label": "time per operation", "unit": "ns", "higher_is_better": False},
    {"name": r"regex:phases = ([0-9.]+)", "unit": "ns", "higher_is_better": False},
    {"name": r"regex:Rate = (\d+)", "label": "operations per second", "higher_is_better": True},
    {"name": r"regex:Rate = (\d+)", "higher_is_better": True},
]
GOOD = {"faster", "less", "fewer", "lower", "shorter"}
BAD = {"slower", "more", "higher", "longer", "long", "much"}


def squeezed(text: str) -> str:
    return " ".join(text.split())


def terminal(result: dict, capsys: pytest.CaptureFixture[str]) -> list[str]:
    capsys.readouterr()
    render.show(result)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("kind", ["ab", "compare", "sweep", "matrix", "latency", "syscalls"])
def test_the_first_lines_of_the_terminal_are_those_of_the_page(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    result = MAKERS[kind]().result | {"question": ""}
    said = explain(LoadedRun({}, result=result).result)
    shown = squeezed(" ".join(terminal(result, capsys)))
    begin = squeezed(" ".join(filter(None, (result.get("verdict"), *said.clauses, *said.reasons))))
    assert shown.startswith(begin)


@pytest.mark.parametrize("kind", ["ab", "compare", "sweep", "matrix"])
def test_a_comment_begins_as_the_page(kind: str) -> None:
    result = MAKERS[kind]().result | {"guardrails": []}
    lines = formats.text("markdown", [result]).splitlines()
    heading = next(line for line in lines if line.startswith("### "))
    assert lines.index(heading) == 0
    plain = re.sub(r"\\(.)", r"\1", heading).removeprefix("### ").removeprefix(f"{result.get('verdict')}: ")
    assert plain == explain(LoadedRun({}, result=result).result).headline


def one(metric: dict, estimate: float, low: float | None, high: float | None) -> dict:
    """A result of one comparison."""
    sure = 1 if low is not None and low > 0 else -1 if high is not None and high < 0 else 0
    row = {"name": "t against c", "metric": metric["name"], "control": "c", "treatment": "t", "estimate": estimate,
           "ci_low": low, "ci_high": high, "level": 0.95,
           "verdict": {1: "GO", -1: "NO-GO", 0: "INCONCLUSIVE"}[sure]}  # fmt: skip
    return {"kind": "ab", "id": "x", "question": "", "verdict": row["verdict"], "headline": "", "final": True,
            "metric": metric, "margin": 0.01, "alpha": 0.05, "blocks": 12,
            "arms": [{"name": "c"}, {"name": "t"}], "comparisons": [row], "guardrails": [], "failures": [],
            "warnings": []}  # fmt: skip


NUMBERS = st.tuples(*[st.floats(-0.9, 20).map(lambda value: round(value, 4))] * 3).map(sorted)


@settings(max_examples=60, deadline=None)
@given(NUMBERS, st.sampled_from(METRICS))
def test_page_terminal_and_formats_agree_on_any_record(three: list[float], metric: dict) -> None:
    low, estimate, high = three
    result = one(metric, estimate, low, high)
    (row,) = result["comparisons"]
    found, told = change_of(result, row), figures.told(result, row)
    (table,) = findings(LoadedRun({}, result=result))
    assert table.rows[0][2] == told
    assert dict(facts(LoadedRun({}, result=result)))["Change"] == f"{found.noun}{found.short}"
    if found.sure and found.short != NOTHING:
        assert told.startswith(found.short)
        assert found.short in explain(result).headline
    comment = re.sub(r"\\(.)", r"\1", formats.text("markdown", [result]))
    assert f"| {told} |" in comment
    assert explain(result).headline in comment


@settings(max_examples=100, deadline=None)
@given(NUMBERS, st.sampled_from(METRICS))
def test_the_first_line_has_the_direction_of_the_numbers(three: list[float], metric: dict) -> None:
    low, estimate, high = three
    result = one(metric, estimate, low, high)
    first = explain(result).headline
    change = change_of(result, result["comparisons"][0])
    if not change.sure or change.short == NOTHING:
        return
    swapped = metric["higher_is_better"]
    words = set(change.short.split())
    multiple = swapped or "fast" in words
    better = multiple if "×" in words else bool(words & (BAD if swapped else GOOD))
    assert better == (finite(low) > 0)
    assert "output" not in first
