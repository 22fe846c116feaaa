"""The first commands of a new user: on a machine that lacks allocators and programs, and on a server."""

import re
import shutil
from pathlib import Path

import pytest

from hakmem_lab.cli.commands import GROUPS
from hakmem_lab.judge.statistics.paired import least_count
from hakmem_lab.plan import peers, project
from hakmem_lab.plan.model import read_toml
from hakmem_lab.system import launcher

ROOT = Path(__file__).parents[3]
APT = "apt install libmimalloc2.0 libjemalloc2 libtcmalloc-minimal4"
NOT_COMPARED = f"not compared, since not installed: mimalloc, jemalloc, tcmalloc; to install all of them: {APT}"


@pytest.fixture
def bare(monkeypatch):
    """A machine without Debian's allocators and without `make peers`."""
    found = peers._installed
    monkeypatch.setattr(peers, "_installed", lambda names: found(names) if "hakmem" in names[0] else None)
    monkeypatch.setattr(peers, "built", dict)


def test_what_is_there_is_compared_and_what_is_missing_is_said_once(bare, here, store, records):
    answer = here("compare", "--max-blocks", "7", "--repeat", "1", "--", "true")
    assert answer.status == 0, answer.err
    assert answer.err.count(f"warning: {NOT_COMPARED}\n") == 1
    (header,) = records("header")
    assert [arm["name"] for arm in header["arms"]] == ["glibc", "hakmem", "glibc,MALLOC_ARENA_MAX=2"]
    # The report has the warning, too, above the figures.
    lines = " ".join(here("show", "-v").out.split())
    assert lines.count(NOT_COMPARED) == 1
    assert lines.index(NOT_COMPARED) < lines.index("median of")


def test_who_names_allocators_is_told_of_all_that_are_missing(bare, here, store, fakes):
    words = ("compare", "--allocators", "glibc", "mimalloc", "jemalloc,MALLOC_CONF=x", "--", fakes.program)
    assert (
        here(*words).message().endswith("mimalloc, jemalloc are not installed: apt install libmimalloc2.0 libjemalloc2")
    )
    assert (
        here("ab", "--control", "mimalloc", "--treatment", "tcmalloc", "--", fakes.program)
        .message()
        .endswith("mimalloc, tcmalloc are not installed: apt install libmimalloc2.0 libtcmalloc-minimal4")
    )


def test_the_baseline_that_was_named_is_not_left_out(bare, here, store, fakes):
    answer = here("compare", "--baseline", "mimalloc", "--quiet", "--", fakes.program)
    assert answer.status == 2
    assert answer.err.splitlines()[-1].endswith("mimalloc is not installed: apt install libmimalloc2.0")


def test_what_make_peers_builds_is_named_with_it():
    assert peers.remedy(["snmalloc", "jemalloc"]) == "make peers"


SLOW = "Is it a server?"
FLAGGED = ("compare", "ab", "tune")
SPECS = {
    "matrix": 'base = "glibc"\nfactors = { a = "A=1", b = "B=1" }',
    "sweep": 'default = "glibc"\ncandidates = { x = "default" }',
    "suite": 'allocators = ["glibc", "default"]\nsubject = "default"',
}


@pytest.mark.parametrize("kind", ["compare", "ab", "aa", "latency", "syscalls", "matrix", "sweep", "suite", "tune"])
def test_a_command_that_does_not_end_is_taken_for_a_server_once(kind, here, store, monkeypatch, tmp_path):
    if kind == "syscalls" and not shutil.which("strace"):
        pytest.skip("strace is not installed")
    monkeypatch.setattr(launcher, "SLOW_S", 0.2)
    sleeping, spec = ["--", "sleep", "30"], tmp_path / "spec.toml"
    if kind == "suite":
        row = '[[workload]]\nkey = "x"\ncommand = "sleep 30"\ntimeout = "1s"\n'
        spec.write_text(f"{SPECS[kind]}\n{row}", encoding="utf-8")
        answer = here(kind, spec)
    elif kind in SPECS:
        spec.write_text(f'command = "sleep 30"\ntimeout = "1s"\n{SPECS[kind]}\n', encoding="utf-8")
        answer = here(kind, spec)
    elif kind in ("latency", "syscalls"):
        answer = here(kind, "--allocators", "glibc", "default", "--set", "timeout=1s", *sleeping)
    elif kind == "aa":
        spec.write_text('command = "sleep 30"\ntimeout = "1s"\n', encoding="utf-8")
        answer = here(kind, spec)
    elif kind == "ab":
        answer = here(kind, "--control", "glibc", "--treatment", "default", "--timeout", "1", *sleeping)
    else:
        answer = here(kind, "--allocators", "glibc", "default", "--timeout", "1", *sleeping)
    assert answer.status != 0
    assert answer.err.count(SLOW) == 1, answer.err
    line = next(line for line in answer.err.splitlines() if SLOW in line)
    assert line.startswith("the first run has not ended after ")
    server = "[workload.server]" if kind == "suite" else "[server]"
    assert all(word in line for word in (server, "hak soak", "hak record PID"))
    flags = re.findall(r"--\w+", line)
    assert set(flags) <= set(re.findall(r"--\w+", here(kind, "--help").out)), line
    if kind in ("compare", "ab"):
        assert flags.pop(0) == "--server"
    assert flags == {"suite": [], "aa": []}.get(kind, ["--timeout" if kind in FLAGGED else "--set"])
    assert line.endswith("the workload's timeout" if kind == "suite" else "the spec's timeout")


