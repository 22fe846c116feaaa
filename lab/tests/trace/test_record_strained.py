"""hak record of programs with scarce resources: threads, stacks, address space, descriptors, unloaded libraries."""

import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
PLUGIN = "#include <stdlib.h>\nvoid *make(void) { return malloc(30401); }\n"


@pytest.fixture(scope="session")
def program(plain) -> Path:
    return plain("strained.c")


@pytest.fixture
def record(hak, path) -> Callable:
    """record(words of the command…): (answer of hak, counts of the trace)."""

    def call(*words: object, flags: tuple = (), **keywords) -> tuple:
        from hakmem_lab.trace.contents import counts

        answer = hak("record", "-o", path, *flags, "--", *words, **keywords)
        return answer, counts(path) if path.exists() else None

    return call


def sizes(found: dict, process: int) -> Counter:
    """Lowest size of a bucket -> number of blocks in this bucket."""
    (each,) = (each for each in found["processes"] if each["process"] == process)
    return Counter({least: blocks for least, blocks, _ in each["sizes"]})


def test_more_threads_than_buffers_are_recorded_and_none_waits_for_ever(record, program):
    answer, found = record(program, "crowd", "4500")
    assert (answer.status, answer.out) == (0, "done\n")
    assert "complete" in answer.err
    (process,) = found["processes"]
    assert process["kinds"]["malloc"] >= 4500
    assert process["kinds"]["free"] + process["kinds"]["free_foreign"] >= 4500
    assert (process["unknown_frees"], process["lost_frees"]) == (0, 0)


def test_a_handler_on_a_small_stack_ends_the_program_as_without_the_recorder(record, program):
    answer, found = record(program, "small_stack")
    assert answer.status == 7
    assert found["end"]["processes"][0]["rss_peak_kib"] > 0


def test_a_process_whose_address_space_is_full_is_named(record, program):
    answer, found = record(program, "little_room")
    assert (answer.status, answer.out) == (0, "done\n")
    assert f"{program} was not recorded" in answer.err
    assert found["end"]["not_recorded"] == [{"processes": 1, "by_exec": 0, "executable": str(program)}]
    assert [each["process"] for each in found["processes"]] == [0]


def test_a_block_that_a_slow_thread_holds_has_its_lifetime(record, program):
    _, found = record(program, "holds")
    (process,) = found["processes"]
    # A thread's first words may share one time mark, so that the time between them is 0.
    assert sum(blocks for least, blocks, _ in process["life_ns"] if least >= 16_000_000) >= 15


def test_children_that_begin_late_inherit_what_lived_when_they_were_forked(record, program):
    answer, found = record(program, "late_children", "40")
    assert (answer.status, answer.out) == (0, "done\n")
    begun = [each for each in found["processes"] if each["about"]["forked"]]
    assert len(begun) == 40
    assert all(each["kinds"]["free"] == 100 for each in begun)


def test_a_program_keeps_the_descriptors_that_it_was_given(record, tmp_path):
    (tmp_path / "text").write_text("what it reads\n")
    with open(tmp_path / "text") as file:
        answer, _ = record("cat", f"/dev/fd/{file.fileno()}", pass_fds=[file.fileno()])
    assert answer.out == "what it reads\n"


def test_a_program_of_another_c_library_is_refused(hak, path, tmp_path):
    program = tmp_path / "program"
    words = ["cc", "-w", "-o", program, "-Wl,--dynamic-linker=/lib/ld-other.so.1", "-x", "c", "-"]
    subprocess.run(words, input="int main(void) { return 0; }", text=True, check=True)
    answer = hak("record", "-o", path, "--", program)
    assert answer.status == 2
    assert "/lib/ld-other.so.1 starts it" in answer.message()


def test_after_the_end_of_a_recording_no_program_waits_for_it(record, program):
    answer, found = record(program, "starts", "3", flags=("--seconds", "1"))
    assert answer.out == "0 slow starts\ndone\n"
    assert found["partial"] is None


