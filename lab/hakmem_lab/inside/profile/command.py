"""The profile of a command: the library writes it when the program ends."""

import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from hakmem_lab.errors import EXIT_SIGNAL, LabError
from hakmem_lab.inside.profile import forms, live
from hakmem_lab.inside.profile.model import HeapProfile
from hakmem_lab.plan.arms import parse_arm
from hakmem_lab.plan.spec import CommonSpec, build
from hakmem_lab.run.preflight import check_arm, is_starter
from hakmem_lab.run.runner import Workload
from hakmem_lab.system import signals
from hakmem_lab.system.proc import family

LOOK_S, LOOK_SHARE = 0.5, 20


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
        status, seen = _run(workload.argv, env)
        profile = _joined(Path(folder), command[0], status, seen)
    profile.comments.append(f"hak profile -- {' '.join(command)}")
    return profile, status


def _run(argv: Sequence[str], env: dict[str, str]) -> tuple[int, dict[int, HeapProfile]]:
    """(its status; of one that a signal ended, as a shell tells it; each process as it was last seen). What is typed,
    and what tells us to end, is for the program. One that a signal ends writes no profile: it was looked at before."""
    seen: dict[int, HeapProfile] = {}
    try:
        with signals.held():  # until there is somebody to hand them on to
            process = subprocess.Popen(list(argv), env=env)
            with signals.handed_on(process.pid):
                while (status := _waited(process, seen)) is None:
                    pass
    except OSError as error:
        raise LabError(f"command: {argv[0]} cannot be started: {error.strerror}") from None
    return status if status >= 0 else EXIT_SIGNAL - status, seen


def _waited(process: subprocess.Popen, seen: dict[int, HeapProfile]) -> int | None:
    """Its status, after a look at all that it has started; None: it goes on. Looks take a small part of the time."""
    began = time.monotonic()
    for pid in family(process.pid):
        if (found := live.snapshot(pid)) is not None:
            seen[pid] = found
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(max(LOOK_S, (time.monotonic() - began) * LOOK_SHARE))
    return None


def _joined(folder: Path, name: str, status: int, seen: dict[int, HeapProfile]) -> HeapProfile:
    found = {int(path.stem): one for path in folder.glob("*.pb") if (one := _read(path)) is not None}
    ended_early = [pid for pid in seen if pid not in found]
    found |= {pid: seen[pid] for pid in ended_early}
    # What only starts others is not what was meant.
    meant = {pid: one for pid, one in found.items() if not is_starter(one.main)} or found
    if not meant:
        raise LabError(
            f"{name} has ended (status {status}) without a profile: it did not leave by exit(), or may not write to "
            f"{folder.parent}, or its environment is another. Take one while it runs: hak profile PID"
        )
    whole = HeapProfile()
    for pid, one in sorted(meant.items()):
        whole.main = whole.main or one.main
        whole.join(one)
        if pid in ended_early:
            ago = (time.time_ns() - one.time_ns) / 1e9
            program = os.path.basename(one.main) or name
            print(f"hak: {program} did not leave by exit(): as it was {ago:.1f} s before hak ended", file=sys.stderr)
    if len(meant) > 1:
        print(f"hak: {len(meant)} processes are counted together", file=sys.stderr)
    return whole


def _read(path: Path) -> HeapProfile | None:
    """None: of a process that was killed while it wrote."""
    with contextlib.suppress(LabError):
        return forms.read(path)
    return None
