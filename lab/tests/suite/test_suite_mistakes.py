"""A mistake in a suite's spec: one message with the file, the key and the nearest name, and nothing is started."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hakmem_lab.cli import bench
from hakmem_lab.errors import LabError
from hakmem_lab.kinds.suite.spec import SuiteSpec, check_names
from hakmem_lab.plan.model import build

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
WORKLOAD = """
[[workload]]
key = "quick"
title = "quick"
command = "/bin/true"
"""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ('alocators = ["glibc", "hakmem"]' + WORKLOAD, ["unknown key 'alocators'", "'allocators'"]),
        (WORKLOAD + 'comand = "x"', ["workload 'quick': unknown key 'comand'", "'command'"]),
        (WORKLOAD + 'bars = [{ againts = "best", at-least = 1 }]', ["workload 'quick': unknown", "'against'"]),
        (WORKLOAD + "[workload.server]\ncomand = 'x'", ["workload 'quick': unknown key 'server.comand'", "'command'"]),
        (WORKLOAD + 'bars = [{ against = "mimaloc", at-least = 1 }]', ["workload 'quick': against", "'mimalloc'"]),
        (WORKLOAD + 'bars = [{ over = "best", at-most = 1 }]', ["workload 'quick': over", "no side 'best'"]),
        (WORKLOAD + 'bars = [{ against = "best" }]', ["workload 'quick': bars.0", "either at-least or at-most"]),
        (WORKLOAD + 'bars = [{ against = "best", at-most = "1 parsec" }]', ["at-most", "MiB"]),
        (WORKLOAD + 'metric = "wal"', ["workload 'quick': metric", "'wall'"]),
        (WORKLOAD + 'timeout = "soon"', ["workload 'quick': timeout", "90s"]),
        (WORKLOAD + "ops = [1, 2]", ["workload 'quick'", "{ops}"]),
        (WORKLOAD + 'loads = ["1", "9"]', ["'loads'", "{load}"]),
        (WORKLOAD + 'loads = ["1"]', ["workload 'quick': loads", "2"]),
        ('load = "huge"' + WORKLOAD, ["load", "'short' or 'long'"]),
        (WORKLOAD + 'bars = [{ metric = "server-rss", at-most = 1 }]', ["server-rss", "[workload.server]"]),
        (WORKLOAD + 'guardrails = { rs = "5%" }', ["workload 'quick': guardrails", "'rss'"]),
        (WORKLOAD + 'guardrails = { server-rss = "5%" }', ["workload 'quick'", "[workload.server]"]),
        (
            WORKLOAD + 'bars = [{ metric = "wall", higher-is-better = true, at-least = 1 }]',
            ["workload 'quick'", "higher-is-better"],
        ),
        (WORKLOAD + WORKLOAD, ["workload 'quick': two workloads have this key"]),
        (WORKLOAD.replace('key = "quick"\n', ""), ["workload 1: 'key' is missing"]),
        (WORKLOAD.replace('key = "quick"', 'key = "a,b"'), ["workload 'a,b': key", "comma"]),
        (WORKLOAD.replace("command", "#"), ["workload 'quick': 'command' is missing"]),
        ("[defaults]\ntimout = '3s'" + WORKLOAD, ["defaults: unknown key 'timout'", "'timeout'"]),
        ("[defaults]\ntimeout = 'soon'" + WORKLOAD, ["defaults: timeout", "90s"]),
        ("[defaults]\nkey = 'a'" + WORKLOAD, ["defaults: 'key' must be set for each workload"]),
        ('subject = "hakmen"' + WORKLOAD, ["subject", "hakmen", "hakmem"]),
        ('only = ["quik"]' + WORKLOAD, ["only: there is no workload 'quik'", "'quick'"]),
        ('only = ["databas"]' + WORKLOAD + 'group = "database"', ["workload or group 'databas'", "'database'"]),
        ('allocators = ["glibc", "glibc"]\nsubject = "glibc"' + WORKLOAD, ["allocators", "twice"]),
        (WORKLOAD.replace("/bin/true", "/no/such"), ["workload 'quick'", "no program '/no/such'"]),
        (WORKLOAD.replace("/bin/true", "/no/such") + 'hint = "make such"', ["no program '/no/such'; make such"]),
    ],
)
def test_mistakes(here, tmp_path, store, text, wanted):
    path = tmp_path / "card.toml"
    preset = "" if "allocators" in text or "alocators" in text or "subject" in text else 'subject = "glibc"\n'
    others = "" if "locators" in text or "subject" in text else 'allocators = ["glibc", "glibc,A=1"]\n'
    path.write_text('kind = "suite"\n' + preset + others + text, encoding="utf-8")
    answer = here("suite", path, "--quiet")
    assert answer.status == 2, answer.out
    message = answer.message()
    assert str(path) in message
    for part in wanted:
        assert part in message
    assert not store.exists()


VALUES = ["5", '"a"', "true", "[1]", "[[1]]", "{ a = 1 }", "[{ a = 1 }]", "nan", "inf"]


def some(*keys: str) -> st.SearchStrategy:
    return st.dictionaries(st.sampled_from(keys), st.sampled_from(VALUES))


@given(
    some("allocators", "defaults", "only", "kind", "x"),
    some("key", "title", "group", "bars", "guardrails", "server", "y"),
    some("timeout", "command", "bars", "env", "z"),
)
def test_values_of_every_type_give_a_spec_or_a_message(top, row, defaults):
    tables = (("", top), ("[[workload]]", row), *([] if "defaults" in top else [("[defaults]", defaults)]))
    text = "\n".join("\n".join([head, *(f"{key} = {value}" for key, value in each.items())]) for head, each in tables)
    values = {"kind": "suite"} | tomllib.loads(text)
    try:
        check_names(build(SuiteSpec, values, "x.toml"), "x.toml")
    except LabError as error:
        assert str(error).startswith("x.toml: ")


@pytest.mark.parametrize("words", [(), ("ws400",)])
def test_a_suite_needs_its_spec(here, words):
    answer = here("suite", *words)
    assert answer.status == 2
    assert "hak suite takes a spec, whose name ends in .toml: docs/lab/howto-suite.md shows" in answer.message()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [(None, "there is no such file; docs/lab/howto-suite.md"), ("", "'workload' is missing; a suite")],
)
def test_a_suite_that_is_still_to_be_written(here, tmp_path, text, wanted):
    if text is not None:
        (tmp_path / "mine.toml").write_text(text)
    answer = here("suite", tmp_path / "mine.toml")
    assert answer.status == 2
    assert wanted in answer.message()


def test_the_former_name_of_the_kind(here, tmp_path):
    path = tmp_path / "old.toml"
    path.write_text('kind = "scorecard"' + WORKLOAD, encoding="utf-8")
    assert "kind: 'scorecard' is called 'suite' now" in here("suite", path).message()


def test_a_verdict_of_a_suite_without_bars_cannot_be_required(here, tmp_path, store):
    path = tmp_path / "plain.toml"
    path.write_text('kind = "suite"\nallocators = ["glibc", "glibc,A=1"]' + WORKLOAD, encoding="utf-8")
    answer = here("suite", path, "--require", "GO")
    assert answer.status == 2
    assert "without bars and guardrails there is nothing to reach" in answer.message()
    assert not store.exists()


def test_a_flag_with_an_unknown_workload_of_the_projects_own(here):
    answer = here("bench", "scorecard", "--only", "ws40")
    assert answer.status == 2
    assert "experiments/scorecard.toml" in answer.message()
    assert "'ws400'" in answer.message()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("ws40",), "there is no workload 'ws40': did you mean 'ws400'?"),
        (("scorecard", "redi"), "scorecard: there is no workload 'redi': did you mean 'redis'?"),
        (("ws400", "nginx"), "no suite has all of ws400, nginx; name workloads of one suite"),
    ],
)
def test_a_workload_that_no_suite_of_the_project_has(here, words, said):
    answer = here("bench", *words)
    assert (answer.status, said in answer.message()) == (2, True), answer.err


@pytest.fixture
def started(monkeypatch):
    """The list of (suite, workloads) that would have been measured."""
    found = []
    monkeypatch.setattr(bench, "measure", lambda _, asked: found.append((Path(asked["words"][0]).stem, asked["only"])))
    return found


@pytest.mark.parametrize(
    ("words", "suite", "only"),
    [
        ((), "scorecard", None),
        (("scorecard",), "scorecard", None),
        (("demo",), "demo", None),
        (("redis",), "gallery", "redis"),
        (("redis", "nginx"), "gallery", "redis,nginx"),
        (("scorecard", "redis"), "scorecard", "redis"),
        (("ws400",), "scorecard", "ws400"),
        (("gallery", "languages"), "gallery", "languages"),
        (("mine.toml",), "mine", None),
    ],
)
def test_a_name_leads_to_its_suite(started, here, words, suite, only):
    assert here("bench", *words).err == ""
    assert started == [(suite, only)]


@pytest.mark.parametrize(
    ("words", "suite", "only"),
    [
        (("scorecard",), "scorecard", None),
        (("scorecard", "--only", "ws400"), "scorecard", "ws400"),
        (("scorecard", "mine.toml"), "mine", None),
        (("gallery", "redis"), "gallery", "redis"),
    ],
)
def test_a_former_command_leads_there_too(started, here, words, suite, only):
    assert here(*words).status == 0
    assert started == [(suite, only)]


@pytest.mark.parametrize("name", ["scorecard", "demo"])
def test_the_projects_own_suites_are_valid(name):
    values = tomllib.loads((EXPERIMENTS / f"{name}.toml").read_text(encoding="utf-8"))
    check_names(build(SuiteSpec, values, name), name)
