"""hak record: the trace has all malloc calls of a program's threads and processes, and the program is not disturbed."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

MALLOC, CALLOC, ALIGNED, FREE, FREE_FOREIGN, REALLOC, _, TOUCHED, WAIT, END = range(10)


@pytest.fixture(scope="session")
def program(plain) -> Path:
    return plain("recorded.c")


class Trace:
    """A printed trace. texts: kind -> texts; operations: (process, thread) -> list of (kind, size, slot, other)."""

    def __init__(self, lines: list[str]):
        self.texts: dict[int, list] = {}
        self.operations: dict[tuple[int, int], list[tuple[int, int, int, int]]] = {}
        for line in lines:
            sort, _, rest = line.partition(" ")
            if sort == "t":
                kind, _, text = rest.split(" ", 2)
                self.texts.setdefault(int(kind), []).append(json.loads(text))
            elif sort == "o":
                process, thread, *fields = map(int, rest.split())
                self.operations.setdefault((process, thread), []).append(tuple(fields[:4]))
        self.complete = lines[-1].split()[1] == "1"

    @property
    def end(self) -> dict:
        (found,) = self.texts[5]
        return found

    def of(self, process: int, thread: int = 0) -> Iterator[tuple[int, int, int, int]]:
        """A thread's allocations and frees, without the operations that only order them."""
        return (each for each in self.operations[process, thread] if each[0] not in (WAIT, END))

    def sizes(self) -> list[int]:
        return [size for thread in self.operations for kind, size, *_ in self.of(*thread) if kind in (MALLOC, REALLOC)]


@pytest.fixture
def record(hak, printed, path) -> Callable[..., tuple]:
    """record(words of the command…): (answer of hak, trace)."""

    def call(*words: object, flags: tuple = (), **keywords) -> tuple:
        answer = hak("record", "-o", path, *flags, "--", *words, **keywords)
        return answer, Trace(printed(path))

    return call


def test_every_function_of_the_interface_is_recorded(record, program):
    answer, trace = record(program, "calls")
    assert answer.status == 0
    assert "complete" in answer.err
    touched = next(size for kind, size, *_ in trace.of(0) if kind == TOUCHED)
    assert 1 << 20 <= touched < 2 << 20
    assert [each for each in trace.of(0) if each[0] != TOUCHED] == [
        (MALLOC, 10001, 0, 0), (REALLOC, 10002, 0, 0), (FREE, 0, 0, 0),
        (CALLOC, 10002, 0, 0), (REALLOC, 10005, 0, 0), (FREE, 0, 0, 0),
        (ALIGNED, 10240, 0, 8), (FREE, 0, 0, 0), (ALIGNED, 10243, 0, 9), (FREE, 0, 0, 0),
        (ALIGNED, 10244, 0, 10), (FREE, 0, 0, 0), (ALIGNED, 10245, 0, 12), (FREE, 0, 0, 0),
        (MALLOC, 0, 0, 0), (FREE, 0, 0, 0),
        (MALLOC, 10006, 0, 0), (MALLOC, 3 << 20, 1, 0), (FREE, 0, 1, 0),
        (MALLOC, 10007, 1, 0), (FREE, 0, 1, 0),
    ]  # fmt: skip


def test_blocks_go_from_thread_to_thread(record, program):
    _, trace = record(program, "threads")
    assert [size for kind, size, *_ in trace.of(0, 1) if kind == MALLOC] == list(range(20000, 20100))
    assert list(trace.of(0, 2)) == [(FREE_FOREIGN, 0, slot, 1) for slot in range(100)]
    assert trace.end["handed_over"] == 100


def test_threads_that_come_and_go_are_all_there_with_what_their_destructors_do(record, program):
    _, trace = record(program, "churn")
    threads = [key for key in trace.operations if key[1] != 0]
    assert len(threads) == 5000
    assert all(list(trace.of(*key)) == [(MALLOC, 20500, 0, 0), (FREE, 0, 0, 0)] for key in threads)
    assert (trace.end["unknown_frees"], trace.end["lost_frees"]) == (0, 0)


