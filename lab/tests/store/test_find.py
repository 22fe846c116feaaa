"""Finding the stored run that a user's text names."""

import json
import os
import time

import pytest

from hakmem_lab.errors import LabError
from hakmem_lab.store.runs import DESCRIBED, RunFile, Store, default_folder

NAMES = ("20260101-000000-ab-1111", "20260101-000000-ab-2222", "20260102-000000-aa-3333")


@pytest.fixture
def filled(store):
    store.mkdir()
    for age, name in enumerate(NAMES):
        path = store / f"{name}.jsonl"
        header = {"type": "header", "schema": 1, "id": name, "kind": name[16:18]} | dict.fromkeys(DESCRIBED)
        path.write_text(json.dumps(header) + "\n")
        os.utime(path, (1000 + age, 1000 + age))
    return Store(store)


def test_by_whole_name_prefix_and_path(filled, store):
    assert filled.find(NAMES[0]).id == NAMES[0]
    assert filled.find("20260102").id == NAMES[2]
    assert filled.find(str(store / f"{NAMES[1]}.jsonl")).id == NAMES[1]


def test_last_is_the_one_written_to_last(filled, store):
    assert filled.find("last").id == NAMES[2]
    os.utime(store / f"{NAMES[0]}.jsonl", (5000, 5000))
    assert filled.find("last").id == NAMES[0]


@pytest.mark.parametrize("content", ["", '{"type": "run"}\n', "\0\0\0"])
def test_last_is_none_that_cannot_be_read_which_is_said(filled, store, capsys, content):
    (store / f"{NAMES[2]}.jsonl").write_text(content)
    os.utime(store / f"{NAMES[2]}.jsonl", (5000, 5000))
    assert filled.find("last").id == NAMES[1]
    said = capsys.readouterr().err
    assert said.startswith("hak: warning: ")
    assert f"{NAMES[2]}.jsonl is not a run of this laboratory" in said


def test_an_ambiguous_beginning_lists_the_candidates(filled):
    with pytest.raises(LabError, match="2 runs") as caught:
        filled.find("20260101")
    assert all(name in str(caught.value) for name in NAMES[:2])


def test_a_whole_name_wins_over_longer_ones(filled, store):
    (store / f"{NAMES[0]}-copy.jsonl").write_text('{"type": "header", "schema": 1}\n')
    assert filled.find(NAMES[0]).id == NAMES[0]


def test_an_unknown_name_gets_the_nearest(filled):
    with pytest.raises(LabError, match=NAMES[2]):
        filled.find("20260102-000000-aa-3334")


def test_last_of_an_empty_store_does_not_suggest_itself(store):
    with pytest.raises(LabError) as caught:
        Store(store).find("last")
    assert "did you mean" not in str(caught.value)
    assert str(store) in str(caught.value)


def test_runs_are_oldest_first_and_nothing_else(filled, store):
    (store / "notes.txt").write_text("")
    assert [run.id for run in filled.runs()] == sorted(NAMES)


def test_the_default_folder_can_be_chosen(monkeypatch, tmp_path):
    assert default_folder() == tmp_path / "data" / "hakmem-lab"
    monkeypatch.setenv("HAK_STORE", str(tmp_path / "mine"))
    assert default_folder() == tmp_path / "mine"
    monkeypatch.delenv("HAK_STORE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert default_folder() == tmp_path / ".local" / "share" / "hakmem-lab"
    monkeypatch.delenv("XDG_DATA_HOME")
    assert default_folder() == tmp_path / ".local" / "share" / "hakmem-lab"


def test_runs_are_named_and_listed_by_universal_time(store, here, monkeypatch):
    """The clock of the second run shows an hour less, as after the end of summer time."""
    for at, zone in enumerate(("UTC-2", "UTC-1")):
        monkeypatch.setenv("TZ", zone)
        time.tzset()
        RunFile.create(store, "ab", dict.fromkeys(DESCRIBED) | {"question": str(at)}).close()
    monkeypatch.undo()
    time.tzset()
    first, second = (file.id[:15] for file in Store(store).runs())
    assert abs(int(first[9:11]) - time.gmtime().tm_hour) <= 1 and second[:11] == first[:11]


def test_a_list_is_sorted_by_the_time_of_creation(store, here):
    store.mkdir()
    for name, created in zip(NAMES, ("2026-01-01T03", "2026-01-01T01", "2026-01-01T02"), strict=True):
        header = dict.fromkeys(DESCRIBED) | {"arms": [], "command": {"argv": []}, "question": "q", "created": created}
        header |= {"type": "header", "schema": 1, "id": name, "kind": name[16:18]}
        (store / f"{name}.jsonl").write_text(json.dumps(header) + "\n")
    listed = here("list", "--json", "-").result()["runs"]
    assert [row["run"] for row in listed] == [NAMES[1], NAMES[2], NAMES[0]]
