"""Runs that fail or are interrupted: no data are lost, no process keeps running, and hak says how to resume."""

import contextlib
import json
import os
import resource
import signal
import subprocess
import time

import pytest
from tests.modelled import counted

from hakmem_lab.system import launcher

RATE = r"regex:ops (\d+)"
BLOCKS = 6
TRIALS = 2


@pytest.fixture
def words(fakes, tmp_path):
    """words(AT_5="exit", …): an A/B of counted.sh, which exits in its fifth run, and so on; runs 1 and 2 are trials."""
    fakes.script(tmp_path)

    def make(*flags, program=tmp_path / "counted.sh", **behaviour):
        env = {"COUNT": str(tmp_path / "count"), "NAP": "60"} | behaviour
        settings = [word for item in env.items() for word in ("--env", "=".join(item))]
        return ["ab", "--control", "glibc", "--treatment", "glibc,RATE=1100", "--metric", RATE, "--higher-is-better",
                "--repeat", "1", "--warm-up", "0", "--looks", "1", "--max-blocks", str(BLOCKS), "--seed", "3",
                "--json", "-", *settings, *flags, "--", program]  # fmt: skip

    return make


@pytest.fixture
def ended(here, words, modelled):
    """ended(flags…, AT_5="exit", …): the answer about a program that does the same without being started."""
    return lambda *flags, **behaviour: here(*words(*flags, program=modelled(counted, "modelled.sh"), **behaviour))


def finished(records) -> list[int]:
    return [block["block"] for block in records("block", ok=True)]


def schedule_of(lines) -> list:
    """Order and paddings of the blocks that count."""
    blocks = {(r["block"], r["attempt"]): r["order"] for r in lines if r["type"] == "block" and r["ok"]}
    pads = [(r["block"], r["arm"], r["pad_bytes"]) for r in lines
            if r["type"] == "run" and (r["block"], r["attempt"]) in blocks]  # fmt: skip
    return [sorted((block, tuple(order)) for (block, _), order in blocks.items()), pads]


def test_a_block_with_a_failed_run_is_run_again_whole(ended, records):
    answer = ended(AT_9="exit")
    result = answer.result()
    assert (answer.status, result["verdict"], result["blocks"]) == (0, "GO", BLOCKS)
    (failed,) = records("run", ok=False)
    assert (failed["block"], failed["attempt"], failed["exit"]) == (1, 0, 7)
    assert "failing on purpose" in failed["why"]
    assert len(records("run", block=1, attempt=1)) == 4
    assert [(b["attempt"], b["ok"]) for b in records("block", block=1)] == [(0, False), (1, True)]
    assert result["failures"] == [{"block": 1, "arm": failed["arm"], "why": failed["why"]}]
    assert any("failed once; the failed blocks were run again" in text for text in result["warnings"])
    assert any("failed once" in text and "chance may explain it" in text for text in result["caveats"])
    assert sum(arm["n"] for arm in result["arms"]) == 4 * BLOCKS


def test_a_run_that_always_fails_stops_and_keeps_what_was_measured(ended, records):
    failing = {f"AT_{n}": "exit" for n in range(11, 40)}
    answer = ended("--quiet", **failing)
    assert answer.status == 3
    run = records("header")[0]["id"]
    assert f"hak runs show {run}" in answer.message()
    assert "exit status 7" in answer.message()
    assert finished(records) == [0, 1]
    assert len(records("run", ok=False)) == 3


def test_a_program_that_fails_at_once_starts_nothing(ended, store):
    answer = ended("--quiet", ALWAYS="exit")
    assert answer.status == 2
    assert "exit status 7: failing on purpose" in answer.message()
    assert not store.exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_and_resumed(begin, here, words, records, until, tmp_path, number):
    at = TRIALS + 4 * 2 + 2
    process = begin(*words(**{f"AT_{at}": "sleep"}))
    until(lambda: (tmp_path / "count").exists() and (tmp_path / "count").read_text() == f"{at}\n")
    process.send_signal(number)
    _, err = process.communicate(timeout=600)
    run = records("header")[0]["id"]
    assert process.returncode == 128 + number
    assert f"hak runs resume {run}" in err.splitlines()[-1]
    assert "Traceback" not in err
    assert finished(records) == [0, 1]
    assert records("event", what="interrupted")
    answer = here("resume", run, "--json", "-")
    assert answer.status == 0, answer.err
    assert (answer.result()["verdict"], answer.result()["blocks"]) == ("GO", BLOCKS)
    assert finished(records) == list(range(BLOCKS))
    assert records("event", what="resumed")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_before_anything_is_stored(begin, words, store, until, tmp_path, number):
    process = begin(*words(AT_1="sleep"))
    until((tmp_path / "count").exists)
    process.send_signal(number)
    _, err = process.communicate(timeout=600)
    assert process.returncode == 128 + number
    assert "Traceback" not in err
    assert "interrupted" in err.splitlines()[-1]
    assert not store.exists()