def test_a_forked_child_inherits_what_is_live(record, program):
    _, trace = record(program, "forks")
    assert list(trace.of(0)) == [
        (MALLOC, 30000, 0, 0), (MALLOC, 30001, 1, 0), (FREE, 0, 1, 0), (MALLOC, 30003, 1, 0), (FREE, 0, 1, 0),
    ]  # fmt: skip
    assert list(trace.of(1)) == [
        (MALLOC, 30000, 0, 0), (MALLOC, 30001, 1, 0), (FREE, 0, 0, 0), (MALLOC, 30002, 0, 0),
    ]  # fmt: skip
    parent, child = trace.texts[2]
    assert (parent["parent"], child["parent"], child["forked"]) == (None, 0, True)


def test_a_child_that_the_c_library_knows_nothing_of_does_not_disturb_its_parent(record, program):
    _, trace = record(program, "bare_fork")
    assert list(trace.of(0)) == [(MALLOC, 30000, 0, 0), *[(MALLOC, 30005, 1, 0), (FREE, 0, 1, 0)] * 100]
    assert list(trace.of(1)) == [(MALLOC, 30004, 0, 0), (FREE, 0, 0, 0)] * 100


def test_a_daemon_without_descriptors_is_recorded_to_its_end(record, program):
    _, trace = record(program, "daemon")
    last = max(process for process, _ in trace.operations)
    assert list(trace.of(last)) == [(MALLOC, 30000, 0, 0), (FREE, 0, 0, 0), (MALLOC, 30006, 0, 0), (FREE, 0, 0, 0)]
    assert trace.end["unknown_frees"] == 0


def test_what_exec_leaves_behind_and_begins_is_there(record, program):
    _, trace = record(program, "exec", program, "threads")
    assert list(trace.of(0)) == [(MALLOC, 30008, 0, 0)]
    assert len(list(trace.of(1, 1))) == 100
    assert [each["parent"] for each in trace.texts[2]] == [None, 0]
    assert trace.texts[2][1]["command"] == [str(program), "threads"]


@pytest.mark.parametrize(
    ("how", "status"), [("exit", 4), ("_exit", 3), ("crash", -11), ("kill", -9), ("abort", -6)]
)  # fmt: skip
def test_nothing_is_lost_however_a_program_ends(record, program, how, status):
    answer, trace = record(program, how)
    assert answer.status == status
    assert trace.complete
    operations = list(trace.of(0))
    assert len(operations) == 20000 + (20000 - 8192) + 1
    assert operations[-1] == (MALLOC, 31000, 8192, 0)
    (ended,) = trace.end["processes"]
    assert ended.get("signal", -ended.get("exit", 0)) == -status


def test_a_free_of_what_is_no_block_does_not_harm_the_trace(record, program):
    answer, trace = record(program, "wild")
    assert answer.status == -6
    assert trace.complete
    operations = list(trace.of(0))
    assert len(operations) == 20000 + (20000 - 8192) + 2
    assert operations[-2] == (MALLOC, 31000, 8192, 0)


def test_a_long_program_loses_nothing(record, program):
    answer, trace = record(program, "lots")
    assert answer.out == "done\n"
    assert trace.end["operations"] == len(list(trace.of(0))) == 2 * 600_000 - 8192
    assert trace.end["live_blocks"] == 8192


def test_a_recording_of_nothing_is_not_called_complete(hak, fakes, path):
    """The starter allocates nothing, and then becomes the program with an empty environment."""
    text = "#include <unistd.h>\nint main(int c, char **v) { return execve(v[1], v + 1, (char *[]){0}); }\n"
    source = path.with_suffix(".c")
    source.write_text(text)
    starter = fakes.compiled(path.with_suffix(".starter"), ["cc", source])
    answer = hak("record", "--output", path, "--", starter, fakes.program, "exit", 0)
    assert answer.status == 0
    assert "0 operations" in answer.err
    assert "complete" not in answer.err
    assert "loses LD_PRELOAD on its way" in answer.err


def test_what_loses_the_preload_is_not_called_complete(hak, tmp_path):
    """The starter allocates and is recorded. Its child without the preload is named; nothing is said without one."""
    lost = "subprocess.run(['sleep', '1'], env={})"
    for run, said in (("", "; complete\n"), (lost, "; complete, except for this; ")):
        words = ["-o", tmp_path / "x.trace", "--force", "--", sys.executable, "-c", f"import subprocess; {run}"]
        answer = hak("record", *words)
        assert answer.status == 0
        assert said in answer.err
        assert ("sleep was not recorded (1 process)" in answer.err) == bool(run)
