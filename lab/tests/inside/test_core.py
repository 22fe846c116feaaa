"""Core files give the same answers as the process; one that is cut off or damaged gives one line."""

import itertools
import os
import random
import re
import resource
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from hakmem_lab.inside.core import Core
from hakmem_lab.inside.memory import Unreadable

FLIPS, CUTS = 60, 25
ALL = pytest.param(1, marks=pytest.mark.long)


def unlimited():
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


def gcore(pid: int, folder: Path) -> Path:
    if not shutil.which("gcore"):
        pytest.skip("there is no gcore here: gdb has it")
    subprocess.run(["gcore", "-o", str(folder / "core"), str(pid)], check=True, capture_output=True)
    return folder / f"core.{pid}"


@pytest.fixture(scope="session")
def dumped(running, made, hakmem, tmp_path_factory) -> tuple[Path, dict, dict, dict]:
    """(path of a core, reading of the process before it, the program's own counts, addresses of some blocks)."""
    from hakmem_lab.inside import explain

    program = running(made("known.c"), env={**os.environ, "LD_PRELOAD": str(hakmem)})
    try:
        for letter in "aft":
            told = program.do(letter)
        places = program.do("l")
        reading = explain.process(program.pid, stop=True)
        return gcore(program.pid, tmp_path_factory.mktemp("core")), reading, told, places
    finally:
        program.process.kill()
        program.process.communicate()


COUNTS = ("block_bytes", "slabs", "live_blocks", "cached_blocks", "depot_blocks", "free_blocks", "new_blocks")


def counts(reading):
    return [[row[name] for name in COUNTS] for row in reading["classes"]]


def test_a_core_tells_what_the_process_told(dumped, explain):
    core, before, _, _ = dumped
    after = explain(core)
    assert counts(after) == counts(before)
    assert after["sum_kib"] == after["rss_kib"] > 0
    rows = {row["owner"]: row["kib"] for row in after["rows"]}
    assert rows["stacks"] > 0
    assert rows["live blocks"] == pytest.approx(
        next(r["kib"] for r in before["rows"] if r["owner"] == "live blocks"), rel=0.02
    )


def test_what_lies_across_two_mappings_is_read(dumped):
    """The library's tables may do so: one part among initialised data, the other among data that start as zero."""
    with Core(dumped[0]) as core:
        maps = core.maps()
        both = [(a.start, b.end) for a, b in itertools.pairwise(maps) if a.end == b.start and b.end - a.start < 1 << 20]
        read = 0
        for start, end in both:
            middle = next(each.end for each in maps if each.start == start)
            try:
                parts = core.read(middle - 64, 64), core.read(middle, 64)
            except Unreadable:
                continue
            assert core.read(middle - 64, 128) == b"".join(parts)
            assert core.read(start, end - start)[middle - start : middle - start + 64] == parts[1]
            read += 1
        assert read > 0
        with pytest.raises(Unreadable):
            core.read(maps[-1].end - 8, 16)


def test_a_core_that_the_kernel_wrote(start, made, explain, tmp_path):
    pattern = Path("/proc/sys/kernel/core_pattern").read_text(encoding="utf-8").strip()
    if "/" in pattern or pattern.startswith("|"):
        pytest.skip("the kernel hands cores to another program here")
    program = start(made("known.c"), cwd=tmp_path, preexec_fn=unlimited)
    program.do("a")
    before = explain("--stop", program.pid)
    os.kill(program.pid, signal.SIGABRT)
    program.process.wait()
    cores = list(tmp_path.glob("core*"))
    if not cores:
        pytest.skip("no core was written")
    assert counts(explain(cores[0])) == counts(before)


def test_which_block(dumped, here):
    core, _, _, places = dumped
    said = {name: here("explain", "--block", place, core) for name, place in places.items()}
    assert all(answer.status == 0 for answer in said.values())
    for live, freed in (("live", "freed"), ("late", "late freed")):
        assert "32 bytes, live" in said[live].out
        assert "its start" in said[live].out
        assert "5a 5a" in said[live].out
        assert "32 bytes, free" in said[freed].out
    assert "a block of a page that classes share" in said["live"].out
    assert "a block of a slab" in said["late"].out
    assert "a huge block" in said["huge"].out
    for each in ("live", "late"):
        inside = here("explain", "--block", hex(int(places[each], 16) + 5), core)
        assert "5 bytes into it" in inside.out
    assert "nothing is mapped there" in here("explain", "--block", "0x10", core).out


