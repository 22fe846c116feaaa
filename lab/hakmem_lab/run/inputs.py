"""The files that a run depends on: programs, libraries, and what its commands name, such as scripts and data.

A file that a command names may also be one that its program writes; that cannot be seen beforehand, so it is left out
as soon as the program has been seen to change it.
"""

import itertools
import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from hakmem_lab.plan import project
from hakmem_lab.plan.arms import Arm
from hakmem_lab.plan.peers import file_sha256
from hakmem_lab.plan.project import find_program
from hakmem_lab.run.runner import Workload
from hakmem_lab.system.scripts import interpreters


def _programs(workload: Workload) -> list[Path]:
    """Programs beside the one that is under test: what reads a script, the client of a server, what warms it up."""
    server, readers = workload.server, interpreters(Path(workload.subject()[0]))
    if server is None:
        paths = [Path(words[0]) for words in workload.others]
        return [*readers, *paths, *itertools.chain(*map(interpreters, paths))]
    return [*readers, Path(workload.argv[0]), *([find_program(server.warm_up[0])] if server.warm_up else [])]


def named_files(workload: Workload) -> list[Path]:
    """Regular files that can be read among the arguments of all commands, as the programs see them in their folder,
    and what they read as standard input."""
    server = workload.server
    words = [*workload.argv[1:], *itertools.chain(*(each[1:] for each in workload.others))]
    words += [*(workload.subject()[1:] if server else [])]
    words += server.warm_up[1:] if server and server.warm_up else []
    paths = dict.fromkeys(os.path.join(workload.cwd or "", word) for word in words if word)
    paths |= dict.fromkeys([workload.stdin] if workload.stdin else [])
    return [Path(path) for path in paths if os.path.isfile(path) and os.access(path, os.R_OK)]


def input_hashes(workload: Workload, written: Collection[Path] = ()) -> dict[str, str]:
    """SHA-256 of every file beside the program under test, by its path as records show it; without `written`."""
    programs = [path for path in _programs(workload) if os.access(path, os.R_OK)]
    files = [*programs, *(path for path in named_files(workload) if path not in written)]
    return {project.shown(path): file_sha256(path) for path in files}


def changed_input(stored: Mapping[str, str], workload: Workload) -> str | None:
    """The first of the stored files that is gone or another one; older runs name a file without its folder."""
    now = input_hashes(workload) if stored else {}
    for name, digest in stored.items():
        if digest not in (other for shown, other in now.items() if name in (shown, Path(shown).name)):
            return name
    return None


def files_under_test(workload: Workload, arms: Iterable[Arm]) -> dict[Path, bool]:
    """File -> whether the program itself cannot be what changes it."""
    programs = [Path(workload.subject()[0]), *_programs(workload)]
    libraries = [arm.library.path for arm in arms if arm.library.path]
    return dict.fromkeys(named_files(workload), False) | dict.fromkeys([*programs, *libraries], True)


def stamp(path: Path) -> tuple | None:
    """What changes with a file's content; None where it is gone."""
    try:
        info = path.stat()
    except OSError:
        return None
    return info.st_mtime_ns, info.st_size, info.st_ino


def _hash(path: Path) -> str | None:
    try:
        return file_sha256.__wrapped__(path)
    except OSError:
        return None


class Watch:
    """Whether files are still what they were. files: file -> whether the program cannot be what changes it; one that
    it can change is left out, into `written`, unless it has been the same from one look to the next before."""

    def __init__(self, files: Mapping[Path, bool]):
        self._seen = {path: (stamp(path), _hash(path)) for path in files}
        self._steady = {path for path, fixed in files.items() if fixed}
        self.written: list[Path] = []

    def changed(self) -> Path | None:
        """The first file that has changed."""
        for path, (before, digest) in list(self._seen.items()):
            now = stamp(path)
            if now == before:
                self._steady.add(path)
            elif _hash(path) == digest:
                self._seen[path] = (now, digest)
            elif path in self._steady:
                return path
            else:
                del self._seen[path]
                self.written.append(path)
        return None
