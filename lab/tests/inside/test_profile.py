"""`hak heap profile` of a running process, which needs no preparation, and of a command."""

import gzip
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hakmem_lab.errors import LabError
from hakmem_lab.inside import layout
from hakmem_lab.inside.memory import Process
from hakmem_lab.inside.profile import forms, places
from hakmem_lab.inside.profile.places import (
    ALLOC_OBJECTS,
    INUSE_OBJECTS,
    INUSE_SPACE,
    RESIDENT_SPACE,
    HeapProfile,
    Name,
    Names,
    Place,
)

LAUNCH = (sys.executable, "-m", "hakmem_lab.cli.main")
FLAGS = ("-fno-omit-frame-pointer", "-fno-optimize-sibling-calls")


@pytest.fixture(scope="session")
def sites(made) -> Path:
    return made("sites.c", *FLAGS)


def by_name(folded: str) -> dict[str, int]:
    """Innermost function -> bytes."""
    found: dict[str, int] = {}
    for line in folded.splitlines():
        stack, _, size = line.rpartition(" ")
        name = stack.rpartition(";")[2]
        found[name] = found.get(name, 0) + int(size)
    return found


def request_of(pid: int) -> int:
    with Process(pid) as memory:
        found = layout.find(memory)
        return int.from_bytes(memory.read(found.root("hak_sample_request"), 6), "little")


def test_a_command_in_every_form(here, hakmem, sites, tmp_path):
    for ending in ("pb.gz", "folded", "txt"):
        answer = here("profile", "-o", tmp_path / f"p.{ending}", "--rate", "1", "--", sites, "1500")
        assert answer.status == 0, answer.err
    found = by_name((tmp_path / "p.folded").read_text(encoding="utf-8"))
    assert 1000 * 5000 <= found["cold"] < 1000 * 5000 * 1.15  # 1,000 whole blocks, rounded up to their size class
    assert found["cold"] % 1000 == 0
    assert 1000 * 1050 <= found["hot"] < 1000 * 1050 * 1.2
    text = (tmp_path / "p.txt").read_text(encoding="utf-8")
    assert re.search(rf"^ +{found['cold']:,} +1,000 +[\d,]+ +[\d,]+\n    cold\n    round_of\n    main\n", text, re.M), (
        text
    )
    profile = forms.read(tmp_path / "p.pb.gz")
    assert profile.period == 1
    assert profile.total(ALLOC_OBJECTS) >= 1500 * 1001


def test_the_status_is_the_programs(here, hakmem, sites, tmp_path):
    assert here("profile", "-o", tmp_path / "p.txt", "--", sites, "1", "7").status == 7


