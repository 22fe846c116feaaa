"""Figures on the terminal have units, no exponents, and directions in words; open comparisons say what is decided."""

import pytest

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
    assert said.headline == "Against glibc: fast 22 % faster; slow 22 % slower; same level; near and noisy not decided"
    assert said.reasons == (
        "Not decided: near (0.9 % faster [0.7, 1.2], but whether by the 1 % that matters is open); "
        "noisy (no difference shown: 8 % slower to 8 % faster).",
    )
