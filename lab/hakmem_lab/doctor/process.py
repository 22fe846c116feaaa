"""A process that runs: what is mapped, what it was started with, and to what its calls of malloc are bound.

Nothing is stopped, and nothing of the process is changed.
"""

from hakmem_lab.doctor import limits, live, program, system
from hakmem_lab.doctor.checks import Report, report
from hakmem_lab.doctor.command import library_of
from hakmem_lab.doctor.program import Program
from hakmem_lab.plan.arms import Arm


def examine(pid: int, arm: Arm) -> Report:
    """Raises LabError where there is no such process, or it is not for us."""
    process = live.Process.of(pid)
    library = library_of(arm)
    env = process.environment or {}
    wanted = live.mapped(process, arm)
    who, refused = live.who(process, arm, wanted)
    files = program.checks(Program.of(process.executable, env, process.files()), library)
    itself = [live.secure(process), live.preload(process, arm, who, bool(wanted)), who, live.options(process, arm)]
    found = live.consistent(files, itself, who)
    found += [*limits.checks(process=str(pid)), limits.inspection(process=str(pid), refused=refused)]
    found += system.checks(env, process=str(pid), mapped=len(process.maps))
    return report(arm.name, found)
