"""Forks of the test run: each test runs once, each group in one of them, and one that ends loses only its own test."""

import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

LAB = Path(__file__).resolve().parents[2]
TESTS = '''
import os
import time
import pytest

def noted(group, tmp_path, folder=os.environ["NOTES"]):
    """One file for each test: its group, its process, its temporary folder."""
    with open(os.path.join(folder, os.environ["PYTEST_CURRENT_TEST"].partition("::")[2].split()[0]), "x") as file:
        file.write(f"{group} {os.getpid()} {tmp_path.parent}")

@pytest.mark.parametrize("number", range(300))
def test_passes(number, tmp_path):
    time.sleep(0.002)
    noted("none", tmp_path)

@pytest.mark.parametrize("number", range(6))
@pytest.mark.one_worker("six")
def test_of_a_group(number, tmp_path):
    time.sleep(0.02)
    noted("six", tmp_path)

def test_fails(tmp_path):
    noted("none", tmp_path)
    print("said before")
    raise ValueError("on purpose")

@pytest.mark.parametrize("ends", [False, True, False])
def test_may_end_its_worker(ends, tmp_path):
    noted("none", tmp_path)
    if ends:
        os._exit(3)
'''


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[list[str]], ET.Element, str]:
    """(notes of the tests, JUnit report, output) of a run of TESTS by two workers."""
    folder = tmp_path_factory.mktemp("workers")
    (folder / "notes").mkdir()
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = one_worker(name)\n")
    (folder / "test_made.py").write_text(TESTS)
    words = ["-p", "tests.workers", "--workers", "2", "--basetemp", "base", "--junit-xml", "report.xml", "-q"]
    env = os.environ | {"PYTHONPATH": str(LAB), "NOTES": str(folder / "notes")}
    command = [sys.executable, "-m", "pytest", *words, "test_made.py"]
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    notes = [file.read_text().split() for file in (folder / "notes").iterdir()]
    return notes, ET.parse(folder / "report.xml").getroot(), done.stdout


def test_every_test_is_run_once_by_one_of_several(found):
    notes, report, _ = found
    assert len(notes) == len({case.get("name") for case in report.iter("testcase")}) == 310
    assert len({pid for _, pid, _ in notes}) >= 2
    assert len({folder for _, _, folder in notes}) == len({pid for _, pid, _ in notes}), "a folder each"


def test_a_group_stays_with_one_worker(found):
    notes, _, _ = found
    assert [group for group, _, _ in notes].count("six") == 6
    assert len({pid for group, pid, _ in notes if group == "six"}) == 1


def test_failures_are_told_with_their_output_and_an_end_of_a_worker_is_one(found):
    _, report, output = found
    failed = {case.get("name"): case.find("failure").get("message") for case in report.iter("testcase")
              if case.find("failure") is not None}  # fmt: skip
    assert failed.keys() == {"test_fails", "test_may_end_its_worker[True]"}
    assert "on purpose" in failed["test_fails"] and "its worker has ended" in failed["test_may_end_its_worker[True]"]
    assert "said before" in output and "2 failed, 308 passed" in output
