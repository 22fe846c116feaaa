"""The profile of a command: the library writes it when the program ends."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hakmem_lab.errors import EXIT_SIGNAL, LabError
from hakmem_lab.inside.profile import proto
from hakmem_lab.inside.profile.model import HeapProfile
from hakmem_lab.plan.arms import parse_arm
from hakmem_lab.plan.spec import CommonSpec, build
from hakmem_lab.run.preflight import check_arm
from hakmem_lab.run.runner import Workload
from hakmem_lab.system import signals


def take(command: Sequence[str], mean_bytes: int, allocator: str = "hakmem") -> tuple[HeapProfile, int]:
    """(the profile of the command and all it started, its exit status). Raises LabError where none was written."""
    arm = parse_arm(allocator, where="--allocator")
    workload = Workload.of(build(CommonSpec, {"kind": "run", "command": list(command)}, "command line"))
    env = os.environ | arm.library.environment | arm.variables
    if preload := arm.preload(os.environ.get("LD_PRELOAD")):
        env["LD_PRELOAD"] = preload
    check_arm(arm, workload, env)
    with tempfile.TemporaryDirectory(prefix="hak-profile-") as folder:
        env |= {
            "HAKMEM_PROFILE_FILE": f"{folder}/%p.pb",
            "HAKMEM_PROFILE_RATE": str(mean_bytes),
            "HAKMEM_PROFILE_EXIT": "1",
        }
        status = _run(workload.argv, env)
        profile = _joined(Path(folder), command[0], status)
    profile.comments.append(f"hak profile -- {' '.join(command)}")
    return profile, status


def _run(argv: Sequence[str], env: dict[str, str]) -> int:
    """Its status; of one that a signal ended, as a shell tells it. What is typed, and what tells us to end, is for the
    program: only if it ends by itself there is a profile."""
    try:
        with signals.held():  # until there is somebody to hand them on to
            process = subprocess.Popen(list(argv), env=env)
            with signals.handed_on(process.pid):
                status = process.wait()
    except OSError as error:
        raise LabError(f"command: {argv[0]} cannot be started: {error.strerror}") from None
    return status if status >= 0 else EXIT_SIGNAL - status


def _joined(folder: Path, name: str, status: int) -> HeapProfile:
    files = sorted(folder.glob("*.pb"), key=lambda path: int(path.stem))
    if not files:
        raise LabError(
            f"{name} has ended (status {status}) without a profile: it did not leave by exit(), or may not write to "
            f"{folder.parent}, or its environment is another. Take one while it runs: hak profile PID"
        )
    whole, complete = HeapProfile(), 0
    for path in files:
        try:
            one = proto.read(path)
        except LabError:
            continue  # a process that was killed while it wrote
        whole.main = whole.main or one.main
        whole.join(one)
        complete += 1
    if complete > 1:
        print(f"hak: {complete} processes are counted together", file=sys.stderr)
    if complete == 0:
        raise LabError(f"{name} has ended (status {status}) without a whole profile")
    return whole
