"""Before anything is measured, the preflight asks the dynamic linker whether a program's malloc is this allocator's."""

import os
import shutil
import signal
import sys
from pathlib import Path

import pytest

from hakmem_lab.errors import LabError
from hakmem_lab.plan.arms import parse_arm
from hakmem_lab.plan.model import build
from hakmem_lab.plan.spec import AbSpec
from hakmem_lab.run import preflight
from hakmem_lab.run.workload import Workload
from hakmem_lab.system import launcher
from hakmem_lab.system.scripts import interpreters

AARCH64 = 183


@pytest.fixture
def check(fakes):
    """check(command, arm): raises LabError if the arm does not serve the command."""

    def call(command, arm=None):
        values = {"command": [str(word) for word in command], "control": "glibc", "treatment": "glibc"}
        preflight.check_arm(parse_arm(str(arm or fakes.allocator)), Workload.of(build(AbSpec, values, "test")))

    return call


@pytest.mark.parametrize("arm", ["allocator", "glibc", "default"])
def test_a_dynamic_program_is_served(check, fakes, arm):
    check([fakes.program, "exit", "0"], getattr(fakes, arm, arm))


@pytest.mark.parametrize("words", [["crash"], ["sleep", "60000"], ["stubborn", "60000"], ["exit", "9"]])
def test_what_the_program_does_later_does_not_matter(check, fakes, words):
    check([fakes.program, *words])


def test_the_program_is_killed_without_being_asked(check, fakes, monkeypatch):
    """SIGTERM would run the program's own handlers, so the preflight sends SIGKILL."""
    sent, real = [], os.kill

    def kill(pid, number):
        sent.append(number)
        real(pid, number)

    monkeypatch.setattr(launcher.os, "kill", kill)
    check([fakes.program, "sleep", "60000"])
    assert sent == [signal.SIGKILL]


def test_a_script_is_served_through_its_interpreter(check, fakes, tmp_path):
    check([fakes.script(tmp_path)])


def test_a_program_in_a_folder_with_a_space_is_served(check, fakes, tmp_path):
    folder = tmp_path / "a b"
    folder.mkdir()
    path = folder / "the fake"
    path.write_bytes(fakes.program.read_bytes())
    path.chmod(0o755)
    check([path, "exit", "0"])


def test_a_static_program_is_refused(check, fakes):
    with pytest.raises(LabError, match="statically linked"):
        check([fakes.static_program, "exit", "0"])


def test_a_starter_that_clears_the_environment_is_refused(check, fakes):
    """The started program loses LD_PRELOAD and LD_DEBUG, so our allocator does not serve it and it reports nothing."""
    with pytest.raises(LabError, match="starts without LD_PRELOAD"):
        check(["env", "-i", str(fakes.program), "sleep", "60000"])


@pytest.mark.parametrize("bit", [0o4000, 0o2000])
def test_a_setuid_program_is_refused(check, fakes, tmp_path, bit):
    path = tmp_path / "setuid"
    path.write_bytes(fakes.program.read_bytes())
    path.chmod(0o755 | bit)
    with pytest.raises(LabError, match="setuid"):
        check([path, "exit", "0"])


def test_a_script_of_a_static_interpreter_is_refused(check, fakes, tmp_path):
    path = tmp_path / "script"
    path.write_text(f"#!{fakes.static_program} exit\n")
    path.chmod(0o755)
    with pytest.raises(LabError, match=r"serve malloc|statically"):
        check([path])


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"plain text\n", id="text"),
        pytest.param(b"MZ" + b"\0" * 64, id="other system"),
        pytest.param(b"\x7fELF", id="only the magic"),
        pytest.param(b"\x7fELF" + b"\xff" * 60, id="damaged header"),
    ],
)
def test_a_file_that_is_no_program_is_refused(check, tmp_path, content):
    path = tmp_path / "strange"
    path.write_bytes(content)
    path.chmod(0o755)
    with pytest.raises(LabError, match="strange"):
        check([path])


def test_a_script_with_the_line_ends_of_windows_is_told_how_to_lose_them(check, tmp_path):
    path = tmp_path / "script"
    path.write_bytes(b"#!/bin/sh\r\necho\r\n")
    path.chmod(0o755)
    with pytest.raises(LabError, match=r"its first line ends as on Windows.*sed -i") as caught:
        check([path])
    assert str(path) in str(caught.value)


def test_a_program_with_a_malloc_of_its_own_is_refused(check, fakes):
    with pytest.raises(LabError, match="the program itself"):
        check([fakes.own_malloc("default")])


def test_a_program_that_hides_its_malloc_is_refused(check, fakes):
    """The program's calls do not pass the dynamic linker; only the C library's calls reach the preloaded allocator."""
    with pytest.raises(LabError):
        check([fakes.own_malloc("hidden")])


def test_the_arm_is_preferred_to_an_allocator_that_the_program_is_linked_to(check, fakes):
    check([fakes.linked_program, "exit", "0"], "glibc")
    check([fakes.linked_program, "exit", "0"])


