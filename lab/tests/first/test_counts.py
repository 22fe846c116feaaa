"""scripts/test ends with its counts in every case, and no time limit of a test is one that a busy machine meets."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LEAST_S = 600  # a test of 14 s alone took more than 120 s on a machine with other work


@pytest.fixture
def tested(tmp_path):
    """tested(steps…, lint=SCRIPT): runs a copy of scripts/test whose step `lint` is that script."""
    folder = tmp_path / "scripts"
    folder.mkdir()
    for name in ("test", "common.sh", "junit_counts"):
        shutil.copy(ROOT / "scripts" / name, folder)

    def run(*steps, lint="exit 0"):
        (folder / "lint").write_text(f"#!/bin/sh\n{lint}\n", encoding="utf-8")
        (folder / "lint").chmod(0o755)
        words = [folder / "test", *steps]
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)

    return run


@pytest.mark.parametrize(
    ("lint", "counts", "status"),
    [
        ("exit 0", "1 passed, 0 failed", 0),
        ("echo complaint; exit 1", "0 passed, 1 failed", 1),
        ("rm -r build/log; exit 1", "0 passed, [12] failed", 1),  # the commands that read its log fail as well
        ("kill $(ps -o ppid= -p $PPID)", "0 passed, 1 failed", None),
    ],
)
def test_the_counts_are_the_last_line(tested, lint, counts, status):
    done = tested("lint", lint=lint)
    assert re.fullmatch(counts, done.stdout.splitlines()[-1]), done
    assert done.returncode == status or (status is None and done.returncode != 0)


def test_what_fails_unexpectedly_does_not_keep_other_steps_from_running(tested):
    done = tested(
        "lint", "lint", lint="if [ -e once ]; then exit 0; fi; touch once; rm -r build/log; mkdir build/log; exit 1"
    )
    assert done.stdout.splitlines()[-1] in ("1 passed, 1 failed", "1 passed, 2 failed")
    assert done.returncode == 1


def test_no_limit_of_a_test_is_short():
    """Functions that take a limit as an argument raise it to the least one."""
    for path in (ROOT / "tests").rglob("CMakeLists.txt"):
        text = path.read_text(encoding="utf-8")
        assert all(int(limit) >= LEAST_S for limit in re.findall(r"TIMEOUT (\d+)", text)), path
        assert "TIMEOUT ${timeout}" not in text or "(timeout LESS 600)" in text, path
    waits = r"(?:communicate|capture_output|check)\b.*\btimeout=(\d+)\b|\.wait\((\d+)\)|LIMIT_S = (\d+)"
    for path in (ROOT / "lab" / "tests").rglob("*.py"):
        found = [limit for row in re.findall(waits, path.read_text(encoding="utf-8")) for limit in row if limit]
        assert all(int(limit) >= LEAST_S for limit in found), path
    text = (ROOT / "scripts" / "test").read_text(encoding="utf-8")
    assert min(int(limit) for limit in re.findall(r"\b(?:lab_)?test_s=(\d+)", text)) >= LEAST_S


def test_the_watched_say_that_they_are_done(tmp_path):
    log, says = tmp_path / "log", r"printf '  ━━━━ \r\n\n'"
    script = f'. {ROOT}/scripts/common.sh; watched "making it" {log} {says}; said_last {log}'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"(?:making it\n)?making it: done in \d+ s\n", done.stderr)
    assert done.stdout == ""
