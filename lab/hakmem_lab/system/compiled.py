"""The laboratory's programs and libraries in C. A wheel contains them; elsewhere they are compiled at their first use,
into the user's cache."""

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from hakmem_lab.errors import LabError, refused

BROUGHT = Path(__file__).parents[1] / "built"  # filled by scripts/wheel; `compiled` makes the names
FLAGS = ("-std=c17", "-D_GNU_SOURCE", "-O2")
NEEDS = {"stdio.h": "libc6-dev"}  # header that all sources need -> its Debian package


class Unkept(LabError):
    """A program of hak's own cannot be stored anywhere, so that nothing can be found out by it."""


def cache_folder() -> Path:
    """The user's cache folder."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if not os.path.isabs(cache):
        raise LabError("hak has no folder for the programs that it compiles: set XDG_CACHE_HOME to one")
    return Path(cache) / "hakmem-lab"


def _writable(folder: Path) -> Path:
    """The folder, made if need be; where nothing can be written to it, one in TMPDIR that is this user's alone."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK | os.X_OK):
            return folder
    other = Path(tempfile.gettempdir()) / f"hakmem-lab-{os.getuid()}"
    other.mkdir(mode=0o700, exist_ok=True)
    found = other.lstat()
    if found.st_uid != os.getuid() or stat.S_IMODE(found.st_mode) & 0o022 or not stat.S_ISDIR(found.st_mode):
        raise OSError(errno.EACCES, f"{folder} cannot be written, and {other} is not this user's alone")
    return other


def compiled(
    name: str,
    sources: Sequence[Path],
    *attempts: Sequence[str],
    purpose: str,
    needs: Mapping[str, str] = {},
    include: Path | None = None,
) -> Path:
    """The file built from these sources; its name holds a hash of them. Headers only count for the hash.

    attempts: further flags, tried in order until the system can link; none: no further flags. purpose: name of the
    file's purpose, for messages. needs: header of a library -> its package. include: include folder of the sources; its
    path does not change the hash.
    """
    attempts = attempts or ((),)
    # The hash includes the machine type, since several machines may share the cache.
    digest = hashlib.sha256(repr((attempts, os.uname().machine)).encode())
    for path in sorted(sources):
        digest.update(path.read_bytes())
    file = f"{name}-{digest.hexdigest()[:16]}"
    if (BROUGHT / file).exists():
        return BROUGHT / file
    path = cache_folder() / file
    if not path.exists():
        with refused(
            f"hak cannot keep its {purpose} in {path.parent}", "; set XDG_CACHE_HOME to another folder", Unkept
        ):
            path = _writable(path.parent) / file
    if not path.exists():
        folder = ("-I", str(include)) if include else ()
        _compile(path, name, sources, [(*folder, *flags) for flags in attempts], purpose, NEEDS | dict(needs))
    return path


def _compiler(purpose: str, needs: Mapping[str, str]) -> str:
    """A C compiler that finds all these headers. Raises LabError, which names the missing packages."""
    compiler = next((found for each in ("cc", "gcc", "clang") if (found := shutil.which(each))), None)
    if compiler is None:
        packages = " ".join(dict.fromkeys(["gcc", *needs.values()]))
        raise LabError(f"hak needs a C compiler once, for its {purpose}: apt install {packages}")
    missing = [package for header, package in needs.items() if not _finds(compiler, header)]
    if missing:
        what = f"hak needs {' and '.join(missing)} once, to compile its {purpose}"
        raise LabError(f"{what}: apt install {' '.join(missing)}")
    return compiler


def _finds(compiler: str, header: str) -> bool:
    words = [compiler, "-fsyntax-only", "-include", header, "-x", "c", "/dev/null"]
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def _compile(
    path: Path, name: str, sources: Sequence[Path], attempts: Sequence[Sequence[str]], purpose: str,
    needs: Mapping[str, str],
) -> None:  # fmt: skip
    compiler = _compiler(purpose, needs)
    units = [str(source) for source in sorted(sources) if source.suffix == ".c"]
    with refused(f"hak cannot keep its {purpose} in {path.parent}", "; set XDG_CACHE_HOME to another folder", Unkept):
        opened = tempfile.TemporaryDirectory(dir=path.parent)
    with opened as folder:
        built = Path(folder) / name
        for flags in attempts:
            command = [compiler, *FLAGS, "-o", str(built), *units, *flags]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                built.rename(path)
                return
    raise LabError(f"hak cannot compile its {purpose} with {compiler}: {done.stderr.strip()[-400:]}")
