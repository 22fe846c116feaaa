"""Standard input of the programs: a file that every run reads from its beginning.

The standard input of hak itself, from `<` or a pipe, can be read only once, so it is kept in the store and replayed. In
automated builds, hak's standard input is often a pipe that stays open and silent. hak waits a limited time, then gives
the programs no input. If input comes after all, the run stops.
"""

import fcntl
import hashlib
import os
import select
import shutil
import stat
import sys
import tempfile
import termios
from pathlib import Path

from hakmem_lab.errors import LabError, StoreError, refused

FOLDER = "inputs"
NOTICE_S, WAIT_S = 1.0, 10.0
LIMIT_BYTES = 1 << 30
CHUNK_BYTES = 1 << 20
DESCRIPTOR = 0


def check_file(name: str, key: str = "stdin") -> str:
    """The absolute path of the file. Raises LabError where it cannot be read repeatedly."""
    path = Path(name).expanduser().absolute()
    if not path.exists():
        raise LabError(f"{key}: there is no file '{name}'")
    if not path.is_file():
        raise LabError(f"{key}: '{name}' is no regular file, so runs cannot each read it from the start")
    if not os.access(path, os.R_OK):
        raise LabError(f"{key}: '{name}' cannot be read")
    return str(path)


class Silence:
    """Remembers that hak's own standard input counted as empty because it was silent; one a process."""

    kept = False

    def broken(self) -> bool:
        """Whether input came after all; true once only."""
        count = bytearray(4)
        if self.kept:
            fcntl.ioctl(DESCRIPTOR, termios.FIONREAD, count)
            self.kept = not any(count)
        return any(count)


SILENCE = Silence()


def inherited(folder: Path, say) -> str | None:
    """The file with the contents of hak's own standard input; None where there is no input.

    folder: the store. say: function that shows a line to the user. Raises LabError where the input cannot be kept, or
    is too long.
    """
    SILENCE.kept = False
    try:
        info = os.fstat(DESCRIPTOR)
    except OSError:
        return None
    mode = info.st_mode
    if stat.S_ISREG(mode):
        path = _named() or _kept(folder)
    elif stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        if not _ready(f"; the program gets none where nothing comes within {WAIT_S:g} s", WAIT_S - NOTICE_S):
            SILENCE.kept = True
            return None
        path = _kept(folder)
    elif os.isatty(DESCRIPTOR) or info.st_rdev == os.stat(os.devnull).st_rdev:
        return None
    else:
        name = os.readlink(f"/proc/self/fd/{DESCRIPTOR}")
        what = f"standard input is '{name}', no regular file: every run reads it from its beginning"
        raise LabError(f"{what}. Write it to a file: --input FILE; if the program reads nothing: </dev/null")
    if path:
        say(f"standard input: {os.path.getsize(path):,} bytes, given to every run from the beginning")
    return path


def _ready(then: str = "", limit_s: float | None = None) -> bool:
    """Waits until there is input or its end. Reports the wait after a moment, even with --quiet."""
    if select.select([DESCRIPTOR], [], [], NOTICE_S)[0]:
        return True
    print(f"hak: waiting for standard input, which is open but silent{then}", file=sys.stderr, flush=True)
    return bool(select.select([DESCRIPTOR], [], [], limit_s)[0])


def _named() -> str | None:
    """The file that `<` opened, if it still exists and is unread and not empty."""
    try:
        path = os.readlink(f"/proc/self/fd/{DESCRIPTOR}")
        if os.path.samestat(os.stat(path), os.fstat(DESCRIPTOR)) and os.lseek(DESCRIPTOR, 0, os.SEEK_CUR) == 0:
            return path if os.path.getsize(path) else None
    except OSError:
        pass
    return None


def _kept(folder: Path) -> str | None:
    """A copy of the rest of the input, named by the hash of its content; None where nothing is left."""
    place = folder / FOLDER
    with refused(f"standard input cannot be kept in {place}", kind=StoreError), tempfile.TemporaryFile() as copy:
        digest, size = hashlib.sha256(), 0
        while _ready() and (part := os.read(DESCRIPTOR, CHUNK_BYTES)):
            size += len(part)
            if size > LIMIT_BYTES:
                longer = f"standard input is longer than {LIMIT_BYTES >> 30} GiB"
                raise LabError(f"{longer}: write it to a file and name that: --input FILE")
            digest.update(part)
            copy.write(part)
        if not size:
            return None
        path = place / digest.hexdigest()[:16]
        if not path.exists():
            place.mkdir(parents=True, exist_ok=True)
            copy.seek(0)
            with open(path, "xb") as kept:
                shutil.copyfileobj(copy, kept)
        return str(path.absolute())
