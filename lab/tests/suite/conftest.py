"""Puts this folder on the path, since pytest's importlib mode does not; the tests import helpers from it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
