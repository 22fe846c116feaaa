"""Runs every example in the output of bare `hak` and of every `hak COMMAND --help`, exactly as it is printed."""

import json
import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest
from tests.conftest import LAUNCH, Answer, with_store

from hakmem_lab.cli.commands import GROUPS
from hakmem_lab.plan import project

ROOT = Path(__file__).parents[3]
SPECS = {
    "matrix": 'base = "glibc"\ncommand = ["./program", "args"]\nfactors = { a = "A=1", b = "B=1" }\n',
    "fleet": 'kind = "ab"\ncontrol = "glibc"\ntreatment = "hakmem"\ncommand = ["./program", "args"]\n',
}
SUITE = 'allocators = ["glibc", "hakmem"]\n[[workload]]\nkey = "x"\ncommand = ["./program", "args"]\n'
BENCHMARKS = {"context": {"num_cpus": 2}, "benchmarks": [
    {"name": "A", "run_name": "A", "run_type": "iteration", "repetition_index": index, "iterations": 10,
     "real_time": 100.0 + index, "cpu_time": 100.0 + index, "time_unit": "ns"} for index in range(10)
]}  # fmt: skip
# Options that shorten the examples that would take minutes.
SHORT = {
    **dict.fromkeys(("compare", "matrix", "suite", "replay"), "--max-blocks 12"),
    "tune": "--allocators glibc hakmem --budget 30s", "bench": "--max-blocks 6",
    "latency": "--max-blocks 12 --set duration=1s --allocators glibc hakmem", "soak": "--set duration=3s",
}  # fmt: skip
# Run first and in this order, since other examples need their results; the rest keep the order of hak's output.
FIRST = ("run", "record", "compare")
# These need files of the checkout; test_first_commands.py runs them in a fresh one.
OWN = ("bench", "mcp")  # take hours; serve until their input ends
# This may fail here, with this message: it names machines that do not exist.
ELSEWHERE = {"fleet": r"tcp://head:8786"}
WRONG = r"No such (option|command)|Missing|Usage|unexpected|Invalid value"
ABSENT = r"is not there|there (is|are) no|cannot be (opened|read)|inside a checkout|is not here"
REMEDY = r"make (programs|peers)"


def shown(text):
    """The words of each example in a text that hak printed."""
    return [tuple(shlex.split(line)) for line in re.findall(r"^ +hak ([a-z].*)$", text, re.M)]


@pytest.fixture
def examples(here):
    texts = [
        here().out,
        here("--all").out,
        *(here(*name.split(), "--help").out for commands in GROUPS.values() for name in commands),
    ]
    found = list(dict.fromkeys(words for text in texts for words in shown(text)))
    assert {words[0] for words in found} == {name.split()[0] for commands in GROUPS.values() for name in commands}
    return found


def test_an_example_of_any_help_is_taken_for_one():
    assert shown("Usage: hak ab [OPTIONS]\n\n  hak ab --control 'a b' -- ./x\n") == [
        ("ab", "--control", "a b", "--", "./x")
    ]


