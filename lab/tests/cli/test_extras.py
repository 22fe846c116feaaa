"""Packages that only some commands need: a missing one is named in one line, with the command that installs it."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from hakmem_lab import extras
from hakmem_lab.plan.kinds import KINDS

PROJECT = Path(extras.__file__).parents[1] / "pyproject.toml"


@pytest.fixture
def bare(monkeypatch):
    """Makes optional packages appear as not installed."""
    absent = {module for entries in extras.EXTRAS.values() for module, _ in entries}
    real = extras.importlib.util.find_spec
    monkeypatch.setattr(extras.importlib.util, "find_spec", lambda name: None if name in absent else real(name))


@pytest.mark.skipif(not PROJECT.exists(), reason="needs the sources")
def test_the_table_is_that_of_the_package():
    declared = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    for extra, entries in extras.EXTRAS.items():
        assert {re.split(r"[<>=]", line)[0] for line in declared[extra]} == {package for _, package in entries}


@pytest.mark.skipif(not PROJECT.exists(), reason="needs the sources")
def test_a_user_s_other_packages_are_not_pinned():
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    optional = [line for name, lines in project["optional-dependencies"].items() if name != "test" for line in lines]
    assert not [line for line in project["dependencies"] + optional if "==" in line]


@pytest.mark.parametrize(
    ("words", "package"),
    [
        (["soak", "--", "true"], "ruptures"),
        (["latency", "--", "true"], "hdrhistogram"),
    ],
)
def test_a_command_that_needs_more_says_what_before_it_measures(here, store, bare, words, package):
    answer = here(*words)
    assert answer.status == 2
    assert re.search(rf"hak {words[0]} needs .* -m pip install .*{package}", answer.message())
    assert not store.exists()


def test_reports_and_queries_say_what_they_need(here, fakes, bare, tmp_path):
    flags = ["--control", "glibc", "--treatment", "glibc", "--repeat", "1", "--looks", "1", "--max-blocks", "6"]
    assert here("ab", *flags, "--quiet", "--", fakes.program, "exit", "0").status == 0
    report = here("report", "last", "-o", tmp_path / "report.html")
    assert (report.status, (tmp_path / "report.html").exists()) == (2, False)
    assert "pip install jinja2 tomli-w" in report.message()
    assert "pip install duckdb" in here("export", "--sql", "SELECT 1").message()
    assert here("export", "last", "--format", "csv").status == 0


def test_every_kind_that_needs_more_is_in_the_table():
    assert {kind.needs for kind in KINDS.values() if kind.needs} <= set(extras.EXTRAS)


def test_what_takes_long_to_load_is_loaded_when_it_is_needed():
    """Importing all kinds loads no packages for plots or tables, nor scipy, so that a run starts without delay."""
    late = ("jinja2", "pandas", "polars", "duckdb", "ruptures", "scipy")
    script = f"import sys; from hakmem_lab import kinds; list(map(kinds.module, kinds.KINDS)); " \
             f"print(*(name for name in {late} if name in sys.modules))"  # fmt: skip
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_what_judges_nothing_needs_no_statistics():
    """hak and its help load no spec model; hak doctor, explain and trace show results without scipy and the kinds."""
    script = (
        "import sys; from hakmem_lab.cli import commands; print('pydantic' in sys.modules)\n"
        "from hakmem_lab.doctor import examine; from hakmem_lab.inside import explain\n"
        "from hakmem_lab.trace import stacks; from hakmem_lab.show import formats\n"
        "from hakmem_lab.show.terminal import process, traced\n"
        "print('scipy' in sys.modules, 'hakmem_lab.kinds' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False"] * 3