def neighbours(here, core, address: int) -> list[tuple[int, str, str]]:
    """(distance, bytes, state) of each."""
    lines = here("explain", "--block", hex(address), core).out.splitlines()
    rows = [re.fullmatch(r"  (0x\w+)  (\d+) bytes, (\w+).*", line) for line in lines if line.startswith("  0x")]
    return [(int(row[1], 16) - address, row[2], row[3]) for row in rows if row]


def test_the_neighbours_of_a_block(dumped, here):
    core, _, _, places = dumped
    late = int(places["late"], 16)
    near = neighbours(here, core, late)
    before = min(3, late % 65536 // 32)  # the slab begins there
    assert [distance for distance, _, _ in near] == [*range(-32 * before, 0, 32), 32, 64, 96]
    assert {size for _, size, _ in near} == {"32"}
    assert {state for _, _, state in near} == {"live", "free"}  # every second one was freed


def test_the_neighbours_in_a_page_that_classes_share(dumped, here):
    core, _, _, places = dumped
    live = int(places["live"], 16)
    first = (-80, "16", "free")  # the program's first block, of 1 byte
    others = [(each * 32, "32", "live" if each % 2 == 0 else "free") for each in (-2, -1, 1, 2, 3)]
    assert neighbours(here, core, live) == [first, *others]
    assert [distance for distance, _, _ in neighbours(here, core, live - 80)] == [16, 48, 80]  # the page begins there
    assert "but none of them" in here("explain", "--block", hex(live - 96), core).out  # the page's unused beginning


@pytest.mark.parametrize("address", ["zero", "0x", "-5", "99999999999999999999999"])
def test_an_address_that_is_none(dumped, here, address):
    answer = here("explain", "--block=" + address, dumped[0])
    assert answer.status == 2
    assert "--block" in answer.message()


def answers_in_one_line(here, core):
    """Asserts that the answer is either a reading, or one line and status 2."""
    answer = here("explain", core)
    assert answer.status in (0, 2), answer.err
    if answer.status == 2:
        answer.message()
    return answer


def test_cores_that_are_cut_off(dumped, here, tmp_path):
    whole = dumped[0].read_bytes()
    cut = tmp_path / "cut"
    dice = random.Random(7)
    sizes = [0, 1, 3, 16, 63, 64, 100, 1000, 5000, *(dice.randrange(len(whole)) for _ in range(CUTS))]
    refused = 0
    for size in sizes:
        cut.write_bytes(whole[:size])
        refused += answers_in_one_line(here, cut).status == 2
    assert refused > len(sizes) // 2


def test_a_core_that_lost_its_end_is_read_as_far_as_it_goes(dumped, here, explain, tmp_path):
    """If only the end is missing, the core is still read; if half is missing, hak says so."""
    whole = dumped[0].read_bytes()
    cut = tmp_path / "cut"
    cut.write_bytes(whole[: len(whole) - 4096])
    assert explain(cut)["classes"] == explain(dumped[0])["classes"]
    cut.write_bytes(whole[: len(whole) // 2])
    assert re.search(r"cut short: [\d,]+ MiB are missing|is it complete", here("explain", cut).message())


@pytest.mark.parametrize("of", [4, ALL])
def test_cores_with_flipped_bits(dumped, here, tmp_path, of):
    """Flips bits in the headers and notes, in the library's own pointers and counts, and anywhere else."""
    whole = bytearray(dumped[0].read_bytes())
    layout = whole.find(b"hakmem layout\0\0\0")
    dice = random.Random(11)
    places = [dice.randrange(4096) for _ in range(FLIPS // of)]
    places += [layout + dice.randrange(12000) for _ in range(FLIPS // of)]
    places += [dice.randrange(len(whole)) for _ in range(FLIPS // 3 // of)]
    flipped = tmp_path / "flipped"
    flipped.write_bytes(whole)
    with open(flipped, "r+b", buffering=0) as file:
        for at in places:
            bit = 1 << dice.randrange(8)
            os.pwrite(file.fileno(), bytes([whole[at] ^ bit]), at)
            answers_in_one_line(here, flipped)
            os.pwrite(file.fileno(), whole[at : at + 1], at)


def test_what_is_no_core(here, tmp_path, made):
    text = tmp_path / "text"
    text.write_text("no core at all\n", encoding="utf-8")
    assert "is neither a process nor a core file" in here("explain", text).message()
    assert "not a core" in here("explain", made("known.c")).message()
    assert "no process and no file" in here("explain", tmp_path / "nothing").message()
    assert "is a file" in here("explain", "--stop", text).message()
