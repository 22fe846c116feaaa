"""`{folder}`: each execution has an empty folder of its own, in every schedule, and none of them stays."""

import os
import shutil

import pytest

from hakmem_lab.errors import LabError
from hakmem_lab.plan.arms import parse_arm
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.plan.model import build
from hakmem_lab.plan.spec import AbSpec
from hakmem_lab.run.callgrind import executed
from hakmem_lab.run.preflight import look
from hakmem_lab.run.runner import Runner
from hakmem_lab.run.together import Together
from hakmem_lab.run.turns import Turns
from hakmem_lab.run.workload import Workload
from hakmem_lab.system import freezer
from hakmem_lab.system.launcher import Launcher

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
