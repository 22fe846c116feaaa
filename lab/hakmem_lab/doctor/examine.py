"""The examination of a command or of a live process.

A command: its files are checked first. Then, unless they rule out the allocator, the command is started to see which
allocator serves it, and ended as soon as its own code begins. A program that only starts another one (a shell, `env`,
`timeout`) runs until that other one begins. If the allocator serves it so far, the command is run once more, to its end
or for FOLLOW_S, and followed through every exec.

A process: its mappings, its environment at the start, and the objects that its calls of malloc are bound to. The
process is neither stopped nor changed.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from hakmem_lab.doctor import (
    NOTE,
    NOTHING,
    OK,
    PART,
    PROBLEM,
    UNKNOWN,
    WHO,
    Check,
    Report,
    binary,
    listed,
    live,
    program,
    report,
    surroundings,
)
from hakmem_lab.doctor.binary import Binary
from hakmem_lab.doctor.program import Program
from hakmem_lab.errors import LabError
from hakmem_lab.plan.arms import Arm
from hakmem_lab.run import preflight, served
from hakmem_lab.run.workload import Workload
from hakmem_lab.system.compiled import Unkept
from hakmem_lab.system.follower import Image
from hakmem_lab.system.scripts import Damaged, interpreters

WARNING = "hakmem: warning: "
FOLLOW_S = 5.0


def library_of(arm: Arm) -> Binary:
    """The allocator's library. Raises LabError if it cannot be preloaded."""
    if arm.library.path is None:
        raise LabError(f"--allocator: '{arm.text}' is no library; name an allocator, such as hakmem")
    try:
        return binary.read(arm.library.path)
    except (Damaged, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise LabError(f"--allocator: {arm.library.path} cannot be preloaded: {why}") from None


def command(words: Sequence[str], arm: Arm, follow: bool = True) -> Report:
    """Examine a command. follow: if it is served, run it again and follow the programs that it starts.

    Raises LabError if there is no such program.
    """
    library = library_of(arm)
    workload, env = Workload.of_command(words), arm.beside()
    path = Path(workload.argv[0])
    subject = _program(path, env)
    found, seen = program.checks(subject, library), None
    if subject.file is not None and program.has_hakmem(subject.file) and arm.allocator == "hakmem":
        who = Check(WHO, OK, "hakmem is linked into the program")
    elif any(check.served == NOTHING for check in found):
        who = Check(WHO, UNKNOWN, "it was not started: what is said above decides")
    else:
        try:
            seen = preflight.look(workload.argv, env, workload)
        except Unkept as error:
            who = Check(WHO, UNKNOWN, str(error))
        except LabError as error:
            who = Check(WHO, PROBLEM, str(error).removeprefix("command: "), served=NOTHING)
        else:
            found, who = _of_started(seen, subject, env, library) or found, _who(seen, path, arm)
    images: list[Image] = []
    if follow and seen is not None and who.served is None:
        images = served.followed(workload.argv, env, arm, FOLLOW_S)
        last = served.became(images)
        became = Path(last.program) if last and not last.lost else subject.path
        if not _same(str(became), subject.path) and not preflight.program_problem(became):
            found = program.checks(Program.of(became, env), library)
        who = _followed(images, arm) or who
    found += [*_script(path, images), who, _options(seen, env), *surroundings.of_process(), surroundings.inspection()]
    found += surroundings.of_machine(env)
    return report(arm.name, found)


def _program(path: Path, env: Mapping[str, str]) -> Program:
    """The program; for a script, its interpreter."""
    readers = interpreters(path)
    if not readers:
        return Program.of(path, env)
    for each in (path, *readers):
        if (why := preflight.program_problem(each)) and each.exists():
            return Program.of(each, env) if each in readers else Program(path, None, why=why, env=env)
    return Program.of(readers[-1], env)


def _of_started(seen: preflight.Seen, subject: Program, env: Mapping[str, str], library: Binary) -> list[Check] | None:
    """The checks of the program that the command became or started; None if that is the one named."""
    last = _at_work(seen)
    if last is None or not last.exists() or last.samefile(subject.path):
        return None
    return program.checks(Program.of(last, env), library)


def _at_work(seen: preflight.Seen) -> Path | None:
    """The program that does the work: a child of a starter such as a shell, else what the process itself became."""
    if seen.chain and preflight.is_starter(seen.chain[-1].name) and seen.unseen() is None:
        for child in reversed(seen.children):
            if not preflight.is_starter(child.name) and (where := shutil.which(child.name)):
                return Path(where)
    if seen.last is None and seen.chain and (where := shutil.which(seen.chain[-1].name)):
        return Path(where)
    return seen.last


def _who(seen: preflight.Seen, path: Path, arm: Arm) -> Check:
    if complaint := seen.unloadable():
        return Check(WHO, PROBLEM, complaint, "build the library for this system", served=NOTHING)
    try:
        preflight.check_served(arm, path, seen)
    except LabError as error:
        remedy = "let nothing between clear or change LD_PRELOAD (env -i, sudo, a script)"
        return Check(WHO, PROBLEM, str(error), remedy, served=NOTHING)
    if seen.chain and preflight.is_starter(seen.chain[-1].name) and not seen.children and not seen.beginning:
        found = f"only {path} was seen to ask the dynamic linker, nothing that it starts"
        return Check(WHO, NOTE, found, "name the program itself: hak doctor -- PROGRAM", beside=True)
    return Check(WHO, OK, f"{arm.library.path}: asked in the program, which was ended where its own code begins")


def _same(program: str, path: Path) -> bool:
    return os.path.realpath(program) == os.path.realpath(path)


def _script(path: Path, images: Sequence[Image]) -> list[Check]:
    """Check a script: its interpreter, and the programs that it becomes or starts."""
    readers = interpreters(path)
    if not readers:
        return []
    found = f"{path} is a script of {readers[-1]}"
    last, worker = served.became(images), served.worker(images)
    if last and not _same(last.program, readers[-1]):
        found += f", and becomes {last.program}"
    elif worker and not _same(worker, readers[-1]):
        found += f"; most is done by {worker}, which it starts"
    return [Check("script", NOTE, found, beside=True)]


def _followed(images: Sequence[Image], arm: Arm) -> Check | None:
    """Which allocator serves malloc in all programs that were started; None if that adds nothing."""
    if why := served.refusal(arm, images):
        return Check(WHO, PROBLEM, why, served=NOTHING)
    if said := served.warning(arm, images):
        return Check(WHO, PROBLEM, said, served.REMEDY, served=PART)
    if not images:
        found = "what it starts was not followed: it traces processes itself, or this system allows no ptrace"
        return Check(WHO, NOTE, found, beside=True)
    programs = list(dict.fromkeys(image.program for image in images))
    if len(programs) == 1:
        return None
    return Check(WHO, OK, f"{arm.library.path}: seen in all that was started: {listed(programs)}")


def _options(seen: preflight.Seen | None, env: Mapping[str, str]) -> Check:
    said = [line.removeprefix(WARNING) for line in (seen.said if seen else "").splitlines() if line.startswith(WARNING)]
    if said:
        return Check("options", PROBLEM, said[0], "HAKMEM_HELP=1 lists the options")
    given = sorted(f"{name}={value}" for name, value in env.items() if name.startswith("HAKMEM_"))
    return Check("options", OK, " ".join(given) or "none set: the defaults")


def process(pid: int, arm: Arm) -> Report:
    """Examine a process. Raises LabError if there is no such process, or it may not be read."""
    process = live.Process.of(pid)
    library = library_of(arm)
    env = process.environment or {}
    wanted = live.mapped(process, arm)
    who, refused = live.who(process, arm, wanted)
    running = Program.of(process.executable, env, process.files())
    # The process may have mapped another build of the allocator, for another C library.
    serving = next((each for each in running.needed if each.path.name.startswith(library.path.name)), library)
    files = program.checks(running, serving)
    itself = [live.secure(process), live.preload(process, arm, who, bool(wanted)), who, live.options(process, arm)]
    itself += live.mechanisms(process) if arm.allocator == "hakmem" else []
    found = live.consistent(files, itself, who)
    found += [*surroundings.of_process(process=str(pid)), surroundings.inspection(process=str(pid), refused=refused)]
    found += surroundings.of_machine(env, process=str(pid), mapped=len(process.maps))
    return report(arm.name, found)
