"""A mistake in a scorecard's spec: one message with the file, the key and the nearest name, and nothing is started."""

import tomllib
from pathlib import Path

import pytest

from hakmem_lab.kinds.scorecard.check import check_names
from hakmem_lab.kinds.scorecard.spec import ScorecardSpec
from hakmem_lab.plan.spec import build

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
        ('alocators = ["glibc", "hakmem"]' + WORKLOAD, ["alocators", "'allocators'"]),
        (WORKLOAD + 'comand = "x"', ["workload.0.comand", "'command'"]),
        (WORKLOAD + 'bars = [{ againts = "best", at-least = 1 }]', ["workload.0.bars.0.againts", "'against'"]),
        (WORKLOAD + "[workload.server]\ncomand = 'x'", ["workload.0.server.comand", "'command'"]),
        (WORKLOAD + 'bars = [{ against = "mimaloc", at-least = 1 }]', ["'quick'", "against", "'mimalloc'"]),
        (WORKLOAD + 'bars = [{ over = "best", at-most = 1 }]', ["'quick'", "over", "no arm 'best'"]),
        (WORKLOAD + 'bars = [{ against = "best" }]', ["workload.0.bars.0", "either at-least or at-most"]),
        (WORKLOAD + 'bars = [{ against = "best", at-most = "1 parsec" }]', ["at-most", "MiB"]),
        (WORKLOAD + 'metric = "wal"', ["workload.0.metric", "'wall'"]),
        (WORKLOAD + "ops = [1, 2]", ["workload.0", "{ops}"]),
        (WORKLOAD + 'bars = [{ metric = "server-rss", at-most = 1 }]', ["server-rss", "[workload.server]"]),
        (WORKLOAD + WORKLOAD, ["workload", "'quick'"]),
        ('subject = "hakmen"' + WORKLOAD, ["subject", "hakmen", "hakmem"]),
        ('only = ["quik"]' + WORKLOAD, ["only", "'quick'"]),
        (WORKLOAD + "[[milestone]]\nname='M'\nworkload='quik'\nagainst='best'\nat-least=1", ["milestone", "'quick'"]),
        ('allocators = ["glibc", "glibc"]\nsubject = "glibc"' + WORKLOAD, ["allocators", "twice"]),
        (WORKLOAD.replace("/bin/true", "/no/such"), ["'quick'", "no program '/no/such'"]),
    ],
)
def test_mistakes(here, tmp_path, store, text, wanted):
    path = tmp_path / "card.toml"
    preset = "" if "allocators" in text or "alocators" in text or "subject" in text else 'subject = "glibc"\n'
    others = "" if "locators" in text or "subject" in text else 'allocators = ["glibc", "glibc,A=1"]\n'
    path.write_text('kind = "scorecard"\n' + preset + others + text, encoding="utf-8")
    answer = here("scorecard", path, "--quiet")
    assert answer.status == 2, answer.out
    message = answer.message()
    assert str(path) in message
    for part in wanted:
        assert part in message
    assert not store.exists()


def test_a_word_that_is_no_spec(here):
    answer = here("scorecard", "ws400")
    assert answer.status == 2
    assert "ends in .toml" in answer.message()


def test_a_flag_with_an_unknown_workload_of_the_projects_own(here):
    answer = here("scorecard", "--only", "ws40")
    assert answer.status == 2
    assert "experiments/scorecard.toml" in answer.message()
    assert "'ws400'" in answer.message()


@pytest.mark.parametrize("name", ["scorecard", "demo"])
def test_the_projects_own_scorecards_are_valid(name):
    values = tomllib.loads((EXPERIMENTS / f"{name}.toml").read_text(encoding="utf-8"))
    check_names(build(ScorecardSpec, values, name), name)
