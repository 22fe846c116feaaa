"""`hak trace --by pages`: finds the stacks that keep pages, and confirms it by a replay; recordings as past heaps."""

import json
import subprocess

import pytest

from hakmem_lab.run.used import on_used_heap
from hakmem_lab.trace import history, replayer

MALLOC, FREE, REALLOC, STACK, TOUCHED = 0, 3, 5, 10, 7


KEEP, PASS = "0x50", "0x60"  # two stacks, of one address each
TREE = json.dumps({"files": [], "nodes": [[0, -1, 0x50], [0, -1, 0x60]]})
COUNT, ONE_IN = 8000, 40


def crafted(written, mean=1):
    """A trace of survivors among blocks that are freed at the end, so that each survivor keeps a page."""
    lines, slot = [f"o 0 0 {STACK} 0 0 1 0", f"o 0 0 {MALLOC} 100 0 0 0"], 0
    lines[:0] = [f't 1 0 {{"stacks": {mean}}}', f"t 6 0 {TREE}"]
    passing = []
    for i in range(COUNT):
        keeps = i % ONE_IN == 0
        for node in (2, 1)[: 1 + keeps]:
            slot += 1
            lines += [f"o 0 0 {STACK} 0 0 {node} {i}", f"o 0 0 {MALLOC} 100 {slot} 0 {i}"]
            passing += [slot] if node == 2 else []
    lines += [f"o 0 0 {FREE} 0 {each} 0 {COUNT}" for each in passing]
    return written([*lines, 'e 1 {"processes": []}'], name=f"{mean}.trace")


@pytest.fixture
def pages(written):
    return crafted(written)


@pytest.mark.parametrize("name", ["glibc", "hakmem"])
def test_what_survivors_keep_is_what_a_replay_without_them_lacks(here, pages, name):
    result = here("trace", pages, "--by", "pages", "--allocator", name, "--json", "-").result()
    first = result["tested"][0]
    assert first["frames"] == [KEEP] and first["blocks"] == 201 and result["allocator"] == name
    assert first["predicted_kib"] > 500 > 10 * first["bytes"] / 1024  # pages, not bytes
    assert abs(first["error"]) <= 0.15 and "which confirms it" in result["answer"]
    assert first["observed_kib"] <= result["settled_kib"]


def test_stacks_are_named_and_the_moment_is(here, pages):
    told = here("trace", pages, "--by", "pages", "--without", PASS, "--at", "peak", "--json", "-").result()
    (row,) = told["tested"]
    assert row["frames"] == [PASS] and row["blocks"] > 6_000 and told["moment"] == "when most was live"
    shown = here("trace", pages, "--by", "pages", "--without", KEEP).out
    assert KEEP in shown and "less without them" in shown


def test_what_cannot_be_asked_is_said(here, pages, written):
    assert "no stack" in here("trace", pages, "--by", "pages", "--without", "nobody").message()
    assert "is not a moment" in here("trace", pages, "--by", "pages", "--at", "noon").message()
    assert "--without needs --by pages" in here("trace", pages, "--without", KEEP).message()
    assert "--rate 1" in here("trace", crafted(written, 65536), "--by", "pages").message()


def replayed(trace, groups, *flags):
    words = [replayer(), f"--groups={groups}", *flags, trace]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[0])


def test_a_block_is_of_the_stack_that_sized_it_last(written, tmp_path):
    """If a stack's blocks are left out, so are their frees; a block that another stack resizes is allocated there."""
    lines = [
        *(f"o 0 0 {STACK} 0 0 5 0", f"o 0 0 {MALLOC} 100000 0 0 0", f"o 0 0 {STACK} 0 0 5 0"),
        *(f"o 0 0 {MALLOC} 90000 1 0 0", f"o 0 0 {STACK} 0 0 6 0", f"o 0 0 {REALLOC} 200000 0 0 0"),
        *(f"o 0 0 {FREE} 0 1 0 0", f"o 0 0 {STACK} 0 0 6 0", f"o 0 0 {MALLOC} 50000 1 0 0"),
        *(f"o 0 0 {STACK} 0 0 5 0", f"o 0 0 {REALLOC} 60000 1 0 0", 'e 1 {"processes": []}'),
    ]
    trace, groups = written(lines), tmp_path / "groups"
    groups.write_text("5 1\n6 2\n")

    def blocks(*flags):
        return {group: count for group, count, *_ in replayed(trace, groups, *flags)["kept"]}

    assert blocks() == {1: 1, 2: 1}
    assert blocks("--without=1") == {2: 1}
    assert blocks("--without=2") == {1: 1}


