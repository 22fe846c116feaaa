"""Every file with tests is run by `make test` or `make test-long`."""

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
SCRIPT = TESTS.parents[1] / "scripts" / "test"


def test_every_file_with_a_test_is_collected(collected_files: set[Path]) -> None:
    holds = re.compile(r"^\s*(?:async )?def test_|^class Test", re.M)
    assert collected_files == {path for path in TESTS.rglob("*.py") if holds.search(path.read_text(encoding="utf-8"))}


def test_what_one_of_the_two_leaves_out_the_other_runs() -> None:
    """`scripts/test` selects the tests marked `long`, or those that are not, so that both together run all."""
    markers = re.findall(r"\bmarker='?([a-z ]+)", SCRIPT.read_text(encoding="utf-8"))
    assert markers == ["not long", "long"]
