"""The trace format: the reader returns all that was written, impossible operations are refused, and a full disk leaves
a valid trace."""

import random
import resource
from itertools import pairwise

import pytest

MALLOC, CALLOC, ALIGNED, FREE, FREE_FOREIGN, REALLOC, REALLOC_FOREIGN, TOUCHED, WAIT, THREAD_END = range(10)
LONGEST_SHORT_NS = 15 << 30
CHUNK_OPERATIONS = 64 << 10  # at most


class Program:
    """Simulated threads that allocate, free and hand blocks over; their operations as lines in a possible order."""

    def __init__(self, seed: int, threads: int, operations: int, pauses: bool = False):
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self.time = 0
        self.done = [0] * threads
        self.live: list[list[int]] = [[] for _ in range(threads)]
        self.freed: list[list[int]] = [[] for _ in range(threads)]
        self.slots = [0] * threads
        for _ in range(operations):
            self.time += self.random.choice((0, 0, 1, 40, 900, 10**6, 10**11 if pauses else 7))
            self.step(self.random.randrange(threads))
        self.lines += [self.line(thread, THREAD_END) for thread in range(threads)]

    def line(self, thread: int, kind: int, size: int = 0, slot: int = 0, other: int = 0) -> str:
        self.done[thread] += 1
        return f"o 0 {thread} {kind} {size} {slot} {other} {self.time}"

    def size(self) -> int:
        return self.random.choice((0, 1, 24, 127, 128, 4096, 10**6, 2**40, 2**48))

    def step(self, thread: int) -> None:
        what = self.random.random()
        owner = self.random.randrange(len(self.live))
        if what < 0.5 or not self.live[owner]:
            kind = self.random.choice((MALLOC, MALLOC, MALLOC, CALLOC, ALIGNED))
            freed = self.freed[thread]
            slot = freed.pop(self.random.choice((-1, -1, 0))) if freed else self.slots[thread]
            self.slots[thread] = max(self.slots[thread], slot + 1)
            self.live[thread].append(slot)
            other = self.random.randrange(41) if kind == ALIGNED else 0
            self.lines.append(self.line(thread, kind, self.size(), slot, other))
            return
        blocks = self.live[owner]
        index = self.random.choice((-1, 0, self.random.randrange(len(blocks))))
        other = 0
        if owner != thread:
            self.lines.append(self.line(thread, WAIT, self.done[owner], 0, owner))
            other = owner
        if what < 0.9:
            self.freed[owner].append(slot := blocks.pop(index))
            self.lines.append(self.line(thread, FREE if owner == thread else FREE_FOREIGN, 0, slot, other))
        elif what < 0.95:
            kind = REALLOC if owner == thread else REALLOC_FOREIGN
            self.lines.append(self.line(thread, kind, self.size(), blocks[index], other))
        else:
            self.lines.append(self.line(thread, TOUCHED, self.size(), blocks[index], owner))


def by_thread(lines: list[str]) -> list[str]:
    """The operations in the reader's order, thread by thread, without their times."""
    found = [line.rpartition(" ")[0] for line in lines if line.startswith("o ")]
    return sorted(found, key=lambda line: [int(word) for word in line.split()[1:3]])


@pytest.mark.parametrize(("threads", "operations"), [(1, 3000), (3, 20000), (80, 4000)])
def test_what_is_written_is_read_back(written, printed, threads, operations):
    lines = [*Program(threads, threads, operations).lines, "e 1 {}"]
    read = printed(written(lines), batch=333)
    assert by_thread(read) == by_thread(lines)
    assert read[-2:] == ["t 5 0 {}", "e 1 0"]


def test_a_thread_goes_on_over_chunks(written, printed):
    program = Program(7, 2, 150_000)
    assert min(program.done) > CHUNK_OPERATIONS
    lines = [*program.lines, "e 1 {}"]
    assert by_thread(printed(written(lines))) == by_thread(lines)


def test_more_freed_slots_than_are_remembered(written, printed):
    count = 10_000
    lines = [f"o 0 0 {MALLOC} 8 {slot} 0 0" for slot in range(count)]
    lines += [f"o 0 0 {FREE} 0 {slot} 0 0" for slot in range(count)]
    lines += [f"o 0 0 {MALLOC} 16 {slot} 0 0" for slot in reversed(range(count))]
    assert by_thread(printed(written(lines))) == lines_without_times(lines)


