"""Compares a program's own count of its blocks with hak heap explain's reading; the rows add up to the kernel's RSS."""

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from hakmem_lab.inside import layout
from hakmem_lab.inside.memory import Process


def live(reading):
    return {row["block_bytes"]: row["live_blocks"] for row in reading["classes"]}


def more(before, after, told):
    """Size, as the program reports it -> how many more blocks of it are live after than before."""
    was, now = live(before), live(after)
    sizes = {size: int(size) if int(size) <= 1 << 20 else None for size in told}
    return {size: now.get(key, 0) - was.get(key, 0) for size, key in sizes.items()}


def adds_up(reading):
    assert reading["sum_kib"] == reading["rss_kib"] == sum(row["kib"] for row in reading["rows"])
    assert reading["unmatched_kib"] == 0
    assert all(row["kib"] >= 0 for row in reading["rows"])
    rows = {row["owner"]: row["kib"] for row in reading["rows"]}
    assert "changed meanwhile" not in rows
    return rows


def huge_as_one(told):
    """Without blocks above 1 MiB, since hak heap explain counts all of these in one class."""
    return {size: count for size, count in told.items() if int(size) <= 1 << 20}


@pytest.mark.parametrize("stop", [(), ("--stop",)])
def test_every_block_is_counted(start, made, explain, stop):
    program = start(made("known.c"))
    before = explain(*stop, program.pid)
    for letter in "aft":
        told = program.do(letter)
        after = explain(*stop, program.pid)
        assert after["rss_kib"] == program.rss_kib()
        adds_up(after)
        assert more(before, after, huge_as_one(told)) == huge_as_one(told), letter
        assert live(after)[None] - live(before).get(None, 0) == 2
        assert after["broken"] == 0


@pytest.mark.parametrize("mean", [1, 4096])
def test_every_block_is_counted_while_samples_are_taken(start, made, explain, mean):
    """The test switches the sampler on from outside. Sampled blocks have other places, but count as live as well."""
    program = start(made("known.c"))
    before = explain("--stop", program.pid)
    with Process(program.pid) as memory:
        found = layout.find(memory)
    with open(f"/proc/{program.pid}/mem", "r+b", buffering=0) as file:
        sample(file, found, mean)
    for letter in "aft":
        told = huge_as_one(program.do(letter))
        reading = explain("--stop", program.pid)
        rows = adds_up(reading)
        assert rows["sampled blocks"] > 0
        assert more(before, reading, told) == told
        assert reading["broken"] == 0


def sample(file, found, mean):
    setting = 1 << found["HAK_SAMPLE_MEAN_BITS"] | mean
    os.pwrite(file.fileno(), setting.to_bytes(8, "little"), found.root("hak_sample_request"))


def test_a_sampled_block_tells_who_allocated_it(start, made, here, tmp_path):
    program = start(made("known.c", "-g", "-fno-omit-frame-pointer", name="known-frames"))
    with Process(program.pid) as memory:
        found = layout.find(memory)
    with open(f"/proc/{program.pid}/mem", "r+b", buffering=0) as file:
        sample(file, found, 1)
    program.do("a")
    program.do("f")
    places = program.do("l")
    subjects = [program.pid]
    if shutil.which("gcore"):
        subprocess.run(["gcore", "-o", tmp_path / "core", str(program.pid)], check=True, capture_output=True)
        subjects.append(tmp_path / f"core.{program.pid}")
    for subject in subjects:
        live = here("explain", "--block", places["live"], subject).out
        assert "a sampled block" in live
        assert "live, 24 bytes asked" in live
        assert re.search(r"allocated by allocate \(.*known\.c:\d+\)\n *allocated by main ", live)
        assert "allocated by allocate" in here("explain", "--block", places["huge"], subject).out
        assert "but no live one" in here("explain", "--block", places["freed"], subject).out


