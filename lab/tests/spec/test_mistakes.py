"""Mistakes in a spec: one message that names the file, the key and the nearest valid name; nothing is started."""

import os
from typing import get_args

import pydantic_core
import pytest

from hakmem_lab.plan import model

BASE = {
    "ab": 'control = "glibc"\ntreatment = "glibc"\n',
    "compare": 'allocators = ["glibc", "default"]\n',
    "matrix": 'base = "glibc"\n[factors]\na = "A=1"\nb = "B=1"\n',
    "sweep": 'default = "glibc"\n[candidates]\na = "glibc,A=1"\n',
    "aa": 'allocator = "glibc"\n',
}
# A mistake that goes unnoticed should cost this test one second, not a whole run.
CHEAP = {"repeat": 1, "warm-up": 0, "max-blocks": 12, "looks": 1}
KINDS = tuple(BASE)
MISSPELLED = {
    "ab": ("contrl", "control"),
    "compare": ("allocatrs", "allocators"),
    "matrix": ("bse", "base"),
    "sweep": ("defalt", "default"),
    "aa": ("resample", "resamples"),
}


def cheap(lines: str) -> str:
    """Keys for a short run, except those that the lines set themselves."""
    return "".join(f"{key} = {value}\n" for key, value in CHEAP.items() if f"{key} =" not in lines)


@pytest.fixture
def refused(here, store, tmp_path):
    """refused(kind, top lines, tables): the message of hak for a spec with these lines."""

    def call(kind, top="", tables="", command='command = "true"\n', file="spec.toml", flags=()):
        path = tmp_path / file
        path.write_text(f'kind = "{kind}"\n{command}{top}\n{cheap(top)}{BASE.get(kind, "")}\n{tables}\n')
        answer = here(kind if kind in BASE else "ab", path, "--quiet", *flags)
        assert answer.status == 2, answer
        assert not store.exists()
        message = answer.message()
        assert str(path) in message
        return message

    return call


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("comand", "command"),
        ("max_block", "max-blocks"),
        ("metrik", "metric"),
        ("guardrail", "guardrails"),
        ("warmup", "warm-up"),
    ],
)
def test_a_misspelled_key_that_all_kinds_have(refused, kind, wrong, right):
    message = refused(kind, f"{wrong} = 5")
    assert f"'{wrong}'" in message
    assert f"did you mean '{right}'?" in message


@pytest.mark.parametrize("kind", KINDS)
def test_a_misspelled_key_of_one_kind(refused, kind):
    wrong, right = MISSPELLED[kind]
    message = refused(kind, f'{wrong} = "x"')
    assert f"'{wrong}'" in message
    assert f"did you mean '{right}'?" in message


@pytest.mark.parametrize("kind", KINDS)
def test_a_misspelled_key_of_a_nested_table(refused, kind):
    message = refused(kind, tables='[server]\ncommand = "true"\nready-timout = 5\n')
    assert "server.ready-timout" in message
    assert "did you mean 'ready-timeout'?" in message


@pytest.mark.parametrize("kind", KINDS)
def test_a_key_that_holds_a_line_break_is_shown_on_one_line(refused, kind):
    assert "unknown key" in refused(kind, '"two\\nlines" = 1')


@pytest.mark.parametrize("kind", KINDS)
def test_a_missing_command_is_named(refused, kind):
    assert "'command' is missing" in refused(kind, command="")


