"""A held program: started, pinned, and waiting for the word to begin."""

import os
import time

import pytest

from hakmem_lab.system.launcher import Launcher, Request


@pytest.fixture
def launcher():
    with Launcher() as shared:
        yield shared


@pytest.fixture
def processor():
    return max(os.sched_getaffinity(0))


@pytest.fixture
def hold(launcher, fakes):
    def call(*words, **keywords):
        return launcher.start(Request([str(fakes.program), *words], **({"env": {}, "held": True} | keywords)))

    return call


def test_a_held_program_begins_when_it_is_let_go(hold):
    running = hold("print", "begun")
    time.sleep(0.05)
    assert not running.ended() and running.output() == b""
    running.go()
    outcome = running.wait()
    assert (outcome.exit, outcome.stdout) == (0, "begun")


def test_the_time_for_which_it_was_held_does_not_count(hold):
    running = hold("burn", "5")
    time.sleep(0.3)
    running.go()
    outcome = running.wait()
    assert outcome.wall_s < 0.3 and outcome.cpu_s < 0.05


def test_it_runs_on_its_processor(hold, processor):
    running = hold("processors", cpus=(processor,))
    running.go()
    outcome = running.wait()
    assert outcome.stdout.split() == [str(processor)] and not outcome.moved


def test_a_program_that_chooses_its_processors_is_noticed(hold, processor):
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("there is only one processor to choose")
    running = hold("move", "80", cpus=(processor,), sample_ms=5)
    running.go()
    assert running.wait().moved


def test_what_cannot_be_started_fails_after_the_word(launcher):
    running = launcher.start(Request(["/nowhere/at/all"], {}, held=True))
    running.go()
    with pytest.raises(OSError, match="No such file"):
        running.wait()
    assert launcher.run(Request(["/bin/true"], {})).exit == 0


def test_a_held_program_can_be_killed(hold, launcher):
    assert hold("print", "never").kill().stdout == ""
    assert launcher.run(Request(["/bin/true"], {})).exit == 0


def test_a_held_program_ends_with_its_launcher(fakes):
    with Launcher() as launcher:
        pid = launcher.start(Request([str(fakes.program), "print", "never"], {}, held=True)).pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
