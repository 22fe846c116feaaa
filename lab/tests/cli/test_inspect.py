"""Commands that read the store."""

import csv
import io
import json
import shutil

import pytest

RATE = r"regex:ops (\d+)"


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The run that all of these tests read: its folder, and its result after the first test has measured it."""
    return {"folder": tmp_path_factory.mktemp("measured")}


@pytest.fixture
def measured(here, counted, kept, store):
    """A finished A/B with one failed run of its control, in a store of the test's own. Its result."""
    if "result" not in kept:
        kept["result"] = measure(here, counted, kept["folder"])
    shutil.copytree(kept["folder"] / "store", store)
    return kept["result"]


def measure(here, counted, folder):
    words = ["ab", "--control", "glibc", "--treatment", "glibc,RATE=1100", "--metric", RATE, "--higher-is-better"]
    flags = [
        "--repeat",
        "1",
        "--warm-up",
        "0",
        "--looks",
        "1",
        "--max-blocks",
        "6",
        "--seed",
        "5",
        "--quiet",
        "--question",
        "Is 1,100 'more'?",
    ]
    env = ["--env", "AT_7=exit", "--json", "-", "--store", folder / "store"]
    return here(*words, *flags, *env, "--", counted).result()


def test_show_is_the_same_verdict(here, measured):
    shown = here("show", "last", "--json", "-").result()
    assert {key: shown[key] for key in ("verdict", "estimate", "ci_low", "ci_high", "run")} == {
        key: measured[key] for key in ("verdict", "estimate", "ci_low", "ci_high", "run")
    }
    text = here("show", measured["run"]).out
    lines = text.splitlines()
    assert sum(line.startswith("warning: ") for line in lines) == 1
    assert here("show", measured["run"], "-v").out.count("\nwarning: ") > 1
    assert [line for line in lines if line.startswith("GO")]
    assert "1 failed run" in text


def test_list_names_the_run(here, measured):
    out = here("list").out
    assert measured["run"] in out
    assert "GO" in out


def test_csv_comes_back_as_the_records(here, measured, records):
    rows = list(csv.DictReader(io.StringIO(here("export", "last", "--format", "csv").out)))
    runs = records("run")
    assert len(rows) == len(runs)
    for row, run in zip(rows, runs, strict=True):
        assert row["id"] == measured["run"]
        assert row["arm"] == run["arm"]
        assert float(row["wall_s"]) == run["wall_s"]
        assert int(row["rss_peak_kib"]) == run["rss_peak_kib"]
        assert row["ok"] == str(run["ok"])
        assert row["why"] == (run["why"] or "")
        assert json.loads(row["metrics"]) == run["metrics"]
        assert row["value"] == ("" if "value" not in run else str(run["value"]))


def test_json_export_holds_every_run(here, measured, records):
    rows = here("export").result()
    assert [row["pad_bytes"] for row in rows] == [run["pad_bytes"] for run in records("run")]


@pytest.mark.parametrize(
    ("sql", "wanted"),
    [
        ("SELECT arm, max(value) AS v FROM runs WHERE ok GROUP BY arm ORDER BY v", [
            {"arm": "glibc", "v": 1000.0}, {"arm": "glibc,RATE=1100", "v": 1100.0}]),
        ("SELECT verdict, blocks, final FROM results", [{"verdict": "GO", "blocks": 6, "final": True}]),
        ("SELECT question FROM headers", [{"question": "Is 1,100 'more'?"}]),
        ("SELECT name FROM arms ORDER BY name", [{"name": "glibc"}, {"name": "glibc,RATE=1100"}]),
        ("SELECT id FROM runs WHERE false", []),
    ],
)  # fmt: skip
def test_sql(here, measured, sql, wanted):
    assert here("export", "--sql", sql).result() == wanted


def test_a_statement_that_asks_for_nothing_is_no_query(here, measured):
    assert "there is no query" in here("export", "last", "--sql", "drop table runs").message()


@pytest.mark.parametrize(
    ("where", "counts"),
    [
        ("true", lambda run: True),
        ("NOT ok", lambda run: not run["ok"]),
        ("phase = 'measure' AND exit = 0", lambda run: run["phase"] == "measure" and run["exit"] == 0),
        ("pad_bytes > 2000", lambda run: run["pad_bytes"] > 2000),
    ],
)
def test_sql_counts_the_records(here, measured, records, where, counts):
    sql = f"SELECT count(*) AS n FROM runs JOIN headers USING (id) WHERE {where}"
    assert here("export", "--sql", sql).result() == [{"n": sum(map(counts, records("run")))}]


