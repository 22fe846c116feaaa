"""The libraries that a program needs, found as the dynamic linker finds them, without starting it."""

import functools
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from hakmem_lab.doctor import binary
from hakmem_lab.doctor.binary import Binary

DEFAULT_FOLDERS = ("/lib", "/usr/lib", "/lib64", "/usr/lib64")
LDCONFIG = "/sbin/ldconfig"
_CACHED = re.compile(r"^\s+(\S+) \(.*\) => (/.+)$", re.M)
MOST = 2000


@functools.cache
def _cache() -> dict[str, list[str]]:
    """Name -> files, as the linker's cache lists them; empty on systems that have none."""
    try:
        done = subprocess.run([LDCONFIG, "-p"], capture_output=True, text=True, errors="replace", check=False)
    except OSError:
        return {}
    found: dict[str, list[str]] = {}
    for name, path in _CACHED.findall(done.stdout):
        found.setdefault(name, []).append(path)
    return found


def _named(user: Binary) -> tuple[str, ...]:
    """The folders that a file names for its libraries."""
    origin = str(user.path.resolve().parent)
    return tuple(folder.replace("${ORIGIN}", origin).replace("$ORIGIN", origin) for folder in user.search)


def _candidates(name: str, user: Binary, program: Binary, env: Mapping[str, str]) -> Iterator[Path]:
    """Where a library may be that `user` needs, in the linker's order."""
    if "/" in name:
        yield Path(name)
        return
    given = [folder for folder in env.get("LD_LIBRARY_PATH", "").split(":") if folder]
    for folder in (*_named(user), *_named(program), *given):
        yield Path(folder) / name
    yield from map(Path, _cache().get(name, []))
    for folder in DEFAULT_FOLDERS:
        yield Path(folder) / name


def closure(program: Binary, env: Mapping[str, str]) -> tuple[list[Binary], list[str]]:
    """(libraries, names of those that are not there): what the program needs, and what that needs in turn.

    A file of another architecture is passed over, as the dynamic linker does.
    """
    found: dict[str, Binary] = {}
    missing: list[str] = []
    left = [(name, program) for name in program.needed]
    while left and len(found) < MOST:
        name, user = left.pop(0)
        if name in found or name in missing:
            continue
        library = next(filter(None, (_read(path, program) for path in _candidates(name, user, program, env))), None)
        if library is None:
            missing.append(name)
        else:
            found[name] = library
            left += [(each, library) for each in library.needed]
    return list(found.values()), missing


def _read(path: Path, program: Binary) -> Binary | None:
    library = binary.readable(path) if os.path.isfile(path) else None
    return library if library and library.architecture == program.architecture else None
