"""The store loses no appended record, whatever happens afterwards."""

import errno
import json
import math
import os
import re
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hakmem_lab.errors import LabError
from hakmem_lab.store import runs as module
from hakmem_lab.store.runs import RunFile, Store, plain

PRINTABLE = st.dictionaries(
    st.text(max_size=8),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
        max_leaves=8,
    ),
    max_size=5,
)


def finite(value):
    """The value as JSON stores it: infinities and NaN become None."""
    if isinstance(value, dict):
        return {key: finite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


@pytest.fixture
def run(store):
    file = RunFile.create(store, "ab", {"question": "?"})
    yield file
    file.close()


def test_a_new_run_has_a_header_and_a_dated_name(run, store):
    assert re.fullmatch(r"\d{8}-\d{6}-ab-[0-9a-f]{4}", run.id)
    assert run.path == store / f"{run.id}.jsonl"
    header = run.header()
    assert (header["type"], header["schema"], header["id"], header["kind"]) == ("header", 1, run.id, "ab")


@given(st.lists(PRINTABLE, max_size=5))
def test_records_come_back_in_order_and_whole(tmp_path_factory, given_records):
    file = RunFile.create(tmp_path_factory.mktemp("s"), "ab", {})
    for record in given_records:
        file.append({**record, "type": "run"})
    file.close()
    assert list(RunFile(file.path).records())[1:] == [{**finite(record), "type": "run"} for record in given_records]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float64("nan"), np.float32("inf")])
def test_numbers_that_json_cannot_say_become_null(run, value):
    run.append({"type": "run", "value": value, "deep": [{"x": (value, 1.5)}]})
    line = run.path.read_text().splitlines()[-1]
    assert json.loads(line) == {"type": "run", "value": None, "deep": [{"x": [None, 1.5]}]}


@pytest.mark.parametrize(("value", "wanted"), [(np.bool_(True), True), (np.int64(3), 3), (np.float64(2.5), 2.5)])
def test_numpy_scalars_keep_their_type(value, wanted):
    found = plain({"x": value})["x"]
    assert (found, type(found)) == (wanted, type(wanted))


def test_a_torn_last_line_loses_only_itself(run):
    for index in range(3):
        run.append({"type": "run", "n": index, "text": "ümlaut"})
    run.close()
    whole = run.path.read_bytes()
    last = whole.splitlines(keepends=True)[-1]
    for cut in range(1, len(last) - 1):
        run.path.write_bytes(whole[: -cut - 1])
        assert [r["n"] for r in RunFile(run.path).records() if r["type"] == "run"] == [0, 1]


def test_what_follows_a_torn_line_is_kept_too(run):
    run.append({"type": "run", "n": 0})
    run.close()
    with open(run.path, "ab") as file:
        file.write(b'{"type": "run", "n": 1, "text": "\xc3')
    again = RunFile(run.path)
    again.continue_writing()
    again.append({"type": "run", "n": 2})
    again.close()
    assert [r["n"] for r in again.records() if r["type"] == "run"] == [0, 2]


def test_a_second_writer_is_refused_while_the_first_lives(run):
    second = RunFile(run.path)
    with pytest.raises(LabError, match="another hak is writing"):
        second.continue_writing()
    run.append({"type": "run", "n": 1})
    run.close()
    second.continue_writing()
    second.append({"type": "run", "n": 2})
    second.close()
    assert [r["n"] for r in run.records() if r["type"] == "run"] == [1, 2]


def test_sentences_of_earlier_versions_name_the_present_command(run):
    run.append({"type": "event", "what": "load", "text": "not checked: hak aa, or hak aa -- sort; hak aaa"})
    run.append({"type": "result", "warnings": ["hak aa checks it"], "blocks": 3})
    event, result = list(run.records())[1:]
    now = "hak doctor --machine"
    assert event["text"] == f"not checked: {now}, or {now} -- sort; hak aaa"
    assert result["warnings"] == [f"{now} checks it"] and result["blocks"] == 3


def test_readers_are_not_refused(run, store):
    run.append({"type": "run", "n": 1})
    assert [r["type"] for r in Store(store).find(run.id).records()] == ["header", "run"]


