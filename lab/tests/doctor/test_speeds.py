"""`hak doctor --machine`: the probe of every processor, and what is said about it."""

import os

import pytest
from tests.statistics.test_speeds import probe

from hakmem_lab.doctor import NOTE, OK, UNKNOWN, Check, quiet, speeds


def test_each_processor_is_probed():
    found = speeds.probed(0.3)
    assert found and set(found) <= os.sched_getaffinity(0)
    for samples in found.values():
        assert samples == sorted(samples) and all(took > 0 for _, took in samples)
        assert samples[-1][0] < 3e6


def test_the_report_says_what_the_speeds_cost():
    found = speeds.report({0: probe(), 3: probe(ratio=1.0), 4: probe()[:10]})
    assert [check.state for check in found.checks] == [NOTE, OK, UNKNOWN]
    first, second, third = (check.found for check in found.checks)
    assert "two speeds, 1 : 1.4" in first and "each for about 0." in first
    assert "one speed, within 1 %" in second
    assert "10 samples" in third
    apart, together = (
        int(words.split()[0].replace(",", "")) for words in (first.split("need ")[1], first.split("together ")[1])
    )
    assert apart > 10 * together >= 60
    assert found.verdict == "1 of 3 processors change their speed" and not found.served


def test_a_steady_machine():
    assert speeds.report({0: probe(ratio=1.0)}).verdict == "the processors keep their speed"


@pytest.mark.parametrize("state", [OK, NOTE])
def test_the_command_shows_it_and_the_settings(here, monkeypatch, state):
    monkeypatch.setattr(speeds, "PROBE_S", 0.3)
    monkeypatch.setattr(speeds, "probed", lambda: {7: probe()})
    monkeypatch.setattr(quiet, "check", lambda: [Check("governor", state, "it is what it is")])
    answer = here("doctor", "--machine")
    assert (
        answer.status == (state == NOTE)
        and "governor" in answer.out
        and "processor 7" in answer.out
        and "runs one after the other need" in " ".join(answer.out.split())
    )
    assert here("doctor", "--machine", "--json", "-").result()["checks"][0]["name"] == "processor 7"


def test_one_subject_is_examined(here):
    assert "one of a process, a program after --, or --machine" in here("doctor").message()
    assert "belong to --machine" in here("doctor", "--tune").message()


def test_a_program_is_measured_against_itself(here, fakes, store, monkeypatch):
    monkeypatch.setenv("HAK_STORE", str(store))
    few = ("--set", "max-blocks=12", "--set", "repeat=1", "--set", "resamples=200")
    answer = here("doctor", "--machine", *few, "--json", "-", "--", fakes.program, "exit", "0")
    assert (answer.status, answer.result()["kind"]) == (0, "aa")
