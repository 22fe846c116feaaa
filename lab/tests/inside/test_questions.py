"""Questions to hak heap explain: differences, pictures, and one line for every question that it cannot answer."""

import ctypes
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from hakmem_lab.inside import layout
from hakmem_lab.inside.memory import Process
from hakmem_lab.inside.ptrace import stopped
from hakmem_lab.inside.watch import Subject, Watch
from hakmem_lab.show.terminal import live

HOLD = "from hakmem_lab.inside.ptrace import stopped\nwith stopped({}):\n print('held', flush=True)\n input()"


def state(pid):
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]


def test_the_difference_of_two_readings(start, made, here, tmp_path):
    program = start(made("known.c"))
    before, after = tmp_path / "before.json", tmp_path / "after.json"
    assert here("explain", "--json", before, program.pid).status == 0
    program.do("a")
    answer = here("explain", "--diff", before, "--json", after, program.pid)
    assert answer.status == 0
    found = json.loads(after.read_text(encoding="utf-8"))["diff"]
    changes = {row["owner"]: row["change_kib"] for row in found["rows"]}
    assert found["rss_change_kib"] == sum(changes.values())
    assert changes["live blocks"] > 10000
    assert next(row["live_blocks"] for row in found["classes"] if row["block_bytes"] == 1024) == 1000
    assert re.search(r"live blocks .*\+\d", answer.out)
    two = here("explain", "--diff", before, after)  # with two files, no process is needed
    assert two.status == 0
    assert re.search(r"classes, since .*\+", two.out)


def test_what_is_known_of_a_process_on_another_allocator(start, made, here):
    """The mapping of an address, and that there are no options, beside the command that shows more."""
    pid = start(made("known.c"), preload=False).pid
    more = f"another allocator serves it: hak heap profile {pid} shows which code holds its blocks"
    heap = next(line for line in Path(f"/proc/{pid}/maps").read_text().splitlines() if line.endswith("[heap]"))
    at = f"0x{heap.partition('-')[0]}"
    said = here("explain", "--block", at, pid).out
    assert re.match(rf"{at}: in \[heap\] at {at}, rw-p, [\d,]+ of [\d,]+ KiB resident; {more}\n$", said)
    assert here("explain", "--block", "0x10", pid).out == "0x10: in no mapping of the process\n"
    found = Watch(Subject(pid))
    found.read()
    console = Console(file=io.StringIO(), width=120)
    for key, wanted in (("c", more), ("o", f"it has no options of hakmem: {more}")):
        found.key(key)
        console.print(live.screen(found, 40))
        assert wanted in console.file.getvalue()


@pytest.mark.parametrize("text", ["", "no JSON", "[1]", "{}", '{"schema": "hakmem-explain 0"}', "[" * 100000])
def test_a_reading_that_is_none(start, made, here, tmp_path, text):
    file = tmp_path / "reading.json"
    file.write_text(text, encoding="utf-8")
    assert "--diff" in here("explain", "--diff", file, start(made("known.c")).pid).message()
    assert "reading.json" in here("explain", file).message()


def test_the_terminal_says_what_is_wasted(start, made, here):
    program = start(made("known.c"), env={"HAKMEM_DECAY_MS": "3600000"})
    program.do("a")
    program.do("f")
    program.do("h")
    out = here("explain", program.pid).out
    assert out.startswith(f"process {program.pid}: ")
    assert "free memory that waits for its decay" in out
    assert "-> hak_trim(0)" in out
    assert "free beside live ones (50 % live)" in out
    assert "its counters before and after differ by 0 KiB" in out


def test_the_wastes_come_by_their_size(start, made, explain):
    program = start(made("known.c"))
    for letter in "afh":
        program.do(letter)
    wastes = explain(program.pid)["wastes"]
    sizes = [waste["kib"] for waste in wastes]
    assert 0 < len(wastes) <= 10
    assert sizes == sorted(sizes, reverse=True)
    assert all(waste["remedy"] for waste in wastes)


