"""Checks before the first run that the allocator of every arm serves malloc in the program.

The check starts the program with LD_DEBUG, so that the dynamic linker reports the object to which it binds malloc and
free. The program is killed as soon as its own code begins. Starters, such as `env` or a shell, run on until the program
that they start begins.
"""

import contextlib
import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from hakmem_lab.errors import LabError, refused
from hakmem_lab.plan.arms import Arm
from hakmem_lab.run.folder import FOLDER, Folder
from hakmem_lab.run.workload import SEED, TRIAL_SEED, Workload
from hakmem_lab.system.allocators import OWN, SANITIZED
from hakmem_lab.system.launcher import Launcher, Request, Running
from hakmem_lab.system.scripts import LONGEST_LINE, Damaged, Elf, interpreters

START_S, LOOK_S = 20.0, 0.001
# A starter is watched until no new program has begun for QUIET_S, and at most for FOLLOW_S.
QUIET_S, FOLLOW_S = 0.3, 3.0
SHELLS = ("sh", "dash", "bash", "rbash", "zsh", "ksh", "mksh", "fish", "busybox")
STARTERS = (
    *("env", "nice", "nohup", "timeout", "time", "taskset", "stdbuf", "setarch", "setsid", "ionice", "chrt", "numactl"),
    *("choom", "prlimit", "flock"),
    *SHELLS,
)
_BINDING = re.compile(r"binding file (.+) \[\d+\] to (.+) \[\d+\]: normal symbol `(?:malloc|free)'")
LEAK_RUNTIMES = ("liblsan.so", "libubsan.so")
_LOADING = "find library="
_MAIN = re.compile(r"transferring control: (.*)\n")
# The beginnings of lines in which allocators refuse a setting. An allocator that refuses silently is not noticed.
COMPLAINTS = ("hakmem: warning", "<jemalloc>: Invalid conf", "Scudo WARNING", "Scudo ERROR")


def is_starter(name: str) -> bool:
    """Whether a program of this name only starts other programs."""
    return os.path.basename(name) in STARTERS


@dataclass(frozen=True)
class Begun:
    """A program whose own code has begun. name: its name in the dynamic linker's report; bound: the objects that serve
    malloc."""

    name: str
    bound: frozenset[str]

    def others(self) -> set[str]:
        """The objects that serve malloc, except the program: one linked to a fixed address may serve its libraries
        through its own jump slot, which leads to the same target."""
        return {os.path.realpath(path) for path in self.bound if path != self.name}


def program_problem(path: Path) -> str | None:
    """Why no library can be preloaded into this program, or into the interpreters of this script; None if one can."""
    try:
        mode = path.stat().st_mode
        with open(path, "rb") as file:
            head = file.readline(LONGEST_LINE)
        if mode & (stat.S_ISUID | stat.S_ISGID):
            return "it is setuid or setgid, and the dynamic linker preloads nothing into such programs"
        if head[:2] == b"#!" and head.endswith(b"\r\n"):
            return f"its first line ends as on Windows, in \\r: take that away with sed -i 's/\\r$//' {path}"
        if head[:2] == b"#!":
            return next((f"{each}: {why}" for each in interpreters(path) if (why := program_problem(each))), None)
        return "it is neither an ELF program nor a script" if head[:4] != b"\x7fELF" else _elf_problem(path)
    except OSError as error:
        return f"it cannot be read: {error.strerror}"


@cache
def _own_linker() -> str | None:
    """Name of the dynamic linker of the system that our libraries are built for; None if unknown."""
    with contextlib.suppress(OSError, Damaged), Elf(Path(sys.executable)) as elf:
        return os.path.basename(elf.interpreter() or "") or None
    return None


