"""`hakmem_lab.load`: records as rows and as polars or pandas frames, and the same result as `hak runs show` gives."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

import hakmem_lab
from hakmem_lab.store.records import COLUMNS

pytestmark = pytest.mark.xdist_group("library")  # one worker loads the runs
DATA = Path(__file__).resolve().parents[3] / "results" / "experiments" / "data"


@pytest.fixture(scope="module")
def run():
    return hakmem_lab.load(DATA / "tail_latency.jsonl.gz")


@pytest.fixture(scope="module")
def soak():
    return hakmem_lab.load(DATA / "rebase_soak.jsonl.gz")


def test_rows_are_the_records(run):
    records = [record for record in run.records if record["type"] == "run"]
    assert len(run.runs) == len(records)
    for row, record in zip(run.runs, records, strict=True):
        assert row["wall_s"] == record["wall_s"]
        assert row["arm"] == record["arm"]
    assert run.runs.columns == list(COLUMNS["runs"])
    assert [row["block"] for row in run.blocks] == [r["block"] for r in run.records if r["type"] == "block"]
    assert [row["name"] for row in run.arms] == [arm["name"] for arm in run.header["arms"]]
    assert (run.runs[0], run.runs[:2][1]) == tuple(list(run.runs)[:2])


def test_the_result_is_that_of_show(run, here):
    shown = here("show", DATA / "tail_latency.jsonl.gz", "--json", "-").result()
    assert (run.result["verdict"], run.result["headline"]) == (shown["verdict"], shown["headline"])
    assert run.id == run.header["id"] == run.result["id"] == shown["run"]


@pytest.mark.parametrize("table", sorted(COLUMNS))
def test_frames_of_both_libraries_hold_the_same(run, soak, table):
    for stored in (run, soak):
        rows = stored.table(table)
        left, right = rows.polars(), rows.pandas()
        assert left.columns == list(right.columns) == rows.columns
        assert left.height == len(right) == len(rows)
        for name, kind in COLUMNS[table].items():
            first = left[name].to_list()
            assert first == list(right[name].astype(object).where(right[name].notna(), None)), (name, kind)
            wanted = [row[name] for row in rows]
            assert first == [json.dumps(value) if isinstance(value, dict | list) else value for value in wanted]


def test_types_of_a_frame_do_not_depend_on_what_is_missing(run, soak):
    for table in ("runs", "samples"):
        assert run.table(table).polars().schema == soak.table(table).polars().schema
        assert list(run.table(table).pandas().dtypes) == list(soak.table(table).pandas().dtypes)


def test_a_question_to_a_frame(run):
    import polars  # not at the top, where it would cost every worker seconds

    frame = run.runs.polars()
    mean = frame.filter(frame["ok"]).group_by("arm").agg(polars.col("wall_s").mean())
    for arm, value in mean.iter_rows():
        own = [row["wall_s"] for row in run.runs if row["arm"] == arm and row["ok"]]
        assert math.isclose(value, sum(own) / len(own))


def test_the_last_run_of_a_store(here, fakes, store):
    words = ["ab", "--control", "glibc", "--treatment", "glibc", "--repeat", "1", "--looks", "1", "--max-blocks", "6"]
    made = here(*words, "--quiet", "--json", "-", "--", fakes.program, "exit", "0").result()
    run = hakmem_lab.load(store=store)
    assert (run.id, run.result["blocks"]) == (made["run"], 6)
    assert hakmem_lab.load(made["run"][:-2], store).path == run.path
    assert [each.id for each in hakmem_lab.load_all(store)] == [made["run"]]
    assert made["run"] in repr(run)
    assert len(run.runs.polars().filter(phase="measure")) == 24


@pytest.mark.parametrize("name", ["polars", "pandas"])
def test_a_library_that_is_not_there(run, monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(hakmem_lab.LabError, match=rf"{name} is not installed: pip install 'hakmem-lab\[frames\]'"):
        getattr(run.runs, name)()


def test_what_is_not_there(run, tmp_path):
    with pytest.raises(hakmem_lab.LabError, match="there is no table 'rnus'"):
        run.table("rnus")
    with pytest.raises(hakmem_lab.LabError, match="there are no runs"):
        hakmem_lab.load("last", tmp_path)
    with pytest.raises(AttributeError, match="lod"):
        _ = hakmem_lab.lod


def test_the_command_does_not_pay_for_it():
    words = "import hakmem_lab, sys; assert not {'polars', 'pandas', 'hakmem_lab.store.query'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", words], check=True)