def test_killed_and_resumed_as_if_nothing_had_happened(begin, here, words, records, until, store, tmp_path):
    at = TRIALS + 4 * 3 + 3
    process = begin(*words(**{f"AT_{at}": "sleep"}))
    until(lambda: (tmp_path / "count").exists() and (tmp_path / "count").read_text() == f"{at}\n")
    process.kill()
    process.wait()
    assert finished(records) == [0, 1, 2]
    kept = next(store.glob("*.jsonl")).read_bytes()
    answer = here("resume", "last", "--json", "-")
    assert (answer.status, answer.result()["blocks"]) == (0, BLOCKS)
    assert next(store.glob("*.jsonl")).read_bytes().startswith(kept)
    (tmp_path / "count").write_text("1000\n")
    undisturbed = tmp_path / "undisturbed"
    assert here(*words("--store", undisturbed)).status == 0
    lines = list(map(json.loads, next(undisturbed.glob("*.jsonl")).read_text().splitlines()))
    assert schedule_of(lines) == schedule_of(records())


def test_a_killed_laboratory_leaves_no_process(begin, fakes, processes, marker, until):
    flags = ["ab", "--control", "glibc", "--treatment", "glibc", "--repeat", "1", "--quiet", "--"]
    process = begin(*flags, fakes.program, "orphans-hang", "3", marker)
    until(lambda: len(processes(marker)) >= 4)  # the program and its three descendants
    process.kill()
    process.wait()
    until(lambda: not processes(marker))


def test_an_interrupted_laboratory_leaves_no_process(begin, fakes, processes, marker, until):
    flags = ["ab", "--control", "glibc", "--treatment", "glibc", "--repeat", "1", "--quiet", "--"]
    process = begin(*flags, fakes.program, "orphans-hang", "3", marker)
    until(lambda: len(processes(marker)) >= 4)
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=600)
    until(lambda: not processes(marker))


def test_a_killed_launcher_stops_the_run_and_keeps_it(ended, records):
    answer = ended("--quiet", AT_12="kill")
    assert answer.status == 3
    assert f"hak runs resume {records('header')[0]['id']}" in answer.message()
    assert finished(records) == [0, 1]


def test_a_program_that_changes_between_blocks_stops_the_run(ended, records):
    answer = ended("--quiet", **{f"AT_{TRIALS + 4 * 2}": "change"})
    assert answer.status == 3
    assert "modelled.sh changed" in answer.message()
    assert records("event", what="changed-binary")
    assert 2 not in finished(records)


def test_the_block_in_which_the_program_changed_does_not_count(ended, records):
    ended("--quiet", **{f"AT_{TRIALS + 4 * 2 + 1}": "change"})
    assert finished(records) == [0, 1]


def test_a_change_in_the_last_block_is_noticed(ended):
    answer = ended("--quiet", **{f"AT_{TRIALS + 4 * BLOCKS - 2}": "change"})
    assert answer.status == 3


@pytest.mark.parametrize("what", ["program", "library"])
def test_resume_is_refused_where_something_changed(here, fakes, records, tmp_path, what):
    library = tmp_path / "libbump.so"
    library.write_bytes(fakes.allocator.read_bytes())
    script = fakes.script(tmp_path)
    words = ["ab", "--control", "glibc", "--treatment", str(library), "--repeat", "1", "--warm-up", "0", "--looks", "1"]
    env = [f"COUNT={tmp_path / 'count'}", *(f"AT_{n}=exit" for n in (9, 10, 11))]
    flags = [word for setting in env for word in ("--env", setting)]
    assert here(*words, *flags, "--max-blocks", "6", "--quiet", "--", script).status == 3
    before = len(records())
    with open({"program": script, "library": library}[what], "ab") as file:
        file.write(b"\n# changed\n")
    from hakmem_lab.plan import peers

    peers.file_sha256.cache_clear()
    answer = here("resume", "last", "--quiet")
    assert answer.status == 2
    assert "start a new run" in answer.message()
    assert len(records()) == before


def test_resume_from_another_folder_runs_the_same_program(here, fakes, records, tmp_path, monkeypatch):
    """Two programs have the same name; a relative path must not lead to the wrong one."""
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        folder.mkdir()
        fakes.script(folder)
    with open(two / "counted.sh", "a") as file:
        file.write("echo ops 1\n")
    env = [f"COUNT={tmp_path / 'count'}", *(f"AT_{n}=exit" for n in (9, 10, 11))]
    flags = [word for setting in env for word in ("--env", setting)]
    words = [
        "ab",
        "--control",
        "glibc",
        "--treatment",
        "glibc,RATE=1100",
        "--metric",
        RATE,
        "--repeat",
        "1",
        "--warm-up",
        "0",
        "--looks",
        "1",
        "--max-blocks",
        "6",
        "--quiet",
        *flags,
        "--",
        "./counted.sh",
    ]
    monkeypatch.chdir(one)
    assert here(*words).status == 3
    monkeypatch.chdir(two)
    answer = here("resume", "last", "--quiet")
    values = {run["value"] for run in records("run", ok=True)}
    assert 1.0 not in values
    assert answer.status in (0, 2)