def test_a_slow_replay_is_no_server(here, store, monkeypatch, tmp_path, fakes):
    ended, first = launcher.Running.ended, iter([False])  # however short the first run is

    def late(it, *limit):
        return (limit != (launcher.SLOW_S,) or next(first, True)) and ended(it, *limit)

    monkeypatch.setattr(launcher.Running, "ended", late)
    monkeypatch.setattr(launcher, "SLOW_S", 0.0)
    trace = tmp_path / "x.trace"
    assert here("record", "-o", trace, "--", fakes.program, "exit", "0").status == 0
    answer = here("replay", "--allocators", "glibc", "default", "--max-blocks", "6", "--repeat", "1", trace)
    assert SLOW not in answer.err and "Traceback" not in answer.err
    line = next(line for line in answer.err.splitlines() if line.startswith("the first run has not ended after "))
    assert line.endswith("a shorter limit: --timeout 60s, or the spec's timeout")


def test_a_baseline_has_no_flag_for_the_limit(here, store, monkeypatch, tmp_path):
    monkeypatch.setattr(launcher, "SLOW_S", 0.2)
    kept = tmp_path / "main.baseline"
    assert here("baseline", "save", kept).status == 0
    words = ("baseline", "compare", kept, "--set", "timeout=1s", "--", "sleep", "30")
    line = next(line for line in here(*words).err.splitlines() if SLOW in line)
    assert re.findall(r"--\w+", line) == ["--set"]


def test_a_quick_command_is_taken_for_nothing(here, store, monkeypatch):
    monkeypatch.setattr(launcher, "SLOW_S", 5.0)
    answer = here("compare", "--allocators", "glibc", "default", "--max-blocks", "6", "--repeat", "1", "--", "true")
    assert "has not ended" not in answer.err
    assert launcher.Launcher.when_slow is None


# The examples of bare `hak` that use files of the checkout.
OWN = [
    (*name.split(), *words.split()) for commands in GROUPS.values() for name, (_, words) in commands.items()
    if words.startswith("experiments/") or name == "bench"
]  # fmt: skip


@pytest.fixture
def fresh(tmp_path, monkeypatch, bare):
    """A clone after `make`: the library is built, but no programs and no other allocators."""
    top = tmp_path / "clone"
    shutil.copytree(ROOT / "experiments", top / "experiments")
    for folder in ("include", "src", "bench", "docs", "results"):
        (top / folder).symlink_to(ROOT / folder)
    library = project.release_library(ROOT)
    copy = top / library.relative_to(ROOT)
    copy.parent.mkdir(parents=True)
    copy.symlink_to(library)
    monkeypatch.chdir(top)
    monkeypatch.setattr(shutil, "which", lambda name, *_, **__: None if "/" not in name else _there(name))
    return top


def _there(name):
    return name if Path(name).is_file() else None


@pytest.mark.parametrize("words", OWN)
def test_an_example_that_needs_more_says_which_command_brings_it(words, fresh, here, store):
    answer = here(*words)
    assert answer.status == 2
    last = answer.err.splitlines()[-1]
    assert re.search(r"make (programs|peers)", last), last
    assert "Traceback" not in answer.err


def test_the_examples_are_among_those_of_the_overview():
    assert {words[0] for words in OWN} == {"latency", "soak", "bench"}


def test_the_demo_compares_the_five_in_as_few_blocks_as_give_intervals():
    demo = read_toml(ROOT / "experiments" / "demo.toml")
    assert demo["allocators"] == ["glibc", "hakmem", "mimalloc", "jemalloc", "tcmalloc"]
    assert demo["max-blocks"] == least_count(0.05 / 2 / (len(demo["allocators"]) - 1))
    assert demo["budget"] == "170s"
