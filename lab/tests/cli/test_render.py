"""Figures on the terminal have units, no exponents, and directions in words; open comparisons say what is decided."""

import subprocess

import pytest
from tests.conftest import LAUNCH, answered

from hakmem_lab.judge import words
from hakmem_lab.judge.explain import explain
from hakmem_lab.judge.statistics.plan import Plan
from hakmem_lab.judge.statistics.verdict import decide
from hakmem_lab.judge.two_arms import judged_row
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.show.terminal import number, output, table_of


@pytest.mark.parametrize(
    ("value", "unit", "wanted"),
    [
        (11_450.0, "", "11,450"),
        (1.234567e6, "", "1,234,567"),
        (0.003011, "s", "3.01 ms"),
        (705e-6, "s", "705 us"),
        (12.3456, "s", "12.3 s"),
        (1086 * 1.024, "KiB", "1.09 MiB"),
        (3 * 1024.0**2, "KiB", "3.00 GiB"),
        (500.0, "KiB", "500 KiB"),
        (41.2e-9, "s", "41.2 ns"),
        (0.0, "s", "0 ns"),
        (0.12345, "", "0.123"),
        (None, "s", "-"),
    ],
)
def test_a_number_has_its_unit_and_no_exponent(value, unit, wanted):
    assert number(value, unit) == wanted


def test_a_cell_may_have_two_lines_and_bring_no_command(capsys):
    table = table_of("figures", ("what", "change"), [("\x1b[31mfirst", "faster\n[3, 5]")])
    output().print(table)
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split() == [r"\x1b[31mfirst", "faster"] for line in lines)
    assert any(line.split() == ["[3,", "5]"] for line in lines)


def test_an_open_comparison_says_of_every_arm_what_is_decided_and_what_is_not():
    noise = [0.01, -0.01, 0.02, -0.02, 0.0, 0.03, -0.03, 0.01]
    columns = {
        "slow": [-0.2 + x for x in noise],
        "fast": [0.2 + x for x in noise],
        "same": [x / 10 for x in noise],
        "noisy": [4 * x for x in noise],
        "near": [0.009 + x / 8 for x in noise],
    }
    plan = Plan((len(noise),), share=0.0)
    found = {name: decide(d, 0.01, 0.05, plan) for name, d in columns.items()}
    rows = [judged_row(one, ("glibc", name), "wall") for name, one in found.items()]
    said = explain({"metric": Metric("wall").record(), "margin": 0.01, "comparisons": rows, "failed": {}})
    assert said.clauses == (
        "fast 22 % faster than glibc [20, 25]",
        "slow 22 % slower than glibc [20, 25]",
        "same within 1 % of glibc [-0.15, +0.15] %",
        "near 0.9 % faster than glibc [0.7, 1.2]",
        "noisy undecided against glibc [-8, +8] %",
    )
    assert said.reasons == ("near: Whether the difference reaches the margin of 1 % is undecided.",)
    assert (said.word, said.tone) == ("1 GO, 1 NO-GO, 1 NEUTRAL, 2 INCONCLUSIVE", "go")
    again = [row | {"treatment": "again"} for row in rows if row["treatment"] == "noisy"]
    said = explain({"metric": Metric("wall").record(), "margin": 0.01, "comparisons": [*rows, *again], "failed": {}})
    assert said.clauses[-1] == "noisy and again undecided against glibc"
    assert "again undecided against glibc [-8, +8] %." in said.reasons


def test_comparisons_stand_by_side_and_names_on_one_line():
    from hakmem_lab.show.tables import by_side
    from hakmem_lab.show.terminal import output, table_of

    rows = [{"treatment": side, "metric": metric} for metric in ("wall", "rss") for side in ("b", "a")]
    assert [row["treatment"] + row["metric"] for row in by_side(rows)] == ["bwall", "brss", "awall", "arss"]
    console = output()
    with console.capture() as got:
        console.print(table_of("", ("run", "about"), [("20261129-110048-ab-3360", "x" * 300), ("sh -c 'a\n  b'", "c")]))
    assert "20261129-110048-ab-3360" in got.get() and "sh -c 'a b'" in got.get()


def test_candidates_left_out_for_one_reason_are_one_line():
    texts = [f"c{n} is left out: the budget had no time to try it" for n in range(12)]
    assert words.left_out([*texts, "d is left out: it failed", "e failed too often"]) == [
        "c0, c1, c2, c3 and 8 more are left out: the budget had no time to try it",
        "d is left out: it failed",
        "e failed too often",
    ]


def test_a_warning_that_stands_beside_the_result_is_not_repeated(monkeypatch, tmp_path):
    """It stands there on a terminal, and where both outputs go to one file, as in the log of a build."""
    import io
    import sys

    from hakmem_lab.run import endings

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(endings, "SHOWN", set())
    monkeypatch.setattr(sys, "stdout", Terminal())
    endings.Progress(Terminal()).warn("it is busy")
    endings.Progress(io.StringIO()).warn("elsewhere")
    with open(tmp_path / "log", "w") as log, open(tmp_path / "other", "w") as other:
        monkeypatch.setattr(sys, "stdout", log)
        endings.Progress(log).warn("in the same file")
        endings.Progress(other).warn("in another file")
    assert sorted(endings.SHOWN) == ["in the same file", "it is busy"]


def test_both_outputs_in_one_pipe_say_a_warning_once(fakes, store):
    """The output of a real comparison, as a build keeps it."""
    words = [*LAUNCH, "ab", "--control", "glibc", "--treatment", "glibc,A=1", "--quick", "--repeat", "1"]
    words += ["--store", store, "--", fakes.program, "exit", "0"]
    answer = answered([str(word) for word in words], stderr=subprocess.STDOUT)
    warnings = [line for line in answer.out.splitlines() if line.startswith("warning: ")]
    assert any("this machine was not checked" in line for line in warnings)
    assert len(warnings) == len(set(warnings))


def test_estimates_without_intervals_are_explained_once(capsys):
    from hakmem_lab.show.terminal import render

    row = {"control": "c", "estimate": 0.02, "ci_low": None, "ci_high": None, "level": 0.95, "verdict": None}
    rows = [row | {"treatment": "t", "metric": name} for name in ("wall", "cpu", "rss")]
    result = {"id": "x", "blocks": 2, "metric": Metric("wall").record(), "comparisons": rows, "warnings": []}
    render.show(result | {"headline": "", "arms": []})
    out = capsys.readouterr().out
    assert out.count("about ") == 3 and out.count("about: too few blocks") == 1


def test_a_neutral_row_shows_the_interval_that_decided_it():
    from hakmem_lab.show.figures import told

    row = {"metric": "wall", "treatment": "a", "control": "b", "verdict": "NEUTRAL", "estimate": 0.001, "ci_low": None}
    row |= {"ci_high": None, "equivalence_low": -0.004, "equivalence_high": 0.006}
    said = told({"metric": {"name": "wall"}, "margin": 0.01}, row)
    assert "too few blocks" not in said and "[-0.4, +0.6] %" in said
