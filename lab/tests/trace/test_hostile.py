"""Traces that are cut off, damaged or malicious: one clear line, no crash (under sanitizers), and little memory."""

import random
import resource
import struct
import subprocess
from collections.abc import Callable
from pathlib import Path

import crafted as c
import pytest

LIMIT_S = 600
MEMORY = 1 << 30  # bytes that the reader may use, including the sanitizers' shadow memory
BIG = 1 << 16  # operations of a chunk


@pytest.fixture
def ask(counter, tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """ask(bytes of a trace, options…): the reader's exit status, and its JSON or its one line."""

    def run(data: bytes, *options: str) -> tuple[int, str]:
        path = tmp_path / "trace"
        path.write_bytes(data)
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        done = subprocess.run([counter, path, *options], capture_output=True, text=True, timeout=LIMIT_S, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        assert after == before or after * 1024 < MEMORY
        if done.returncode == 0:
            assert done.stderr == ""
            return 0, done.stdout
        assert done.returncode == 2, done.stderr
        lines = done.stderr.splitlines()
        assert len(lines) == 1 and str(path) in lines[0], done.stderr
        return 2, lines[0]

    return run


def test_what_is_crafted_right_is_read(ask):
    codes = bytes([c.MALLOC | c.NEXT, c.FREE | c.IMPLIED, c.THREAD_END])
    status, text = ask(c.trace(c.thread(0, codes, c.leb(100), slots=1)))
    assert status == 0 and '"operations":2,' in text and '"complete":true' in text


ONE = c.thread(0, bytes([c.MALLOC | c.NEXT]), c.leb(8), slots=1)
HEADS = {
    "nothing": b"",
    "magic": b"HAKTRACK" + c.trace()[8:],
    "version": c.trace().replace(struct.pack("<II", 1, 0), struct.pack("<II", 7, 0), 1),
    "mark": c.trace(c.chunk(c.INFO, b"{}", mark=0)),
    "bytes": c.trace(c.chunk(c.INFO, b"{}", bytes=2**32 - 1)),
    "packed_bytes": c.trace(c.chunk(c.INFO, b"{}", packed_bytes=2**32 - 1)),
    "process": c.trace(c.chunk(c.PROCESS, b"{}", process=2**31)),
    "thread": c.trace(c.thread(2**32 - 1, bytes([c.MALLOC | c.NEXT]), c.leb(8), slots=1)),
    "operations": c.trace(c.chunk(c.OPERATIONS, c.columns(b"\x10"), 2**31)),
    "no operations": c.trace(c.chunk(c.OPERATIONS, c.columns(b""), 0)),
    "slots": c.trace(c.thread(0, bytes([c.MALLOC | c.NEXT]), c.leb(8), slots=2**31)),
    "fewer slots": c.trace(ONE, c.thread(0, bytes([c.FREE]), slots=0)),
    "after the end": c.trace() + ONE,
    "checksum": c.trace(c.chunk(c.INFO, b"{}", crc=1)),
    "no frame": c.trace(c.chunk(c.INFO, b"{}", packed=b"what is this?")),
    "another size": c.trace(c.chunk(c.INFO, b"{}", bytes=1)),
    "frame that promises 4 GiB": c.trace(c.chunk(c.INFO, b"{}", packed=c.frame(b"{}", claimed=2**32 - 1))),
    "frame that is more": c.trace(c.chunk(c.INFO, b"{}", packed=c.frame(bytes(4 << 20)))),
}


@pytest.mark.parametrize("name", HEADS)
def test_heads(ask, name):
    assert ask(HEADS[name])[0] == 2


def alone(codes: list[int], *parts: bytes, **fields: int) -> bytes:
    return c.trace(c.thread(0, bytes(codes), *parts, **fields))


NEW = c.MALLOC | c.NEXT
LARGE = c.leb(2**48 + 1)
COLUMNS = {
    "no columns": c.trace(c.chunk(c.OPERATIONS, b"1234", 1)),
    "longer than it is": c.trace(c.chunk(c.OPERATIONS, struct.pack("<5I", 1, 2**32 - 1, 0, 0, 1) + b"\x10", 1)),
    "sum that overflows": c.trace(c.chunk(c.OPERATIONS, struct.pack("<5I", 1, *[2**32 - 1] * 4) + b"\x10", 1)),
    "fewer codes": c.trace(c.chunk(c.OPERATIONS, c.columns(b"\x10", b"123"), 2)),
    "bytes left over": alone([NEW], b"\x08\x08", slots=1),
    "no size": alone([NEW], b"", slots=1),
    "number that never ends": alone([NEW], b"\x80" * 12 + b"\x00", slots=1),
    "number of 70 bits": alone([NEW], b"\xff" * 9 + b"\x7f", slots=1),
    "block too large": alone([NEW], LARGE, slots=1),
    "slot never used": alone([c.FREE | c.TOLD], b"", c.leb(0)),
    "slot of 2^40": alone([NEW, c.FREE | c.TOLD], c.leb(8), c.leb(2**40), slots=1),
    "slot below nothing": alone([NEW, c.FREE | c.NEAR], c.leb(8), c.zigzag(-1), slots=1),
    "slot beyond all": alone([NEW, c.FREE | c.NEAR], c.leb(8), leb_most := c.leb(2**64 - 1), slots=1),
    "none allocated": alone([c.FREE | c.IMPLIED]),
    "none freed": alone([c.MALLOC | c.IMPLIED], c.leb(8)),
    "more slots than said": alone([NEW, NEW], c.leb(8) * 2, slots=1),
    "alignment": alone([c.ALIGNED | c.NEXT], c.leb(8), b"", b"", c.leb(41), slots=1),
    "owner who is not there": alone([c.FREE_FOREIGN | c.TOLD], b"", c.leb(9) + c.leb(0)),
    "owner 2^31": alone([c.FREE_FOREIGN | c.TOLD], b"", c.leb(2**31) + c.leb(0)),
    "itself as another": alone([NEW, c.FREE_FOREIGN | c.NEAR], c.leb(8), c.leb(0), slots=1),
    "wait for itself": alone([c.WAIT], b"", b"", b"", c.leb(0) + c.leb(0)),
    "wait for nobody": alone([c.WAIT], b"", b"", b"", c.leb(5) + c.leb(2)),
    "wait for thread 2^40": alone([c.WAIT], b"", b"", b"", c.leb(2**40) + c.leb(2)),
    "wait for too much": c.trace(ONE, c.thread(1, bytes([c.WAIT]), b"", b"", b"", c.leb(0) + leb_most)),
    "unknown kind": alone([15]),
    "the reader's own kind": alone([10]),
    "after its end": alone([c.THREAD_END, c.THREAD_END]),
    "chunk after its end": c.trace(c.thread(0, bytes([c.THREAD_END])), c.thread(0, bytes([c.THREAD_END]))),
    "no time": alone([NEW | 1 << 6], c.leb(8), slots=1),
    "time mark of no kind": alone([NEW | 3 << 6], c.leb(8), b"", b"\x01", slots=1),
    "beyond all time": alone([NEW | 2 << 6, NEW | 2 << 6], c.leb(8) * 2, b"", c.leb(2**63) * 2, slots=2),
    "block that is not there": alone([NEW, c.FREE, c.FREE], c.leb(8), slots=1),
    "block where one still is": alone([NEW, c.MALLOC | c.TOLD], c.leb(8) * 2, c.leb(0), slots=1),
    "touched and not there": alone([NEW, c.FREE, c.TOUCHED], c.leb(8), c.leb(0) * 2, b"", c.leb(1), slots=1),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_columns(ask, name):
    status, text = ask(COLUMNS[name])
    assert status == 2 and "process 0" in text


def waiting(number: int, other: int, count: int) -> bytes:
    return c.thread(number, bytes([c.WAIT, c.THREAD_END]), b"", b"", b"", c.leb(other) + c.zigzag(count))


def test_threads_that_wait_for_each_other(ask):
    ring = [waiting(0, 1, 1), waiting(1, 2, 2), waiting(2, 0, 1)]
    status, text = ask(c.trace(*ring))
    assert status == 2 and "wait for each other" in text
    assert ask(c.trace(waiting(0, 1, 0), waiting(1, 2, 0), waiting(2, 0, 0)))[0] == 0


def test_a_bomb_of_operations_is_counted_in_little_memory(ask):
    """A hundred chunks of some 60 bytes, each with 65,536 operations that allocate into a slot that is still in use."""
    codes = bytes([c.MALLOC | c.IMPLIED]) * BIG
    first = c.thread(0, bytes([NEW, c.FREE]), c.leb(8), slots=1)
    bomb = c.thread(0, codes, bytes(BIG), slots=1)
    status, text = ask(c.trace(first, *[bomb] * 100))
    assert len(bomb) < 200 and status == 2 and "nobody freed" in text


def test_a_bomb_of_blocks_has_the_memory_that_they_need_and_no_more(ask):
    bombs = [c.thread(0, bytes([NEW]) * BIG, bytes(BIG), slots=BIG * (n + 1)) for n in range(20)]
    status, text = ask(c.trace(*bombs))
    assert status == 0 and f'"peak_blocks":{20 * BIG},' in text


def test_tables_that_no_machine_holds_are_refused_before_they_are_made(ask):
    """A few megabytes claim 13,000 million blocks; the reader refuses them before it unpacks anything."""
    payload = c.columns(bytes([NEW]) * BIG, bytes(BIG))
    packed = c.frame(payload)
    heads = ({"thread": n % 4, "slots": BIG * (n // 4 + 1), "bytes": len(payload)} for n in range(200_000))
    data = c.trace(*(c.chunk(c.OPERATIONS, b"", BIG, packed=packed, **head) for head in heads))
    assert len(data) < 40 << 20
    status, text = ask(data)
    assert status == 2 and "more memory than there is" in text


@pytest.mark.parametrize(("threads", "expected"), [(100, 0), (2500, 2)])
def test_threads_that_are_all_open_at_once(ask, threads, expected):
    """All threads wait for the last one, which begins late; each has a chunk of 128 KiB unpacked meanwhile."""
    codes = bytes([c.WAIT]) + bytes([NEW]) * (BIG - 1)
    plain = c.columns(codes, bytes(BIG - 1), extras=c.leb(threads) + c.zigzag(1))
    packed = c.frame(plain)
    heads = ({"thread": n, "slots": BIG - 1, "bytes": len(plain), "packed": packed} for n in range(threads))
    waiting = [c.chunk(c.OPERATIONS, b"", BIG, **head) for head in heads]
    status, text = ask(c.trace(*waiting, c.thread(threads, bytes([c.THREAD_END]), time_ns=5)))
    assert status == expected
    assert status == 0 or "more memory than any that hak writes" in text


def test_thread_numbers_that_lie_far_apart(ask):
    far = [c.chunk(c.OPERATIONS, c.columns(b"\x09"), 1, process=n, thread=(1 << 20) - 1) for n in range(40)]
    status, text = ask(c.trace(*far))
    assert status == 2 and "more threads than a trace can have" in text


def test_a_bomb_of_text(ask):
    status, text = ask(c.trace(*[c.chunk(c.RESIDENT, b" " * (4 << 20))] * 30, ONE), "texts")
    assert status == 2 and "more text" in text


@pytest.mark.parametrize(
    "text",
    [b"[" * 100_000, b'{"a":' * 100_000, b"{", b"[]", b'"\xff', b"1e999999", b'{"n": ' + b"9" * 5000 + b"}", b"\0"],
    ids=["lists", "objects", "cut", "list", "no character", "number", "digits", "zero"],
)
def test_texts_that_are_no_json(here, tmp_path, text):
    path = tmp_path / "trace"
    path.write_bytes(c.trace(c.chunk(c.INFO, text), c.chunk(c.PROCESS, b"{}"), ONE))
    answer = here("trace", path)
    assert answer.status == 2
    assert "damaged: a text in it is not" in answer.message()


def whole() -> bytes:
    """A trace with every kind of chunk and operation."""
    codes = bytes(
        [NEW | 1 << 6, c.CALLOC | c.NEXT, c.ALIGNED | c.NEXT, c.REALLOC, c.FREE, c.TOUCHED | c.TOLD, c.THREAD_END]
    )
    first = (codes, c.leb(300_000) + c.leb(5) + c.leb(64) + c.leb(70), c.leb(0) * 2, b"\x55", c.leb(6) + c.leb(4096))
    second = (
        bytes([c.WAIT, c.FREE_FOREIGN | c.NEAR, c.REALLOC_FOREIGN | c.NEAR, c.THREAD_END]),
        c.leb(900),
        c.zigzag(0) + c.zigzag(1),
        b"",
        c.leb(0) + c.zigzag(6),
    )
    texts = [
        c.chunk(c.INFO, b'{"command": ["ls"]}'),
        c.chunk(c.PROCESS, b'{"pid": 1}'),
        c.chunk(c.RESIDENT, b"[[1, 2]]"),
    ]
    return c.trace(*texts, c.thread(0, *first, slots=3), c.thread(1, *second), end=b'{"reason": null}')


def test_cut_off_at_every_byte(ask):
    data = whole()
    assert ask(data)[0] == 0
    for length in range(0, len(data), 7):
        status, text = ask(data[:length])
        assert status == (2 if length < len(c.HEADER) else 0)
        assert status == 2 or '"complete":false' in text


def test_bits_that_flip(ask):
    """Checksums find most flips. A flip that makes a chunk longer than the file looks like a trace that was cut off."""
    data, generator = whole(), random.Random(5)
    for _ in range(100):
        at = generator.randrange(len(data))
        flipped = bytearray(data)
        flipped[at] ^= 1 << generator.randrange(8)
        status, text = ask(bytes(flipped))
        assert status == 2 or '"complete":false' in text
