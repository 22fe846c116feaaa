"""Parts of a soak: reading a program's lines, reading /proc, and checking the keys of a spec."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hakmem_lab.errors import LabError


def spec(**keys):
    from hakmem_lab.kinds.soak import SoakSpec
    from hakmem_lab.plan.model import build

    return build(SoakSpec, {"kind": "soak", "command": "true"} | keys, "s.toml")


def test_lines_become_samples():
    from hakmem_lab.kinds.soak import DEFAULT_LINE, LineReader

    reader = LineReader(DEFAULT_LINE)
    line = "soak t={} ops={} live_kib=7 phase={} next={} threads=2 started=3 p50_ns=40 p99_ns={} p999_ns=900\n"
    text = line.format("1.000", 100, "a", "a", 200)
    first = reader.read(text.encode(), 1.5)
    assert (first["operations"], first["ops_per_s"], first["phase"], first["threads_started"]) == (100, None, "a", 3)
    assert (first["p50_us"], first["p99_us"], first["p999_us"], first["live_kib"]) == (0.04, 0.2, 0.9, 7.0)
    nothing = reader.read(b"soak t=2", 2.5)  # half a line does not count
    assert (nothing["operations"], nothing["p99_us"], nothing["phase"]) == (None, None, "a")
    text = line.format("2.000", 300, "a", "a", 800) + line.format("3.000", 600, "a", "b", 500)
    both = reader.read(text.removeprefix("soak t=2").encode(), 3.5)
    # 500 operations in 2 s by the program's own clock; the worse of the two tails counts.
    assert (both["operations"], both["ops_per_s"], both["p99_us"]) == (600, 250.0, 0.8)
    assert (both["phase"], both["line_phase"]) == ("b", "a")


def test_rates_by_the_samplers_clock_where_the_program_has_none():
    from hakmem_lab.kinds.soak import LineReader

    reader = LineReader(r"done (?P<operations>\d+) in (?P<p99_ms>[0-9.]+)")
    reader.read(b"done 10 in 2\n", 1.0)
    found = reader.read(b"done 40 in 2.5\n", 3.0)
    assert (found["ops_per_s"], found["p99_us"]) == (15.0, 2500.0)


def test_a_line_may_come_in_any_pieces():
    from hakmem_lab.kinds.soak import LineReader

    reader = LineReader("^ä+ (?P<operations>[0-9]+)$")
    pieces = [bytes([byte]) for byte in "ä 1\nää 23\n".encode()]
    found = [record["operations"] for piece in pieces if (record := reader.read(piece, 1.0))["operations"]]
    assert found == [1, 23]


CHILD = """
import threading, time
block = bytearray(64 << 20)
for _ in range(3):
    threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
print("ready", flush=True)
time.sleep(60)
"""
PARENT = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]])"


def test_memory_processor_time_and_threads_of_a_family():
    from hakmem_lab.system.usage import family, usage

    process = subprocess.Popen([sys.executable, "-c", PARENT, CHILD], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        for exact in (True, False):
            used = usage(process.pid, exact)
            assert used.processes == 2 and used.threads == 5 and len(used.tasks) == 5
            assert 64 << 10 < used.rss_kib < 256 << 10
            assert used.cpu_s > 0 and used.minor_faults > 1000
            assert (used.pss_kib is not None) == exact
    finally:
        for pid in family(process.pid):
            os.kill(pid, signal.SIGKILL)
        process.communicate()
    assert usage(process.pid, True) is None


def test_own_memory_agrees_with_the_kernels_high_water_mark():
    from hakmem_lab.system.usage import family, usage

    children = {*family(os.getpid())} - {os.getpid()}  # of other tests in this process
    peak = int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text(encoding="ascii"))[1])
    assert 0 < usage(os.getpid(), True, children).rss_kib <= peak * 1.05


@pytest.mark.parametrize(
    ("text", "mib_per_h"),
    [("1 MiB/h", 1.0), ("512KiB/min", 30.0), ("1 GiB/d", 1024 / 24), (2.5, 2.5), ("1 KiB/s", 3600 / 1024)],
)
def test_budgets(text, mib_per_h):
    assert spec(budget=text).budget == pytest.approx(mib_per_h)


def test_defaults_and_a_stored_spec_reads_back():
    from hakmem_lab.kinds.soak import SoakSpec
    from hakmem_lab.plan.model import build
    from hakmem_lab.plan.spec import normalised

    made = spec(duration="10m", **{"sample-interval": "500ms"})
    assert (made.duration, made.sample_interval, made.budget, made.allocator) == (600.0, 0.5, 1.0, "hakmem")
    assert build(SoakSpec, normalised(made), "stored") == made


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"durration": "10m"}, ("durration", "'duration'")),
        ({"budget": "1 MB/h"}, ("budget", "1 MiB/h")),
        ({"budget": 0}, ("budget",)),
        ({"sample-interval": "2s"}, ("sample-interval",)),
        ({"duration": "soon"}, ("duration", "10m")),
        ({"line": "("}, ("line", "not valid")),
        ({"line": "x"}, ("line", "names no group")),
        ({"line": "(?P<opps>.)"}, ("line", "opps", "operations")),
    ],
)
def test_mistakes_are_named(keys, words):
    with pytest.raises(LabError) as error:
        spec(**keys)
    assert all(word in str(error.value) for word in ("s.toml", *words))
