"""Packing single cases: recorded words and the operations that they become."""

import random
import subprocess

import pytest

FREE, TIME, LARGE, CALLOC, ALIGNED, REALLOC_FROM, REALLOC_TO, TOUCHED, FORK, THREAD_END, STACK = range(11)  # of raw.h
KINDS = [
    "malloc",
    "calloc",
    "aligned",
    "free",
    "free_foreign",
    "realloc",
    "realloc_foreign",
    "touched",
    "wait",
    "end",
    "stack",
]
A, B, C = 0x1000, 0x2000, 0x3000


def at(clock: int) -> str:
    return f"{clock}:{TIME}"


def malloc(address: int, size: int) -> str:
    return f"{address}:={size}"


def free(address: int) -> str:
    return f"{address}:{FREE}"


def realloc(old: int, new: int, size: int, *between: str) -> str:
    return " ".join([f"{old}:{REALLOC_FROM}", *between, f"{new}:{REALLOC_TO} +{size}"])


def words(*of_thread: str, process: int = 0, thread: int = 0) -> str:
    return f"words {process} {thread} {' '.join(of_thread)}"


@pytest.fixture
def packed(built):
    """packed(lines): (operations ["PROCESS THREAD kind size slot other", …], counts of each process)."""

    def run(*lines: str) -> tuple[list[str], list[dict[str, int]]]:
        program = built("pack_lines.c", "pack/*.c")
        script = "".join(f"{line}\n" for line in lines)
        done = subprocess.run([program], input=script, capture_output=True, text=True, check=False, timeout=600)
        assert (done.returncode, done.stderr) == (0, "")
        operations, counts = [], []
        for line in done.stdout.splitlines():
            first, *rest = line.split()
            if first == "counts":
                counts.append({name: int(value) for name, value in (each.split("=") for each in rest)})
            else:
                thread, kind, *numbers = rest
                operations.append(" ".join([first, thread, KINDS[int(kind)], *numbers[:-1]]))
        return operations, counts

    return run


def test_a_slot_is_used_again_last_first(packed):
    made, _ = packed(
        "process -1 0",
        words(at(1), malloc(A, 10), malloc(B, 20), free(A), free(B), malloc(C, 30), malloc(A, 40)),
        "end 0",
    )
    assert made == [
        "0 0 malloc 10 0 0",
        "0 0 malloc 20 1 0",
        "0 0 free 0 0 0",
        "0 0 free 0 1 0",
        "0 0 malloc 30 1 0",
        "0 0 malloc 40 0 0",
    ]


def test_a_stack_comes_before_what_was_called_there(packed):
    """Wherever other words are in between, and also for a block that another thread reallocates."""
    made, counts = packed(
        "process -1 0",
        words(at(1), f"5:{STACK}", at(2), malloc(A, 16), f"6:{STACK} 7:{STACK}", free(A), malloc(B, 8)),
        words(at(9), realloc(B, C, 24, f"8:{STACK}", at(10)), f"{1 << 20}:{STACK}", malloc(A, 4), thread=1),
        "end 0",
    )
    own = [row.partition(" ")[2] for row in made if " wait " not in row]
    assert own == [
        *("0 stack 0 0 5", "0 malloc 16 0 0", "0 free 0 0 0", "0 stack 0 0 7", "0 malloc 8 0 0"),
        *("1 stack 0 0 8", "1 realloc_foreign 24 0 0", "1 malloc 4 0 0"),
    ]
    assert counts[0]["damaged"] == 0


def test_every_kind_of_allocation(packed):
    made, counts = packed(
        "process -1 0",
        words(at(1), f"{A}:{LARGE} +2000000 {B}:{CALLOC} +33 {C}:{ALIGNED} +{48 << 6 | 9} {A}:{TOUCHED} +4096"),
        "end 0",
    )
    assert made == [
        "0 0 malloc 2000000 0 0",
        "0 0 calloc 33 1 0",
        "0 0 aligned 48 2 9",
        "0 0 touched 4096 0 0",
    ]
    assert counts[0]["live_bytes"] == 2000000 + 33 + 48


def test_a_block_that_changes_hands_is_waited_for_and_nothing_else_is(packed):
    made, counts = packed(
        "process -1 0",
        words(at(100), malloc(A, 10), at(200), malloc(B, 20), at(1000)),
        words(at(500), free(A), at(600), malloc(C, 30), free(C), at(1000), thread=1),
        "end 0",
    )
    assert made == [
        "0 0 malloc 10 0 0",
        "0 0 malloc 20 1 0",
        "0 1 wait 2 0 0",
        "0 1 free_foreign 0 0 0",
        "0 1 malloc 30 0 0",
        "0 1 free 0 0 0",
    ]
    assert counts[0]["handed_over"] == 1


