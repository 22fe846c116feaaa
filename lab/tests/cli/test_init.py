"""`hak init` writes a valid spec, and the spec stays valid when all keys that are commented out are used."""

import re

import pytest

from hakmem_lab import kinds
from hakmem_lab.cli.init import NEEDS, TEMPLATES
from hakmem_lab.plan.kinds import KINDS

WORDS = ["true", "a b", 'c"d\\e', "ü"]


@pytest.mark.parametrize("kind", TEMPLATES)
def test_what_is_written_is_a_spec_of_the_kind(kind, here, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = [*WORDS, *NEEDS.get(kind, ())]
    answer = here("init", kind, "--", *words)
    assert (answer.status, answer.err) == (0, "")
    assert answer.out == f"{kind}.toml is written. Edit it, then: hak {KINDS[kind].called} {kind}.toml\n"
    path = tmp_path / f"{kind}.toml"
    spec = kinds.load_spec(path, kind)
    command = spec.workload[0].command if kind == "suite" else spec.command
    assert command == words
    used, count = re.subn(r"(?m)^# (?=[a-z-]+ = )", "", path.read_text(encoding="utf-8"))
    path.write_text(used, encoding="utf-8")
    assert count >= 3 and kinds.load_spec(path, kind) != spec


def test_a_spec_that_is_there_is_kept_unless_forced(here, tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text("mine")
    assert "exists" in here("init", "ab", "-o", path, "--", "true").message() and path.read_text() == "mine"
    assert here("init", "ab", "--force", "-o", path, "--", "true").status == 0
    assert kinds.load_spec(path).treatment == "hakmem"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("init", "abc", "--", "true"), "there is no spec of the kind 'abc'"),
        (("init", "ab", "-o", "x.json", "--", "true"), "ends in .toml"),
        (("init", "ab", "-o", "/proc/x.toml", "--", "true"), "cannot write /proc/x.toml"),
    ],
)
def test_mistakes_are_one_line(words, said, here):
    answer = here(*words)
    assert answer.status == 2 and said in answer.message()


def test_placeholders_that_a_kind_needs_are_named(here, tmp_path):
    answer = here("init", "latency", "-o", tmp_path / "x.toml", "--", "./client")
    assert "put {rate} and {seconds} into its command" in answer.out


def test_a_written_suite_runs(here, tmp_path):
    path = tmp_path / "s.toml"
    here("init", "suite", "-o", path, "--", "true")
    answer = here("suite", path, "--allocators", "glibc", "hakmem", "--max-blocks", "1", "--quiet")
    assert answer.status == 0, answer.err
