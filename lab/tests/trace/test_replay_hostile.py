"""hak-replay refuses traces that demand too much, with one line and soon. It also works with other page sizes."""

import json
import math
import subprocess
import time
from pathlib import Path

import crafted as c
import pytest

NEW = c.MALLOC | c.NEXT
MIB = 1 << 20
PAGES = "#include <unistd.h>\nlong sysconf(int name) { (void)name; return 65536; }\n"


def waiting(number: int, other: int) -> bytes:
    return c.thread(number, bytes([c.WAIT, c.THREAD_END]), b"", b"", b"", c.leb(other) + c.zigzag(1))


def large_again_and_again(count: int, size: int) -> bytes:
    """A trace with one live block at a time, all of which is touched."""
    sizes, places = c.leb(size) * count, (c.leb(0) + c.leb(0)) * count
    again = bytes([c.MALLOC, c.TOUCHED | c.TOLD, c.FREE])
    first = bytes([NEW, c.TOUCHED | c.TOLD, c.FREE])
    parts = (c.thread(0, codes, sizes, places, b"", sizes, slots=1)
             for codes in (first + again * (count - 1), again * count, again * count))  # fmt: skip
    return c.trace(*parts)


@pytest.fixture
def ended(tmp_path: Path):
    """ended(bytes of a trace, options…): (exit status, single line of the replay)."""
    from hakmem_lab.trace import replayer

    def run(data: bytes, *options: str) -> tuple[int, str]:
        path = tmp_path / "trace"
        path.write_bytes(data)
        words = [str(replayer()), *options, str(path)]
        done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
        assert len(done.stderr.splitlines()) <= 1, done.stderr
        return done.returncode, done.stderr.strip()

    return run


def test_thousands_of_threads_that_wait_for_each_other(ended):
    count = 5000
    ring = [waiting(number, count - 1) for number in range(count - 1)] + [waiting(count - 1, 0)]
    status, text = ended(c.trace(*ring))
    assert status == 2 and "all threads wait for each other" in text


def test_thousands_of_threads_that_wait_for_one_are_replayed(ended):
    count = 3000
    all_for_one = [waiting(number, count - 1) for number in range(count - 1)]
    last = c.thread(count - 1, bytes([NEW, c.FREE, c.THREAD_END]), c.leb(64), slots=1)
    assert ended(c.trace(*all_for_one, last)) == (0, "")


def test_what_many_threads_need_of_the_replay_is_not_the_allocators(tmp_path):
    """500 threads with 8 bytes each. The replay's own memory at the peak, not that at the end, must be subtracted."""
    from hakmem_lab.trace import replayer

    count, path = 500, tmp_path / "trace"
    codes = bytes([c.WAIT, NEW, c.FREE]) + bytes([c.MALLOC, c.FREE]) * 2000
    many = [c.thread(number, codes, c.leb(8) * 2001, b"", b"", c.leb(count - 1) + c.zigzag(1), slots=1)
            for number in range(count - 1)]  # fmt: skip
    path.write_bytes(c.trace(*many, c.thread(count - 1, bytes([NEW, c.FREE, c.THREAD_END]), c.leb(64), slots=1)))
    least = math.inf  # a late sample can only make the figure larger
    for _ in range(4):
        done = subprocess.run([replayer(), path], capture_output=True, text=True, check=True)
        found = json.loads(done.stdout.splitlines()[0])
        assert found["raw_peak_kib"] > 20 * 1024
        least = min(least, found["rss_peak_kib"])
    assert least < 8 * 1024


def test_a_few_operations_that_touch_terabytes(ended):
    """The blocks fit every machine but come again and again, so a limit on live memory would not refuse them."""
    data = large_again_and_again(20_000, 256 * MIB)
    assert len(data) < MIB
    status, text = ended(data)
    assert status == 3 and "far longer than the program can have taken" in text
    assert ended(data, "--touch=none") == (0, "")


def test_a_replay_ends_with_the_one_who_asked_for_it(tmp_path):
    from hakmem_lab.trace import replayer

    path = tmp_path / "trace"
    late = c.thread(0, bytes([NEW, c.FREE | 2 << 6]), c.leb(64), b"", c.leb(300 * 10**9), slots=1)
    path.write_bytes(c.trace(late))
    asked = subprocess.Popen([replayer(), "--pace", path], stdout=subprocess.DEVNULL)
    children = Path(f"/proc/{asked.pid}/task/{asked.pid}/children")
    until = time.monotonic() + 60
    while not (child := children.read_text().split()) and time.monotonic() < until:
        time.sleep(0.01)
    while b"--only" not in (command := Path(f"/proc/{child[0]}/cmdline")).read_bytes() and time.monotonic() < until:
        time.sleep(0.01)
    asked.kill()
    asked.wait()
    while b"--only" in (command.read_bytes() if command.exists() else b"") and time.monotonic() < until:
        time.sleep(0.01)
    assert not command.exists() or b"--only" not in command.read_bytes()


def test_memory_is_touched_and_counted_by_the_pages_of_the_system(tmp_path, written):
    """The replay assumes pages of 64 KiB, on a system with smaller ones."""
    from hakmem_lab.trace import replayer

    (tmp_path / "pages.c").write_text(PAGES)
    library = tmp_path / "pages.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, tmp_path / "pages.c"], check=True)
    lines = [line for slot in range(64)
             for line in (f"o 0 0 0 {MIB} {slot} 0 0", f"o 0 0 7 {MIB} {slot} 0 0")]  # fmt: skip
    path = written([*lines, 'e 1 {"processes": []}'])
    for flags in ((), ("--touch=all",)):
        done = subprocess.run([replayer(), "--only=0", *flags, path], capture_output=True, text=True, check=True,
                              env={"LD_PRELOAD": str(library)})  # fmt: skip
        raw_kib = int(done.stdout.partition('"raw_peak_kib": ')[2].partition(",")[0])
        assert raw_kib < 32 * 1024
