"""hak heap top: its rows and rates, and changes of options in a running process, which can be previewed and undone."""

import contextlib
import os
import pty
import re
import select
import subprocess
import sys
import time

import pytest

from hakmem_lab.errors import LabError
from hakmem_lab.inside import explain, layout
from hakmem_lab.inside.heap import Reader
from hakmem_lab.inside.memory import Process
from hakmem_lab.inside.watch import Subject, Watch, parse_setting, surplus_kib, target_kib
from hakmem_lab.show.terminal import live


@pytest.fixture
def watch(start, made):
    """(a watch, its program)."""
    program = start(made("known.c"), env={"HAKMEM_DECAY_MS": "3600000", "HAKMEM_RETAIN_MAX": "7M"})
    found = Watch(Subject(program.pid))
    found.read()
    return found, program


def setting(watch, name):
    return next(each for each in watch.settings if each.name == name)


def select_option(watch, name):
    watch.key("o")
    wanted = [each.name for each in watch.settings].index(name)
    for _ in range(abs(wanted - watch.selected)):
        watch.key("down" if wanted > watch.selected else "up")
    assert watch.settings[watch.selected].name == name


def type_in(watch, text):
    watch.key("enter")
    for character in text:
        watch.key(character)
    watch.key("enter")


def test_rates_are_changes_a_second(watch):
    found, program = watch
    assert found.rates() == {}
    program.do("a")
    found.read()
    change = found.reading["rows"][0]["kib"] - found.before["rows"][0]["kib"]
    assert found.rates()["live blocks"] == pytest.approx(change / found.seconds)
    assert found.changes("classes", "block_bytes", "live_blocks")[32] == pytest.approx(4000 / found.seconds, rel=0.01)


def test_the_options_are_those_of_the_process(watch):
    found, _ = watch
    names = {each.name for each in found.settings}
    assert {"RETAIN", "RETAIN_MAX", "DECAY_MS", "MEMORY_LIMIT", "HUGE_PAGES", "WARM_POOL_SIZE"} <= names
    assert "PROFILE" not in names  # fixed at the start
    assert (setting(found, "DECAY_MS").value, setting(found, "DECAY_MS").given) == (3600000, True)
    assert setting(found, "RETAIN_MAX").shown() == "7M"
    assert (setting(found, "RETAIN").shown(), setting(found, "RETAIN").given) == ("8M", False)


def test_a_change_is_shown_first_and_taken_back_by_one_key(watch):
    found, program = watch
    program.do("a")
    program.do("h")
    found.read()
    select_option(found, "RETAIN")
    type_in(found, "1M")
    assert found.asked is not None
    assert setting(found, "RETAIN").shown() == "8M"
    assert "8,192 KiB now, 1,024 KiB then" in found.said
    found.key("n")
    found.read()
    assert setting(found, "RETAIN").shown() == "8M"
    type_in(found, "1M")
    found.key("y")
    found.read()
    assert (setting(found, "RETAIN").shown(), setting(found, "RETAIN").given) == ("1M", True)
    found.key("u")
    found.read()
    assert (setting(found, "RETAIN").shown(), setting(found, "RETAIN").given) == ("8M", False)
    found.key("u")
    assert found.said == "nothing was changed"


def test_a_limit_may_be_a_share_of_the_control_groups(watch):
    found, _ = watch
    select_option(found, "MEMORY_LIMIT")
    type_in(found, "auto:80%")
    assert "80 % of what the control group may use" in found.said
    found.key("y")
    found.read()
    assert (setting(found, "MEMORY_LIMIT").value, setting(found, "MEMORY_LIMIT").shown()) == (-80, "auto:80%")
    found.key("u")
    type_in(found, "-5")
    assert "is not a number of bytes such as 64M from 0" in found.said


MIB = 1024  # of KiB
VALUES = {"WARM_POOL_SIZE": 16, "RETAIN": 8 << 20, "RETAIN_MAX": (1 << 63) - 1}
COUNTERS = dict.fromkeys(("used_kib", "dirty_kib", "balance_kib", "idle_kib", "peak_kib"), 0)