def test_a_library_that_was_unloaded_while_a_process_is_recorded_is_left_alone(begin, program, path, tmp_path, until):
    library = tmp_path / "plugin.so"
    words = ["cc", "-O1", "-fno-builtin", "-shared", "-fPIC", "-o", library, "-x", "c", "-"]
    subprocess.run(words, input=PLUGIN, text=True, check=True)
    with subprocess.Popen([program, "unloads", library], stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout.readline() == "going\n"
            recording = begin("record", "-o", path, "--seconds", "2", str(running.pid))
            until(lambda: "hak-record" in Path(f"/proc/{running.pid}/maps").read_text())
            until(lambda: not traced(running.pid))
            os.kill(running.pid, signal.SIGUSR1)
            assert running.stdout.readline() == "unloaded\n"
            _, said = recording.communicate(timeout=600)
            assert "complete" in said
            with pytest.raises(subprocess.TimeoutExpired):
                running.wait(0.5)
        finally:
            running.kill()


def traced(pid: int) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    return "TracerPid:\t0\n" not in status


@pytest.fixture
def small_disk(tmp_path) -> Callable:
    """small_disk(words of the command…): (answer of hak, path of the trace), recorded on a file system of 32 KiB."""
    mount = ["unshare", "-rm", "sh", "-c", 'mount -t tmpfs -o size=32k none "$0" && "$@"', tmp_path / "disk"]

    def call(*words: object, flags: tuple = ()) -> tuple:
        (tmp_path / "disk").mkdir()
        if subprocess.run([*mount, "true"], capture_output=True, check=False).returncode:
            pytest.skip("this user can mount nothing")
        hak = (sys.executable, "-m", "hakmem_lab.cli.main", "record", "-o", "disk/trace", *flags, "--")
        done = subprocess.run(
            [*mount, "sh", "-c", '"$@"; status=$?; cp disk/trace .; exit $status', "sh", *hak, *words],
            capture_output=True, text=True, cwd=tmp_path, check=False,
        )  # fmt: skip
        return done, tmp_path / "trace"

    return call


@pytest.mark.parametrize("flags", [(), ("--stacks", "--rate", "1")])
@pytest.mark.parametrize("count", ["20000", "400000"])
def test_a_full_disk_ends_the_recording_and_not_the_program(small_disk, program, count, flags):
    from hakmem_lab.trace.contents import contents, counts

    done, trace = small_disk(program, "random", count, flags=flags)
    assert (done.returncode, done.stdout) == (3, "done\n")
    written = sum(each["operations"] for each in counts(trace)["processes"])
    assert f"trace: {written:,} operation" in done.stderr
    assert "; partial: the " in done.stderr and ": No space left on device" in done.stderr
    assert trace.stat().st_size <= 32 << 10
    found = contents(trace)
    assert not found.complete
    assert found.partial.endswith(": No space left on device")


def test_two_recordings_do_not_write_into_one_file(begin, here, path, until):
    first = begin("record", "-o", path, "--", "sh", "-c", "echo going; exec sleep 30")
    assert first.stdout.readline() == "going\n"
    refused = here("record", "-o", path, "--force", "--", "true")
    assert refused.status == 2
    assert "another recording is writing" in refused.message()
    first.send_signal(signal.SIGTERM)
    _, said = first.communicate(timeout=600)
    assert "complete" in said


@pytest.mark.parametrize(("kind", "what"), [("fifo", "no regular file"), ("folder", "is a folder")])
def test_only_a_file_can_be_written_to(here, tmp_path, kind, what):
    target = tmp_path / "target"
    os.mkfifo(target) if kind == "fifo" else target.mkdir()
    answer = here("record", "-o", target, "--", "true")
    assert answer.status == 2
    assert what in answer.message()


def test_a_recorder_that_cannot_be_preloaded_is_refused(hak, path, tmp_path):
    """Nor is it compiled anew, which takes seconds, where a folder holds it already."""
    hak("record", "-o", path.with_suffix(".first"), "--", "true")
    built, other = Path(os.environ["XDG_CACHE_HOME"]) / "hakmem-lab", tmp_path / f"hakmem-lab-{os.getuid()}"
    for folder in (tmp_path / "a folder" / "hakmem-lab", other):
        shutil.copytree(built, folder, ignore=shutil.ignore_patterns("tmp*"))
        folder.chmod(0o700)
    answer = hak("record", "-o", path, "--", "true", env=os.environ | {"XDG_CACHE_HOME": str(tmp_path / "a folder")})
    assert answer.status == 2
    assert "XDG_CACHE_HOME" in answer.message()
    unwritable = os.environ | {"XDG_CACHE_HOME": "/dev/null/cache", "TMPDIR": str(tmp_path)}
    assert hak("record", "-o", path, "--force", "--", "true", env=unwritable).status == 0


def test_a_trace_has_the_name_of_its_program_if_none_is_given(hak, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert hak("record", "--", "/bin/true").status == 0
    assert (tmp_path / "true.trace").stat().st_size > 0


def test_a_long_name_of_the_folder_for_temporary_files_is_none_of_the_users_business(record, tmp_path):
    folder = tmp_path / ("long" * 25)
    folder.mkdir()
    answer, found = record("true", env=os.environ | {"TMPDIR": str(folder)})
    assert answer.status == 0
    assert found["process_count"] == 1


def test_of_many_long_commands_the_later_ones_are_cut_short(record):
    loop = 'i=0; while [ $i -lt 160 ]; do /bin/true "$0"; i=$((i+1)); done'
    answer, found = record("sh", "-c", loop, "x" * 100_000)
    assert answer.status == 0
    assert found["partial"] is None
    lengths = [len(" ".join(each["about"]["command"])) for each in found["processes"]]
    assert lengths[0] > 60_000
    assert lengths[-1] < 256


def test_a_year_ends_no_recording(record):
    answer, found = record("true", flags=("--seconds", "31622400"))
    assert answer.status == 0
    assert "Traceback" not in answer.err
    assert found["partial"] is None


def test_children_that_live_for_an_instant_are_counted(record, program):
    answer, found = record(program, "children", "60")
    assert (answer.status, answer.out) == (0, "done\n")
    children = [each for each in found["processes"] if each["about"]["forked"]]
    assert len(children) == 60
    assert all(each["operations"] - each["inherited"] >= 2 for each in children)
    assert found["end"]["operations"] >= 120
