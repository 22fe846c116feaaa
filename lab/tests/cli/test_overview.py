"""What a new user types first: nothing, --help, --version, the Tab key."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from hakmem_lab import __version__
from hakmem_lab.cli.commands import FIRST, FORMER, GROUPS, MOVED, app, renamed
from hakmem_lab.errors import rights


@pytest.mark.parametrize("words", [[], ["--help"]])
def test_bare_hak_shows_six_commands_with_an_example_and_names_the_rest(here, words):
    answer = here(*words)
    assert (answer.status, answer.err) == (0, "")
    assert tuple(re.findall(r"^  ((?:\w+ )?\w+) {2,}\S", answer.out, re.M)) == FIRST
    (rest,) = re.findall(r"hak --all shows all (\d+) commands: (.*?)\.", " ".join(answer.out.split()))
    known = list(dict.fromkeys(name.split()[0] for commands in GROUPS.values() for name in commands))
    assert rest == (str(len(known)), ", ".join(known))


def test_the_sides_of_an_ab_that_are_missing_are_asked_for_by_their_flags(here, store):
    for words, flag in ((["--", "true"], "--control"), (["--control", "glibc", "--", "true"], "--treatment")):
        said = here("ab", *words).message()
        assert f"it is {flag}" in said and "hak compare --control glibc --treatment hakmem" in said


def test_root_without_rights_is_not_sent_to_root(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert "CAP_SYS_PTRACE" in rights() and "or root" not in rights()
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert rights() == "be its user, or root"


def test_all_commands_are_shown_with_an_example(here):
    answer = here("--all")
    assert (answer.status, answer.err) == (0, "")
    for title, commands in GROUPS.items():
        assert title in answer.out
        for name, (what, example) in commands.items():
            assert what in answer.out
            assert f"hak {name} {example}".rstrip() in answer.out


def test_the_overview_names_exactly_the_commands_that_are_there():
    registered = {each.name or each.callback.__name__ for each in app.registered_commands if not each.hidden}
    registered |= {
        f"{group.name} {each.name}"
        for group in app.registered_groups
        if group.hidden is not True
        for each in group.typer_instance.registered_commands
    }
    assert {name for commands in GROUPS.values() for name in commands} == registered


def test_at_most_20_commands_and_20_flags_of_compare_are_in_sight():
    command = typer.main.get_command(app)
    assert len([each for each in command.commands.values() if not each.hidden]) <= 20
    flags = [each for each in command.commands["compare"].params if isinstance(each, typer.core.TyperOption)]
    assert len([each for each in flags if not each.hidden and each.name != "help"]) <= 20
    assert len(GROUPS) <= 6


@pytest.mark.parametrize(("former", "now"), [*MOVED.items(), *FORMER.items()])
def test_a_former_name_works_and_a_terminal_shows_the_present_one(former, now, monkeypatch, capsys, here):
    assert here(former, "--help").status == 0
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    words = renamed([former, "x"])
    assert words == ([*now.split(), "x"] if former in MOVED else [former, "x"])
    said = f"hak: hak {former} is hak {now} now; the old name goes with the next minor version\n"
    assert capsys.readouterr().err == said


def test_compare_is_an_ab_where_both_sides_are_named(here, fakes, records, tmp_path):
    once = ("--max-blocks", "6", "--repeat", "1")
    few = (*once, "--set", "looks=1", "--json", "-")
    sides = ("--control", "glibc", "--treatment", "default")
    assert here("compare", *sides, *few, "--", fakes.program, "exit", "0").status == 0
    spec = tmp_path / "x.toml"
    spec.write_text(f'kind = "ab"\ncommand = "{fakes.program} exit 0"\ncontrol = "glibc"\ntreatment = "default"\n')
    assert here("compare", spec, *few).status == 0
    allocators = ("--allocators", "default", "--allocators", "glibc", "--control", "glibc")
    assert here("compare", *allocators, *once, "--", fakes.program, "exit", "0").status == 0
    assert sorted(run["kind"] for run in here("list", "--json", "-").result()["runs"]) == ["ab", "ab", "compare"]


@pytest.mark.parametrize("words", [(), ("--help",), ("list",)])
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_has_had_enough_is_no_failed_requirement(words, unbuffered):
    reading, writing = os.pipe()
    os.close(reading)
    command, env = [sys.executable, "-m", "hakmem_lab.cli.main", *words], os.environ | {"PYTHONUNBUFFERED": unbuffered}
    done = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, env=env, timeout=600, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, b"")


def test_the_package_is_a_command_too():
    words = [sys.executable, "-m", "hakmem_lab", "--version"]
    assert subprocess.run(words, capture_output=True, text=True, check=True).stdout == f"hak {__version__}\n"


def test_the_version_is_that_of_the_library_beside_it():
    header = (Path(__file__).parents[3] / "include" / "hakmem.h").read_text(encoding="utf-8")
    assert __version__ == ".".join(re.findall(r"define HAKMEM_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", header))


def test_the_version(here):
    assert here("--version").out == f"hak {__version__}\n"


@pytest.fixture
def offered(here, monkeypatch):
    """offered(line): the completions that hak gives bash for the end of the line."""

    def ask(line):
        words = line.split(" ")
        monkeypatch.setenv("_HAK_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
        return here().out.split()

    return ask


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("hak runs res", ["resume"]),
        ("hak ab --cont", ["--control"]),
        ("hak ab --control glib", ["glibc"]),
        ("hak ab --require N", ["NEUTRAL", "NO-GO"]),
        ("hak ab --metric f", ["faults"]),
        ("hak compare --allocators glibc jemall", ["jemalloc"]),
        ("hak run --allocator defa", ["default"]),
        ("hak doc", ["doctor"]),
        ("hak doctor --allocator jemall", ["jemalloc"]),
        ("hak doctor --j", ["--json"]),
    ],
)
def test_the_tab_key(offered, line, wanted):
    assert set(wanted) <= set(offered(line))
    assert all(word.startswith(line.rpartition(" ")[2]) for word in offered(line))


def test_the_tab_key_knows_the_stored_runs(offered, here, fakes, store, monkeypatch):
    monkeypatch.setenv("HAK_STORE", str(store))
    flags = ["--control", "glibc", "--treatment", "glibc", "--repeat", "1", "--looks", "1", "--max-blocks", "6"]
    run = here("ab", *flags, "--quiet", "--json", "-", "--", fakes.program, "exit", "0").result()["run"]
    assert offered(f"hak runs show {run[:6]}") == [run]
    assert offered("hak runs report la") == ["last"]


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_bash_completes_with_the_script_that_hak_prints(tmp_path):
    """A real bash evaluates the script and calls its completion function."""
    hak = tmp_path / "hak"
    hak.write_text(f'#!/bin/sh\nexec {sys.executable} -m hakmem_lab.cli.main "$@"\n')
    hak.chmod(0o755)
    script = (
        'eval "$(_HAK_COMPLETE=source_bash hak)"\n'
        "COMP_WORDS=(hak ben)\nCOMP_CWORD=1\n_hak_completion hak\n"
        'echo "${COMPREPLY[@]}"\n'
    )
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "--norc", "-c", script], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["bench"]
