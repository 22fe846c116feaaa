"""`hak trace`: its counts match those of a made-up program; partial and damaged traces are reported in one line."""

import json
import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path

import crafted as c
import pytest


def line(thread: int, kind: int, size: int = 0, slot: int = 0, other: int = 0, time: int = 0, process: int = 0) -> str:
    return f"o {process} {thread} {kind} {size} {slot} {other} {time}"


@pytest.fixture
def counted(here, tmp_path: Path):
    """counted(path, words…): what --json writes."""

    def ask(path: Path, *words: object) -> dict:
        file = tmp_path / "counts.json"
        answer = here("trace", path, "--json", file, *words)
        assert answer.status == 0, answer.err
        return json.loads(file.read_text(encoding="utf-8"))

    return ask


def made_up(seed: int, operations: int) -> tuple[list[str], dict]:
    """(lines of one thread, their true counts)."""
    generator = random.Random(seed)
    live: dict[int, tuple[int, int, int, int]] = {}  # slot: size, operation, bytes, time
    free: list[int] = []
    slots = made = asked = now = most = most_blocks = 0
    lines, sizes, lives, times = [], Counter(), [], []
    for number in range(1, operations + 1):
        now += generator.randrange(8)  # durations below 16 ns are stored exactly
        if live and generator.random() < 0.5:
            slot = generator.choice(list(live))
            size, then, bytes_then, time_then = live.pop(slot)
            lives.append((number - then, asked - bytes_then))
            times.append(now - time_then)
            free.append(slot)
            lines.append(line(0, c.FREE, 0, slot, time=now))
            continue
        size = generator.choice((0, 1, 16, 16, 1000, 5000))
        slot = free.pop() if free else slots
        slots = max(slots, slot + 1)
        made, asked = made + 1, asked + size
        live[slot] = (size, number, asked, now)
        sizes[size] += 1
        held = sum(each[0] for each in live.values())
        most, most_blocks = max(most, held), max(most_blocks, len(live))
        lines.append(line(0, c.MALLOC, size, slot, time=now))
    kept = [each[0] for each in live.values()]
    truth = {"operations": operations, "allocations": made, "allocated_bytes": asked, "peak_bytes": most}
    truth |= {"peak_blocks": most_blocks, "kept_blocks": len(kept), "kept_bytes": sum(kept), "ended_ns": now}
    return lines, {"truth": truth, "sizes": sizes, "lives": lives, "times": times}


def bucket(value: int) -> int:
    """The lowest value of this value's bucket; there are four buckets to a power of two."""
    step = 1 << max(value.bit_length() - 3, 0)
    return value // step * step


def test_counts_are_those_of_the_program(written, counted):
    lines, known = made_up(1, 4000)
    result = counted(written([*lines, 'e 1 {"reason": null}']))
    (process,) = result["processes"]
    assert {key: process[key] for key in known["truth"]} == known["truth"]
    assert dict(map(tuple, process["small_sizes"])) == {size: n for size, n in known["sizes"].items() if size <= 1024}
    found = {least: (count, held) for least, count, held in process["sizes"]}
    assert found == {bucket(size): (n, n * size) for size, n in known["sizes"].items()}
    for key, values in (
        ("life_operations", [life for life, _ in known["lives"]]),
        ("life_bytes", [held for _, held in known["lives"]]),
        ("life_ns", known["times"]),
    ):
        assert {least: n for least, n, _ in process[key]} == Counter(map(bucket, values))
    assert result["partial"] is None
    assert process["timeline"][-1][3] == known["truth"]["allocations"]
    assert max(row[1] for row in process["timeline"]) == known["truth"]["peak_bytes"]


def test_threads_go_in_the_order_that_their_waits_ask_for(written, counted):
    """Each thread frees a block of the other one. By the first thread's clock, the second one frees too early."""
    lines = [line(1, c.WAIT, 2, 0, 0), line(1, c.FREE_FOREIGN, 0, 1, 0, 1), line(1, c.MALLOC, 7, 0, 0, 2)]
    lines += [line(0, c.MALLOC, 8, 0, 0, 50), line(0, c.MALLOC, 9, 1, 0, 60), line(0, c.WAIT, 3, 0, 1)]
    lines += [line(0, c.REALLOC_FOREIGN, 700, 0, 1, 70), line(0, c.MALLOC, 10, 1, 0, 80), "e 1 {}"]
    (process,) = counted(written(lines))["processes"]
    assert process["handed_over"] == 2 and process["kinds"]["wait"] == 2 and process["grown"] == 1
    assert process["threads"] == [[0, 4, 3, 1], [1, 2, 1, 1]]
    assert (process["kept_blocks"], process["kept_bytes"]) == (3, 8 + 700 + 10)


