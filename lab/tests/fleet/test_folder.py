"""A job in a folder that all hosts see: tasks measure shares and may restart; results can be collected repeatedly."""

import json
import shutil

import pytest

BLOCKS, SHARES = 9, 3


@pytest.fixture
def folder(here, spec_file, tmp_path, monkeypatch):
    """folder(lines…): writes a job for Slurm, of nine blocks in three shares; returns its folder."""
    monkeypatch.delenv("SLURM_ARRAY_TASK_ID", raising=False)

    def make(*lines):
        path = tmp_path / "shared"
        answer = here("fleet", spec_file(*lines, blocks=BLOCKS), "--engine", "slurm", "-o", path, "--shares", SHARES)
        assert (answer.status, answer.err) == (0, "")
        return path

    return make


@pytest.fixture
def task(here, monkeypatch):
    """task(folder, share): runs the engine's task for a share on its own host; returns the answer."""

    def run(path, share, host=None):
        monkeypatch.setenv("SLURMD_NODENAME", host or f"node-{share}")
        monkeypatch.setenv("SLURM_ARRAY_TASK_ID", str(share))
        return here("fleet", "--measure", path, "--quiet")

    return run


@pytest.fixture
def merged(here):
    def merge(path, *flags):
        answer = here("fleet", "--merge", path, *flags, "--json", "-")
        assert answer.status == 0, answer.err
        return answer.result()

    return merge


def counted(records):
    return sorted(r["block"] for r in records("block", phase="measure", ok=True))


def test_three_tasks_give_one_verdict(folder, task, merged, records):
    path = folder()
    assert [task(path, share).out for share in range(SHARES)] == [
        f"share {share}: 3 blocks measured\n" for share in range(SHARES)
    ]
    result = merged(path)
    assert (result["verdict"], result["final"], result["blocks"]) == ("GO", True, BLOCKS)
    assert [(each["host"], each["blocks"]) for each in result["fleet"]["hosts"]] == [
        (f"node-{share}", 3) for share in range(SHARES)
    ]
    assert counted(records) == list(range(BLOCKS))


def test_to_collect_again_adds_what_has_come_since_and_nothing_else(folder, task, merged, store, records):
    path = folder()
    task(path, 0)
    first = merged(path)
    assert (first["verdict"], first["blocks"], first["final"]) == (None, 3, False)
    task(path, 2)
    assert merged(path)["blocks"] == 6
    before = [r for r in records() if r["type"] != "result"]
    assert merged(path)["blocks"] == 6
    assert [r for r in records() if r["type"] != "result"] == before, "in the same run of the store, and nothing twice"
    task(path, 1)
    assert (merged(path)["verdict"], counted(records)) == ("GO", list(range(BLOCKS)))


def test_a_share_that_is_begun_again_goes_on(folder, task, merged, records):
    """The first task was killed during its second block; another host measures the rest of the share."""
    path = folder()
    task(path, 0)
    (part,) = (path / "parts").glob("*.jsonl")
    lines = part.read_text(encoding="utf-8").splitlines(keepends=True)
    ends = [index for index, line in enumerate(lines) if json.loads(line)["type"] == "block"]
    part.write_text("".join(lines[: ends[0] + 3]) + lines[ends[0] + 3][:40], encoding="utf-8")
    assert task(path, 0, "another").out == "share 0: 2 blocks measured\n"
    assert task(path, 0).out == "share 0: nothing was left to do\n"
    merged(path)
    assert counted(records) == [0, 1, 2]
    assert [r["host"] for r in records("block", phase="measure")] == ["node-0", "another", "another"]


def test_two_that_measured_the_same_share_count_once(folder, task, merged, records, tmp_path):
    """The second task could not see the first one's file, as after a network failure."""
    path = folder()
    task(path, 0)
    hidden = tmp_path / "hidden"
    shutil.move(path / "parts", hidden)
    (path / "parts").mkdir()
    task(path, 0, "another")
    for part in hidden.iterdir():
        shutil.move(part, path / "parts")
    result = merged(path)
    assert (result["blocks"], result["fleet"]["again"]) == (3, 3)
    assert {r["host"] for r in records("block", phase="measure")} == {"node-0"}, "it ended first"
    assert len(records("run", phase="again")) == 12, "kept"


def test_a_host_that_cannot_take_part_is_named(folder, task, merged, tmp_path):
    program = tmp_path / "program.sh"
    program.write_text("#!/bin/sh\necho took 95$GAIN\n")
    program.chmod(0o755)
    path = folder()
    job = json.loads((path / "job.json").read_text())
    for spec in (job["spec"], job["job"]["spec"]):
        spec["command"] = [str(program)]
    (path / "job.json").write_text(json.dumps(job))
    task(path, 0)
    program.unlink()
    answer = task(path, 1)
    assert (answer.status, str(program) in answer.message()) == (2, True)
    result = merged(path)
    assert [each["host"] for each in result["fleet"]["left_out"]] == ["node-1 (share 1)"]
    assert str(program) in result["fleet"]["left_out"][0]["why"]
    assert len(merged(path)["fleet"]["left_out"]) == 1


def test_what_never_comes_need_not_be_waited_for(folder, task, merged):
    path = folder()
    for share in (0, 2):
        task(path, share)
    assert merged(path)["verdict"] is None
    result = merged(path, "--close")
    assert (result["verdict"], result["final"], result["blocks"]) == ("INCONCLUSIVE", True, 6)
    assert "too few hosts to speak of a fleet" in result["answer"]


def test_parts_of_another_job_and_rubbish_are_left_alone(folder, task, merged, tmp_path, here):
    path = folder()
    task(path, 0)
    (path / "parts" / "rubbish.jsonl").write_text("{}\nno json\n")
    (part,) = (each for each in (path / "parts").glob("*.jsonl") if each.name != "rubbish.jsonl")
    other = part.with_name("20200101-000000-ab-0000.jsonl")
    lines = part.read_text().splitlines(keepends=True)
    header = json.loads(lines[0])
    header["fleet"]["job"], header["id"] = "another", other.stem
    other.write_text(json.dumps(header) + "\n" + "".join(lines[1:]))
    answer = here("fleet", "--merge", path, "--json", "-")
    assert answer.result()["blocks"] == 3
    assert "rubbish.jsonl is not a run" in answer.err


def test_the_run_is_found_again_by_its_commands(folder, task, merged, here, tmp_path):
    path = folder()
    for share in range(SHARES):
        task(path, share)
    result = merged(path)
    assert here("show", "--json", "-").result()["estimate"] == result["estimate"]
    sql = "SELECT host, count(*) AS n FROM blocks WHERE phase = 'measure' GROUP BY host ORDER BY host"
    assert [row["n"] for row in here("export", "--sql", sql).result()] == [3] * SHARES
    assert "GO" in here("list").out
    assert here("resume", result["run"]).message().endswith("hak fleet --merge DIR")
    assert here("report", result["run"], "-o", tmp_path / "page.html").status == 0
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "spec.toml --seed 7 --engine slurm" in page


@pytest.mark.parametrize("shares", [1, 2, 7, 9])
def test_shares_are_all_blocks_once_and_even(shares):
    from hakmem_fleet.folder import shares_of

    parts = shares_of(9, shares)
    assert [index for part in parts for index in part] == list(range(9))
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
