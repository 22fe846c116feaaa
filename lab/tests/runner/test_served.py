"""Every way in which LD_PRELOAD is lost between a command and the program that does its work, in trials and runs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hakmem_lab.doctor.binary import read
from hakmem_lab.doctor.program import closure
from hakmem_lab.plan.arms import parse_arm
from hakmem_lab.plan.metrics import Metric
from hakmem_lab.plan.model import build
from hakmem_lab.plan.spec import AbSpec
from hakmem_lab.run import served
from hakmem_lab.run.runner import Runner
from hakmem_lab.run.workload import Workload
from hakmem_lab.system.follower import Image, Report

WORK = ("burn", "100")
AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="only root may")


@pytest.fixture
def runner():
    """runner(command): a Runner of this command; closed after the test."""
    opened = []

    def make(command, **keys):
        values = {"command": list(map(str, command)), "control": "glibc", "treatment": "glibc"}
        opened.append(Runner(Workload.of(build(AbSpec, values | keys, "test")), [Metric("wall")]))
        return opened[-1]

    yield make
    for each in opened:
        each.close()


def shell(text):
    return lambda program, _: ["sh", "-c", text.replace("PROGRAM", f"{program} {' '.join(WORK)}")]


def python(text):
    return lambda program, _: [sys.executable, "-c", f"import os, subprocess\nw = {[str(program), *WORK]}\n{text}"]


def setuid(program, folder):
    path = Path(shutil.copy(program, folder / "setuid"))
    os.chown(path, 65534, 65534)
    path.chmod(0o4755)
    return ["sh", "-c", f"{path} {' '.join(WORK)}; :"]


def other_root(program, folder):
    """A command that runs the program in another root folder, with only the program and its libraries in it."""
    binary = read(program)
    for path in (Path(binary.interpreter), *(each.path for each in closure(binary, {})[0])):
        there = folder / "root" / str(path)[1:]
        there.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, there)
    shutil.copy(program, folder / "root" / "program")
    return ["chroot", folder / "root", "/program", *WORK]


WAYS = {
    "cleared": (shell("exec env -i PROGRAM"), "starts without LD_PRELOAD"),
    "unset": (shell("unset LD_PRELOAD; exec PROGRAM"), "starts without LD_PRELOAD"),
    "unset for a child": (shell("env -u LD_PRELOAD PROGRAM; :"), "starts without LD_PRELOAD"),
    "replaced": (shell("LD_PRELOAD=libdl.so.2 PROGRAM; :"), "starts with another LD_PRELOAD"),
    "an environment of its own": (python("os.execve(w[0], w, {})"), "starts without LD_PRELOAD"),
    "a child with one": (python("subprocess.run(w, env={}, check=True)"), "starts without LD_PRELOAD"),
}


@pytest.mark.parametrize(("way", "why"), WAYS.values(), ids=WAYS)
def test_a_trial_is_refused_that_loses_the_allocator(runner, fakes, tmp_path, way, why):
    trial = runner(way(fakes.program, tmp_path)).trial(parse_arm(str(fakes.allocator)))
    assert (trial["ok"], trial.get("lost")) == (False, True)
    assert f"cannot serve {fakes.program}, which" in trial["why"]
    assert why in trial["why"]


def test_a_static_child_that_does_the_work(runner, fakes, tmp_path):
    trial = runner(shell("PROGRAM; :")(fakes.static_program, tmp_path)).trial(parse_arm(str(fakes.allocator)))
    assert (trial["lost"], "which is statically linked" in trial["why"]) == (True, True)


@AS_ROOT
@pytest.mark.parametrize(("way", "why"), [(setuid, "more rights"), (other_root, "in another root folder")])
def test_a_child_with_other_rights_or_in_another_root(runner, fakes, tmp_path, way, why):
    trial = runner(way(fakes.program, tmp_path)).trial(parse_arm(str(fakes.allocator)))
    assert (trial.get("lost"), why in trial["why"]) == (True, True)


@pytest.mark.parametrize(
    "way", [shell("exec PROGRAM"), shell("env A=1 PROGRAM; :"), python("subprocess.run(w, check=True)")]
)
def test_a_trial_that_keeps_it_is_good(runner, fakes, tmp_path, way):
    trial = runner(way(fakes.program, tmp_path)).trial(parse_arm(str(fakes.allocator)))
    assert (trial["ok"], trial["unserved"]) == (True, None)


def test_a_small_part_is_a_warning(runner, fakes):
    command = shell("PROGRAM; env -i /bin/true")(fakes.program, None)
    trial = runner(command).trial(parse_arm(str(fakes.allocator)))
    assert trial["ok"]
    assert "true, which" in trial["unserved"]
    assert "starts without LD_PRELOAD" in trial["unserved"]


def test_a_program_that_fails_once_it_is_followed_is_tried_alone(runner, fakes):
    """For example, a program that traces its own children fails if it is traced itself."""
    asks = f"grep -q '^TracerPid:.0$' /proc/self/status && exec {fakes.program} exit 0; exit 3"
    trial = runner(["sh", "-c", asks]).trial(parse_arm(str(fakes.allocator)))
    assert (trial["ok"], trial["exit"]) == (True, 0)


@pytest.fixture
def later(fakes, tmp_path):
    """later(words of the program): a command that runs without the allocator from its second execution on."""

    def write(*words, program=fakes.program):
        script, mark = tmp_path / "later.sh", tmp_path / "mark"
        text = f"[ -e {mark} ] && exec env -i {program} {' '.join(words)}\n: >{mark}\n"
        script.write_text(f"#!/bin/sh\n{text}exec {program} {' '.join(words)}\n")
        script.chmod(0o755)
        return [script]

    return write


def test_a_run_that_loses_it_later_fails(runner, fakes, later):
    arm, subject = parse_arm(str(fakes.allocator)), runner(later("burn", "200"))
    assert subject.trial(arm)["ok"]
    record = subject.run(arm, 0)
    assert record["ok"] is False
    used = f"not loaded by {fakes.program}, which used" in record["why"]
    assert used or "its library is not mapped in the process" in record["why"]  # a busy machine gives it one look


def test_a_run_that_is_over_before_anyone_can_look_at_it_fails_too(runner, fakes, later, tmp_path):
    # Own copies of both files: the check counts any process that opens them, such as those of tests running meanwhile.
    library, program = shutil.copy(fakes.allocator, tmp_path), shutil.copy(fakes.program, tmp_path)
    arm, subject = parse_arm(str(library)), runner(later("exit", "0", program=program))
    subject._workers = {arm.name: str(program)}  # the trial of a program that ends at once may not find it
    assert subject.run(arm, 0)["ok"]
    record = subject.run(arm, 0)
    assert record["ok"] is False
    unseen = "nothing has opened its library" in record["why"]
    assert unseen or "its library is not mapped in the process" in record["why"]  # a busy machine gives it one look


@pytest.mark.parametrize("words", [["exit", "7"], ["signal", "9"], ["abort"]])
def test_the_follower_ends_as_the_program_does(fakes, words):
    with Report(fakes.allocator) as report:
        alone = subprocess.run([fakes.program, *words], check=False).returncode
        followed = subprocess.run(report.command([str(fakes.program), *words]), check=False).returncode
    assert followed == alone


def test_what_is_killed_after_its_time_has_been_seen(fakes):
    """On a busy machine, a short time may not be enough for the shell to start the program."""
    for seconds in (0.3, 1, 3, 10, 30):
        with Report(fakes.allocator) as report:
            subprocess.run(report.command(["/bin/sh", "-c", f"{fakes.program} sleep 60000; :"], seconds), check=True)
            images = report.images()
        if any(Path(image.program).name == fakes.program.name for image in images):
            break
    assert {Path(image.program).name for image in images} >= {fakes.program.name}
    assert {image.lost for image in images} == {"unset"}


def test_the_share_decides_and_the_last_program_of_the_command(fakes):
    arm = parse_arm(str(fakes.allocator))

    def images(of_child, lost="", own=""):
        return [Image(2, "/child", "/own", lost, of_child), Image(1, "/own", "", own, 1.0 - of_child, own=True)]

    assert served.refusal(arm, images(0.9)) is None
    assert served.refusal(arm, images(0.24, "unset")) is None
    assert "/child, which /own starts without" in served.refusal(arm, images(0.25, "unset"))
    assert "cannot serve /own" in served.refusal(arm, images(0.95, own="refused"))
    assert served.warning(arm, images(0.01, "static")) is None
    assert "/child, which is statically linked (3%" in served.warning(arm, images(0.03, "static"))
    assert served.warning(arm, images(0.0, "unset")) is not None
