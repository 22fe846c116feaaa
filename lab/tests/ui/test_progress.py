"""The progress line of a long command: it counts towards one total, never goes back, and is complete at the end."""

import io
import re
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from hakmem_lab.run import endings as ui
from hakmem_lab.run.recorder import Recorder


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock(monkeypatch):
    """clock.now: seconds, set by the test."""

    class Clock:
        now = 0.0

    monkeypatch.setattr(ui.time, "monotonic", lambda: Clock.now)
    return Clock


@pytest.fixture
def terminal(clock):
    stream = Terminal()
    return ui.Progress(stream), lambda: [text for text in re.split("\r\x1b\\[K", stream.getvalue()) if text]


def test_a_count_ends_at_its_end(terminal, clock):
    progress, shown = terminal
    for done in range(5):
        clock.now = 10.0 * done
        progress.update(done, 4, "blocks")
    assert shown() == [
        "0 of 4 blocks",
        "1 of 4 blocks, about 30 s left",
        "2 of 4 blocks, about 20 s left",
        "3 of 4 blocks, about 10 s left",
        "4 of 4 blocks, took 40 s",
    ]


def test_a_share_never_goes_back(terminal, clock):
    progress, shown = terminal
    for second, part in enumerate((0.0, 0.25, 0.2, 0.5, 1.3)):
        clock.now = float(second)
        progress.share(part)
    assert [text.split(" %")[0] for text in shown()] == ["0", "25", "25", "50", "100"]
    assert "left" not in shown()[-1]


def test_without_a_terminal_the_end_is_said_where_the_way_was(clock):
    stream = io.StringIO()
    progress = ui.Progress(stream)
    for done in range(5):
        clock.now = 20.0 * done
        progress.update(done, 4, "blocks")
    assert stream.getvalue().splitlines() == ["2 of 4 blocks, about 40 s left", "4 of 4 blocks, took 1 min 20 s"]


def test_a_short_run_without_a_terminal_says_nothing(clock):
    stream = io.StringIO()
    progress = ui.Progress(stream)
    for done in range(5):
        clock.now = float(done)
        progress.update(done, 4)
    assert stream.getvalue() == ""


def test_the_looks_of_an_ab_share_one_total(here, fakes, monkeypatch):
    """There are up to three looks, and the count continues from one to the next."""
    seen = []
    monkeypatch.setattr(ui.Progress, "update", lambda self, done, total, note="": seen.append((done, total, note)))
    flags = ["--control", "glibc", "--treatment", "glibc", "--repeat", "1", "--warm-up", "0", "--max-blocks", "18"]
    assert here("ab", *flags, "--margin", "1%", "--quiet", "--", fakes.program, "exit", "0").status == 0
    blocks = [(done, total) for done, total, note in seen if note.startswith("blocks")]
    assert {total for _, total in blocks} == {18}
    assert [done for done, _ in blocks] == sorted(done for done, _ in blocks)


def test_quiet_hides_progress_but_no_warning(clock):
    stream = io.StringIO()
    progress = ui.Progress(stream, quiet=True)
    progress.say("run 1: at most 3 s")
    progress.update(1, 1)
    progress.warn("cleanup: exit status 7")
    progress.warn_early("not compared")
    assert stream.getvalue() == "warning: cleanup: exit status 7\nwarning: not compared\n"


def test_quiet_shows_the_warnings_of_a_run():
    stream = io.StringIO()
    own = SimpleNamespace(progress=ui.Progress(stream, quiet=True), event=Mock())
    Recorder.warn(own, "load", "other programs keep 2 processors busy")
    Recorder.tell(own, "more", "12 blocks are planned")
    assert stream.getvalue() == "warning: other programs keep 2 processors busy\n"
