"""Before the first run: is the allocator of every arm the one that answers malloc in the program?

Imports runner, launcher, arms, elf. The dynamic linker says which object it binds malloc and free to; it is asked in
the program itself, which is killed as soon as its own code begins.
"""

import contextlib
import os
import re
import stat
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from .arms import Arm
from .elf import Damaged, Elf
from .errors import LabError
from .launcher import Launcher, Request, Running
from .runner import SEED, TRIAL_SEED, Workload

START_S, LOOK_S = 20.0, 0.001
_BINDING = re.compile(r"binding file .+ \[\d+\] to (.+) \[\d+\]: normal symbol `(?:malloc|free)'")
OWN = ("malloc", "calloc", "realloc")
_MAIN = b"transferring control:"


def program_problem(path: Path) -> str | None:
    """Why nothing can be preloaded into this program; None if something can."""
    try:
        mode = path.stat().st_mode
        with open(path, "rb") as file:
            head = file.read(4)
        if mode & (stat.S_ISUID | stat.S_ISGID):
            return "it is setuid or setgid, and the dynamic linker preloads nothing into such programs"
        if head[:2] == b"#!":
            return None
        return "it is neither an ELF program nor a script" if head != b"\x7fELF" else _elf_problem(path)
    except OSError as error:
        return f"it cannot be read: {error.strerror}"


def _elf_problem(path: Path) -> str | None:
    try:
        with Elf(path) as elf:
            if not elf.has_interpreter():
                return "it is statically linked, and brings its own malloc"
            own = sorted(elf.kept_functions(OWN))
    except Damaged as error:
        return str(error)
    return f"it has a {own[0]} of its own, which the dynamic linker cannot replace" if own else None


def serving_libraries(argv: Sequence[str], env: Mapping[str, str], workload: Workload) -> tuple[set[str], str]:
    """(objects that malloc and free are bound to in the program, what the allocator said on standard error)."""
    with tempfile.TemporaryDirectory(prefix="hak-") as folder, Launcher() as launcher:
        asked = {"LD_DEBUG": "bindings,libs", "LD_DEBUG_OUTPUT": f"{folder}/ld", "LD_BIND_NOW": "1"}
        try:
            running = launcher.start(Request(argv, {**env, **asked}, workload.cwd, workload.pin, START_S, 0))
        except OSError as error:
            raise LabError(f"command: {argv[0]} cannot be started: {error.strerror}") from None
        log = Path(folder) / f"ld.{running.pid}"
        _until_main(running, log)
        outcome = running.kill()
        text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    return {os.path.realpath(path) for path in _BINDING.findall(text)}, outcome.stderr


def _until_main(running: Running, log: Path) -> None:
    """Until the dynamic linker is done, the program has ended, or it has taken too long."""
    deadline, read = time.monotonic() + START_S, b""
    with contextlib.ExitStack() as opened:
        file = None
        while time.monotonic() < deadline and not running.ended(LOOK_S):
            if file is None and log.exists():
                file = opened.enter_context(open(log, "rb"))
            read = read[-len(_MAIN) :] + file.read() if file else b""
            if _MAIN in read:
                return


def check_arm(arm: Arm, workload: Workload, env: Mapping[str, str] | None = None) -> None:
    """Raises LabError where the arm's allocator does not serve the program, or complains about its settings.

    env: the complete environment that the program will have, where that is not the arm's for measuring.
    """
    argv = workload.subject()
    argv = [word.replace("{port}", "0").replace(SEED, str(TRIAL_SEED)) for word in argv]
    program = Path(argv[0])
    if arm.library.path is None:
        return
    if problem := program_problem(program):
        raise LabError(f"{arm.name} cannot serve {program}: {problem}")
    bound, errors = serving_libraries(argv, arm.environment(workload.env) if env is None else env, workload)
    if "cannot be preloaded" in errors:
        raise LabError(f"{arm.name}: {errors.strip().splitlines()[0]}")
    for line in errors.splitlines():
        if line.startswith("hakmem: warning"):
            raise LabError(f"{arm.name}: {line}")
    # A program at a fixed address may answer for its libraries with its own jump slot, which leads to the same target.
    targets = bound - {os.path.realpath(program)}
    wanted = os.path.realpath(arm.library.path)
    if targets != {wanted}:
        served = ", ".join(sorted(targets)) or (
            "the program itself" if bound else "nothing that the dynamic linker knows"
        )
        raise LabError(f"{arm.name} should serve malloc in {program} ({wanted}), but {served} does")
