"""Other files that commands name, such as clients, scripts and data: hak notices every change of them."""

import json
import os

import pytest

from hakmem_lab.plan import peers
from hakmem_lab.plan.model import build
from hakmem_lab.plan.spec import BlockSpec
from hakmem_lab.run import recorder
from hakmem_lab.run.workload import Workload

RATE = r"regex:ops (\d+)"


@pytest.fixture(autouse=True)
def _no_stale_hashes():
    peers.file_sha256.cache_clear()


@pytest.fixture
def named(tmp_path):
    """A script among the command's arguments; as the environment says, it edits itself or writes a file."""
    path = tmp_path / "named.sh"
    path.write_text(
        '[ -n "$LD_DEBUG" ] && exit 0\nn=$(($(cat "$1.count" 2>/dev/null) + 1)); echo $n > "$1.count"\n'
        '[ "$EDIT" = $n ] && echo "# edited" >> "$0"\n[ -n "$WRITE" ] && echo $n >> "$1"\n'
        '[ "$FAIL" = $n ] && kill -9 $PPID\necho ops 1000\n',
        encoding="utf-8",
    )
    (tmp_path / "data").write_text("data\n", encoding="utf-8")
    return path


@pytest.fixture
def measure(here, named):
    def call(**behaviour):
        env = [word for item in behaviour.items() for word in ("--env", "=".join(item))]
        words = ["ab", "--control", "glibc", "--treatment", "glibc,A=1", "--metric", RATE, "--repeat", "1", "--warm-up",
                 "0", "--looks", "1", "--max-blocks", "6", "--seed", "3", "--quiet", *env]  # fmt: skip
        return here(*words, "--", "/bin/sh", named, named.with_name("data"))

    return call


def workload(**keys) -> Workload:
    return Workload.of(build(BlockSpec, {"kind": "ab", **keys}, "test"))


def test_named_files_are_in_the_header(measure, records, named):
    assert measure().status == 0
    stored = records("header")[0]["inputs"]
    data = named.with_name("data")
    assert stored == {str(path): peers.file_sha256(path) for path in (named, data)}


def test_of_a_huge_file_size_time_and_parts_are_hashed(tmp_path):
    path = tmp_path / "huge"
    path.touch()
    os.truncate(path, 1 << 40)  # reading all of it would take far too long for a test

    def changed(change) -> str:
        change()
        return peers.file_sha256.__wrapped__(path)

    def write(at):
        with open(path, "r+b") as file:
            file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
            file.write(b"x")
        os.utime(path, (1, 1))

    ways = [lambda: os.utime(path, (1, 1)), lambda: os.utime(path, (2, 2)), lambda: write(0), lambda: write(-1),
            lambda: write(((1 << 40) - (1 << 20)) * 7 // 63 + 9)]  # fmt: skip
    found = [changed(way) for way in ways]
    assert len(set(found)) == len(ways)
    assert changed(lambda: None) == found[-1]
    assert all(each.startswith("parts-") for each in found)


def test_a_script_that_changes_during_the_run_stops_it(measure, records):
    answer = measure(EDIT=str(2 + 4 * 2 + 1))
    assert answer.status == 3
    assert "named.sh changed" in answer.message()
    assert [block["block"] for block in records("block", ok=True)] == [0, 1]


def test_a_file_that_the_program_writes_is_no_input(measure, records, named):
    assert measure(WRITE="1").status == 0
    assert list(records("header")[0]["inputs"]) == [str(named)]


@pytest.mark.parametrize("changed", [True, False])
def test_resume_is_refused_where_a_named_file_changed(measure, here, records, named, changed):
    assert measure(FAIL=str(2 + 4 * 2 + 1)).status == 3
    if changed:
        with open(named.with_name("data"), "a", encoding="utf-8") as file:
            file.write("more\n")
    peers.file_sha256.cache_clear()
    answer = here("resume", "last", "--quiet")
    assert answer.status == (2 if changed else 0), answer.err
    if changed:
        assert "data is not what run" in answer.message() and "start a new run" in answer.message()


def test_a_run_of_the_older_format_can_be_resumed(measure, here, store):
    assert measure(FAIL=str(2 + 4 * 2 + 1)).status == 3
    (path,) = store.glob("*.jsonl")
    first, *rest = path.read_text(encoding="utf-8").splitlines(keepends=True)
    header = json.loads(first)
    del header["inputs"]
    path.write_text("".join([json.dumps(header) + "\n", *rest]), encoding="utf-8")
    assert here("resume", "last", "--quiet").status == 0


def test_client_and_warm_up_of_a_server_are_inputs(fakes, tmp_path):
    client, warm_up = (fakes.script(tmp_path / name) for name in ("client", "warm") if not (tmp_path / name).mkdir())
    server = {"command": [str(fakes.server), "{port}"], "warm-up": [str(warm_up)]}
    work = workload(command=[str(client)], server=server)
    assert set(recorder.input_hashes(work)) == {str(client), str(warm_up)}
    fixed = {path for path, strict in recorder.files_under_test(work, []).items() if strict}
    assert fixed == {fakes.server, client, warm_up}


def test_files_are_found_in_the_folder_of_the_command(tmp_path):
    (tmp_path / "a.py").write_text("pass\n", encoding="utf-8")
    work = workload(command=["/bin/sh", "a.py", "-c", "x" * 5000, "", "/dev/null", str(tmp_path)], cwd=str(tmp_path))
    assert recorder.named_files(work) == [tmp_path / "a.py"]


@pytest.mark.parametrize("name", ["a.py", "{folder}/a.py"])
def test_older_runs_name_a_file_without_its_folder(tmp_path, name):
    path = tmp_path / "a.py"
    path.write_text("pass\n", encoding="utf-8")
    work = workload(command=["/bin/sh", str(path)])
    stored = {name.format(folder=tmp_path): peers.file_sha256(path)}
    assert recorder.changed_input(stored, work) is None
    path.write_text("other\n", encoding="utf-8")
    peers.file_sha256.cache_clear()
    assert recorder.changed_input(stored, work) == next(iter(stored))
    path.unlink()
    assert recorder.changed_input(stored, workload(command=["/bin/sh"])) == next(iter(stored))


def test_a_watched_file_that_was_steady_is_reported(tmp_path):
    path = tmp_path / "data"
    path.write_text("a", encoding="utf-8")
    watch = recorder.Watch({path: False})
    assert watch.changed() is None
    path.write_text("longer", encoding="utf-8")
    assert watch.changed() == path


def test_a_watched_file_that_changes_from_the_start_is_written_by_the_program(tmp_path):
    path = tmp_path / "data"
    path.write_text("a", encoding="utf-8")
    watch = recorder.Watch({path: False})
    path.write_text("longer", encoding="utf-8")
    assert (watch.changed(), watch.written) == (None, [path])