def test_the_pictures(start, made, here, tmp_path, explain):
    program = start(made("known.c"))
    for letter in "afh":
        program.do(letter)
    page = tmp_path / "heap.html"
    assert here("explain", "--html", page, program.pid).status == 0
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") == 2
    assert "<title>Memory of process" in text
    held = re.search(r'<script type="application/json" id="reading">(.*?)</script>', text, re.S)
    reading = json.loads(held[1])
    assert reading["sum_kib"] == reading["rss_kib"]
    cells = "".join(row["cells"] for row in reading["map"])
    assert set(cells) <= set("0123456789rhd-so.")
    slabs = sum(row["slabs"] for row in reading["classes"])
    assert sum(letter in "0123456789" for letter in cells) == slabs
    assert "html" in here("explain", "--html", tmp_path / "no" / "page.html", program.pid).message()


def test_threads_of_a_process_that_counts_its_own_numbers(start, made, explain):
    """As in a container, the heap stores thread numbers of the inner PID namespace."""
    if subprocess.run(["unshare", "-pf", "true"], check=False).returncode:
        pytest.skip("namespaces of processes are not for us")
    outer = start("unshare", "-pf", "--kill-child", made("known.c"))
    children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
    inner = int(children.read_text(encoding="ascii"))
    (thread,) = explain(inner)["threads"]
    assert (thread["thread"], thread["name"]) == (1, "known")


def test_a_library_of_another_layout_is_refused(start, made, here):
    program = start(made("known.c"))
    with Process(program.pid) as memory:
        places = list(layout._places(memory))  # a page of the file may be mapped twice
    with open(f"/proc/{program.pid}/mem", "r+b", buffering=0) as file:
        for place, _ in places:
            os.pwrite(file.fileno(), (99).to_bytes(4, "little"), place + 16)
    for command in ("explain", "metrics"):
        answer = here(command, program.pid)
        assert answer.status == 2
        said = f"{places[0][1]}, which has layout 99; this hak reads layout {layout.VERSION}: "
        assert answer.message().endswith(said + "use the hak that came with that library")


def test_a_kernel_that_cannot_scan_pages_tells_the_same(start, made):
    """Before Linux 6.7, hak reads each page's entry. Zero pages, which reading creates, must not count either way."""
    program = start(made("known.c"))
    program.do("a")
    program.do("h")
    with Process(program.pid) as memory:
        areas = [each for each in memory.maps() if each.permissions.startswith("rw") and not each.is_file]
        memory.read(areas[-1].start, 4096)
        ranges = [(each.start, each.end) for each in areas if each.path != "[stack]"]
        scanned = [memory.resident(*each).tolist() for each in ranges]
        memory._scans = False
        assert [memory.resident(*each).tolist() for each in ranges] == scanned
        assert any(any(each) for each in scanned)


def test_of_what_does_not_use_the_library_the_mappings_are_shown(here, start):
    """Another allocator serves it: memory by kind of mapping, and how to see who holds its blocks."""
    program = start("/bin/sh", "-c", "echo ready; read x", preload=False)
    answer = here("explain", program.pid, "--json", "-")
    assert answer.status == 0
    result = answer.result()
    rows = {row["owner"]: row["kib"] for row in result["rows"]}
    assert result["library"] is None and result["rss_kib"] == pytest.approx(program.rss_kib(), abs=64)
    assert sum(rows.values()) == pytest.approx(result["rss_kib"], abs=4) and rows["code"] > 0
    shown = here("explain", program.pid).out
    assert f"hak heap profile {program.pid}" in shown and "[heap]" in shown
    text = here("metrics", program.pid).out
    assert 'hakmem_owner_resident_bytes{owner="code"}' in text and text.endswith("# EOF\n")
    watch = Watch(Subject(program.pid))
    watch.read()
    screen = Console(width=200, record=True, file=io.StringIO())
    screen.print(live.screen(watch, 40))
    assert "code" in (drawn := screen.export_text()) and f"hak heap profile {program.pid}" in drawn


def test_a_library_with_an_allocator_inside_is_named_with_its_share(here, start, made, tmp_path):
    """DuckDB's library has a jemalloc of its own, with renamed functions, in memory that hakmem does not serve."""
    library = made("inside.c", "-shared", "-fPIC", name="libinside.so")
    subprocess.run(["strip", str(library)], check=True)
    host = made("loads.c", "-ldl")
    for preload in (True, False):
        answer = here("explain", start(host, library, preload=preload).pid)
        assert "jemalloc in libinside.so: " in answer.out and "% of what is resident" in answer.out