def _elf_problem(path: Path) -> str | None:
    try:
        with Elf(path) as elf:
            linker = elf.interpreter()
            if linker is None:
                return "it is statically linked, and brings its own malloc"
            if _own_linker() not in (None, os.path.basename(linker)):
                return f"{linker} starts it, into which no library of this system's can be preloaded"
            functions = elf.functions((*OWN, *SANITIZED))
            built = {*functions.kept, *functions.exported, *functions.imported}.intersection(SANITIZED)
            if built:
                runtime, option = SANITIZED[min(built)]
                return f"it is built with {runtime}, whose malloc must be the only one: build it without {option}"
            own = sorted(functions.kept.intersection(OWN))
    except Damaged as error:
        return str(error)
    return f"it has a {own[0]} of its own, which the dynamic linker cannot replace" if own else None


def _bound(text: str) -> frozenset[str]:
    """The objects that serve malloc, from the dynamic linker's report. Lookups by a serving library itself are left
    out, since it may look for the next allocator. So are those of sanitizer runtimes that run on any malloc."""
    pairs = [pair for pair in _BINDING.findall(text) if not os.path.basename(pair[0]).startswith(LEAK_RUNTIMES)]
    answering = {target for _, target in pairs if ".so" in target}
    return frozenset(target for origin, target in pairs if origin == target or origin not in answering)


def begun_in(text: str) -> list[Begun]:
    """The successive programs of one process, in order, from the dynamic linker's report."""
    parts = _MAIN.split(text)
    return [Begun(name, _bound(before)) for before, name in zip(parts[::2], parts[1::2], strict=False)]


@dataclass(frozen=True)
class Seen:
    """The programs that a command started. chain: those of its process. children: programs of other processes. last:
    file of the process's last program, None if it has ended. bound: objects that serve malloc where no program's own
    code began. said: standard error. beginning: the dynamic linker was still loading a further program."""

    chain: list[Begun]
    children: list[Begun]
    last: Path | None
    bound: frozenset[str]
    said: str
    beginning: bool = False

    def unloadable(self) -> str | None:
        """The dynamic linker's message about a library that it cannot preload, if any."""
        return next((line for line in self.said.splitlines() if "cannot be preloaded" in line), None)

    def unseen(self) -> Path | None:
        """The program that a starter became without our variables, for which the dynamic linker reported nothing."""
        if self.last is None or self.beginning or not (self.chain and is_starter(self.chain[-1].name)):
            return None
        starter = shutil.which(self.chain[-1].name)
        return self.last if starter and not self.last.samefile(starter) else None


def look(argv: Sequence[str], env: Mapping[str, str], workload: Workload) -> Seen:
    """Starts the command until its program's own code begins, and kills it. Raises LabError where it cannot start."""
    with tempfile.TemporaryDirectory(prefix="hak-") as folder, Folder() as files, Launcher() as launcher:
        asked = {"LD_DEBUG": "bindings,libs", "LD_DEBUG_OUTPUT": f"{folder}/ld", "LD_BIND_NOW": "1"}
        stdin = None if workload.server else workload.stdin
        request = Request(files.fill(argv), {**env, **asked}, workload.cwd, workload.pin, START_S, 0, stdin=stdin)
        with refused(f"command: {argv[0]} cannot be started"):
            running = launcher.start(request)
        log = Path(folder) / f"ld.{running.pid}"
        _until_main(running, log)
        last = None
        with contextlib.suppress(OSError):
            last = Path(os.readlink(f"/proc/{running.pid}/exe"))
        outcome = running.kill()
        texts = {path: path.read_text(encoding="utf-8", errors="replace") for path in Path(folder).glob("ld.*")}
    own = texts.pop(log, "")
    children = [begun for text in texts.values() for begun in begun_in(text)]
    beginning = _LOADING in _MAIN.split(own)[-1]
    return Seen(begun_in(own), children, last, _bound(own), outcome.stderr, beginning)


def _until_main(running: Running, log: Path) -> None:
    """Waits until a program other than a starter begins its own code, the process ends, or no new program begins."""
    deadline = quiet = time.monotonic() + START_S
    text, begun, seen = "", 0, 0
    with contextlib.ExitStack() as opened:
        file = None
        while time.monotonic() < min(deadline, quiet) and not running.ended(LOOK_S):
            if file is None and log.exists():
                file = opened.enter_context(open(log, encoding="utf-8", errors="replace"))
            text += file.read() if file else ""
            lines, _, text = text.rpartition("\n")
            names = _MAIN.findall(lines + "\n")
            if names and not is_starter(names[-1]):
                return
            begun += len(names)
            now, count = time.monotonic(), begun + len(os.listdir(log.parent)) if begun else 0
            if count > seen:
                deadline = min(deadline, now + FOLLOW_S) if seen == 0 else deadline
                seen, quiet = count, now + QUIET_S


