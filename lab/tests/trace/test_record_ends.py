"""hak record when a recording ends early or misses something: full disk, signals, time limit, children, PIDs."""

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
STATIC = "int main(void) { for (int i = 0; i < 30; i++) usleep(10000); return 0; }"


@pytest.fixture(scope="session")
def program(plain) -> Path:
    return plain("recorded.c")


def read(path: Path):
    from hakmem_lab.trace.contents import contents

    return contents(path)


def test_the_seconds_end_the_recording_and_not_the_program(begin, program, path, until):
    running = begin("record", "-o", path, "--seconds", "0.3", "--", program, "endless")
    assert running.stdout.readline() == "going\n"
    until(lambda: path.exists() and read_or_none(path))
    assert running.poll() is None
    running.send_signal(signal.SIGTERM)
    _, said = running.communicate(timeout=600)
    assert running.returncode == -signal.SIGTERM
    assert "complete" in said
    end = read(path).end
    assert end["operations"] > 1000
    assert 0.3 <= end["recorded_s"] < 20


def read_or_none(path: Path):
    from hakmem_lab.errors import LabError

    try:
        return read(path).complete
    except LabError:
        return None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_the_programs_and_the_trace_is_whole(begin, program, path, number):
    running = begin("record", "-o", path, "--", program, "signal")
    assert running.stdout.readline() == "waiting\n"
    running.send_signal(number)
    out, said = running.communicate(timeout=600)
    assert (running.returncode, out) == (5, "heard\n")
    assert "1 operation of 1 process" in said
    assert "complete" in said


def test_so_is_one_that_comes_before_the_start_is_over(here, program, path, until, monkeypatch):
    start = subprocess.Popen

    def disturbed(*words, **options):
        process = start(*words, **options)
        if str(program) in map(str, words[0]):
            until(lambda: heard(process.pid) & 1 << signal.SIGTERM - 1)
            os.kill(os.getpid(), signal.SIGTERM)
        return process

    monkeypatch.setattr(subprocess, "Popen", disturbed)
    answer = here("record", "-o", path, "--", program, "signal")
    assert answer.status == 5
    assert read(path).complete


def heard(pid: int) -> int:
    """The signals for which the process has handlers, as a bit mask."""
    return int(re.search(r"SigCgt:\s+(\w+)", Path(f"/proc/{pid}/status").read_text())[1], 16)


def test_children_out_of_reach_are_counted_and_named(hak, path, tmp_path):
    static = tmp_path / "static"
    words = ["cc", "-w", "-static", "-o", static, "-x", "c", "-"]
    subprocess.run(words, input=STATIC, text=True, check=True)
    answer = hak("record", "-o", path, "--", "sh", "-c", f"{static}; env -u LD_PRELOAD sleep 0.3; exit 6")
    assert answer.status == 6
    assert "static was not recorded (1 process)" in answer.err
    assert "sleep was not recorded (1 process" in answer.err
    assert {Path(each["executable"]).name for each in read(path).end["not_recorded"]} == {"static", "sleep"}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change its root folder")
def test_children_in_another_root_folder_are_recorded(hak, path, tmp_path):
    """The file of the collector's socket is not there, and its children connect all the same."""
    from hakmem_lab.trace.contents import counts

    source, program = "int main(void) { for (int i = 0; i < 1000; i++) malloc(30401); return 0; }", tmp_path / "jail"
    source = source.replace("{ for", f'{{ if (chroot("{tmp_path}") || chdir("/")) return 1; if (fork()) wait(0); for')
    words = ["cc", "-w", "-O0", "-fno-builtin", "-include", "stdlib.h", "-o", program, "-x", "c", "-"]
    subprocess.run(words, input=source, text=True, check=True)
    answer = hak("record", "-o", path, "--", program)
    assert answer.status == 0 and "of 2 processes" in answer.err
    assert [each["operations"] - each["inherited"] for each in counts(path)["processes"]] == [1000, 1000]


def test_a_static_program_is_refused_before_it_starts(hak, path, tmp_path):
    static = tmp_path / "static"
    subprocess.run(["cc", "-w", "-static", "-o", static, "-x", "c", "-"], input=STATIC, text=True, check=True)
    answer = hak("record", "-o", path, "--", static)
    assert answer.status == 2
    assert "statically linked" in answer.message()
    assert not path.exists()


def test_standard_input_and_output_are_the_programs(hak, path):
    answer = hak("record", "-o", path, "--", "sh", "-c", "cat; echo no >&2", input="what was typed\n")
    assert answer.out == "what was typed\n"
    first, said = answer.err.splitlines()
    assert first == "no"
    assert said.startswith(f"hak: {path}: ")
    assert read(path).info["command"] == ["sh", "-c", "cat; echo no >&2"]


