"""The charts of docs/measured.md are drawn from the tables beside them, and the page names every row that is lost."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "measured.md").read_text(encoding="utf-8")
MAX_WORDS = 1200


@pytest.fixture(scope="module")
def chart():
    sys.path.insert(0, str(ROOT / "experiments"))
    import scorecard_chart as module  # a script beside the specs, no module of the package

    return module


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