def test_no_example_is_a_mistake_and_each_names_what_is_not_there(examples, here, store, tmp_path, monkeypatch):
    """In an empty folder, each example says that a file or a process is missing, never that a flag is wrong."""
    monkeypatch.chdir(tmp_path)
    said = {}
    for words in [words for words in examples if not words[-1].startswith("experiments/") and words[0] not in OWN]:
        answer = here(*([str(2**22 + 1) if word == "PID" else word for word in words]))
        last = answer.err.splitlines()[-1] if answer.err else ""
        well = words[0] == "init" or words[1] in ("list", "keep") if answer.status == 0 else answer.status == 2
        if (
            not well
            or "Traceback" in answer.err
            or re.search(WRONG, last)
            or not re.search(ABSENT, last or "is not there")
        ):
            said[words] = (answer.status, answer.err[-800:])
        elif words[0] in ("trace", "replay") and "hak record -o program.trace -- COMMAND" not in last:
            said[words] = last
    assert said == {}


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout after `make`, with the files that the examples name by placeholders."""
    top = tmp_path / "clone"
    top.mkdir()
    for name in ("include", "src", "bench", "docs", "results", "experiments", "build"):
        (top / name).symlink_to(ROOT / name)
    shutil.copy2("/usr/bin/perl", top / "program")
    (top / "args").write_text("my %h; $h{$_} = 'x' x ($_ % 300) for 1..40000; print scalar(keys %h), qq(\\n);\n")
    (top / "mine.toml").write_text(SUITE)
    for name in ("old.json", "new.json"):
        (top / name).write_text(json.dumps(BENCHMARKS))
    monkeypatch.chdir(top)
    return top


@pytest.fixture
def process(checkout):
    """A program on hakmem that runs until the test ends."""
    words = ["env", f"LD_PRELOAD={project.release_library(ROOT)}", "HAKMEM_PROFILE_RATE=1", "./program", "-e",
             "my @a = map { 'x' x 999 } 1..9999; $| = 1; print 1; sleep"]  # fmt: skip
    with subprocess.Popen(words, stdout=subprocess.PIPE) as running:
        assert running.stdout.read(1) == b"1"
        yield running
        running.kill()


def completed(words, pid):
    """The example with PID replaced, and with the options that shorten it, before `--` if there is one."""
    words = [str(pid) if word == "PID" else word for word in words]
    at = words.index("--") if "--" in words else len(words)
    return [*words[:at], *shlex.split(SHORT.get(words[0], "")), *words[at:]]


@pytest.mark.long
def test_every_example_runs_after_make(examples, checkout, process, store):
    failed = {}
    for words in sorted(examples, key=lambda words: FIRST.index(words[0]) if words[0] in FIRST else len(FIRST)):
        name, part = (*words, "")[:2]
        if name in SPECS:
            (checkout / "spec.toml").write_text(SPECS[name])
        if part in ("top", "metrics"):  # until they are ended
            if said := _begun(words, process.pid):
                failed[words] = said
            continue
        answer = _run(completed(words, process.pid), store)
        if "no verdict is possible in so short a time" in answer.err:  # on a busy machine
            answer = _run(["10m" if word == "30s" else word for word in completed(words, process.pid)], store)
        last = answer.err.splitlines()[-1] if answer.err else answer.out
        if answer.status == 0 or re.search(REMEDY, last):
            continue
        if part == "resume":  # the last run is complete
            assert "is complete" in last or "nothing" in last, last
        elif not (name in ELSEWHERE and re.search(ELSEWHERE[name], last)):
            failed[words] = answer.status
            print(*words, f": status {answer.status}: {answer.err[-800:]}")
    assert failed == {}


def _run(words, store):
    words = [*LAUNCH, *map(str, with_store(tuple(words), store))]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=3000, check=False)
    return Answer(done.returncode, done.stdout, done.stderr)


def _begun(words, pid):
    """None if the command begins its work, else its output. It gets a terminal, which `top` needs."""
    own, others = pty.openpty()
    said, deadline = b"", time.monotonic() + 300
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100", "LINES": "60"}
    streams = dict.fromkeys(("stdin", "stdout", "stderr"), others)
    with subprocess.Popen([*LAUNCH, *completed(words, pid)], env=environment, **streams) as running:
        try:
            while running.poll() is None and time.monotonic() < deadline:
                if select.select([own], [], [], 0.2)[0]:
                    said += os.read(own, 65536)
                if b"live blocks" in said if words[1] == "top" else _serves():
                    return None
        finally:
            running.kill()
            os.close(own)
            os.close(others)
    return said.decode(errors="replace")[-800:] or "nothing"


def _serves():
    try:
        with urllib.request.urlopen("http://127.0.0.1:9464/metrics", timeout=2) as page:
            return b"hakmem" in page.read()
    except OSError:
        return False