@pytest.mark.parametrize(
    ("values", "counters", "target"),
    [
        ({}, {}, 8 * MIB),
        ({}, {"balance_kib": 30 * MIB}, 8 * MIB),  # no recent use, so RETAIN alone counts
        ({}, {"balance_kib": 30 * MIB, "peak_kib": 100 * MIB, "used_kib": 10 * MIB}, 38 * MIB),
        ({}, {"balance_kib": 90 * MIB, "peak_kib": 40 * MIB, "used_kib": 10 * MIB}, 50 * MIB),
        ({}, {"balance_kib": -5 * MIB}, 3 * MIB),
        ({}, {"balance_kib": -9 * MIB}, 1 * MIB),  # the warm pool stays
        ({"WARM_POOL_SIZE": 0}, {"balance_kib": -9 * MIB}, 0),
        ({"RETAIN_MAX": 20 << 20}, {"balance_kib": 30 * MIB, "peak_kib": 100 * MIB}, 20 * MIB),
        ({"RETAIN_MAX": 0}, {"balance_kib": 30 * MIB, "peak_kib": 100 * MIB}, 8 * MIB),
    ],
)
def test_what_may_stay(values, counters, target):
    assert target_kib(VALUES | values, COUNTERS | counters) == target


@pytest.mark.parametrize(
    ("counters", "surplus"),
    [
        ({"dirty_kib": 5 * MIB}, 0),
        ({"dirty_kib": 11 * MIB}, 3 * MIB),
        ({"dirty_kib": 6 * MIB, "idle_kib": 2 * MIB}, 2 * MIB),
        ({"dirty_kib": 2 * MIB, "idle_kib": 6 * MIB}, 1 * MIB),  # the warm pool never counts as idle
        ({"dirty_kib": 0, "idle_kib": 6 * MIB}, 0),
    ],
)
def test_what_goes_back_soon(counters, surplus):
    assert surplus_kib(VALUES, COUNTERS | counters) == surplus


def test_the_ceiling_is_shown_and_previewed(watch):
    found, _ = watch
    select_option(found, "RETAIN_MAX")
    type_in(found, "1M")
    assert "8,192 KiB now, 8,192 KiB then" in found.said  # RETAIN is the floor
    found.key("n")
    assert setting(found, "RETAIN_MAX").shown((1 << 63) - 1) == "no limit"


def test_the_state_of_retention_is_read_and_shown(start, made, hak):
    """Used and dirty slices add up to those fetched minus those purged, and purged memory is reported."""
    program = start(made("known.c"), env={"HAKMEM_DECAY_MS": "3600000", "HAKMEM_RETAIN": "0"})
    program.do("a")
    program.do("h")
    with Process(program.pid) as memory:
        state = Reader(memory, layout.find(memory)).counters()
    resident = state["used_slices"] + state["dirty_slices"]
    assert resident == state["retention.fetched"] - state["retention.purged"]
    counters = explain.process(program.pid)["counters"]
    assert counters["ghosts_kib"] >= 4000
    assert counters["peak_kib"] >= counters["used_kib"] + 5000
    assert counters["balance_kib"] == counters["idle_kib"] == 0
    lately = f"{counters['ghosts_kib']:,} KiB were purged lately"
    assert lately in hak("explain", program.pid).out


