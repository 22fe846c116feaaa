"""`{folder}`: each execution has an empty folder of its own, in every schedule, and none of them stays."""

import os
import shutil
import signal
import tempfile

import pytest

from hakmem_lab.doctor import examine
from hakmem_lab.errors import LabError
from hakmem_lab.plan.arms import parse_arm
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.plan.model import build
from hakmem_lab.plan.spec import AbSpec
from hakmem_lab.run.callgrind import executed
from hakmem_lab.run.folder import LEAST_AGE_S, PREFIX, Folder, _remove_abandoned
from hakmem_lab.run.preflight import check_arm, look
from hakmem_lab.run.runner import Runner
from hakmem_lab.run.together import Together
from hakmem_lab.run.turns import Turns
from hakmem_lab.run.workload import Workload
from hakmem_lab.system import freezer
from hakmem_lab.system.launcher import Launcher
from hakmem_lab.trace import record

needs_groups = pytest.mark.skipif(bool(freezer.lacking()), reason="no control group can be made here")


@pytest.fixture
def used(tmp_path):
    """used(): the folders that were named since the last call, none of which exists any longer."""
    log = tmp_path / "log"

    def read():
        folders = log.read_text().split()
        log.unlink()
        assert len(folders) == len(set(folders)) and not any(os.path.exists(each) for each in folders)
        return folders

    return read


@pytest.fixture
def command(tmp_path, fakes):
    """A command that fails where its folder is not empty, and burns some processor time."""
    script = f'mkdir "$1/made" && echo "$1" >> {tmp_path}/log && exec {fakes.program} burn $FAKE_ARGUMENT'
    return ["/bin/sh", "-c", script, "sh", "{folder}"]


def workload(command, **keys):
    values = {"command": command, "control": "glibc", "treatment": "default", "metric": "cpu", "timeout": 20}
    return Workload.of(build(AbSpec, values | keys, "test"))


SIDES = [parse_arm(f"glibc,FAKE_ARGUMENT={time_ms}", f"side {time_ms}") for time_ms in (20, 100)]


def test_one_by_one(command, used):
    with Runner(workload(command), [Metric("cpu")]) as runner:
        assert runner.run(SIDES[0], 0, repeat=3)["why"] is None
        assert runner.trial(SIDES[0])["why"] is None
    assert len(used()) == 4


@pytest.mark.parametrize("schedule", [Together, pytest.param(Turns, marks=needs_groups)])
def test_at_once_and_in_turns(command, used, schedule):
    """The shorter side runs again until the longer one has ended: in another folder each time."""
    with Runner(workload(command), [Metric("cpu")]) as runner:
        gang = schedule(runner, sorted(os.sched_getaffinity(0))[:2])
        try:
            records = gang.block([*SIDES, *SIDES[::-1]], range(4), 1, 1)
        finally:
            gang.close()
    assert [record["why"] for record in records] == [None] * 4
    assert len(used()) > 4


def test_a_server_its_clients_and_what_prepares_them_share_it(fakes, tmp_path, used):
    prepare = ["/bin/sh", "-c", f'echo "$1" >> {tmp_path}/log; mkdir "$1/made"', "sh", "{folder}"]
    server = [
        "/bin/sh",
        "-c",
        f'rmdir "$1/made" && touch "$1/served" && exec {fakes.server} $2',
        "sh",
        "{folder}",
        "{port}",
    ]
    client = ["/bin/sh", "-c", f'rm "$1/served" && exec {fakes.server} $2 client', "sh", "{folder}", "{port}"]
    whole = workload(client, prepare=prepare, server={"command": server})
    with Runner(whole, [Metric("server-cpu")]) as runner:
        assert [runner.run(SIDES[0], 0)["why"] for _ in range(2)] == [None] * 2
    assert len(used()) == 2


def test_what_only_looks_at_a_program_gives_it_a_folder_too(command, used):
    whole, env = workload(command), {"FAKE_ARGUMENT": "1"}
    look(whole.argv, env, whole)
    assert len(used()) == 1
    if shutil.which("valgrind"):
        with Launcher() as launcher, executed(launcher, whole, whole.argv, env):
            pass
        assert len(used()) == 1


def test_a_check_cannot_use_it():
    with pytest.raises(LabError, match=r"^check: it cannot use \{folder\}"):
        workload(["true"], check="ls {folder}")


def test_an_interrupted_run_leaves_no_folder_though_its_program_still_wrote(tmp_path):
    begun = f'echo "$1" > {tmp_path}/new && mv {tmp_path}/new {tmp_path}/log'
    script = f'{begun}; while :; do mkdir -p "$1/again"; done 2> /dev/null'

    def interrupted(*_):
        if (tmp_path / "log").exists():
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupted)
    signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
    try:
        with (
            pytest.raises(KeyboardInterrupt),
            Runner(workload(["/bin/sh", "-c", script, "sh", "{folder}"]), [Metric("cpu")]) as runner,
        ):
            try:
                runner.run(SIDES[0], 0)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert not os.path.exists((tmp_path / "log").read_text().strip())


def test_what_a_killed_laboratory_left_is_removed_but_no_folder_in_use(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    abandoned = tmp_path / f"{PREFIX}abandoned"
    (abandoned / "data").mkdir(parents=True)
    with Folder() as folder:
        used = folder.fill(["{folder}"])[0]
        monkeypatch.setattr("hakmem_lab.run.folder.LEAST_AGE_S", -1.0)
        _remove_abandoned.cache_clear()
        with Folder() as other:
            other.fill(["{folder}"])
            assert os.path.exists(used) and not abandoned.exists()
    assert not any(tmp_path.iterdir()) and LEAST_AGE_S > 0


def test_folders_that_forbid_writing_are_removed(tmp_path, monkeypatch, capsys):
    """As root nothing forbids it: then removing fails until modes were changed."""
    real = shutil.rmtree

    def rmtree(path, **keys):
        if os.stat(f"{path}/closed").st_mode & 0o200:
            real(path, **keys)

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    with Folder() as folder:
        used = folder.fill(["{folder}"])[0]
        os.makedirs(f"{used}/closed/inner")
        os.chmod(f"{used}/closed", 0o500)
    assert not os.path.exists(used) and not capsys.readouterr().err


def test_hak_tells_of_a_folder_that_stays(monkeypatch, capsys):
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)
    folder = Folder()
    used = folder.fill(["{folder}"])[0]
    folder.clear()
    os.rmdir(used)
    assert "cannot be removed" in capsys.readouterr().err


def test_doctor_and_record_give_it_too(command, used, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_ARGUMENT", "1")
    record.command(command, tmp_path / "trace")
    assert len(used()) == 1
    examine.command(command, parse_arm("hakmem"))
    assert len(used()) == 2  # it looks at the start, then follows the whole


def test_a_variable_that_names_it_is_refused():
    for side, env in ((SIDES[0], {"DATA": "{folder}/data"}), (parse_arm("glibc,DATA={folder}"), {})):
        with pytest.raises(LabError, match=r"^DATA: \{folder\} stands for a folder in commands only"):
            check_arm(side, workload(["true"], env=env))
