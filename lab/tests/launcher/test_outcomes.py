"""How the launcher reports a program's end: exit status, signal, or ended by hak. No process of it stays behind."""

import os
import signal
import subprocess
import threading
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pytest

from hakmem_lab.system import launcher as module
from hakmem_lab.system.launcher import Launcher, Request

SHORT_S = 0.3


@pytest.fixture
def launcher():
    with Launcher() as shared:
        yield shared


@pytest.fixture
def launch(launcher, fakes):
    """launch(mode, …, keywords of Request): runs the fake program; returns its Outcome."""

    def call(*words, **keywords):
        return launcher.run(Request([str(fakes.program), *map(str, words)], **({"env": {}} | keywords)))

    return call


@pytest.fixture
def marker():
    """A number of seconds that no other process sleeps for, by which a process can be found."""
    return f"{1000 + uuid.uuid4().int % 10**6}.{uuid.uuid4().int % 10**9}"


@pytest.mark.parametrize("status", [0, 1, 2, 126, 127, 255])
def test_exit_status(launch, status):
    outcome = launch("exit", status)
    why = f"exit status {status}" if status else None
    assert (outcome.exit, outcome.signal, outcome.timed_out, outcome.failure()) == (status, None, False, why)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["crash"], "SIGSEGV"),
        (["abort"], "SIGABRT"),
        (["signal", signal.SIGKILL], "SIGKILL"),
        (["signal", 8], "SIGFPE"),
    ],
)
def test_signals_are_named(launch, words, name):
    outcome = launch(*words)
    assert (outcome.exit, outcome.signal) == (None, signal.Signals[name])
    assert name in outcome.failure()


@pytest.mark.parametrize("number", [35, 40, 63])
def test_realtime_signals_have_no_name_but_are_told(launch, number):
    outcome = launch("signal", number)
    assert outcome.signal == number
    assert str(number) in outcome.failure()


def test_a_hanging_program_is_killed_with_its_descendants(launch, processes, marker):
    outcome = launch("orphans-hang", 3, marker, timeout_s=SHORT_S)
    assert outcome.timed_out
    assert SHORT_S <= outcome.wall_s < SHORT_S + 2
    assert "still running" in outcome.failure()
    assert processes(marker) == []


def test_a_program_that_ignores_sigterm_is_killed_at_its_time(launch):
    outcome = launch("stubborn", 60000, timeout_s=SHORT_S)
    assert (outcome.timed_out, outcome.signal) == (True, signal.SIGKILL)


@pytest.mark.parametrize("timeout_s", [0.02, 0.0005])
def test_a_short_time_limit_is_not_none(launch, timeout_s):
    outcome = launch("sleep", 1500, timeout_s=timeout_s)
    assert outcome.timed_out
    assert outcome.wall_s < 1


def test_no_time_limit(launch):
    assert not launch("sleep", 30, timeout_s=0).timed_out


def test_descendants_that_outlive_the_program_are_ended(launch, processes, marker):
    outcome = launch("orphans", 5, marker)
    assert (outcome.exit, outcome.timed_out) == (0, False)
    assert processes(marker) == []


def test_too_much_output_is_stopped(launch):
    outcome = launch("output", 1 << 33, output_limit_bytes=1 << 20)
    assert outcome.too_much_output
    why = outcome.failure()
    assert "more than 64 MiB of output" in why and "/dev/null" in why
    assert outcome.explained(why) == why
    assert len(outcome.stdout) > 1 << 20


class Unread(str):
    def __iter__(self):
        raise AssertionError("every character of a good execution's output was read")


def test_the_output_of_an_execution_that_ended_well_is_not_looked_through(launch):
    outcome = replace(launch("exit", 0), stdout=Unread("text"))
    assert outcome.explained(outcome.failure()) is None


def test_a_program_that_is_still_loading_is_not_unserved(launch):
    """Its dynamic linker looks for 2,000 libraries before it maps the C library, and then the program ends at once."""
    (libc,) = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "/libc.so" in line}
    env = {"LD_PRELOAD": ":".join(f"/none/{number}.so" for number in range(2000))}
    outcome = launch("exit", 0, env=env, expect=libc)
    assert outcome.exit == 0
    assert (outcome.not_served(), outcome.unserved_s) == (None, 0)


def test_much_output_below_the_limit_is_whole(launch):
    outcome = launch("output", 20_000_000)
    assert (outcome.exit, len(outcome.stdout)) == (0, 20_000_000)


def test_output_that_is_not_utf8_is_kept_legible(launch):
    outcome = launch("print", os.fsdecode(b"ops \xff\xfe 5\n"))
    assert outcome.exit == 0
    assert outcome.stdout.startswith("ops ")
    assert outcome.stdout.endswith(" 5\n")


