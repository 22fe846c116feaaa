"""The results of the published experiments. Helpers lie beside the tests, where importlib mode does not look."""

import sys
from pathlib import Path

import pytest

from hakmem_lab import kinds
from hakmem_lab.store.runs import RunFile, plain

sys.path.insert(0, str(Path(__file__).parent))
DATA = Path(__file__).resolve().parents[3] / "docs" / "experiments" / "data"


@pytest.fixture(scope="session")
def published():
    """By the name of the experiment."""
    return {path.name.split(".")[0]: plain(kinds.analyse(RunFile(path))) for path in sorted(DATA.glob("*.gz"))}