def test_each_of_many_that_wait_goes_on_at_its_count(written, counted):
    """Each thread frees the block that the awaited operation allocates; earlier, the block would not exist."""
    generator, blocks = random.Random(7), 400
    waiting = []
    for thread, count in enumerate(generator.sample(range(1, blocks + 1), 200), start=1):
        waiting += [line(thread, c.WAIT, count, 0, 0), line(thread, c.FREE_FOREIGN, 0, count - 1, 0)]
    made = [line(0, c.MALLOC, 8, slot, time=1 + slot * 100) for slot in range(blocks)]
    (process,) = counted(written([*waiting, *made, "e 1 {}"]))["processes"]
    assert (process["handed_over"], process["kept_blocks"]) == (200, blocks - 200)
    assert process["peak_blocks"] <= blocks


def test_touched_bytes(written, counted):
    big = 1 << 20
    lines = [line(0, c.MALLOC, big, slot) for slot in range(3)]
    lines += [line(0, c.TOUCHED, big // 4, 0), line(0, c.FREE, 0, 0), line(0, c.TOUCHED, 2 * big, 2), "e 1 {}"]
    (process,) = counted(written(lines))["processes"]
    assert (process["touch_known_bytes"], process["touched_bytes"]) == (2 * big, big // 4 + big)
    assert process["operations"] == 4


def test_a_forked_process_and_what_it_began_with(written, counted, here):
    lines = ['t 2 0 {"command": ["/usr/bin/true", "-x"]}', line(0, c.MALLOC, 8), line(0, c.MALLOC, 8, 1)]
    lines += ['t 2 1 {"parent": 0, "forked": true}', *(line(0, c.MALLOC, 8, n, process=1) for n in range(3))]
    own = [
        {"process": 0, "operations": 1},
        {"process": 1, "operations": 1, "lost_frees": 7},
        {"process": 9, "operations": "x"},
        4,
    ]
    path = written([*lines, f"e 1 {json.dumps({'processes': own})}"])
    assert [each["inherited"] for each in counted(path)["processes"]] == [0, 2]
    text = here("trace", path).out
    assert "3 operations; 2 processes, 2 threads" in text and "true -x" in text
    text = here("trace", path, "--process", 1).out
    assert "begins with 2 blocks of the process that it was forked from" in text
    assert "0 frees of blocks that were not recorded, left out; 7 frees that were not seen" in text


def test_what_it_says(written, here):
    lines = [line(0, c.MALLOC, 100), line(0, c.MALLOC, 100, 1), line(0, c.FREE, 0, 0, 0, 2_000_000)]
    lines += [line(1, c.MALLOC, 3 << 20, 0, 0, 2_000_000), line(1, c.THREAD_END)]
    path = written(['t 1 0 {"command": ["program", "\\u001b[2J"]}', *lines, "e 1 {}"])
    answer = here("trace", path)
    assert answer.status == 0 and answer.err == ""
    assert "4 operations; 1 process, 2 threads" in answer.out
    assert "\x1b" not in answer.out and "recorded: program" in answer.out
    assert "most often: 100 B (66.7 %)" in answer.out
    assert "never freed: 2 blocks, 3.00 MiB" in answer.out
    assert "partial" not in answer.out


@pytest.mark.parametrize(
    ("end", "why"),
    [
        ('e 0 {"reason": "no space left on the disk"}', "no space left on the disk"),
        ("e 0 {}", "it does not say why"),
        ("f", "its end is missing"),
    ],
)
def test_a_partial_trace_says_why(written, here, end, why):
    answer = here("trace", written([line(0, c.MALLOC, 100), end]))
    assert answer.status == 0
    (found,) = [each for each in answer.out.splitlines() if each.startswith("partial: ")]
    assert why in found


def test_what_a_cut_trace_lacks_is_counted(here, tmp_path):
    """The first thread's second chunk is cut off. The second thread waits for both chunks and frees a block of each."""
    first = c.thread(0, bytes([c.MALLOC | c.NEXT]), c.leb(5), slots=1)
    codes = bytes([c.WAIT, c.FREE_FOREIGN | c.NEAR, c.FREE_FOREIGN | c.NEAR])
    second = c.thread(1, codes, b"", c.zigzag(0) + c.zigzag(1), b"", c.leb(0) + c.zigzag(2))
    path = tmp_path / "trace"
    path.write_bytes(c.trace(first, second, first, complete=None)[:-3])
    answer = here("trace", path)
    assert "partial: it was cut off" in answer.out
    assert "1 operations on blocks that are not in this partial trace" in answer.out
    path.write_bytes(c.trace(first, second))
    assert "waits for what its thread never does" in here("trace", path).message()


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "there is no trace"),
        (b"", "is not a trace"),
        (b"HAKTRACE" + bytes(8), "version 0"),
        (b"#!/bin/sh", "not a trace"),
    ],
)
def test_what_is_no_trace(here, tmp_path, content, why):
    path = tmp_path / "trace"
    if content is not None:
        path.write_bytes(content)
    answer = here("trace", path)
    assert answer.status == 2 and why in answer.message()
    assert str(path) in answer.message()


