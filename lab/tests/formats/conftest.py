"""The results of the published experiments. Puts this folder on the path, since pytest's importlib mode does not."""

import sys
from pathlib import Path

import pytest

from hakmem_lab import kinds
from hakmem_lab.store.runs import RunFile, plain

sys.path.insert(0, str(Path(__file__).parent))
DATA = Path(__file__).resolve().parents[3] / "results" / "experiments" / "data"


@pytest.fixture(scope="session")
def published():
    """Experiment's name -> its result."""
    return {path.name.split(".")[0]: plain(kinds.result_of(RunFile(path))) for path in sorted(DATA.glob("*.gz"))}