def test_a_library_that_is_no_allocator_is_refused_with_who_serves(check, fakes):
    with pytest.raises(LabError, match=r"libanswer\.so.*libc\.so"):
        check([fakes.program, "exit", "0"], fakes.other_library)


@pytest.mark.parametrize("kind", ["text", "empty", "machine", "truncated"])
def test_a_library_that_cannot_be_loaded_is_refused(check, fakes, tmp_path, kind):
    whole = fakes.allocator.read_bytes()
    content = {
        "text": b"not a library\n",
        "empty": b"",
        "machine": whole[:18] + AARCH64.to_bytes(2, "little") + whole[20:],
        "truncated": whole[:200],
    }[kind]
    path = tmp_path / "libbroken.so"
    path.write_bytes(content)
    with pytest.raises(LabError, match=r"libbroken\.so.*cannot be preloaded|libbroken\.so should serve") as caught:
        check([fakes.program, "exit", "0"], path)
    assert "\n" not in str(caught.value)


def test_a_library_in_a_folder_with_a_space_is_refused_with_the_reason(check, fakes, tmp_path):
    """LD_PRELOAD separates paths by spaces and colons, and has no quoting."""
    folder = tmp_path / "a b"
    folder.mkdir()
    path = folder / "libbump.so"
    path.write_bytes(fakes.allocator.read_bytes())
    with pytest.raises(LabError, match=r"space|cannot be preloaded"):
        check([fakes.program, "exit", "0"], path)


@pytest.mark.skipif(not os.path.exists("/usr/bin/python3"), reason="needs a program with many libraries")
def test_a_program_with_many_libraries_is_served(check):
    check(["/usr/bin/python3", "-I", "-c", "pass"])


@pytest.fixture
def script(tmp_path):
    """script(text): an executable file with this text."""

    def write(text, name="script"):
        path = tmp_path / name
        path.write_text(text)
        path.chmod(0o755)
        return path

    return write


@pytest.mark.parametrize("line", ["/usr/bin/env python3", "/usr/bin/env -S python3 -I", sys.executable])
def test_an_executable_script_is_followed_to_its_interpreter(check, script, line):
    check([script(f"#!{line}\nraise SystemExit\n")])


def test_pytest_itself_is_served(check):
    check([Path(sys.executable).parent / "pytest", "--version"])


@pytest.mark.parametrize(
    "words", [["env", "A=1"], ["timeout", "20"], ["nice", "-n", "1"], ["sh", "-c", 'exec "$0" "$@"']]
)
def test_a_program_behind_a_wrapper_is_served(check, fakes, words):
    check([*words, fakes.program, "exit", "0"])


def test_a_shell_script_around_a_program_is_served(check, fakes, script):
    check([script(f"#!/bin/sh\n{fakes.program} exit 0\nexit $?\n")])


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(["env", "-u", "LD_PRELOAD"], id="env takes it away"),
        pytest.param(["sh", "-c", 'unset LD_PRELOAD; exec "$0" "$@"'], id="the shell takes it away"),
        pytest.param(["sh", "-c", 'LD_PRELOAD= "$0" "$@"; exit 0'], id="a child of the shell loses it"),
    ],
)
def test_a_wrapper_that_drops_the_allocator_is_refused(check, fakes, words):
    with pytest.raises(LabError, match=r"fake.* but .*libc\.so.* does"):
        check([*words, fakes.program, "exit", "0"])


def test_a_static_program_behind_a_wrapper_is_refused(check, fakes):
    with pytest.raises(LabError, match=r"fake-static, which .*env starts: it is statically linked"):
        check(["env", fakes.static_program, "sleep", "60000"])


def test_a_shell_that_works_itself_is_not_waited_for(check):
    """The preflight kills the shell instead of waiting for its end."""
    check(["sh", "-c", "while :; do :; done"])


def test_a_script_of_a_setuid_interpreter_is_refused(check, fakes, script, tmp_path):
    reader = tmp_path / "reader"
    reader.write_bytes(fakes.program.read_bytes())
    reader.chmod(0o4755)
    with pytest.raises(LabError, match=r"reader: it is setuid"):
        check([script(f"#!{reader} exit\n")])


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("#!/bin/sh", ["/bin/sh"]),
        ("#! /bin/sh -e", ["/bin/sh"]),
        ("#!/usr/bin/env -S -u X A=1 sh -e", ["/usr/bin/env", shutil.which("sh")]),
        ("#!/usr/bin/env no-such-program-x", ["/usr/bin/env"]),
        ("echo no mark", []),
        ("", []),
    ],
)
def test_the_interpreters_of_a_script(script, line, wanted):
    assert [str(path) for path in interpreters(script(f"{line}\n"))] == wanted


def test_a_script_whose_interpreter_is_a_script(script):
    inner = script("#!/bin/sh\n", "inner")
    assert interpreters(script(f"#!{inner}\n", "outer")) == [inner, Path("/bin/sh")]


def test_a_script_that_is_its_own_interpreter_ends(script, tmp_path):
    assert len(interpreters(script(f"#!{tmp_path / 'script'}\n"))) < 10