@pytest.mark.parametrize("path", ["/nonexistent/program", "/etc", "/etc/hostname"])
def test_a_program_that_cannot_start_is_an_error_and_the_launcher_goes_on(launcher, launch, path):
    with pytest.raises(OSError, match="program"):
        launcher.run(Request([path], {}))
    assert launch("exit", 3).exit == 3


def test_a_folder_that_does_not_exist_is_an_error(launch):
    with pytest.raises(OSError, match="directory"):
        launch("exit", 0, cwd="/nonexistent")


def test_terminate_asks_first(launcher, fakes):
    running = launcher.start(Request([str(fakes.program), "sleep", "60000"], {}))
    outcome = running.terminate()
    assert outcome.signal == signal.SIGTERM
    assert outcome.wall_s < 5


def test_terminate_kills_what_does_not_listen(launcher, fakes, until):
    running = launcher.start(Request([str(fakes.program), "stubborn", "60000"], {}))

    def ignores() -> bool:
        line = next(x for x in Path(f"/proc/{running.pid}/status").read_text().splitlines() if x.startswith("SigIgn:"))
        return bool(int(line.split()[1], 16) >> (signal.SIGTERM - 1) & 1)

    until(ignores)
    outcome = running.terminate(grace_s=0.1)
    assert outcome.signal == signal.SIGKILL
    assert outcome.wall_s < 5


def test_terminate_of_a_program_that_has_just_ended(launcher, fakes, marker):
    """The process is gone, but the launcher has not reported its end yet, since it still reaps the descendants."""
    running = launcher.start(Request([str(fakes.program), "orphans", "150", marker], {}))
    while os.path.exists(f"/proc/{running.pid}"):
        time.sleep(0.0005)
    assert running.terminate().exit == 0


def test_terminate_twice_and_wait_after_the_end(launcher, fakes):
    running = launcher.start(Request([str(fakes.program), "exit", "4"], {}))
    first = running.wait()
    assert running.ended()
    assert running.terminate() is first
    assert running.wait().exit == 4


def test_output_can_be_read_while_the_program_runs(launcher, until):
    running = launcher.start(Request(["/bin/sh", "-c", "echo ready; exec sleep 60"], {}))
    until(lambda: running.output() == b"ready\n")
    assert (running.output(2), running.output(6), running.output(99)) == (b"ady\n", b"", b"")
    assert not running.ended()
    assert running.terminate().stdout == "ready\n"


def test_closing_the_launcher_kills_program_and_descendants(fakes, processes, marker, until):
    launcher = Launcher()
    running = launcher.start(Request([str(fakes.program), "orphans-hang", "2", marker], {}))
    until(lambda: len(processes(marker)) == 3)  # the program and its two orphans
    launcher.close()
    until(lambda: not os.path.exists(f"/proc/{running.pid}"))
    until(lambda: not processes(marker), 3)


def test_many_runs_leave_no_descriptor_open(launch):
    launch("exit", 0)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(50):
        launch("exit", 0)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.fixture
def old_kernel(tmp_path, monkeypatch):
    """A launcher on a system that refuses pidfd_open, as old filters of system calls do."""
    refuse = tmp_path / "refuse.c"
    refuse.write_text("#include <errno.h>\nlong __wrap_syscall(long n, ...) { (void)n; errno = ENOSYS; return -1; }\n")
    path = tmp_path / "helper"
    sources = [*sorted(module.SOURCES.glob("*.c")), refuse]
    words = ["cc", "-std=c17", "-D_GNU_SOURCE", "-O1", "-o", path, *sources, "-Wl,--wrap=syscall"]
    subprocess.run(words, check=True, capture_output=True)
    monkeypatch.setattr(module, "helper_path", lambda: path)


def test_a_system_without_pidfd_measures_all_the_same(old_kernel, fakes, processes, marker):
    with Launcher() as launcher:
        outcome = launcher.run(Request([str(fakes.program), "exit", "3"], {}, timeout_s=20))
        assert (outcome.exit, outcome.timed_out) == (3, False)
        filled = launcher.run(Request([str(fakes.program), "fill", "64"], {}, timeout_s=20))
        assert filled.samples >= 3 and filled.rss_mean_kib <= filled.rss_peak_kib
        hanging = Request([str(fakes.program), "orphans-hang", "2", marker], {}, timeout_s=SHORT_S)
        assert launcher.run(hanging).timed_out
        assert launcher.start(Request([str(fakes.program), "sleep", "60000"], {})).terminate().signal == signal.SIGTERM
    assert processes(marker) == []


def test_two_launchers_run_at_the_same_time(fakes):
    with Launcher() as one, Launcher() as two:
        slow = one.start(Request([str(fakes.program), "sleep", "60000"], {}))
        assert two.run(Request([str(fakes.program), "exit", "0"], {})).exit == 0
        assert not slow.ended()
        timer = threading.Timer(0.05, os.kill, (slow.pid, signal.SIGUSR1))
        timer.start()
        assert slow.wait().signal == signal.SIGUSR1
        timer.join()
