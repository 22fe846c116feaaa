"""Every file of tests is run by `make test` or by `make test-long`, and groups of tests by one worker each."""

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
SCRIPT = TESTS.parents[1] / "scripts" / "test"


def test_every_file_with_a_test_is_collected(collected_files: set[Path]) -> None:
    holds = re.compile(r"^\s*(?:async )?def test_|^class Test", re.M)
    assert collected_files == {path for path in TESTS.rglob("*.py") if holds.search(path.read_text(encoding="utf-8"))}


def test_what_one_of_the_two_leaves_out_the_other_runs() -> None:
    """`scripts/test` asks for tests that are marked and, without --long, for those that are not: together for all."""
    markers = re.findall(r"\bmarker='?([a-z ]+)", SCRIPT.read_text(encoding="utf-8"))
    assert markers == ["not long", "long"]


@pytest.mark.xdist_group("kept")
def test_a_group_stays_with_one_worker(request: pytest.FixtureRequest) -> None:
    """pytest-xdist keeps a group together by the end of its names, which pytest 9.2 does not let it change."""
    assert request.node.nodeid.endswith("@kept") == request.config.getoption("loadgroup", False)
