"""Puts this folder on the path, since pytest's importlib mode does not; the tests import helpers from it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def browser() -> Iterator:
    """A `Browser`, which takes seconds to start."""
    from report_browser import Browser

    with Browser() as opened:
        yield opened