def test_an_address_that_another_thread_is_given_at_once(packed):
    """The time marks do not tell which thread is first, but only one order is possible."""
    made, counts = packed(
        "process -1 0",
        words(at(100), malloc(A, 10), at(300), malloc(C, 1), free(A), at(400)),
        words(at(300), malloc(B, 1), malloc(A, 20), at(400), thread=1),
        "end 0",
    )
    assert [each for each in made if "free" in each or " 20 " in each] == ["0 0 free 0 0 0", "0 1 malloc 20 1 0"]
    assert counts[0]["unknown"] == counts[0]["lost"] == 0


def test_a_reallocation_keeps_its_slot_over_threads(packed):
    made, counts = packed(
        "process -1 0",
        words(at(100), malloc(A, 10), at(200)),
        words(at(300), realloc(A, B, 20), at(400), thread=1),
        words(at(500), realloc(B, B, 30), at(600), free(B), at(700), thread=2),
        "end 0",
    )
    assert [each for each in made if "wait" not in each] == [
        "0 0 malloc 10 0 0",
        "0 1 realloc_foreign 20 0 0",
        "0 2 realloc_foreign 30 0 0",
        "0 2 free_foreign 0 0 0",
    ]
    assert counts[0]["live_bytes"] == 0


def test_words_within_a_reallocation_do_not_end_it(packed):
    made, counts = packed(
        "process -1 0",
        words(at(1), malloc(A, 10), realloc(A, B, 20, at(2), f"{C}:{TOUCHED} +5"), malloc(A, 30), free(B)),
        "end 0",
    )
    assert made == ["0 0 malloc 10 0 0", "0 0 realloc 20 0 0", "0 0 malloc 30 1 0", "0 0 free 0 0 0"]
    assert counts[0]["lost"] == 0


def test_a_record_may_come_in_two_halves(packed):
    made, counts = packed(
        "process -1 0", words(at(1), f"{A}:{CALLOC}"), "advance 0 9000", words("+33", free(A)), "end 0"
    )
    assert made == ["0 0 calloc 33 0 0", "0 0 free 0 0 0"]
    assert counts[0]["damaged"] == counts[0]["unknown"] == 0


def test_a_reallocation_that_failed_leaves_the_block(packed):
    made, counts = packed("process -1 0", words(at(1), malloc(A, 10), realloc(A, 0, 99), free(A)), "end 0")
    assert made == ["0 0 malloc 10 0 0", "0 0 free 0 0 0"]
    assert counts[0]["unknown"] == 0


def test_a_block_older_than_the_recording_is_counted(packed):
    made, counts = packed("process -1 0", words(at(1), free(A), malloc(A, 10), realloc(B, C, 20)), "end 0")
    assert made == ["0 0 malloc 10 0 0", "0 0 malloc 20 1 0"]
    assert counts[0]["unknown"] == 2


def test_a_lost_free_is_made_up(packed):
    made, counts = packed("process -1 0", words(at(1), malloc(A, 10), malloc(A, 20), free(A)), "end 0")
    assert made == ["0 0 malloc 10 0 0", "0 0 free 0 0 0", "0 0 malloc 20 0 0", "0 0 free 0 0 0"]
    assert counts[0] | {"lost": 1, "live_blocks": 0, "live_bytes": 0} == counts[0]


@pytest.mark.parametrize("early", [True, False])
def test_a_forked_child_begins_with_what_was_live(packed, early):
    child = "process 0 1"
    parent = [words(at(100), malloc(A, 10), malloc(B, 20), free(A), f"{C}:{CALLOC} +30", f"1:{FORK}"), "advance 0 1000"]
    made, counts = packed(
        "process -1 0",
        *([child, words(at(1), free(B), process=1), "advance 1 500"] if early else []),
        *parent,
        "advance 0 2000",
        words(free(B), malloc(A, 77)),
        *([] if early else [child, words(at(1), free(B), process=1)]),
        "advance 0 3000",
        "end 1",
        "end 0",
    )
    assert [each for each in made if each.startswith("1 ")] == [
        "1 0 malloc 20 0 0",
        "1 0 calloc 30 1 0",
        "1 0 free 0 0 0",
    ]
    assert counts[1]["unknown"] == 0
    assert counts[1]["live_bytes"] == 30


