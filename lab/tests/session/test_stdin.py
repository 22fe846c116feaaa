"""Standard input: every run reads the same data from the beginning, from a named file, a redirection or a pipe."""

import json
import os
import subprocess
import threading

import pytest

from hakmem_lab.plan import peers, stdin

LINES = b"one\ntwo\nthree\n"
COUNT = ("/bin/sh", "-c", '[ -n "$LD_DEBUG" ] || echo ops $(wc -l)')
WORDS = (
    "ab", "--control", "glibc", "--treatment", "glibc,A=1", "--metric", r"regex:ops (\d+)", "--repeat", "1",
    "--warm-up", "0", "--looks", "1", "--max-blocks", "6",
)  # fmt: skip


@pytest.fixture
def lines(tmp_path):
    path = tmp_path / "lines.txt"
    path.write_bytes(LINES)
    return path


def counted(records):
    """The set of numbers of lines that the runs have read."""
    return {run["value"] for run in records("run")}


def test_a_named_file_is_read_from_its_beginning_by_every_run(here, records, lines):
    answer = here(*WORDS, "--input", lines, "--quiet", "--", *COUNT)
    assert answer.status == 0, answer
    assert counted(records) == {3.0}
    assert str(lines) in records("header")[0]["inputs"]


def test_a_spec_names_it(here, records, lines, tmp_path):
    spec = tmp_path / "spec.toml"
    spec.write_text(f'kind = "ab"\nstdin = "{lines}"\nlooks = 1\nmax-blocks = 6\nrepeat = 1\nwarm-up = 0\n'
                    f'control = "glibc"\ntreatment = "glibc,A=1"\nmetric = \'regex:ops (\\d+)\'\n'
                    f"command = {json.dumps(COUNT)}\n", encoding="utf-8")  # fmt: skip
    assert here("ab", spec, "--quiet").status == 0
    assert counted(records) == {3.0}


@pytest.mark.parametrize("how", ["redirected", "piped", "partly read"])
def test_what_hak_is_given_is_replayed_to_every_run(hak, records, lines, how):
    with open(lines, "rb") as file:
        if how == "partly read":
            os.lseek(file.fileno(), 4, os.SEEK_SET)
        source = {"input": LINES.decode()} if how == "piped" else {"stdin": file}
        answer = hak(*WORDS, "--", *COUNT, **source)
    assert answer.status == 0, answer
    wanted = 2 if how == "partly read" else 3
    assert counted(records) == {float(wanted)}
    size = len(LINES) - (4 if how == "partly read" else 0)
    assert f"standard input: {size} bytes, given to every run" in answer.err


@pytest.fixture
def pipe(monkeypatch):
    """Makes standard input a pipe and yields its writing end. Waiting times are a tenth of the usual ones."""
    reading, writing = os.pipe()
    monkeypatch.setattr(stdin, "DESCRIPTOR", reading)
    monkeypatch.setattr(stdin, "NOTICE_S", 0.1)
    monkeypatch.setattr(stdin, "WAIT_S", 1.0)
    with open(writing, "wb", buffering=0) as end:
        yield end
    os.close(reading)


BYTES = ("/bin/sh", "-c", "echo ops $((1 + $(wc -c)))")


@pytest.mark.parametrize("first", [b"", b"a"])
def test_what_comes_late_is_waited_for_with_a_line(here, pipe, records, first):
    pipe.write(first)
    timer = threading.Timer(0.4, lambda: (pipe.write(b"late"), pipe.close()))
    timer.start()
    answer = here(*WORDS, "--quiet", "--json", "-", "--", *BYTES)
    timer.join()
    assert answer.status == 0, answer
    assert answer.err.startswith("hak: waiting for standard input, which is open but silent")
    assert counted(records) == {5.0 + len(first)}
    assert not records("event", what="no-input")


def test_a_silent_pipe_is_none_in_the_end_and_the_result_says_so(here, pipe, records):
    answer = here(*WORDS, "--quiet", "--json", "-", "--", *BYTES)
    assert answer.status == 0, answer
    assert "the program gets none where nothing comes within 1 s" in answer.err
    assert counted(records) == {1.0}
    (warning,) = [text for text in answer.result()["warnings"] if "standard input was open but silent" in text]
    assert "--input FILE" in warning
    assert records("event", what="no-input")


def test_a_pipe_that_ends_after_its_silence_was_none(here, pipe, records):
    threading.Timer(1.2, pipe.close).start()
    assert here(*WORDS, "--quiet", "--", *BYTES).status == 0
    assert counted(records) == {1.0}


def test_what_comes_after_the_program_began_without_it_ends_the_run(here, pipe, records):
    late = f"echo late >/proc/{os.getpid()}/fd/{pipe.fileno()}"
    answer = here(*WORDS, "--quiet", "--prepare", late, "--", *BYTES)
    assert answer.status == 3, answer
    assert "standard input came after the program had begun without it" in answer.err
    assert "--input FILE" in answer.err
    assert records("event", what="stopped")
    assert not records("result")


def test_without_any_there_is_nothing_to_read(hak, records):
    answer = hak(*WORDS, "--", "/bin/sh", "-c", "echo ops $((1 + $(wc -c)))", stdin=subprocess.DEVNULL)
    assert "standard input" not in answer.err
    assert counted(records) == {1.0}


@pytest.mark.parametrize("name", ["/dev/zero", "/"])
def test_a_device_or_a_folder_is_refused_as_a_named_one_is(here, store, monkeypatch, name):
    source = os.open(name, os.O_RDONLY)
    monkeypatch.setattr(stdin, "DESCRIPTOR", source)
    answer = here(*WORDS, "--quiet", "--", *COUNT)
    os.close(source)
    assert answer.status == 2
    assert f"standard input is '{name}', no regular file" in answer.message()
    assert "--input FILE" in answer.message()
    assert not store.exists()


@pytest.mark.parametrize(("name", "said"), [("missing", "there is no file"), (".", "no regular file")])
def test_a_file_that_cannot_be_replayed_is_refused(here, store, tmp_path, name, said):
    answer = here(*WORDS, "--quiet", "--input", tmp_path / name, "--", *COUNT)
    assert answer.status == 2
    assert answer.message().startswith("hak: --input: ")
    assert said in answer.message()
    assert not store.exists()


def test_too_much_of_it_is_refused_with_the_way_out(lines, tmp_path, monkeypatch):
    monkeypatch.setattr(stdin, "LIMIT_BYTES", 8)
    with open(lines, "rb") as file:
        file.seek(1)
        os.lseek(file.fileno(), 1, os.SEEK_SET)
        monkeypatch.setattr(stdin, "DESCRIPTOR", file.fileno())
        with pytest.raises(stdin.LabError, match="--input FILE"):
            stdin.inherited(tmp_path / "store", print)


def test_nothing_is_kept_for_a_program_that_is_not_there(hak, store):
    answer = hak(*WORDS, "--", "no-such-program-x", input="text")
    assert answer.status == 2
    assert not store.exists()


def test_input_that_changed_since_is_no_longer_resumed(here, records, lines, store):
    words = [*WORDS, "--input", lines, "--quiet", "--", *COUNT]
    assert here(*words).status == 0
    lines.write_bytes(b"other\n")
    peers.file_sha256.cache_clear()
    answer = here("resume", "last")
    assert answer.status == 2
    assert "lines.txt is not what run" in answer.message()
