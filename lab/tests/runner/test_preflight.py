"""What the dynamic linker says before anything is measured: is this allocator the one that answers malloc there?"""

import os
import signal

import pytest

from hakmem_lab import launcher, preflight
from hakmem_lab.arms import parse_arm
from hakmem_lab.errors import LabError
from hakmem_lab.runner import Workload
from hakmem_lab.spec import AbSpec, build

AARCH64 = 183


@pytest.fixture
def check(fakes):
    """check(command, arm): raises LabError where the arm does not serve the command."""

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
    """What it did on SIGTERM would be its own code, run for nothing."""
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


def test_a_program_with_a_malloc_of_its_own_is_refused(check, fakes):
    with pytest.raises(LabError, match="the program itself"):
        check([fakes.own_malloc("default")])


def test_a_program_that_hides_its_malloc_is_refused(check, fakes):
    """Its calls never pass the dynamic linker; only the C library's own calls reach the preloaded allocator."""
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
    """LD_PRELOAD separates its words by spaces and colons, and knows no quoting."""
    folder = tmp_path / "a b"
    folder.mkdir()
    path = folder / "libbump.so"
    path.write_bytes(fakes.allocator.read_bytes())
    with pytest.raises(LabError, match=r"space|cannot be preloaded"):
        check([fakes.program, "exit", "0"], path)


@pytest.mark.skipif(not os.path.exists("/usr/bin/python3"), reason="needs a program with many libraries")
def test_a_program_with_many_libraries_is_served(check):
    check(["/usr/bin/python3", "-I", "-c", "pass"])