def test_the_process_heeds_the_change(start, made):
    """The memory of two freed huge blocks stays resident, but goes back to the kernel after a change of options."""
    stays = {}
    for change in (False, True):
        program = start(made("known.c"), env={"HAKMEM_DECAY_MS": "3600000"})
        program.do("a")
        found = Watch(Subject(program.pid))
        found.read()
        for name in ("RETAIN", "RETAIN_MAX", "WARM_POOL_SIZE") if change else ():
            select_option(found, name)
            type_in(found, "0")
            found.key("y")
        program.do("h")
        rows = explain.process(program.pid)["rows"]
        stays[change] = next(row["kib"] for row in rows if row["owner"] == "waiting for decay")
    assert stays[False] > 4000
    assert stays[True] < 200


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("RETAIN", "-1"),
        ("RETAIN", "8X"),
        ("DECAY_MS", "1K"),
        ("DECAY_MS", "3600001"),
        ("HUGE_PAGES", "on"),
        ("RETAIN", ""),
    ],
)
def test_values_that_an_option_does_not_have(watch, name, text):
    found, _ = watch
    with pytest.raises(LabError, match=name):
        parse_setting(setting(found, name), text)
    select_option(found, name)
    type_in(found, text)
    assert found.asked is None
    assert name in found.said


def test_keys_of_a_terminal():
    assert list(live.split("q\x1b[A\x1b[B\r\x7fx")) == ["q", "up", "down", "enter", "back", "x"]
    assert list(live.split("\x1b")) == ["escape"]


def read_until(terminal, pattern, seconds=600):
    text, end = "", time.monotonic() + seconds
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.2)[0]:
            text += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", os.read(terminal, 65536).decode(errors="replace"))
            if re.search(pattern, text):
                return text
    raise AssertionError(f"no {pattern} in {text[-2000:]}")


@pytest.fixture
def on_terminal():
    """on_terminal(pid): (hak heap top, its terminal)."""
    with contextlib.ExitStack() as stack:

        def begin(pid):
            own, others = pty.openpty()
            words = [sys.executable, "-m", "hakmem_lab.cli.main", "top", "--interval", "0.2", str(pid)]
            environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "60"}
            top = subprocess.Popen(words, stdin=others, stdout=others, stderr=others, env=environment)
            os.close(others)
            stack.callback(os.close, own)
            stack.callback(top.wait)
            stack.callback(top.kill)
            return top, own

        yield begin


def test_on_a_terminal(watch, on_terminal):
    top, terminal = on_terminal(watch[1].pid)
    read_until(terminal, r"live blocks(.|\n)*waiting for decay(.|\n)*resident KiB")
    os.write(terminal, b"t")
    read_until(terminal, r"refills and overflows")
    os.write(terminal, b"o")
    read_until(terminal, r"DECAY_MS +3600000 +user")
    os.write(terminal, b"q")
    assert top.wait(600) == 0


def test_a_process_that_ends_ends_it_in_one_line(watch, on_terminal):
    program = watch[1]
    top, terminal = on_terminal(program.pid)
    read_until(terminal, r"live blocks")
    program.process.kill()
    program.process.wait()
    read_until(terminal, rf"hak: process {program.pid} (has ended|is not there)")
    assert top.wait(600) == 2


def test_without_a_terminal(watch, hak):
    answer = hak("top", watch[1].pid, stdin=subprocess.DEVNULL)
    assert answer.status == 2
    assert "needs a terminal" in answer.message()


def test_a_reading_that_fails_is_said_and_the_last_one_stays(watch, monkeypatch):
    found, _ = watch
    last = found.reading

    def fail(pid):
        raise LabError("the heap contradicts itself")

    monkeypatch.setattr(explain, "process", fail)
    found.read()
    assert found.reading is last
    assert found.said == "the heap contradicts itself"
    monkeypatch.undo()
    found.read()
    assert found.reading is not last


def test_a_process_that_became_another_program(start, made):
    """After exec, the old addresses of the options hold something else, so hak heap top leaves them alone."""
    shell = start("/bin/sh", "-c", f'echo ready; read x; exec "{made("known.c")}"')
    found = Watch(Subject(shell.pid))
    shell.process.stdin.write("\n")
    shell.process.stdin.flush()
    assert shell._line() == "ready\n"
    found.read()
    before = setting(found, "DECAY_MS").value
    select_option(found, "DECAY_MS")
    type_in(found, "123")
    found.key("y")
    assert setting(found, "DECAY_MS").value == 123 != before