def test_on_shared_pages_a_stack_keeps_its_bytes(written, tmp_path):
    """In a replay without one stack's blocks, blocks of the other stack fill the same pages."""
    count = 10 * COUNT  # so many that the process's own memory matters little
    lines = [line for i in range(count) for line in (f"o 0 0 {STACK} 0 0 {5 + i % 2} 0", f"o 0 0 {MALLOC} 100 {i} 0 0")]
    trace, groups = written([*lines, 'e 1 {"processes": []}']), tmp_path / "groups"
    groups.write_text("5 1\n6 2\n")
    whole = replayed(trace, groups)
    for group, blocks, size, kib in whole["kept"]:
        assert blocks == count / 2 and abs(kib - size / 1024) < 16
        less = whole["settled_kib"] - replayed(trace, groups, f"--without={group}")["settled_kib"]
        assert abs(kib / less - 1) <= 0.15


def test_what_comes_later_is_left_out(written, tmp_path):
    lines = [f"o 0 0 {STACK} 0 0 5 0", f"o 0 0 {MALLOC} 100 0 0 10", f"o 0 0 {STACK} 0 0 5 10",
             f"o 0 0 {MALLOC} 100 1 0 5000000", 'e 1 {"processes": []}']  # fmt: skip
    trace, groups = written(lines), tmp_path / "groups"
    groups.write_text("5 1\n")
    assert replayed(trace, groups)["kept"][0][1] == 2
    assert replayed(trace, groups, "--until=1000000")["kept"][0][1] == 1


PROGRAM = ["sh", "-c", "exec grep VmRSS /proc/self/status"]


def resident_kib(arm):
    done = subprocess.run(PROGRAM, env=arm.environment({}), capture_output=True, text=True, check=True)
    return int(done.stdout.split()[1])


@pytest.mark.parametrize("name", ["glibc", "hakmem"])
def test_a_recording_is_the_past_of_a_heap(written, tmp_path, name):
    """Of 80 blocks of 100 KiB, 40 are freed and 40 stay; one of these grows to 1 MiB."""
    from hakmem_lab.plan.arms import parse_arm

    lines = [f"o 0 0 {MALLOC} 102400 {i} 0 0" for i in range(80)]
    lines += [f"o 0 0 {FREE} 0 {i} 0 0" for i in range(40)]
    lines += [f"o 0 0 {REALLOC} 1048576 79 0 0", f"o 0 0 {TOUCHED} 1048576 79 0 0", 'e 1 {"processes": []}']
    file = tmp_path / "history"
    history.write(written(lines), file)
    assert (file.stat().st_size - 16) // 16 == 122
    arm = parse_arm(name)
    more = resident_kib(on_used_heap(arm, file)) - resident_kib(arm)
    assert 4500 < more < 12_000  # 4.9 MiB stay; freed memory may stay resident, too


def test_the_verdict_is_repeated_on_the_recorded_past(here, fakes, tmp_path, pages, records):
    words = ("ab", "--control", "glibc", "--treatment", "glibc,RATE=1100", "--metric", r"regex:ops (\d+)",
             "--higher-is-better", "--repeat", "1", "--seed", "3", "--warm-up", "0", "--json", "-")  # fmt: skip
    program = ("--env", f"COUNT={tmp_path / 'count'}", "--", fakes.script(tmp_path))
    result = here(*words, "--history", pages, *program).result()
    assert [each["name"] for each in result["conditions"]] == ["precondition"]
    assert {record["phase"] for record in records("block")} == {"measure", "precondition"}
    assert "there is no trace" in here(*words, "--history", tmp_path / "none", *program).message()
