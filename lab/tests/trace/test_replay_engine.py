"""hak-replay: real threads execute a trace, the replay's own memory is not counted, and mistakes are reported."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

MALLOC, CALLOC, ALIGNED, FREE, FREE_FOREIGN, REALLOC, REALLOC_FOREIGN, TOUCHED, WAIT, THREAD_END = range(10)
MIB, KIB = 1 << 20, 1 << 10
END = 'e 1 {"processes": []}'


def op(thread, kind, size=0, slot=0, other=0, time=0, process=0):
    return f"o {process} {thread} {kind} {size} {slot} {other} {time}"


@pytest.fixture
def replayed():
    """replayed(trace, *flags): (records of the processes, record of the whole replay)."""
    from hakmem_lab.trace import replayer

    def run(trace: Path, *flags: str) -> tuple[list[dict], dict]:
        done = subprocess.run([replayer(), *flags, trace], capture_output=True, text=True, check=False, timeout=600)
        assert (done.returncode, done.stderr) == (0, "")
        *processes, whole = [json.loads(line) for line in done.stdout.splitlines()]
        return processes, whole

    return run


@pytest.fixture
def refused():
    """refused(trace, *flags): the single error line of the replay."""
    from hakmem_lab.trace import replayer

    def run(trace: Path, *flags: str) -> str:
        done = subprocess.run([replayer(), *flags, trace], capture_output=True, text=True, check=False, timeout=600)
        assert done.returncode == 2
        assert len(done.stderr.splitlines()) == 1, done.stderr
        return done.stderr.strip()

    return run


@pytest.fixture
def synthetic(tmp_path):
    """synthetic(operations, threads, live, foreign, most, …): a trace of blocks with random lifetimes."""
    from hakmem_lab.trace import SOURCES, WRITER, sources

    program = tmp_path / "synthetic"
    units = [each for each in sources(WRITER) if each.suffix == ".c"]
    words = ["cc", "-std=c17", "-D_GNU_SOURCE", "-O1", "-I", SOURCES, "-o", program]
    words += [Path(__file__).parent / "synthetic.c", *units, "-lzstd", "-lz"]
    subprocess.run([str(word) for word in words], check=True)

    def make(*numbers) -> Path:
        path = tmp_path / "synthetic.trace"
        subprocess.run([str(word) for word in (program, path, *numbers)], check=True)
        return path

    return make


def test_every_kind_of_operation_is_done(written, replayed):
    lines = [op(0, MALLOC, 100, 0), op(0, CALLOC, 50, 1), op(0, ALIGNED, 200, 2, 6), op(0, REALLOC, 5000, 0),
             op(0, FREE, slot=1), op(0, FREE, slot=0), op(0, FREE, slot=2), op(0, THREAD_END)]  # fmt: skip
    (found,), whole = replayed(written([*lines, END]))
    counts = {key: found[key] for key in ("operations", "allocations", "frees", "reallocations", "skipped", "failed")}
    assert counts == {"operations": 8, "allocations": 3, "frees": 3, "reallocations": 1, "skipped": 0, "failed": 0}
    assert whole == {"processes": 1, "left_out": 0, "left_out_operations": 0, "complete": True}


@pytest.mark.parametrize(("touch", "low", "high"), [("recorded", 15, 22), ("all", 62, 70), ("none", 0, 4)])
def test_large_blocks_are_touched_as_asked(written, replayed, touch, low, high):
    lines = [line for slot in range(64)
             for line in (op(0, MALLOC, MIB, slot), op(0, TOUCHED, MIB // 4, slot))]  # fmt: skip
    (found,), _ = replayed(written([*lines, END]), f"--touch={touch}")
    assert low <= found["rss_peak_kib"] / 1024 <= high


def test_a_large_block_is_resident_from_its_allocation_also_where_its_touch_was_seen_at_its_end(written, replayed):
    lines = [op(0, MALLOC, MIB, slot) for slot in range(32)]
    lines += [line for slot in range(32) for line in (op(0, TOUCHED, MIB, slot), op(0, FREE, slot=slot))]
    (found,), _ = replayed(written([*lines, END]))
    assert found["rss_peak_kib"] >= 30 * 1024


def test_the_peak_is_of_the_blocks_and_not_of_the_replay(synthetic, replayed):
    (found,), _ = replayed(synthetic(400_000, 1, 10_000, 0, 2000))
    live_kib = 10_000 * 1000 / 1024
    assert 0.9 * live_kib < found["rss_peak_kib"] < 1.3 * live_kib
    assert found["own_kib"] < 4096
    assert found["raw_peak_kib"] <= 2 * found["rss_peak_kib"]
    assert 0 < found["rss_mean_kib"] <= found["rss_peak_kib"]
    assert [at for at, _ in found["series"]] == sorted(at for at, _ in found["series"])


def test_threads_hand_blocks_over_and_none_is_lost(synthetic, replayed):
    (found,), _ = replayed(synthetic(200_000, 4, 1000, 30, 300))
    assert (found["threads"], found["skipped"], found["failed"], found["unordered"]) == (4, 0, 0, 0)


def test_a_thread_frees_what_another_allocates_only_after_it(written, replayed):
    lines = [op(0, WAIT, 2, 0, 1), op(0, FREE_FOREIGN, slot=0, other=1), op(0, THREAD_END),
             op(1, MALLOC, 64, 0), op(1, MALLOC, 64, 1), op(1, THREAD_END), END]  # fmt: skip
    (found,), _ = replayed(written(lines))
    assert (found["frees"], found["skipped"]) == (1, 0)


def test_threads_that_wait_for_each_other_are_an_error(written, refused):
    lines = [op(thread, kind, size, 0, other) for thread, other in ((0, 1), (1, 0))
             for kind, size in ((MALLOC, 32), (WAIT, 3), (FREE, 0))]  # fmt: skip
    assert "all threads wait for each other" in refused(written([*lines, END]))


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ([op(0, MALLOC, 32), op(0, FREE), op(0, FREE)], "frees the empty place 0"),
        ([op(0, MALLOC, 32), op(0, FREE), op(0, REALLOC, 64)], "reallocates the empty place 0"),
        ([op(0, MALLOC, 32), op(0, MALLOC, 32)], "allocates into the occupied place 0"),
    ],
)
def test_a_whole_trace_frees_what_it_allocated(written, refused, lines, what):
    assert what in refused(written([*lines, END], refused=None))


def test_a_block_that_two_threads_free_is_freed_once(written, refused):
    frees = [op(thread, kind, 1, 0, 0) for thread in (1, 2) for kind in (WAIT, FREE_FOREIGN)]
    assert "frees the empty place 0" in refused(written([op(0, MALLOC, 32), *frees, END]))


def test_a_trace_that_was_cut_off_is_replayed_as_far_as_it_goes(synthetic, replayed):
    path = synthetic(400_000, 2, 1000, 10, 300)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) * 2 // 3])
    (found,), said = replayed(path)
    assert said["complete"] is False
    assert 0 < found["operations"] < 400_000


def test_a_damaged_trace_is_one_error(synthetic, refused):
    path = synthetic(100_000, 1, 1000, 0, 300)
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 2] ^= 1
    path.write_bytes(whole)
    assert "damaged" in refused(path)


def test_something_else_is_no_trace(tmp_path, refused):
    path = tmp_path / "text"
    path.write_text("no trace\n" * 10)
    assert "not a trace" in refused(path)


def test_small_processes_are_left_out_unless_asked_for(written, replayed):
    lines = [op(0, MALLOC, 16, slot) for slot in range(1000)] + [op(0, MALLOC, 16, 0, process=1)]
    path = written([*lines, END])
    processes, whole = replayed(path)
    assert [each["process"] for each in processes] == [0]
    assert (whole["left_out"], whole["left_out_operations"]) == (1, 1)
    processes, whole = replayed(path, "--processes=0,1")
    assert ([each["process"] for each in processes], whole["left_out"]) == ([0, 1], 0)


def test_a_process_that_is_not_in_the_trace_is_an_error(written, refused):
    assert "none of the processes" in refused(written([op(0, MALLOC, 16), END]), "--processes=7")


def test_with_the_pace_of_the_recording_the_clock_stops_while_it_rests(written, replayed):
    lines = [op(0, MALLOC, 16, 0, 0, 1), op(0, MALLOC, 16, 1, 0, 1_000_000_000), END]
    (fast,), _ = replayed(written(lines))
    (paced,), _ = replayed(written(lines), "--pace")
    assert (fast["segments"], paced["segments"]) == (1, 2)
    assert fast["operations"] == paced["operations"] == 2


def test_a_thread_begins_when_those_it_waits_for_are_gone(written, replayed):
    lines = []
    for thread in range(50):
        lines += [op(thread, WAIT, 3 if thread == 1 else 4, 0, thread - 1)] if thread else []
        lines += [op(thread, MALLOC, 64), op(thread, FREE), op(thread, THREAD_END)]
    (found,), _ = replayed(written([*lines, END]))
    assert (found["threads"], found["frees"], found["skipped"]) == (50, 50, 0)


@pytest.mark.skipif(shutil.which("strace") is None, reason="counts system calls")
def test_the_first_thread_is_the_process_s_own(written, tmp_path):
    """glibc serves the main thread from the heap; for other threads, it would grow an arena by calls of mprotect."""
    from hakmem_lab.kinds.syscalls import parse_summary
    from hakmem_lab.trace import replayer

    lines = [op(0, MALLOC, 4096, slot) for slot in range(2000)] + [op(0, FREE, slot=slot) for slot in range(2000)]
    summary = tmp_path / "calls"
    words = ["strace", "-f", "-c", "-o", summary, replayer(), written([*lines, END])]
    if subprocess.run(words, capture_output=True, check=False).returncode != 0:
        pytest.skip("strace cannot trace here")
    calls = parse_summary(summary.read_text())
    assert calls["brk"] > 20 and calls.get("mprotect", 0) < 20
    assert calls.get("clone", 0) + calls.get("clone3", 0) + calls.get("fork", 0) + calls.get("vfork", 0) == 1