def test_a_place_that_cannot_be_written_is_said_before_the_start(here, tmp_path):
    answer = here("record", "-o", tmp_path / "none" / "x.trace", "--", "touch", tmp_path / "ran")
    assert answer.status == 2
    assert "is in no folder" in answer.message()
    assert not (tmp_path / "ran").exists()


def test_a_wait_for_what_the_command_left_running_is_said(begin, path, marker, processes):
    running = begin("record", "-o", path, "--", "sh", "-c", f"sleep {marker} >/dev/null 2>&1 & exit 0")
    assert "the command has ended, and what it has started is still recorded" in running.stderr.readline()
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=600)
    assert "complete" in said
    assert read(path).complete
    assert processes(marker)


@pytest.mark.parametrize("flags", [(), ("--force",)])
def test_a_trace_that_is_there_is_overwritten_by_force_only(here, path, tmp_path, flags):
    path.write_text("of an hour")
    answer = here("record", "-o", path, *flags, "--", "touch", tmp_path / "ran")
    assert answer.status == (0 if flags else 2)
    assert (tmp_path / "ran").exists() == bool(flags)
    if flags:
        assert read(path).complete
    else:
        assert f"{path} is there already" in answer.message()
        assert "--force" in answer.message()
        assert path.read_text() == "of an hour"


def children_of(pid: int) -> list[int]:
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_collector_that_is_killed_leaves_a_partial_trace_and_the_program(begin, program, path):
    running = begin("record", "-o", path, "--", program, "endless")
    assert running.stdout.readline() == "going\n"
    (collector,) = (pid for pid in children_of(running.pid) if "hak-collect" in os.readlink(f"/proc/{pid}/exe"))
    os.kill(collector, signal.SIGKILL)
    running.send_signal(signal.SIGTERM)
    _, said = running.communicate(timeout=600)
    assert running.returncode == -signal.SIGTERM
    assert said.startswith(f"hak: {path}: ") and "bytes; partial: the collector was killed" in said
    assert "operation" not in said


def test_a_process_that_has_ended_or_is_recorded_already_is_refused(begin, here, program, path, tmp_path):
    ended = subprocess.Popen(["true"])
    os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
    answer = here("record", "-o", path, str(ended.pid))
    ended.wait()
    assert answer.status == 2
    assert "has ended" in answer.message()
    running = begin("record", "-o", path, "--", program, "endless")
    assert running.stdout.readline() == "going\n"
    (recorded,) = (int(pid) for pid in children_of(running.pid) if "recorded" in os.readlink(f"/proc/{pid}/exe"))
    answer = here("record", "-o", tmp_path / "other.trace", str(recorded))
    assert answer.status == 2
    assert "it is recorded already" in answer.message()
    running.send_signal(signal.SIGTERM)
    assert "complete" in running.communicate(timeout=600)[1]


def traced(pid: int) -> bool:
    return "TracerPid:\t0\n" not in Path(f"/proc/{pid}/status").read_text()


@pytest.mark.parametrize("reaped", [False, True])
def test_a_running_process_that_is_killed_ends_its_recording_early(begin, program, path, until, reaped):
    with subprocess.Popen([program, "endless"], stdout=subprocess.PIPE, text=True) as running:
        running.stdout.readline()
        recording = begin("record", "-o", path, str(running.pid))
        until(lambda: "libhakrecord" in Path(f"/proc/{running.pid}/maps").read_text() and not traced(running.pid))
        os.kill(running.pid, signal.SIGKILL)
        if reaped:  # then only its parent knows the cause
            running.wait()
        said = recording.communicate(timeout=600)[1]
    assert "; complete until it was killed" in said
    assert reaped or "by SIGKILL" in said


def test_a_command_that_is_killed_is_complete_until_then(hak, program, path):
    answer = hak("record", "-o", path, "--", "sh", "-c", "kill -9 $$")
    assert answer.status == -signal.SIGKILL
    assert "; complete until it was killed by SIGKILL" in answer.err


@pytest.mark.parametrize("what", ["endless", "signal"])
def test_a_running_process_is_recorded_and_goes_on(hak, program, path, what):
    with subprocess.Popen([program, what], stdout=subprocess.PIPE, text=True) as running:
        try:
            running.stdout.readline()
            for _ in range(2):  # once more, after the end
                answer = hak("record", "-o", path, "--force", "--seconds", "0.3", str(running.pid))
                assert answer.status == 0, answer.err
                end = read(path).end
                assert (end["operations"] > 1000) == (what == "endless")
                assert end["lost_frees"] == 0
            os.kill(running.pid, signal.SIGTERM)
            assert running.wait(600) == (5 if what == "signal" else -signal.SIGTERM)
        finally:
            running.kill()
