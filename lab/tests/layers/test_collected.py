"""Every file with tests is run by `make test` or `make test-long`, and each group of tests by a single worker."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
SCRIPT = TESTS.parents[1] / "scripts" / "test"


def test_every_file_with_a_test_is_collected(collected_files: set[Path]) -> None:
    holds = re.compile(r"^\s*(?:async )?def test_|^class Test", re.M)
    assert collected_files == {path for path in TESTS.rglob("*.py") if holds.search(path.read_text(encoding="utf-8"))}


def test_what_one_of_the_two_leaves_out_the_other_runs() -> None:
    """`scripts/test` selects the tests marked `long`, or those that are not, so that both together run all."""
    markers = re.findall(r"\bmarker='?([a-z ]+)", SCRIPT.read_text(encoding="utf-8"))
    assert markers == ["not long", "long"]


@pytest.mark.xdist_group("kept")
def test_a_group_stays_with_one_worker(request: pytest.FixtureRequest) -> None:
    """pytest-xdist marks groups by the end of a test's name; pytest 9.2 does not let it change these names."""
    assert request.node.nodeid.endswith("@kept") == request.config.getoption("loadgroup", False)
