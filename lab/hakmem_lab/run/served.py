"""Judges whether the allocator served the process that did the work, from the programs that a run started. A program
that loses LD_PRELOAD runs on, and its figures would be taken for those of the allocator.

The rule: a command is refused if the program that it becomes was not served, or if unserved programs used at least a
quarter of its processor time. A smaller share gives a warning. Where hak itself becomes the program, another process
follows it and prints the warning at its end.
"""

import contextlib
import ctypes
import os
import signal
import socket
from collections.abc import Mapping, Sequence

from hakmem_lab.plan.arms import Arm
from hakmem_lab.run.folder import Folder
from hakmem_lab.system import follower
from hakmem_lab.system.follower import Image
from hakmem_lab.system.launcher import UNSERVED_SHARE, Launcher, Request

SAID_SHARE = 0.02
LOSSES = ("unset", "replaced", "root")  # the preload was removed; programs lost for other reasons cannot have one
REMEDY = "let nothing between clear or change LD_PRELOAD (env -i, sudo, a script)"
MOST_NAMED = 3


def why(image: Image) -> str:
    """A clause about a program that was not served."""
    by = image.by or "the command"
    return {
        "unset": f"which {by} starts without LD_PRELOAD",
        "replaced": f"which {by} starts with another LD_PRELOAD",
        "root": f"which {by} starts where the library is not: in another root folder",
        "static": "which is statically linked",
        "secure": "which begins with more rights than its caller has, so that nothing is preloaded",
    }.get(image.lost, "into which the dynamic linker did not load the library")


def unserved(images: Sequence[Image]) -> list[Image]:
    """The unserved programs: one image each, with the processor time of all its processes, in descending order."""
    found: dict[str, Image] = {}
    for each in (image for image in images if image.lost):
        known = found.get(each.program)
        cpu_s = each.cpu_s + (known.cpu_s if known else 0)
        found[each.program] = Image(each.pid, each.program, each.by, each.lost, cpu_s)
    return sorted(found.values(), key=lambda image: -image.cpu_s)


def share(images: Sequence[Image]) -> float:
    """Share of processor time that programs which were not served used."""
    whole = sum(image.cpu_s for image in images)
    return sum(image.cpu_s for image in images if image.lost) / whole if whole else 0.0


def worker(images: Sequence[Image]) -> str | None:
    """The program that used most of the processor time."""
    used: dict[str, float] = {}
    for image in images:
        used[image.program] = used.get(image.program, 0.0) + image.cpu_s
    return max(used, key=lambda program: used[program], default=None)


def became(images: Sequence[Image]) -> Image | None:
    """What the command's own process ran last, after its last exec; None if it is not in the list."""
    return next((image for image in reversed(images) if image.own), None)


def refusal(arm: Arm, images: Sequence[Image]) -> str | None:
    """Why such a run says nothing about the arm's allocator; None if it does."""
    lost, part, last = unserved(images), share(images), became(images)
    if not lost or not (part >= UNSERVED_SHARE or (last and last.lost)):
        return None
    first = last if last and last.lost and part < UNSERVED_SHARE else lost[0]
    used = f"what was not served used {part:.0%} of the processor time"
    return f"{arm.name} cannot serve {first.program}, {why(first)}; {used}; {REMEDY}"


def warning(arm: Arm, images: Sequence[Image]) -> str | None:
    """Warning to print with the figures of such a run."""
    whole = sum(image.cpu_s for image in images) or 1.0
    lost = [each for each in unserved(images) if each.lost in LOSSES or each.cpu_s / whole >= SAID_SHARE]
    if not lost:
        return None
    parts = [(each, f"{each.cpu_s / whole:.0%} of the processor time") for each in lost[:MOST_NAMED]]
    named = "; ".join(f"{each.program}, {why(each)} ({part})" for each, part in parts)
    more = f"; and {len(lost) - MOST_NAMED} more programs" if len(lost) > MOST_NAMED else ""
    return f"{arm.name} did not serve all of it: {named}{more}"


def followed(
    argv: Sequence[str], env: Mapping[str, str], arm: Arm, limit_s: float, cwd: str | None = None
) -> list[Image]:
    """Runs a command for at most this time, and follows it. Its output is thrown away."""
    if arm.library.path is None:
        return []
    with follower.Report(arm.library.path) as report, Folder() as folder, Launcher() as launcher:
        launcher.run(Request(report.command(folder.fill(argv), limit_s), env, cwd, timeout_s=2 * limit_s, sample_ms=0))
        return report.images()


PR_SET_PTRACER = 0x59616D61


FIRST_OF_CONTAINER = 1  # adopts all orphans, so the follower would become a child of the program


IGNORED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGTTOU)


def follow_this(arm: Arm) -> None:
    """Call it just before this process becomes the program. Returns once this process is followed, or cannot be. The
    follower is no child of the program, since the program may wait for all its children."""
    if arm.library.path is None or os.getpid() == FIRST_OF_CONTAINER:
        return
    follower.helper_path()  # compiled now, where a failure can still be said
    program, (ours, theirs) = os.getpid(), socket.socketpair()
    child = os.fork()
    if child == 0:
        ours.close()
        if os.fork() == 0:
            with contextlib.suppress(BaseException):
                _follow(arm, program, theirs)
        os._exit(0)
    theirs.close()
    os.waitpid(child, 0)
    with contextlib.suppress(OSError, ValueError), ours:
        number = int(ours.recv(32))
        # Some systems let only an ancestor trace a process; this allows the follower.
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(number), 0, 0, 0)
        ours.send(b"go")
        ours.recv(1)


def _follow(arm: Arm, program: int, caller: socket.socket) -> None:
    assert arm.library.path is not None
    for number in IGNORED:
        signal.signal(number, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    os.dup2(nothing, 0)
    os.dup2(nothing, 1)
    caller.send(str(os.getpid()).encode())
    caller.recv(2)
    images = follower.attached(program, arm.library.path, caller.close)
    unknown = "what the program starts was not followed: this system allows no ptrace"
    said = unknown if images is None else warning(arm, images)
    if said:
        os.write(2, f"hak: {said}\n".encode(errors="replace"))