def test_a_finished_run_is_not_measured_again(here, ended, records):
    ended("--quiet")
    answer = here("resume", "last", "--quiet", "--json", "-")
    assert (answer.status, answer.result()["verdict"]) == (0, "GO")
    assert len(records("run", phase="measure")) == 4 * BLOCKS


def test_a_run_that_goes_on_is_not_resumed_by_a_second(begin, here, words, until, records, tmp_path):
    process = begin(*words(**{f"AT_{TRIALS + 5}": "sleep"}))
    until(lambda: (tmp_path / "count").exists() and (tmp_path / "count").read_text() == f"{TRIALS + 5}\n")
    before = len(records())
    answer = here("resume", "last", "--quiet")
    assert answer.status == 2
    assert "another hak" in answer.message()
    assert (len(records()), process.poll()) == (before, None)


def test_a_limited_file_size_stops_the_run_and_it_can_be_resumed(hak, here, words, records, store, tmp_path):
    """Acts like a full disk without needing privileges: the store's file must not exceed 12 KiB."""
    launcher.helper_path()  # larger than that, where no test has compiled it yet
    limit = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (12 << 10, 12 << 10))}
    answer = hak(*words("--quiet"), **limit)
    run = records("header")[0]["id"]
    assert answer.status == 3
    assert f"hak runs resume {run}" in answer.message()
    kept = finished(records)
    assert 0 < len(kept) < BLOCKS
    again = hak("resume", run, "--quiet", **limit)
    assert again.status == 3
    assert f"hak runs resume {run}" in again.message()
    assert finished(records) == kept
    done = here("resume", run, "--quiet", "--json", "-")
    assert (done.status, done.result()["verdict"], done.result()["blocks"]) == (0, "GO", BLOCKS)
    assert finished(records) == list(range(BLOCKS))


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 16 KiB, which only root can mount."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("mounting a file system needs privileges")
    yield folder
    for _ in range(50):
        if subprocess.run(["umount", str(folder)], capture_output=True, check=False).returncode == 0:
            break
        time.sleep(0.1)


def test_a_full_disk_stops_the_run_and_it_can_be_resumed(here, ended, small_disk, tmp_path):
    folder = small_disk / "store"
    answer = ended("--quiet", "--store", folder)
    assert answer.status == 3
    message = answer.message()
    assert "the disk is full" in message
    assert "make room" in message
    (path,) = folder.glob("*.jsonl")
    assert f"hak runs resume {path.stem}" in message
    kept = path.read_bytes()
    assert kept.endswith(b"\n")
    blocks = [r["block"] for r in map(json.loads, kept.splitlines()) if r["type"] == "block" and r["ok"]]
    assert 0 < len(blocks) < BLOCKS
    subprocess.run(["mount", "-o", "remount,size=1m", str(small_disk)], check=True)
    done = here("resume", path.stem, "--quiet", "--json", "-", "--store", folder)
    assert (done.status, done.result()["blocks"]) == (0, BLOCKS)
    assert path.read_bytes().startswith(kept)


def test_a_disk_that_is_full_from_the_beginning_leaves_nothing(here, ended, small_disk):
    folder = small_disk / "store"
    folder.mkdir()
    (small_disk / "filler").write_bytes(b"x" * 4096)
    with contextlib.suppress(OSError):
        for index in range(100):
            (small_disk / f"filler{index}").write_bytes(b"x" * 4096)
    answer = ended("--quiet", "--store", folder)
    assert answer.status == 2
    assert "--store" in answer.message()
    assert [path.stat().st_size for path in folder.glob("*.jsonl") if not path.stat().st_size] == []
    assert here("list", "--store", folder).status == 0
    assert here("export", "--store", folder).status == 0


def test_resume_on_a_disk_that_cannot_be_written(here, ended, small_disk, tmp_path):
    """The last line is torn and the file system has become read-only."""
    subprocess.run(["mount", "-o", "remount,size=1m", str(small_disk)], check=True)
    assert ended("--quiet", "--store", small_disk).status == 0
    (path,) = small_disk.glob("*.jsonl")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    for command in (["resume", "last", "--quiet"], ["decide", "last", "adopt"]):
        answer = here(*command, "--store", small_disk)
        assert answer.status in (2, 3)
        assert path.stem in answer.message()