def test_a_service_that_is_told_to_end(hakmem, tmp_path):
    """A signal to hak ends the program as if sent to the program itself, and the profile is written."""
    code = "import signal, sys, time\nsignal.signal(15, lambda *_: sys.exit(3))\nkept = 'a' * 5000000\n"
    code += "print('ready', flush=True)\nwhile True: time.sleep(0.01)"
    words = [*LAUNCH, "profile", "-o", tmp_path / "p.txt", "--", sys.executable, "-c", code]
    hak = subprocess.Popen([*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert hak.stdout.readline() == "ready\n"
    hak.terminate()
    _, said = hak.communicate(timeout=600)
    assert hak.returncode == 3, said
    allocated = re.search(r"^allocated +([0-9,]+) bytes", (tmp_path / "p.txt").read_text(encoding="utf-8"), re.M)
    assert int(allocated[1].replace(",", "")) > 4000000


@pytest.mark.parametrize("starter", ["timeout 2", "timeout -s KILL 2", "sh -c 'timeout 2 \"$0\"'"])
def test_a_program_that_a_starter_ends_is_what_is_profiled(here, hakmem, sites, tmp_path, starter):
    for seconds in ("2", "10", "50"):  # on a busy machine, 2 s may be too short to start
        words = shlex.split(starter.replace("2", seconds))
        answer = here("profile", "-o", tmp_path / "p.folded", "--rate", "4K", "--", *words, sites)
        assert answer.status in (124, 137)
        if "without a profile" not in answer.err:
            break
    assert "did not leave by exit()" not in answer.err  # it was read at its end
    found = by_name((tmp_path / "p.folded").read_text(encoding="utf-8"))
    assert found["hot"] > 0
    assert not any(name.startswith("[blocks") for name in found)


def test_what_only_starts_a_program_is_not_in_its_profile(here, hakmem, sites, tmp_path):
    answer = here("profile", "-o", tmp_path / "p.pb.gz", "--", "timeout", "60", sites, "50")
    assert answer.status == 0
    assert "counted together" not in answer.err
    assert Path(forms.read(tmp_path / "p.pb.gz").main).name == "sites"


IDLE = "import signal; kept = [bytes(100_000) for _ in range(30)]; print('ready', flush=True); signal.pause()"


def test_of_an_idle_process_it_is_told_what_is_in_use(here, start, tmp_path):
    running = start(sys.executable, "-c", IDLE)
    answer = here("profile", "-o", tmp_path / "p.txt", "--seconds", "0.3", running.pid)
    assert answer.status == 0, answer.err
    assert "bytes in use, by size; stacks are missing" in answer.err
    text = (tmp_path / "p.txt").read_text(encoding="utf-8")
    in_use = int(re.search(r"^in use +([0-9,]+) bytes", text, re.M)[1].replace(",", ""))
    assert in_use > 30 * 100_000
    (blocks,) = re.findall(r" (\d+) +0 +0\n    \[blocks of 11[0-9],\d\d\d bytes\]", text)
    assert int(blocks) >= 30


def test_a_process_that_only_reuses_its_blocks(here, start, sites, tmp_path):
    running = start(sites)
    assert request_of(running.pid) == 0
    answer = here("profile", "-o", tmp_path / "p.folded", "--rate", "4K", "--seconds", "1.5", running.pid)
    assert answer.status == 0, answer.err
    found = by_name((tmp_path / "p.folded").read_text(encoding="utf-8"))
    assert found["hot"] == pytest.approx(1000 * 1200, rel=0.3)
    assert found["cold"] > 100 * 5000
    assert request_of(running.pid) == 0  # off again
    assert running.process.poll() is None


def test_a_process_whose_blocks_are_guarded(here, start, sites, tmp_path):
    running = start(sites, env={"HAKMEM_GUARD_RATE": "64K"})
    guards = request_of(running.pid)
    assert guards == 1 << 47  # only the guards' bit and no mean: nothing is sampled
    answer = here("profile", "-o", tmp_path / "p.folded", "--rate", "4K", "--seconds", "1.5", running.pid)
    assert answer.status == 0, answer.err
    found = by_name((tmp_path / "p.folded").read_text(encoding="utf-8"))
    assert found["hot"] == pytest.approx(1000 * 1200, rel=0.3)
    with Process(running.pid) as memory:
        table = layout.find(memory)
        codes = memory.read(table.root("hak_class_codes"), table["HAK_SMALL_STEPS"])
    assert request_of(running.pid) == guards  # restored, and size classes still lead to bins
    assert any(code != table["HAK_BINS_AT"] for code in codes)


def test_what_is_resident_adds_up(here, start, sites, tmp_path):
    running = start(sites, env={"HAKMEM_PROFILE_RATE": "4096"})
    grown = 0
    while (now := running.rss_kib()) > 1.01 * grown:
        grown = now
        time.sleep(0.5)
    answer = here("profile", "-o", tmp_path / "p.pb.gz", running.pid)
    assert answer.status == 0, answer.err
    profile = forms.read(tmp_path / "p.pb.gz")
    assert profile.period == 4096
    heap = 0
    for area in Path(f"/proc/{running.pid}/smaps").read_text(encoding="utf-8").split("VmFlags")[:-1]:
        if re.search(r" 00:00 0 *(\[anon:hakmem\])?$", area.partition("Size:")[0].strip(), re.M):
            heap += 1024 * int(re.search(r"^Rss: +(\d+)", area, re.M)[1])
    assert profile.total(RESIDENT_SPACE) == pytest.approx(heap, rel=0.1)
    assert request_of(running.pid) == 4096  # as it was


def test_what_is_older_than_the_sampling_is_not_charged_to_what_is_younger(here, start, sites, tmp_path, until):
    running = start(sites)
    grown = running.rss_kib()
    until(lambda: running.rss_kib() > grown + 4000)  # until `cold` holds most of its 1,000 blocks
    answer = here("profile", "-o", tmp_path / "p.pb.gz", "--rate", "1", "--seconds", "0.2", running.pid)
    assert answer.status == 0, answer.err
    profile = forms.read(tmp_path / "p.pb.gz")
    cold = [values for stack, values in profile.values.items() if stack[0] == "cold"]
    in_use, resident = (sum(values[which] for values in cold) for which in (INUSE_SPACE, RESIDENT_SPACE))
    assert 0 < in_use < 700 * 5120
    assert resident < 2 * in_use


@pytest.mark.long  # go compiles its own tool first
@pytest.mark.skipif(shutil.which("go") is None, reason="there is no go")
def test_go_reads_it(here, hakmem, sites, tmp_path):
    here("profile", "-o", tmp_path / "p.pb.gz", "--rate", "1", "--", sites, "1500")
    words = ["go", "tool", "pprof", "-top", "-unit=B", "-symbolize=none", str(tmp_path / "p.pb.gz")]
    # Go compiles pprof at its first use; this environment keeps it in the user's cache instead of the tests'.
    env = {name: value for name, value in os.environ.items() if name != "XDG_CACHE_HOME"}
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=env)
    assert re.search(r"^ *5\d{6}B .* cold$", done.stdout, re.M), done.stdout


def test_mistakes_are_told_in_a_line(here, sites, tmp_path):
    folder = tmp_path / "p.txt.txt"
    folder.mkdir()
    for words, text in (
        (("-o", "p.svg", "1"), "p.svg.pb.gz for pprof"),
        (("-o", "p", "1"), "p.txt for a report"),
        (("-o", tmp_path / "no" / "p.txt", "--", sites, "1", "7"), "there is no folder"),  # and it is not started
        (("-o", folder, "--", sites, "1", "7"), "it is a folder"),
        (("--rate", "0", "1"), "--rate"),
        (("--rate", "2G", "1"), "--rate"),
        (("--rate", "x", "1"), "--rate"),
        (("-o", tmp_path / "p.txt", "999999999"), "is not there"),
        (("-o", tmp_path / "p.txt", "1", "2"), "one process at a time"),
        (("-o", tmp_path / "p.txt", "--", "/no/such/program"), "program"),
    ):
        answer = here("profile", *words)
        assert answer.status == 2, words
        assert text in answer.err
        assert len(answer.err.splitlines()) == 1


def test_a_process_that_allocates_nothing(here, start, made, tmp_path):
    answer = here("profile", "-o", tmp_path / "p.txt", "--seconds", "0.1", start(made("known.c")).pid)
    assert answer.status == 0
    assert "stacks are missing: it has allocated nothing that was sampled in 0.1 s" in answer.err


def example() -> HeapProfile:
    profile = HeapProfile(period=512, time_ns=5, duration_ns=6, comments=["c"], main="/bin/p")
    first, second = Place("/bin/p", "ab", 0x1234), Place("/lib/l;x.so", "", 0x99)
    profile.add((first, second), [10, 1000, 5, 500, 700])
    profile.add((first, second), [1, 1, 1, 1, 1])
    profile.add((second,), [3, 30, 0, 0, 0])
    profile.add(("[retained]",), [0, 0, 0, 0, 4096])
    profile.add((Place("", "", 0x7FFF00001111),), [1, 16, 1, 16, 16])
    return profile


def test_what_is_written_is_read_back():
    before = example()
    known = {Place("/bin/p", "ab", 0x1234): [Name("inner", "a.c", 3), Name("outer", "a.c", 9)]}
    bare = forms.parse(forms.encode(before, Names()))
    assert (bare.period, bare.time_ns, bare.duration_ns, bare.comments) == (512, 5, 6, ["c"])
    assert sorted(map(tuple, bare.values.values())) == sorted(map(tuple, before.values.values()))
    named = forms.encode(before, Names(known))
    assert b"inner" in named
    assert b"outer" in named


def test_a_damaged_profile_is_refused(tmp_path):
    data = gzip.compress(forms.encode(example(), Names()))
    path = tmp_path / "p.pb.gz"
    for damaged in (data[:-20], b"nothing", b"", data[:50]):
        path.write_bytes(damaged)
        if damaged:
            with pytest.raises(LabError, match="not a complete heap profile"):
                forms.read(path)


def test_profiles_of_processes_are_joined():
    both = example()
    both.join(example())
    assert both.total(INUSE_SPACE) == 2 * example().total(INUSE_SPACE)
    assert len(both.values) == len(example().values)
    assert both.total(INUSE_OBJECTS) == 2 * example().total(INUSE_OBJECTS)


def test_text_forms_of_an_example():
    known = {Place("/bin/p", "ab", 0x1234): [Name("inner"), Name("a;b")]}
    folded = forms.folded(example(), Names(known))
    assert folded.splitlines() == ["0x7fff00001111 16", "l:x.so+0x99;a:b;inner 501"]
    report = forms.report(example(), Names(known))
    assert re.search(r"^ +501 +6 +701 +1,001$", report, re.M)
    assert re.search(r"^  \[retained\] +4,096$", report, re.M)


def test_names_come_from_the_table_of_symbols(sites, made):
    lines = subprocess.run(["nm", sites], capture_output=True, text=True, check=True).stdout.splitlines()
    address = next(int(line.split()[0], 16) for line in lines if line.endswith(" cold"))
    stripped = made("sites.c", *FLAGS, "-s", name="sites-stripped")
    place, other = Place(str(sites), "", address + 4), Place(str(stripped), "", address + 4)
    renamed = Place(str(sites), "0123", address + 4)
    names = places.resolve([place, other, renamed, Place("/no/such/file", "", 1)])
    assert [name.function for name in names.of(place)] == ["cold"]
    assert names.of(other)[0].function == f"sites-stripped+{address + 4:#x}"
    assert names.of("[retained]")[0].function == "[retained]"


@pytest.mark.parametrize("build_id", ["sha1", "none"])
def test_a_program_that_was_replaced_meanwhile(here, start, made, tmp_path, build_id):
    """Symbols come from the running file or are missing; they never come from a newer file at the same path."""
    flags = (*FLAGS, f"-Wl,--build-id={build_id}")
    old, new = made("sites.c", *flags, name=f"old-{build_id}"), made("sites.c", *flags, "-Dhot=lie", "-Dcold=wrong",
                                                                   name=f"new-{build_id}")  # fmt: skip
    program = tmp_path / "program"
    shutil.copy(old, program)
    running = start(program)
    program.unlink()
    shutil.copy(new, program)
    answer = here("profile", "-o", tmp_path / "p.folded", "--rate", "4K", "--seconds", "0.5", running.pid)
    assert answer.status == 0, answer.err
    found = by_name((tmp_path / "p.folded").read_text(encoding="utf-8"))
    assert not {"lie", "wrong"} & found.keys()
    if os.access(f"/proc/{running.pid}/map_files", os.X_OK) and os.geteuid() == 0:
        assert found["hot"] > 0


def test_a_program_that_has_other_files_than_we(here, start, sites, tmp_path):
    """As in a container, the program's path names another file, or none, outside."""
    if subprocess.run(["unshare", "-m", "true"], check=False).returncode:
        pytest.skip("mount namespaces are not for us")
    there = tmp_path / "there"
    there.mkdir()
    script = 'mount -t tmpfs none "$0" && cp "$1" "$0/program" && exec "$0/program"'
    running = start("unshare", "-m", "sh", "-c", script, there, sites)
    answer = here("profile", "-o", tmp_path / "p.folded", "--rate", "4K", "--seconds", "0.5", running.pid)
    assert answer.status == 0, answer.err
    assert by_name((tmp_path / "p.folded").read_text(encoding="utf-8"))["hot"] > 0
    assert not (there / "program").exists()


@pytest.fixture
def bare(made) -> Path:
    """The program without frame pointers, as distributions build theirs."""
    return made("sites.c", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", name="bare")


def ends(path: Path) -> list[bool]:
    """For each stack with known code: whether it includes main."""
    stacks = [line.rpartition(" ")[0].split(";") for line in path.read_text(encoding="utf-8").splitlines()]
    return ["main" in stack for stack in stacks if not stack[0].startswith("[")]


def test_a_process_without_frame_pointers(here, start, bare, tmp_path):
    running = start(bare)
    for _ in range(2):
        answer = here("profile", "-o", tmp_path / "p.folded", "--rate", "1K", "--seconds", "0.5", running.pid)
        assert answer.status == 0, answer.err
        found = ends(tmp_path / "p.folded")
        assert found and all(found)
    assert request_of(running.pid) == 0


def test_one_whose_threads_cannot_be_held_is_told_as_far_as_its_frames_go(here, start, bare, tmp_path, monkeypatch):
    from hakmem_lab.trace import attach

    def refuse(pid: int, _: int) -> bool:
        raise LabError(f"process {pid} cannot be recorded: nobody may")

    monkeypatch.setattr(attach, "start_sampling", refuse)
    answer = here("profile", "-o", tmp_path / "p.txt", "--rate", "1K", "--seconds", "0.5", start(bare).pid)
    text = (tmp_path / "p.txt").read_text(encoding="utf-8")
    assert answer.status == 0 and "stacks end where code has no frame pointers: process" in text
    assert re.search(r"\n    hot\n(?!    \S)", text) and "    main\n" not in text


def test_a_choice_of_the_program_stays(start, bare):
    from hakmem_lab.inside.profile import take
    from hakmem_lab.trace import attach

    running = start(bare, env={"HAKMEM_PROFILE_UNWIND": "frames"})
    profile = take.of_process(running.pid, 1024, 0.5, attach.start_sampling)
    assert not any(len(stack) > 3 for stack in profile.values if isinstance(stack[0], Place))


def test_what_is_other_in_a_second_profile(here, hakmem, sites, tmp_path):
    for rounds, name in ((100, "a"), (600, "b")):
        assert here("profile", "-o", tmp_path / f"{name}.pb.gz", "--rate", "1", "--", sites, rounds).status == 0
    answer = here("profile", "--diff", tmp_path / "a.pb.gz", tmp_path / "b.pb.gz")
    assert answer.status == 0, answer.err
    first = answer.out.partition("\n\n")[2].splitlines()[1:3]
    assert re.match(r" +\+2,\d{3},\d{3} .* \+500 ", first[0]) and first[1] == "    cold"
    same = here("profile", "--diff", tmp_path / "b.pb.gz", tmp_path / "b.pb.gz")
    assert "    cold" not in same.out


def test_a_change_that_may_be_chance_is_not_told():
    before, after = HeapProfile(period=1 << 19), HeapProfile(period=1 << 19)
    before.add(("f", "main"), [1, 10 << 20, 1, 10 << 20, 0])
    after.add(("f", "main"), [1, 12 << 20, 1, 12 << 20, 0])
    after.add(("g", "main"), [1, 90 << 20, 1, 90 << 20, 0])
    text = forms.changes(before, after)
    assert "    g\n" in text and "    f\n" not in text and "1 stacks are left out" in text


@pytest.mark.parametrize("words", [("--diff", "a", "b", "1"), (), ("--diff", "no.pb.gz", "no.pb.gz")])
def test_mistakes_of_a_difference(here, words):
    assert here("profile", *words).message()


def test_memory_of_the_allocator_itself_is_no_stack():
    from hakmem_lab.inside.profile.forms import headline
    from hakmem_lab.inside.profile.places import TYPES, HeapProfile

    profile = HeapProfile(rows=frozenset({("[metadata]",)}))
    for name in ("f", "[metadata]"):
        profile.add((name,), [1.0] * len(TYPES))
    assert headline(profile).endswith(", 1 stack")