def test_a_process_that_is_not_there(here):
    assert "is not there" in here("explain", 2**22 + 1).message()


def test_a_process_that_was_not_waited_for(here):
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert "has ended, and waits for its parent" in here("explain", child.pid).message()
    child.wait()


def test_threads_that_end_meanwhile_hide_no_others(start, made, monkeypatch):
    program = start(made("busy.cc"))
    with Process(program.pid) as memory:
        tasks = sorted(os.listdir(f"/proc/{program.pid}/task"))
        monkeypatch.setattr(os, "listdir", lambda path: ["99999999", *tasks])
        assert [*memory.threads()] == [int(each) for each in tasks]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_a_process_of_another_user(start, made):
    program = start(made("known.c"))
    # The module is imported first, since the other user may have no access to this folder.
    code = "import os\nfrom hakmem_lab.inside.memory import Process\nos.setgid(65534)\nos.setuid(65534)\n"
    code += f"Process({program.pid})"
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert f"LabError: process {program.pid} cannot be read (Permission denied): be its user" in done.stderr


def test_a_stopped_process_goes_on(start, made):
    program = start(made("busy.cc"))
    with stopped(program.pid):
        tasks = os.listdir(f"/proc/{program.pid}/task")
        assert {state(f"{program.pid}/task/{each}") for each in tasks} == {"t"}
    deadline = time.monotonic() + 20
    while state(program.pid) == "t" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert state(program.pid) != "t"


def test_a_process_goes_on_when_its_reader_is_killed(start, made, until):
    program = start(made("known.c"))
    code = HOLD.format(program.pid)
    reader = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert reader.stdout.readline() == "held\n"
    assert state(program.pid) == "t"
    reader.kill()
    reader.communicate()
    until(lambda: state(program.pid) == "S")
    program.do("a")


def test_a_signal_that_comes_meanwhile_is_not_lost(start, made):
    program = start(made("known.c"))
    with stopped(program.pid):
        os.kill(program.pid, signal.SIGTERM)
        time.sleep(0.05)
        assert program.process.poll() is None
    assert program.process.wait(600) == -signal.SIGTERM


def test_a_thread_that_cannot_be_stopped_holds_nobody_up(start, made, begin):
    """The thread waits for its vfork child. The wait cannot be interrupted, and the thread changes nothing in it."""
    program = start(made("vfork.c"))
    hak = begin("explain", "--stop", program.pid)
    out, err = hak.communicate(timeout=600)
    assert (hak.returncode, err) == (0, "")
    assert "it was stopped meanwhile" in out
    program.process.stdin.write("\n")
    program.process.stdin.flush()
    assert program._line() == "lives\n"  # the other thread continues; this one does so when the child ends
    assert program.process.wait(600) == 0


def test_a_process_that_is_traced_cannot_be_stopped(start, made, here):
    program = start(made("known.c"))
    code = HOLD.format(program.pid)
    other = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert other.stdout.readline() == "held\n"
    assert "cannot be stopped" in here("explain", "--stop", program.pid).message()
    other.communicate("\n")
    assert here("explain", "--stop", program.pid).status == 0


def names_work():
    """Whether this kernel can name anonymous mappings."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    place = libc.mmap(None, ctypes.c_size_t(4096), 3, 0x22, -1, ctypes.c_long(0))
    return libc.prctl(0x53564D41, 0, ctypes.c_void_p(place), ctypes.c_size_t(4096), b"tested") == 0


@pytest.mark.parametrize(("setting", "named"), [("1", True), ("0", False)])
def test_the_names_of_mappings(start, made, setting, named):
    program = start(made("known.c"), env={"HAKMEM_MAPPING_NAMES": setting})
    program.do("a")
    maps = Path(f"/proc/{program.pid}/maps").read_text(encoding="utf-8")
    assert ("[anon:hakmem]" in maps) == (named and names_work())