@pytest.mark.parametrize("accepted", [0, 1, 17])
def test_a_full_disk_leaves_no_half_line(run, monkeypatch, accepted):
    """The disk accepts only some bytes of the record."""
    run.append({"type": "run", "n": 0})
    before, real, left = run.path.read_bytes(), os.write, [accepted]

    def write(fd, data):
        room, left[0] = left[0], 0
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(fd, bytes(data)[:room])

    monkeypatch.setattr(module.os, "write", write)
    with pytest.raises(OSError, match="No space"):
        run.append({"type": "block", "n": 1})
    monkeypatch.undo()
    assert run.path.read_bytes() == before
    run.append({"type": "block", "n": 2})
    assert [r.get("n") for r in run.records()] == [None, 0, 2]


def test_a_failed_sync_is_not_taken_for_success(run, monkeypatch):
    def fsync(_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(module.os, "fsync", fsync)
    with pytest.raises(OSError, match="Input/output"):
        run.append({"type": "block"})
    run.append({"type": "run", "n": 1})
    assert [r["type"] for r in run.records()] == ["header", "run"]


@pytest.mark.parametrize("type_", ["sample", "run"])
def test_records_reach_the_disk_every_few_seconds(run, monkeypatch, type_):
    now, synced = [1000.0], []
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(module.os, "fsync", lambda fd: synced.append(now[0]))
    run.append({"type": "event"})
    for second in range(1, 60):
        now[0] = 1000.0 + second
        run.append({"type": type_, "n": second})
    assert synced == [1000.0 + second for second in range(0, 60, 10)]


def test_a_limit_of_the_file_size_keeps_what_was_written(store):
    """As with a full disk, but enforced by the kernel."""
    program = """
import pathlib, sys
from hakmem_lab.store.runs import RunFile
file = RunFile.create(pathlib.Path(sys.argv[1]), "ab", {})
for n in range(1000):
    try:
        file.append({"type": "run", "n": n, "text": "x" * 100})
    except OSError as error:
        print(n, error.errno)
        break
"""
    done = subprocess.run(
        [sys.executable, "-c", program, store], capture_output=True, text=True, check=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
    )  # fmt: skip
    written, number = map(int, done.stdout.split())
    assert number == errno.EFBIG
    (file,) = Store(store).runs()
    assert [r["n"] for r in file.records() if r["type"] == "run"] == list(range(written))
    assert file.path.read_bytes().endswith(b"\n")


def test_a_killed_writer_releases_the_run_and_loses_nothing(store):
    program = """
import os, pathlib, signal, sys
from hakmem_lab.store.runs import RunFile
file = RunFile.create(pathlib.Path(sys.argv[1]), "ab", {})
file.append({"type": "run", "n": 1})
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", program, store], check=False)
    assert done.returncode == -signal.SIGKILL
    (file,) = Store(store).runs()
    file.continue_writing()
    file.append({"type": "run", "n": 2})
    file.close()
    assert [r["n"] for r in file.records() if r["type"] == "run"] == [1, 2]


def test_two_runs_of_one_second_get_different_names(store, monkeypatch):
    draws = iter(["aaaa", "aaaa", "bbbb"])

    class Frozen(module.datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(2026, 1, 2, 3, 4, 5, tzinfo=tz)

    monkeypatch.setattr(module.datetime, "datetime", Frozen)
    monkeypatch.setattr(module.secrets, "token_hex", lambda _: next(draws))
    files = [RunFile.create(store, "ab", {}) for _ in range(2)]
    assert len({file.id for file in files}) == 2


def test_a_store_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LabError, match="--store"):
        RunFile.create(tmp_path / "file" / "store", "ab", {})


def test_a_run_whose_header_does_not_fit_leaves_no_file(store, monkeypatch):
    def write(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(module.os, "write", write)
    with pytest.raises(LabError, match="No space"):
        RunFile.create(store, "ab", {})
    assert list(store.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"\n", b"{", b'{"type": "run"}\n', b'{"type": "header", "schema": 99}\n'])
def test_a_file_that_is_no_run_is_refused_by_name(tmp_path, content):
    path = tmp_path / "strange.jsonl"
    path.write_bytes(content)
    with pytest.raises(LabError, match=r"strange\.jsonl is not a run"):
        RunFile(path).header()