@pytest.mark.parametrize(
    ("line", "key", "text"),
    [
        ('metric = "wal"', "metric", "did you mean 'wall'?"),
        ("metric = 'regex:ops (\\d+'", "metric", "not valid"),
        ("metric = 'regex:ops \\d+'", "metric", "exactly one group"),
        ("metric = 'regex:(ops) (\\d+)'", "metric", "exactly one group"),
        ('metric = "server-rss"', "server-rss", "[server]"),
        ("guardrails = { rsss = 0.05 }", "guardrails", "did you mean 'rss'?"),
        ('guardrails = { rss = "many" }', "guardrails.rss", "many"),
        ('margin = "1 percent"', "margin", "1 percent"),
        ("margin = 0", "margin", "more than 0"),
        ("margin = 1.5", "margin", "less than 1: write 1.5%"),
        ('guardrails = { rss = "10" }', "guardrails.rss", "less than 1: write 10%"),
        ('margin = "200%"', "margin", "less than 1 (given: '200%')"),
        ("margin = -0.01", "margin", "more than 0"),
        ("margin = nan", "margin", ""),
        ("alpha = 0.5", "alpha", "less than 0.5"),
        ("looks = 0", "looks", "at least 1"),
        ('timeout = "10 parsecs"', "timeout", "90s"),
        ('timeout = "1.2.3s"', "timeout", "1.2.3s"),
        ("timeout = inf", "timeout", ""),
        ("timeout = 0", "timeout", "more than 0"),
        ("max-blocks = 0", "max-blocks", "at least 1"),
        ("max-blocks = 1.5", "max-blocks", "whole number"),
        ('repeat = "often"', "repeat", "often"),
        ("repeat = 0", "repeat", ""),
        ("pin = [4095]", "pin", "4095"),
        ("pin = [-1]", "pin", "-1"),
        ('pin = ["a"]', "pin", ""),
        ('cwd = "/nonexistent"', "cwd", "/nonexistent"),
        ("env = { A = 1 }", "env.A", "text is wanted"),
        ('env = { "A=B" = "1" }', "env", "A=B"),
        ('env = { "" = "1" }', "env", ""),
        ('env = { A = "x\\u0000y" }', "env", ""),
        ("question = 5", "question", "text is wanted"),
        ("seed = 1.5", "seed", "whole number"),
        ('higher-is-better = "maybe"', "higher-is-better", "maybe"),
        ("server = { command = \"true\", port = 70000 }", "server.port", "70000"),
        ("server = { command = \"true\", port = -1 }", "server.port", "-1"),
        ("server = { command = \"true\", port = \"any\" }", "server.port", "any"),
        ("server = { command = \"/nonexistent/x\" }", "server", "/nonexistent/x"),
        ("server = 5", "server", ""),
    ],
)  # fmt: skip
def test_a_value_that_cannot_be(refused, line, key, text):
    message = refused("ab", line)
    assert key in message
    assert text in message


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("line", ["repeat = 'often'", "repeat = 0"])
def test_keys_are_named_as_they_are_written(refused, kind, line):
    """The message names the key as written, not the alternatives of the model that were tried."""
    assert " repeat: " in refused(kind, line)


@pytest.mark.parametrize(
    ("command", "text"),
    [
        ('command = "no-such-program-here"', "no-such-program-here"),
        ('command = "/etc/hostname"', "/etc/hostname"),
        ('command = "/tmp"', "/tmp"),
        ('command = ""', "command"),
        ("command = []", "command"),
        ('command = [""]', "command"),
        ('command = "a \'b"', "quotation"),
        ("command = 5", "command"),
        ("command = 2020-01-01", "command"),
        ('command = "a\\u0000b"', "command"),
        ('command = ["true", "a\\u0000b"]', "command"),
    ],
)
def test_a_command_that_cannot_be(refused, command, text):
    message = refused("ab", command=command + "\n")
    assert "command" in message
    assert text in message


def test_a_pipe_is_no_program(refused, tmp_path):
    """Opening a pipe would wait forever."""
    os.mkfifo(tmp_path / "pipe", 0o755)
    assert "is no regular file" in refused("ab", command=f'command = "{tmp_path}/pipe"\n')


def test_a_missing_program_gets_the_nearest_one_beside_it(refused, fakes):
    wrong = fakes.program.with_name("fakee")
    assert f"did you mean '{fakes.program}'?" in refused("ab", command=f'command = "{wrong}"\n')


@pytest.mark.parametrize(
    ("kind", "lines", "key"),
    [
        ("ab", 'control = "glibc"\ntreatment = "glibbc"', "treatment"),
        ("ab", 'control = "jemaloc"\ntreatment = "glibc"', "control"),
        ("compare", 'allocators = ["glibc", "mimaloc"]', "allocators"),
        ("matrix", 'base = "hakmen"\n[factors]\na = "A=1"\nb = "B=1"', "base"),
        ("sweep", 'default = "glibc"\n[candidates]\na = "glibcc"', "candidates.a"),
        ("sweep", 'default = "libc"\n[candidates]\na = "glibc"', "default"),
        ("aa", 'allocator = "gibc"', "allocator"),
    ],
)
def test_an_unknown_allocator(here, store, tmp_path, kind, lines, key):
    path = tmp_path / "spec.toml"
    path.write_text(f'kind = "{kind}"\ncommand = "true"\n{cheap("")}{lines}\n')
    answer = here(kind, path, "--quiet")
    message = answer.message()
    assert answer.status == 2
    assert f"{path}: {key}:" in message
    assert "did you mean" in message
    assert not store.exists()


@pytest.mark.parametrize(
    ("kind", "top", "count"),
    [("ab", "max-blocks = 5", 5), ("compare", "max-blocks = 3", 3), ("matrix", "max-blocks = 5", 5),
     ("sweep", "max-blocks = 2", 2), ("aa", "max-blocks = 7", 7)],
)  # fmt: skip
def test_too_few_blocks_for_any_verdict(refused, kind, top, count):
    message = refused(kind, top)
    assert "max-blocks" in message
    assert f"{count} blocks are too few" in message
    assert "at least" in message


@pytest.mark.parametrize("kind", ["cmopare", "abb", "", "AB"])
def test_an_unknown_kind(refused, kind):
    message = refused(kind)
    assert "kind" in message
    assert "'compare'" in message or "'ab'" in message or "compare" in message