def asked_argv(workload: Workload) -> list[str]:
    """The command that runs on the allocator, with fixed values for its port and seed."""
    return [word.replace("{port}", "0").replace(SEED, str(TRIAL_SEED)) for word in workload.subject()]


def serving(arm: Arm, workload: Workload) -> set[str]:
    """The objects that serve malloc in the program on this arm; empty where the dynamic linker does not report them."""
    if program_problem(Path(workload.subject()[0])):
        return set()
    seen = look(asked_argv(workload), arm.environment(workload.env), workload)
    return seen.chain[-1].others() if seen.chain else set()


def check_arm(arm: Arm, workload: Workload, env: Mapping[str, str] | None = None) -> None:
    """Raises LabError where the arm's allocator does not serve the program, or complains about its settings.

    env: the complete environment of the program, where it is not the arm's environment for measuring.
    """
    set_ = {**workload.env, **arm.variables}
    if name := next((name for name, value in set_.items() if FOLDER in value), None):
        raise LabError(f"{name}: {FOLDER} stands for a folder in commands only: begin the command with env {name}=...")
    argv = asked_argv(workload)
    program = Path(argv[0])
    if arm.library.path is None:
        return
    if problem := program_problem(program):
        raise LabError(f"{arm.name} cannot serve {program}: {problem}")
    seen = look(argv, arm.environment(workload.env) if env is None else env, workload)
    if complaint := seen.unloadable():
        raise LabError(f"{arm.name}: {complaint}")
    _heed(arm, seen.said)
    check_served(arm, program, seen)


def check_settings(arm: Arm, env: Mapping[str, str]) -> None:
    """Raises LabError where the allocator complains about the settings at its first allocation, as some do."""
    asks = ["/bin/true", "--version"]
    with contextlib.suppress(OSError):
        done = subprocess.run(
            asks, env=arm.environment(env), capture_output=True, text=True, errors="replace", check=False
        )
        _heed(arm, done.stderr)


def _heed(arm: Arm, said: str) -> None:
    """Raises LabError with the first line in which an allocator refuses a setting."""
    for line in said.splitlines():
        if line.startswith(COMPLAINTS):
            raise LabError(f"{arm.name}: {line}")


def check_served(arm: Arm, program: Path, seen: Seen) -> None:
    """Raises LabError unless the arm's library serves malloc in every program of the command."""
    assert arm.library.path is not None  # callers skip arms without a library
    wanted = os.path.realpath(arm.library.path)
    started = seen.chain and seen.last and is_starter(seen.chain[-1].name) and program_problem(seen.last)
    if started:
        raise LabError(f"{arm.name} cannot serve {seen.last}, which {program} starts: {started}")
    if unseen := seen.unseen():
        raise LabError(f"{arm.name} cannot serve {unseen}, which {program} starts without LD_PRELOAD")
    for begun in seen.chain or [Begun(str(program), seen.bound)]:
        if begun.others() != {wanted}:
            where = str(program) if begun.name == str(program) else f"{begun.name}, which runs {program}"
            raise _not_served(arm, wanted, where, begun)
    for begun in seen.children:
        # A child with its own malloc cannot be served and is accepted; one that lost the preload is refused.
        if begun.others() not in ({wanted}, set()):
            raise _not_served(arm, wanted, f"{begun.name}, which {program} starts", begun)


def _not_served(arm: Arm, wanted: str, where: str, begun: Begun) -> LabError:
    nobody = "the program itself" if begun.bound else "nothing that the dynamic linker knows"
    served = ", ".join(sorted(begun.others())) or nobody
    return LabError(f"{arm.name} should serve malloc in {where} ({wanted}), but {served} does")