def test_sql_over_blocks_and_events(here, measured, records):
    def asked(sql):
        return here("export", "--sql", sql).result()

    blocks = records("block")
    rows = asked("SELECT block, attempt, ok, arms_in_order FROM blocks")
    assert [(r["block"], r["attempt"], r["ok"]) for r in rows] == [(b["block"], b["attempt"], b["ok"]) for b in blocks]
    assert [json.loads(row["arms_in_order"]) for row in rows] == [block["order"] for block in blocks]
    here("resume", "last")
    (row,) = asked("SELECT id, what FROM events WHERE what = 'resumed'")
    assert row == {"id": measured["run"], "what": "resumed"}


def test_samples_servers_and_calls_are_exported(here, store):
    from hakmem_lab.store.runs import RunFile

    file = RunFile.create(store, "soak", {"arms": [], "command": {"argv": []}, "machine": {}, "question": ""})
    file.append({"type": "sample", "segment": 0, "t_s": 0.5, "rss_kib": 7, "exact": True, "phase": None})
    file.append({"type": "run", "arm": "a", "calls": {"brk": 3}, "server": {"cpu_s": 1.5}})
    file.close()
    assert here("export", "--sql", "SELECT t_s, rss_kib, exact, phase FROM samples").result() == [
        {"t_s": 0.5, "rss_kib": 7, "exact": True, "phase": None}
    ]
    sql = "SELECT (calls->>'brk')::INT AS n, (server->>'cpu_s')::DOUBLE AS s FROM runs"
    assert here("export", "--sql", sql).result() == [{"n": 3, "s": 1.5}]
    (row,) = here("export").result()
    assert (row["calls"], row["server"]) == ({"brk": 3}, {"cpu_s": 1.5})


@pytest.mark.parametrize("sql", ["SELEC 1", "SELECT * FROM runz", "SELECT x FROM runs", ";", "   ", "DROP TABLE x",
                                 "COPY runs TO 'stolen.csv'", "SELECT * FROM read_csv('/etc/passwd')"])  # fmt: skip
def test_a_query_that_cannot_be_answered(here, measured, sql, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    answer = here("export", "--sql", sql)
    assert answer.status == 2, answer
    assert "--sql" in answer.message()
    assert not (tmp_path / "stolen.csv").exists()


def test_a_number_that_json_cannot_say(here, measured):
    assert here("export", "--sql", "SELECT 'nan'::DOUBLE AS x, 'inf'::DOUBLE AS y").result() == [{"x": None, "y": None}]


def test_export_of_an_empty_store(here, store):
    store.mkdir()
    assert here("export").result() == []
    assert here("export", "--sql", "SELECT count(*) AS n FROM runs").result() == [{"n": 0}]
    assert here("export", "--format", "csv").status == 0


@pytest.mark.parametrize("content", ["", "{", "not json\n", '{"type": "header", "schema": 2}\n', "[]\n"])
def test_one_bad_file_does_not_hide_the_other_runs(here, measured, store, content):
    (store / "20200101-000000-ab-0000.jsonl").write_text(content)
    assert measured["run"] in here("list").out
    answer = here("export", "--sql", "SELECT id FROM headers")
    assert answer.status == 0, answer.err
    assert answer.result() == [{"id": measured["run"]}]


def test_a_file_that_cannot_be_written_is_named(here, measured):
    answer = here("export", "--output", "/nonexistent/x.json")
    assert answer.status == 2
    assert "/nonexistent/x.json" in answer.message()


def test_a_decision_is_added_and_nothing_else_changes(here, measured, records, store):
    before = next(store.glob("*.jsonl")).read_bytes()
    assert here("decide", "last", "adopt: simpler").status == 0
    assert next(store.glob("*.jsonl")).read_bytes().startswith(before)
    (decision,) = records("decision")
    assert (decision["text"], bool(decision["who"])) == ("adopt: simpler", True)
    assert here("show", "--json", "-").result()["verdict"] == "GO"


def test_an_unfinished_run_can_be_shown(here, measured, store):
    (path,) = store.glob("*.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    for count in (1, 2, len(lines) // 2):
        path.write_text("".join(lines[:count]) + lines[count][: len(lines[count]) // 2])
        answer = here("show", "--json", "-")
        assert answer.status == 0, answer.err
        result = answer.result()
        assert (result["verdict"], result["final"]) == ("INCONCLUSIVE" if result["blocks"] >= 3 else None, False)


def test_a_damaged_line_in_the_middle_costs_one_block_at_most(here, measured, store, records):
    (path,) = store.glob("*.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    at = next(i for i, line in enumerate(lines) if '"block": 4,' in line and '"type": "run"' in line)
    path.write_text("".join([*lines[:at], lines[at][:40] + "\n", *lines[at + 1 :]]))
    answer = here("show", "--json", "-")
    assert "Traceback" not in answer.err
    assert answer.status == 0