def test_a_spec_of_another_kind_names_the_right_command(here, tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text('kind = "sweep"\n')
    assert f"hak compare {path}" in here("ab", path).message()


@pytest.mark.parametrize(
    "content", [b"kind = ", b"= 5", b"\xff\xfe", b"[a\n", b"a = 1\na = 2", b"\0", "﻿kind = 'ab'".encode()]
)
def test_a_file_that_is_not_toml(here, store, tmp_path, content):
    path = tmp_path / "spec.toml"
    path.write_bytes(content)
    answer = here("ab", path)
    assert answer.status == 2
    assert str(path) in answer.message()
    assert not store.exists()


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"\x7fELF\xff", "it is no text in UTF-8, so it is no spec"), ("\ufeffkind = 'abc'".encode(), "no kind 'abc'")],
)
def test_a_mark_of_utf_8_is_read_over_and_what_is_no_text_is_called_that(here, tmp_path, content, said):
    path = tmp_path / "spec.toml"
    path.write_bytes(content)
    assert said in here("ab", path).message()


def test_a_spec_that_is_not_there_gets_the_nearest_file(here, tmp_path):
    (tmp_path / "capacity.toml").write_text("")
    answer = here("ab", tmp_path / "capcity.toml")
    assert answer.status == 2
    assert f"did you mean '{tmp_path / 'capacity.toml'}'?" in answer.message()


@pytest.mark.parametrize("name", ["folder.toml", "missing/x.toml"])
def test_a_spec_that_cannot_be_read(here, tmp_path, name):
    (tmp_path / "folder.toml").mkdir()
    answer = here("ab", tmp_path / name)
    assert answer.status == 2
    assert name in answer.message()
    assert "Errno" not in answer.message()


@pytest.mark.parametrize(
    ("kind", "lines", "text"),
    [
        ("compare", 'allocators = ["glibc"]', "allocators"),
        ("compare", 'allocators = ["glibc", "glibc"]', "twice"),
        ("compare", 'allocators = ["glibc", "default"]\nbaseline = "glib"', "did you mean 'glibc'?"),
        ("matrix", 'base = "glibc"\n[factors]\na = "A=1"', "factors"),
        ("matrix", 'base = "glibc"\n[factors]\na = "A=1"\nb = "A=1"', "twice"),
        ("matrix", 'base = "glibc"\n[factors]\na = ""\nb = "B=1"', "factors"),
        ("matrix", 'base = "glibc"\n[factors]\na = "A=1"\nb = "B=1"\n"a+b" = "C=1"', "a+b"),
        ("sweep", 'default = "glibc"\n[candidates]', "candidates"),
        ("sweep", 'default = "glibc"\n[candidates]\ndefault = "glibc,A=1"', "default"),
        ("sweep", 'default = "glibc"\n[candidates]\na = 5', "candidates.a"),
    ],
)
def test_designs_that_cannot_be(here, store, tmp_path, kind, lines, text):
    path = tmp_path / "spec.toml"
    path.write_text(f'kind = "{kind}"\ncommand = "true"\n{cheap("")}{lines}\n')
    answer = here(kind, path, "--quiet")
    assert answer.status == 2
    message = answer.message()
    assert text in message
    assert str(path) in message
    assert not store.exists()


@pytest.mark.parametrize(
    ("metric", "output", "text"),
    [("ops (\\d+)", "nothing here", "does not match"), ("ops (\\S+)", "ops many", "'many'"),
     ("ops (\\d+)", "ops 0", "above 0"), ("ops (\\S+)", "ops inf", "inf"), ("ops (\\d+)?", "ops ", "not a number")],
)  # fmt: skip
def test_a_metric_that_yields_nothing(refused, fakes, metric, output, text):
    message = refused(
        "ab", f"metric = 'regex:{metric}'", command=f'command = ["{fakes.program}", "print", "{output}"]\n'
    )
    assert "metric" in message
    assert text in message


@pytest.mark.parametrize("name", sorted(model.WORDS))
def test_our_words_are_for_mistakes_that_the_validator_knows(name):
    assert name in get_args(pydantic_core.core_schema.ErrorType)


@pytest.mark.parametrize(
    "line",
    ["margin = []", "looks = 99", 'pin = ["a"]', "command = []", "seed = -1", "server = 5", "alpha = true", "env = 1"],
)
def test_the_validator_s_own_words_are_never_shown(refused, line):
    message = refused("ab", line)
    assert not [word for word in ("Input should", "validation", "valid integer", "instance of") if word in message]


@pytest.mark.parametrize("kind", ["ab", "aa"])
def test_both_arms_at_once_are_refused_with_what_to_do(refused, kind):
    said = "duet: both sides at once took longer for the same interval; leave it out, and the sides take turns"
    assert said in refused(kind, "duet = true")
    assert said in refused(kind, flags=("--duet",))
