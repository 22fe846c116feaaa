"""`hak run`: the program itself, on an allocator that is checked to serve it."""

import os
import shutil
import signal
import subprocess
import sys

import pytest


@pytest.mark.parametrize("status", [0, 3, 255])
def test_it_ends_as_the_program_does(hak, fakes, status):
    assert hak("run", "--allocator", "glibc", "--", fakes.program, "exit", status).status == status


def test_it_ends_by_the_signal_of_the_program(hak, fakes):
    assert hak("run", "--allocator", "glibc", "--", fakes.program, "signal", 9).status == -9


def test_the_program_gets_allocator_settings_and_input(hak, fakes):
    words = ["run", "--allocator", fakes.allocator, "--set", "A=x y", "--", "sh", "-c", "cat; echo $LD_PRELOAD $A"]
    answer = hak(*words, input="typed\n")
    assert answer.out == f"typed\n{fakes.allocator} x y\n"
    assert answer.err == ""


def test_settings_are_handed_over_as_they_are(hak):
    words = ["run", "--allocator", "glibc", "--set", "CONF=a:1,b:2", "--set", "LIST=x,Y=z", "--"]
    assert hak(*words, "sh", "-c", "echo $CONF $LIST $Y").out == "a:1,b:2 x,Y=z\n"


def test_the_program_is_checked_in_the_environment_that_it_runs_in(hak, fakes):
    env = os.environ | {"LD_LIBRARY_PATH": str(fakes.other_library.parent)}
    words = ["run", "--allocator", fakes.allocator, "--", fakes.dependent_program, "exit", 3]
    answer = hak(*words, env=env)
    assert (answer.status, answer.err) == (3, "")
    assert hak(*words).status == 2


@pytest.mark.parametrize("allocator", ["glibcc", "hakmem,HAKMEM_PROFIL=lean"])
def test_a_mistake_names_the_flag(hak, fakes, allocator):
    answer = hak("run", "--allocator", allocator, "--", fakes.program, "exit", 0)
    assert answer.status == 2
    assert "--allocator" in answer.message()
    assert "did you mean" in answer.message()


def test_a_setting_that_is_none(hak, fakes):
    answer = hak("run", "--allocator", "glibc", "--set", "A", "--", fakes.program, "exit", 0)
    assert answer.status == 2
    assert "--set" in answer.message() or "'A'" in answer.message()


def test_a_static_program_is_refused(hak, fakes):
    answer = hak("run", "--allocator", fakes.allocator, "--", fakes.static_program, "exit", 0)
    assert answer.status == 2
    assert "static" in answer.message()


def test_the_flags_of_the_program_are_its_own(hak, fakes):
    answer = hak("run", "--allocator", "glibc", "--", fakes.program, "arguments", "--allocator", "--", "--help")
    assert answer.out.split("\0")[2:-1] == ["--allocator", "--", "--help"]


def test_the_program_does_not_become_the_home_of_orphans(hak, fakes):
    """hak is a subreaper, so that it can end what a killed launcher leaves. exec would keep this attribute."""
    asks = "import ctypes; v = ctypes.c_int(9); ctypes.CDLL(None).prctl(37, ctypes.byref(v), 0, 0, 0); print(v.value)"
    assert hak("run", "--allocator", fakes.allocator, "--", sys.executable, "-c", asks).out == "0\n"


@pytest.mark.skipif(shutil.which("valgrind") is None, reason="valgrind is not installed")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_counted_program_is_told_of_signals_and_does_not_outlive_hak(begin, fakes, processes, marker, until, number):
    process = begin("run", "--allocator", "glibc", "--callgrind", "--", fakes.program, "sleep", 60000, marker)
    until(lambda: len(processes(marker)) == 1)
    process.send_signal(number)
    process.communicate()
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number)
    until(lambda: not processes(marker))


def test_what_the_program_starts_without_the_allocator_is_said_at_its_end(hak, fakes):
    starts = f"import subprocess; subprocess.run([{str(fakes.program)!r}, 'exit', '0'], env={{}})"
    answer = hak("run", "--allocator", fakes.allocator, "--", sys.executable, "-c", starts + "; raise SystemExit(3)")
    assert answer.status == 3
    assert f"did not serve all of it: {fakes.program}, which " in answer.err
    assert "starts without LD_PRELOAD" in answer.err


def test_the_program_has_no_child_that_it_did_not_start(hak, fakes):
    waits = "import os\ntry: os.wait()\nexcept ChildProcessError: print('none')"
    answer = hak("run", "--allocator", fakes.allocator, "--", sys.executable, "-c", waits)
    assert (answer.out, answer.err) == ("none\n", "")


@pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")
def test_a_program_that_traces_others_is_left_alone(hak, fakes):
    answer = hak("run", "--allocator", fakes.allocator, "--", "strace", "-o", os.devnull, fakes.program, "exit", 3)
    assert (answer.status, answer.err) == (3, "")


@pytest.mark.parametrize(("option", "status"), [("address", 2), ("thread", 2), ("undefined", 0), ("leak", 0)])
def test_programs_with_a_sanitizer(hak, tmp_path, option, status):
    """hak refuses a program whose sanitizer needs its own malloc, since it would end without any message."""
    source, program = tmp_path / "small.c", tmp_path / option
    source.write_text("#include <stdlib.h>\nint main(void) { free(malloc(100)); return 0; }\n")
    subprocess.run(["cc", "-fno-builtin", f"-fsanitize={option}", "-o", program, source], check=True)
    answer = hak("run", "--allocator", "hakmem", "--", program)
    assert answer.status == status
    assert (f"build it without -fsanitize={option}" in answer.err) == (status == 2)
