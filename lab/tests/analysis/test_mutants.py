"""The table of equivalent mutants matches the present sources, and each mutant makes the change that it names."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[3] / "scripts"
sys.path.append(str(SCRIPTS))
import lab_mutants  # noqa: E402

SOURCE = '''"""Words."""
LIMIT: int = 2


def held(values, low=1.0):
    """More words."""
    if not values or low < LIMIT <= 5:
        raise ValueError("low is too high")
    return [abs(value) + low for value in values if value]
'''


def test_every_row_of_the_table_is_one_mutant() -> None:
    command = [sys.executable, SCRIPTS / "mutate-lab", "--check"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stderr) == (0, "")


@pytest.fixture(scope="module")
def mutants() -> list[lab_mutants.Mutant]:
    return lab_mutants.find("a.py", SOURCE)


@pytest.mark.parametrize(
    ("line", "was", "now"),
    [
        (2, "2", "3"),
        (2, "2", "1"),
        (5, "1.0", "2.0"),
        (5, "1.0", "0.5"),
        (7, "not values or low < LIMIT <= 5", "not values and low < LIMIT <= 5"),
        (7, "not values or low < LIMIT <= 5", "low < LIMIT <= 5"),
        (7, "not values", "values"),
        (7, "low < LIMIT <= 5", "low <= LIMIT <= 5"),
        (7, "low < LIMIT <= 5", "low < LIMIT > 5"),
        (8, "raise ValueError('low is too high')", "pass"),
        (9, "abs(value) + low", "abs(value) - low"),
        (9, "abs(value)", "value"),
        (9, "value", "True"),
    ],
)
def test_what_is_changed(mutants: list[lab_mutants.Mutant], line: int, was: str, now: str) -> None:
    assert [(one.line, one.was, one.now) for one in mutants].count((line, was, now)) == 1


def test_what_is_left_alone(mutants: list[lab_mutants.Mutant]) -> None:
    assert not [one for one in mutants if "ords" in one.was or one.was in ("int", "'low is too high'")]


def test_a_mutant_differs_from_the_source_in_its_place_alone(mutants: list[lab_mutants.Mutant]) -> None:
    whole = ast.unparse(ast.parse(SOURCE)).splitlines()
    for one in mutants:
        changed = ast.unparse(one.planted()).splitlines()
        assert sum(before != after for before, after in zip(whole, changed, strict=True)) == 1
        assert one.function == ("held" if one.line > 4 else "-")