def test_a_child_that_does_nothing_inherits_nothing(packed):
    made, _ = packed("process -1 0", words(at(1), malloc(A, 10), f"1:{FORK}"), "process 0 1", "end 1", "end 0")
    assert made == ["0 0 malloc 10 0 0"]


def test_a_fork_that_was_never_seen_is_given_up(packed):
    lines = [line for clock in range(1000, 9000, 1000) for line in (f"advance 0 {clock}", f"advance 1 {clock}")]
    made, _ = packed("process -1 0", "process 0 7", words(at(1), malloc(B, 5), process=1), *lines, "end 1", "end 0")
    assert made == ["1 0 malloc 5 0 0"]


def test_a_thread_that_ended_says_nothing_more(packed):
    made, counts = packed("process -1 0", words(at(1), malloc(A, 10), f"1:{THREAD_END}", malloc(B, 5)), "end 0")
    assert made == ["0 0 malloc 10 0 0", "0 0 end 0 0 0"]
    assert counts[0]["damaged"] == 1


def test_an_idle_thread_holds_nobody_up(packed):
    """No time mark follows the thread's last words. Other threads continue, and so does it one advance later."""
    made, _ = packed(
        "process -1 0",
        words(at(100), malloc(A, 10)),
        words(at(110), malloc(B, 20), at(200), free(B), at(5000), thread=1),
        "advance 0 10000",
        "advance 0 20000",
        words(at(30000), malloc(C, 30), thread=1),
    )
    assert sorted(each for each in made if "wait" not in each) == [
        "0 0 malloc 10 0 0",
        "0 1 free 0 0 0",
        "0 1 malloc 20 0 0",
    ]


def test_words_that_were_written_since_the_clock_was_read_keep_their_time(packed):
    made, counts = packed(
        "process -1 0",
        words(at(100), malloc(A, 10)),
        words(at(7500), malloc(A, 20), at(7600), free(A), thread=1),
        "advance 0 1000",
        words(at(5200), free(A), at(5300)),
        "advance 0 20000",
        "end 0",
    )
    assert sorted(each for each in made if "wait" not in each) == [
        "0 0 free 0 0 0",
        "0 0 malloc 10 0 0",
        "0 1 free 0 0 0",
        "0 1 malloc 20 0 0",
    ]
    assert counts[0]["unknown"] == counts[0]["lost"] == 0


def test_a_clock_that_steps_back_or_far_ahead(packed):
    made, counts = packed(
        "process -1 0",
        words(at(500), malloc(A, 10), at(400), free(A), at(2**44 - 1), malloc(B, 20), at(600), free(B)),
        "advance 0 1000",
        "advance 0 2000",
        words(malloc(C, 1), thread=1),
        "advance 0 3000",
        "advance 0 4000",
    )
    assert [each for each in made if "wait" not in each] == [
        "0 0 malloc 10 0 0",
        "0 0 free 0 0 0",
        "0 0 malloc 20 0 0",
        "0 0 free 0 0 0",
        "0 1 malloc 1 0 0",
    ]
    assert counts[0]["live_bytes"] == 1


def test_thousands_of_threads_are_alive_no_more_at_once_than_they_were(packed):
    """Each thread begins after the end of the previous one, and waits in the trace keep this order."""
    lines = []
    for thread in range(1, 3000):
        clock = 1000 * thread
        one = [at(clock), malloc(A, 10), at(clock + 10), free(A), at(clock + 20), f"1:{THREAD_END}"]
        lines.append(words(*one, thread=thread))
    made, counts = packed("process -1 0", *lines, "end 0")
    waits = [each.split() for each in made if "wait" in each]
    assert [(each[1], each[5], each[3]) for each in waits[:3]] == [("2", "1", "3"), ("3", "2", "4"), ("4", "3", "4")]
    assert counts[0] | {"operations": 2 * 2999, "unknown": 0, "lost": 0} == counts[0]


def test_damaged_words_are_counted_and_break_nothing(packed):
    chance = random.Random(5)
    lines = ["process -1 0"]
    for turn in range(60):
        for thread in range(4):
            many = [at(1000 * turn + thread)]
            for _ in range(chance.randrange(40)):
                address = chance.choice([A, B, C, 0, chance.randrange(2**44)])
                code = chance.choice(
                    [8 + chance.randrange(100), 2**20 - 16 + chance.choice([*range(9), *range(10, 16)])]
                )
                many.append(str(address << 20 | code))
            lines.append(words(*many, thread=thread))
        lines.append(f"advance 0 {1000 * turn}")
    made, counts = packed(*lines, "end 0")
    assert counts[0]["damaged"] > 100
    assert len(made) > 1000
