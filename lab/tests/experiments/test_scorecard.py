"""The charts of results/scorecard.md match the tables in results/measured; the page names every row hakmem loses."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "results" / "scorecard.md").read_text(encoding="utf-8")
MAX_WORDS = 1200


@pytest.fixture(scope="module")
def scorecard():
    sys.path.insert(0, str(ROOT / "experiments"))
    import scorecard as module  # a script in the specs' folder, not a module of the package

    return module


@pytest.fixture(scope="module")
def chart(scorecard):
    return scorecard.scorecard_chart


@pytest.mark.parametrize("name", ["scorecard", "sixteen"])
def test_a_chart_is_that_of_its_table(chart, name):
    assert (chart.FOLDER / f"{name}.svg").read_text(encoding="utf-8") == chart.draw(name)
    assert f"(measured/{name}.svg)" in PAGE and f"(measured/{name}.csv)" in PAGE


def test_every_loss_of_time_stands_in_the_page(chart):
    lost = [row for row in chart.read("scorecard") if float(row["time"]) > 1.01]
    assert lost
    for row in lost:
        assert f"| {row['workload']} (`{row['key']}`) | {row['time']} " in PAGE
    for row in chart.read("sixteen"):
        assert float(row["time"]) <= 1 or f"| {row['workload']} | {row['time']} " in PAGE


def test_charts_come_first_and_the_page_is_short():
    assert PAGE.index("![") < PAGE.index("\n## ")
    assert len(PAGE.split()) <= MAX_WORDS


def row(metric: str, unit: str, medians: dict[str, float], best: str, **ratios: float) -> dict:
    arms = {arm: {"ratio": ratio, "ci_low": ratio / 1.25, "ci_high": ratio * 2} for arm, ratio in ratios.items()}
    return {"workload": "a mix", "key": "mix", "metric": metric, "unit": unit, "medians": medians, "arms": arms,
            "best_peer": best}  # fmt: skip


def test_costs_are_multiples_of_the_best_of_the_others_and_losses_come_first(scorecard):
    time = row("speed", "op/s", {"hakmem": 80, "glibc": 40, "a": 100}, "a", a=0.8, glibc=2)
    memory = row("peak RSS", "KiB", {"hakmem": 10, "glibc": 5, "a": 20}, "a", a=2, glibc=0.5)
    found = scorecard.line(time, memory)
    assert found == ["a mix", "mix", "1.25", "0.62", "1.56", "a", "0.50", "a", "0.50", "2.00"]
    worse = ["worse", "w", "1.50", "", "", "b", "1.00", "a", "1", "1"]
    level = ["level", "l", "1.01", "0.90", "1.10", "b", "1.00", "a", "1", "1"]
    assert scorecard.losses([found, worse, level]) == [
        ["worse (`w`)", "1.50 (b)", "1.00 (a)"],
        ["a mix (`mix`)", "1.25 [0.62, 1.56] (a)", "0.50 (a)"],
    ]
    assert scorecard.means([(time, memory)]) == [
        ["a", "1.00", "1.0", "4.00"],
        ["hakmem", "1.25", "1.2", "2.00"],
        ["glibc", "2.50", "2.5", "1.00"],
    ]


def test_a_table_is_replaced_where_its_columns_stand(scorecard):
    page = "a\n\n| x | y |\n|---|---|\n| old | 1 |\n| old | 2 |\n\nb\n"
    assert scorecard.with_table(page, ("x", "y"), [["new", "3"]]) == "a\n\n| x | y |\n|---|---|\n| new | 3 |\n\nb\n"
    assert scorecard.with_table(PAGE, scorecard.LOSSES, []) != PAGE != scorecard.with_table(PAGE, scorecard.MEANS, [])
