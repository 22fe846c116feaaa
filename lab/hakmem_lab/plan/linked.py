"""Static programs on musl as sides: a line for the shell links the same program with each allocator's archive.

The side `musl` gets no archive, so it has musl's own malloc. Which malloc a program has is read from its symbols.
"""

import hashlib
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from hakmem_lab.errors import LabError, nearest, refused
from hakmem_lab.plan import project
from hakmem_lab.system.compiled import cache_folder
from hakmem_lab.system.files import write
from hakmem_lab.system.scripts import EVERY, Damaged, Elf

MUSL, ARCHIVE, LINKER, PROGRAM = "musl", "{archive}", "{linker}", "{program}"
# Side -> its archive in the checkout, and what builds it.
ARCHIVES = {
    "hakmem": ("build/musl/libhakmem.a", "make musl"),
    "mimalloc": ("build/peers/musl/libmimalloc.a", "bench/peers/build --musl"),
}
# Side -> a symbol that only the object with its malloc defines. That of musl is weak: its own functions may need the
# object beside another malloc, which then serves all others.
SYMBOLS = {MUSL: "default_malloc", "hakmem": "hak_override_present", "mimalloc": "mi_malloc"}
# A linker for compilers that put what the user adds behind the C library: there malloc would be found already. GCC's
# own functions, which hakmem calls, follow the archive. Behind the compiler's last file, which ends the unwind tables,
# their tables would have no end, and a backtrace would read on.
SCRIPT = '#!/bin/sh\nexec "${{CC:-cc}}" {first} "$@"\n'


def archive_of(side: str) -> Path | None:
    """The archive of a side; None for musl. Raises LabError where it is not built."""
    if side == MUSL:
        return None
    if side not in ARCHIVES:
        raise LabError(f"--link: there is no side '{side}': {nearest(side, SYMBOLS)}")
    name, build = ARCHIVES[side]
    found = next((top / name for top in project.roots() if (top / name).is_file()), None)
    if found is None:
        raise LabError(f"--link: the archive of {side} for musl is not built: {build}")
    return found


def those_there() -> list[str]:
    """The sides whose archives are built. Says how to get the others."""
    sides = [MUSL]
    for side in ARCHIVES:
        try:
            archive_of(side)
            sides.append(side)
        except LabError as error:
            print(f"hak: not compared: {error}", file=sys.stderr)
    return sides


def commands(line: str, sides: Sequence[str], words: Sequence[str]) -> list[list[str]]:
    """The command of each side, with the program that the line has linked. Raises LabError."""
    if PROGRAM not in line or not (ARCHIVE in line or LINKER in line):
        raise LabError(f"--link: the line must name {PROGRAM}, and {ARCHIVE} or {LINKER}")
    if not any(PROGRAM in word for word in words):
        raise LabError(f"--link: the command must run {PROGRAM}: hak compare --link LINE -- {PROGRAM} ARGUMENT ...")
    if len(sides) < 2 or len(set(sides)) < len(sides):
        raise LabError(f"--link: name two or more different sides of {', '.join(SYMBOLS)}")
    archives = {side: archive_of(side) for side in sides}
    programs = {side: str(_linked(line, side, archive)) for side, archive in archives.items()}
    return [[word.replace(PROGRAM, programs[side]) for word in words] for side in sides]


def _linked(line: str, side: str, archive: Path | None) -> Path:
    """The side's program, in the user's cache. One that has not changed stays the same file."""
    name = hashlib.sha256(f"{Path.cwd()} {line}".encode()).hexdigest()[:12]
    folder = cache_folder() / "linked" / name / side
    program, new, linker = folder / "program", folder / "new", folder / "cc"
    first = f"-Wl,-u,malloc {shlex.quote(str(archive))} -lgcc" if archive else ""
    with refused(f"--link: cannot write to {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        write(linker, SCRIPT.format(first=first).encode())
        linker.chmod(0o755)
        new.unlink(missing_ok=True)
    for place, path in ((ARCHIVE, archive), (LINKER, linker), (PROGRAM, new)):
        line = line.replace(place, shlex.quote(str(path)) if path else "")
    project.output(["sh", "-c", line], Path.cwd(), f"--link: {side}")
    if not new.is_file():
        raise LabError(f"--link: {side}: the line has made no {PROGRAM}")
    if problem := _problem(new, side):
        raise LabError(f"--link: {side}: {problem}")
    if not program.is_file() or program.read_bytes() != new.read_bytes():
        os.replace(new, program)
    return program


def _problem(program: Path, side: str) -> str | None:
    """Why the program is not the side's; None if its symbols prove that it is."""
    try:
        with Elf(program) as elf:
            if linker := elf.interpreter():
                return f"the program is not static, but for {linker}; without --link, its malloc is preloaded"
            found = elf.functions(SYMBOLS.values(), EVERY).kept
    except (Damaged, ValueError):
        return "what the line has made is no program"
    having = [name for name in ARCHIVES if SYMBOLS[name] in found] or [MUSL] * (SYMBOLS[MUSL] in found)
    if having == [side]:
        return None
    if not having:
        return "its symbols do not tell which malloc it has: keep them (no -s; for cargo, strip = false), and use musl"
    return f"its malloc is that of {' and '.join(having)}; {ARCHIVE} comes before the C library, or {LINKER} links"
