"""However a run of any kind ends: hak prints one line, sets the exit status, leaves no process, and keeps the data."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

LIMIT_S = 600
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# Runs hak with a patched fsync, whose n-th call first executes {what}.
AT_WRITING = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
real, left = os.fsync, [{n}]
def fsync(fd):
    left[0] -= 1
    if left[0] == 0:
        {what}
    real(fd)
os.fsync = fsync
from hakmem_lab.cli.main import main
main()
"""


def only(store) -> Path:
    (path,) = store.glob("*.jsonl")
    return path


def whole_lines(path: Path) -> list[dict]:
    data = path.read_bytes()
    assert data.endswith(b"\n")
    return [json.loads(line) for line in data.splitlines()]


def launchers(pid: int) -> list[int]:
    """PIDs of a hak process's launchers: one for most kinds, two if two programs run at once."""
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text().split():
            with contextlib.suppress(OSError):
                if "launcher-" in os.readlink(f"/proc/{child}/exe"):
                    found.append(int(child))
    return found


def hanging(process, case, processes, until) -> None:
    """Waits until the program hangs and all four processes exist: the program, its child and two orphans."""
    until(lambda: case.slow.hangs() or process.poll() is not None, LIMIT_S)  # cheaper than the next line
    until(lambda: len(processes(case.slow.marker)) >= 4 or process.poll() is not None, LIMIT_S)
    assert process.poll() is None, process.communicate()


def the_line(process) -> str:
    out, err = process.communicate(timeout=LIMIT_S)
    lines = [line for line in err.splitlines(keepends=True) if not line.startswith("warning: ")]
    assert (out, len(lines)) == ("", 1), (out, err)
    return lines[0]


def test_signals_and_killed_launchers_one_after_the_other(measuring, begin, here, processes, until, store):
    """Each signal ends the run, which is then resumed for the next one; the last resumption completes it."""
    slow, words = measuring.slow, measuring.words
    for number in (*SIGNALS, signal.SIGKILL):
        slow.hang(measuring.first + 2 if words is measuring.words else 1)
        process = begin(*words)
        hanging(process, measuring, processes, until)
        before = only(store).read_bytes()
        if number == signal.SIGKILL:
            os.kill(launchers(process.pid)[0], number)
        else:
            for _ in range(3):  # as from a user who presses Ctrl-C repeatedly
                process.send_signal(number)
        line = the_line(process)
        assert not processes(slow.marker)
        assert process.returncode == (3 if number == signal.SIGKILL else 128 + number)
        assert line.startswith("hak: ") and f"hak runs resume {only(store).stem}" in line
        assert ("launcher was killed" in line) == (number == signal.SIGKILL)
        assert only(store).read_bytes().startswith(before)
        (last,) = [r["what"] for r in whole_lines(only(store)) if r["type"] == "event"][-1:]
        assert last == ("stopped" if number == signal.SIGKILL else "interrupted")
        words = ["resume", "last", "--quiet"]
    slow.run_through()
    answer = here("resume", "last", "--quiet", "--json", "-")
    assert answer.status == 0, answer.err
    assert answer.result()["final"]


def test_a_killed_laboratory(killed, begin, here, processes, until, store):
    killed.slow.hang(killed.first + 2)
    process = begin(*killed.words)
    hanging(process, killed, processes, until)
    before = only(store).read_bytes()
    process.kill()
    process.wait()
    until(lambda: not processes(killed.slow.marker))
    assert only(store).read_bytes() == before
    killed.slow.run_through()
    answer = here("resume", "last", "--quiet", "--json", "-")
    assert answer.status == 0, answer.err
    assert answer.result()["final"]


def listens(pid: int) -> bool:
    lines = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line)
    return bool(int(lines["SigCgt"], 16) >> (signal.SIGHUP - 1) & 1)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_at_the_very_start(case, begin, until, store, number):
    process = begin(*case("ab").words)
    until(lambda: listens(process.pid))
    process.send_signal(number)
    assert the_line(process).startswith("hak: interrupted")
    assert process.returncode == 128 + number
    assert not store.exists()


@pytest.fixture
def trying(measuring, begin, processes, until, store):
    """A hak whose first trial hangs, before there is a header. At its end, nothing is stored and nothing runs."""
    if measuring.first <= 0:
        pytest.skip("nothing runs before the header")
    measuring.slow.hang(1)
    process = begin(*measuring.words)
    hanging(process, measuring, processes, until)
    yield process
    assert process.returncode is not None
    assert not processes(measuring.slow.marker) and not list(store.glob("*.jsonl"))


def test_a_signal_before_anything_is_stored(trying):
    trying.send_signal(signal.SIGTERM)
    assert the_line(trying) == "hak: interrupted; nothing was stored\n"
    assert trying.returncode == 143


def test_a_launcher_killed_before_anything_is_stored(trying):
    for pid in launchers(trying.pid):
        with contextlib.suppress(ProcessLookupError):  # after the loss of the first, hak may have ended the second
            os.kill(pid, signal.SIGKILL)
    assert "launcher was killed" in (line := the_line(trying)) and "nothing was stored" in line
    assert trying.returncode == 3


@pytest.mark.parametrize("n", [1, 2])
@pytest.mark.parametrize("what", ["signal", "disk"])
def test_while_a_record_is_written(measuring, here, store, what, n):
    """A signal arrives, or the disk becomes full, while hak writes the header or a later record."""
    script = {
        "signal": "os.kill(os.getpid(), signal.SIGINT); os.kill(os.getpid(), signal.SIGTERM)",
        "disk": "raise OSError(28, 'No space left on device')",
    }[what]
    words = [*measuring.words[:-2], "--store", store, *measuring.words[-2:]]
    if "--" not in words:
        words = [*measuring.words, "--store", store]
    hak = [sys.executable, "-c", AT_WRITING.format(n=n, what=script), *map(str, words)]
    done = subprocess.run(hak, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    (line,) = done.stderr.splitlines()
    if what == "disk" and n == 1:
        assert (done.returncode, list(store.glob("*.jsonl"))) == (2, [])
        assert "--store" in line
        return
    assert done.returncode == (130 if what == "signal" else 3)
    assert f"hak runs resume {only(store).stem}" in line
    assert whole_lines(only(store))
    answer = here("resume", "last", "--quiet", "--json", "-")
    assert answer.status == 0, answer.err
    assert answer.result()["final"]
