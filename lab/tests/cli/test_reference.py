"""The manual's reference matches the commands, the specs and the table of options."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
SCRIPT = ROOT / "scripts" / "lab_reference"


@pytest.mark.skipif(not SCRIPT.is_file(), reason="needs the sources")
def test_the_reference_is_what_the_code_says():
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