def test_a_pipe_is_no_trace_and_nobody_waits_for_what_comes_through_it(here, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    answer = here("trace", tmp_path / "pipe")
    assert answer.status == 2
    assert "is no regular file" in answer.message()


def test_a_closed_output_is_no_mistake(written, tmp_path):
    words = [sys.executable, "-m", "hakmem_lab.cli.main", "trace", written(["e 1 {}"])]
    for options in ((), ("--json", "-")):
        done = subprocess.run(["sh", "-c", 'exec "$@" >&-', "sh", *words, *options], capture_output=True, check=False)
        assert (done.returncode, done.stderr) == (0, b"")


def test_the_peak_is_told_from_the_first_operation_on(written, here):
    path = written([line(0, c.MALLOC, 100, time=5_000_000_000), line(0, c.FREE, time=7_000_000_000), "e 1 {}"])
    assert "most live: 100 B, 0 ns after the begin; 1 block\n" in here("trace", path).out


def test_a_process_that_is_not_there(written, here):
    path = written([line(0, c.MALLOC, 100), "e 1 {}"])
    answer = here("trace", path, "--process", 4)
    assert answer.status == 2 and "no process 4; it has 1" in answer.message()


def test_an_empty_recording(written, here):
    answer = here("trace", written(["e 1 {}"]))
    assert (answer.status, answer.err) == (0, "")
    assert "0 operations; 0 processes, 0 threads" in answer.out


def test_resident_memory_and_texts_are_read_without_operations(written):
    from hakmem_lab.errors import LabError
    from hakmem_lab.trace.contents import contents

    path = written(['t 1 0 {"cwd": "/"}', "t 2 0 {}", "t 4 0 [[1, 20]]", "t 4 0 [[2, 30], [3, 40]]", "e 1 {}"])
    found = contents(path)
    assert found.info == {"cwd": "/"} and found.partial is None
    assert [each.resident for each in found.processes] == [[(1, 20), (2, 30), (3, 40)]]
    for text in ("[[1]]", "[1]", "{}", '[["a", 1]]'):
        with pytest.raises(LabError, match="resident memory"):
            contents(written(["t 2 0 {}", f"t 4 0 {text}", "e 1 {}"]))


def test_without_the_libraries_one_line_says_what_to_install(monkeypatch, tmp_path):
    from hakmem_lab.errors import LabError
    from hakmem_lab.trace import reader

    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho 'zstd.h: no such file' >&2\nexit 1\n", encoding="utf-8")
    compiler.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    reader.cache_clear()
    with pytest.raises(
        LabError, match="zlib1g-dev once, to compile its reader of traces: apt install libc6-dev libzstd-dev zlib1g-dev"
    ):
        reader()


def test_bytes_that_are_utf_8_together_are_shown_as_characters():
    from hakmem_lab.trace.contents import words

    assert words({"command": ["d", "\udcc3\udcbc", "\udcff"]}, "command") == "d ü \\udcff"
    assert words({"command": "\ud800"}, "command") == "\\ud800"