def test_the_rows_are_who_they_say(start, made, explain):
    program = start(made("known.c"), env={"HAKMEM_DECAY_MS": "3600000", "HAKMEM_RETAIN": "64M"})
    empty = adds_up(explain("--stop", program.pid))
    program.do("a")
    full = adds_up(explain("--stop", program.pid))
    asked = (4000 * 24 + 3000 * 100 + 1000 * 1000 + 100 * 5000 + 20 * 30000 + 10 * 40000 + 6 * 300000) / 1024
    huge = 2 * -(-3000000 // 4096) * 4
    assert full["live blocks"] - empty["live blocks"] == pytest.approx(asked + huge, rel=0.02)
    rounding = (4000 * 8 + 3000 * 12 + 1000 * 24 + 100 * 456 + 20 * 2768 + 10 * 9152 + 6 * 27680) / 1024
    assert full["rounding"] - empty["rounding"] == pytest.approx(rounding, rel=0.25)
    program.do("f")
    some = adds_up(explain("--stop", program.pid))
    given = sum(
        some[row] - full[row] for row in ("free in slabs", "thread caches", "waiting for decay", "in the depot")
    )
    assert given == pytest.approx((2000 * 32 + 1500 * 112 + 500 * 1024 + 50 * 5456 + 10 * 32768) / 1024, rel=0.05)
    program.do("h")
    after = adds_up(explain("--stop", program.pid))
    assert after["waiting for decay"] - some["waiting for decay"] == pytest.approx(huge, abs=16)
    program.do("t")
    passed = adds_up(explain("--stop", program.pid))
    assert passed["thread caches"] + passed["in the depot"] > after["thread caches"] + after["in the depot"]
    assert passed["stacks"] > after["stacks"]


def test_what_an_ended_thread_left_for_the_next_is_free(start, made, explain):
    program = start(made("known.c"), env={"HAKMEM_DECAY_MS": "3600000"})
    before = explain("--stop", program.pid)
    told = huge_as_one(program.do("e"))
    after = explain("--stop", program.pid)
    assert more(before, after, told) == told
    assert adds_up(after)["thread caches"] > adds_up(before)["thread caches"]
    assert [row["cached_blocks"] > 0 for row in after["threads"] if row["name"] == "ended"] == [True]


def test_a_static_program_has_the_library_in_itself(start, made, explain, hakmem):
    archive = hakmem.parent / "libhakmem.a"
    if not archive.exists():
        pytest.skip(f"there is no {archive}: make builds it")
    program = start(made("known.c", "-static", "-s", str(archive), name="known-static"), preload=False)
    before = explain("--stop", program.pid)
    told = huge_as_one(program.do("a"))
    after = explain("--stop", program.pid)
    assert more(before, after, told) == told
    assert after["library"]["path"].endswith("known-static")
    adds_up(after)


def test_a_program_in_cxx(start, made, explain, until):
    # Bound at its start, so that no thread touches further pages on its way to sleep; and none gives pages back.
    program = start(made("busy.cc", "-Wl,-z,now", name="busy-now"), "20000", env={"HAKMEM_BACKGROUND": "0"})
    tasks = Path(f"/proc/{program.pid}/task")
    until(lambda: all(" S " in (task / "stat").read_text(encoding="utf-8") for task in tasks.iterdir()))
    reading = explain("--stop", program.pid)
    rows = adds_up(reading)
    assert reading["rss_kib"] == program.rss_kib()
    assert rows["live blocks"] > 1000
    assert rows["stacks"] > 0
    assert len(reading["threads"]) == 4 or len(reading["threads"]) == 3


def test_a_program_that_is_never_still(start, made, explain):
    program = start(made("busy.cc"))
    for stop in ((), ("--stop",)) * 2:
        reading = explain(*stop, program.pid)
        assert reading["sum_kib"] == reading["rss_kib"]
        if stop:
            adds_up(reading)
            assert reading["counters"]["difference_kib"] == 0
            assert reading["broken"] <= 3  # each thread may have been stopped in the middle of an operation
    assert program.process.poll() is None


def test_python(start, explain, tmp_path):
    script = tmp_path / "holds.py"
    script.write_text(
        "held = [str(i) * 9 for i in range(100000)]\nprint('ready', flush=True)\ninput()\n", encoding="utf-8"
    )
    program = start(shutil.which("python3"), script, env={"PYTHONMALLOC": "malloc"})
    reading = explain("--stop", program.pid)
    rows = adds_up(reading)
    assert reading["rss_kib"] == program.rss_kib()
    assert rows["live blocks"] > 100000 * 90 / 1024
    assert rows["code"] > 1000


def test_redis(start, explain, tmp_path):
    server, client = shutil.which("redis-server"), shutil.which("redis-cli")
    if not (server and client):
        pytest.skip("there is no redis-server here")
    socket = tmp_path / "socket"
    script = f"echo ready; exec {server} --port 0 --unixsocket {socket} --save '' --enable-debug-command yes >/dev/null"
    program = start("/bin/sh", "-c", script, cwd=tmp_path)
    deadline = time.monotonic() + 20
    while not socket.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    subprocess.run([client, "-s", socket, "debug", "populate", "50000", "key", "100"], check=True, capture_output=True)
    reading = explain("--stop", program.pid)
    rows = adds_up(reading)
    assert rows["live blocks"] > 50000 * 100 / 1024


def test_rust(start, explain, tmp_path: Path):
    if not shutil.which("rustc"):
        pytest.skip("there is no rustc here")
    source = tmp_path / "holds.rs"
    source.write_text(
        "use std::io::Read;\n"
        "fn main() {\n"
        '    let held: Vec<String> = (0..50000).map(|_| "x".repeat(100)).collect();\n'
        "    println!(\"ready\");\n"
        "    let _ = std::io::stdin().read(&mut [0]);\n"
        "    drop(held);\n"
        "}\n",
        encoding="utf-8",
    )  # fmt: skip
    done = subprocess.run(
        ["rustc", "-O", "-o", tmp_path / "holds", source], capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("rustc cannot compile here")
    reading = explain("--stop", start(tmp_path / "holds").pid)
    adds_up(reading)
    assert live(reading)[112] >= 50000