def lines_without_times(lines: list[str]) -> list[str]:
    return [line.rpartition(" ")[0] for line in lines]


def test_times_are_near_what_was_said_and_their_errors_do_not_add_up(written, printed):
    lines = [line for line in Program(3, 1, 5000, pauses=True).lines if line.startswith("o ")]
    said = [int(line.split()[-1]) for line in lines]
    read = [int(line.split()[-1]) for line in printed(written(lines)) if line.startswith("o ")]
    assert max(later - earlier for earlier, later in pairwise(said)) > LONGEST_SHORT_NS
    assert all(earlier <= later for earlier, later in pairwise(read))
    # A mark is off by at most 1/16 of the pause that it stands for, and the next mark corrects the error.
    for (before, found), (earlier, now) in zip(pairwise(read), pairwise(said), strict=True):
        if now == earlier:
            assert found == before
        else:
            assert found - now <= max(before - now, (now - before) / 16 + 1)
            assert now - found <= (now - before) / 16 + 1


def test_texts_come_back(written, printed):
    lines = ['t 1 0 {"command": ["ls"]}', 't 2 0 {"pid": 1}', 't 2 1 {"pid": 2}', "t 4 1 [[0, 5]]", "t 4 1 [[9, 6]]"]
    read = printed(written([*lines, "o 1 0 0 8 0 0 5", 'e 0 {"reason": "killed"}']))
    assert read == [*lines, "o 1 0 0 8 0 0 5", 't 5 0 {"reason": "killed"}', "e 0 0"]


def test_what_no_trace_can_hold_is_refused_and_the_rest_goes_on(written, printed):
    good = f"o 0 0 {MALLOC} 8 0 0 0"
    bad = [
        f"o 0 0 {FREE} 0 0 0 0",
        f"o 0 0 {MALLOC} 8 5 0 0",
        f"o 0 0 {FREE_FOREIGN} 0 0 0 0",
        f"o 0 0 {WAIT} 3 0 0 0",
        f"o 0 0 {ALIGNED} 3 0 41 0",
        f"o 0 0 {MALLOC} {2**48 + 1} 0 0 0",
        "o 0 0 11 0 0 0 0",
        f"o 0 0 10 0 0 {1 << 20} 0",
        f"o {1 << 20} 0 {MALLOC} 8 0 0 0",
        f"o 0 {1 << 20} {MALLOC} 8 0 0 0",
    ]
    refused = "".join(f"{number} EINVAL\n" for number in range(1, len(bad) + 1))
    assert printed(written([*bad, good, "e 1 {}"], refused=refused)) == [good, "t 5 0 {}", "e 1 0"]


def test_nothing_comes_after_a_threads_end(written, printed):
    lines = [f"o 0 0 {MALLOC} 8 0 0 0", f"o 0 0 {THREAD_END} 0 0 0 0", f"o 0 0 {FREE} 0 0 0 0"]
    assert printed(written(lines, refused="3 EINVAL\n")) == [*lines[:2], "e 0 0"]


def test_nothing_comes_after_a_processes_end(written, printed):
    lines = [f"o {process} 0 {MALLOC} 8 0 0 0" for process in (1, 0)]
    path = written([*lines, "p 0", "p 7", f"o 0 0 {MALLOC} 8 1 0 0"], refused="5 EINVAL\n")
    assert printed(path) == [lines[1], lines[0], "e 0 0"]


@pytest.mark.parametrize(("limit", "parts"), [(40, 0), (5_000, 1), (13_000, 2)])
def test_a_full_disk_leaves_what_was_written_before(written, printed, limit, parts):
    def full():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    lines = Program(2, 1, 6_000).lines[:-1]
    thirds = [lines[start : start + 2000] for start in (0, 2000, 4000)]
    script = [line for third in thirds for line in (*third, "f")]
    path = written([*script, 'e 1 {"reason": "full"}'], refused=None, preexec_fn=full)
    assert path.stat().st_size <= limit
    *read, end = printed(path)
    assert end == "e 0 0"
    operations = [line for line in read if line.startswith("o ")]
    assert by_thread(operations) == lines_without_times([line for third in thirds[:parts] for line in third])
