"""Files that are written for a user: whole, or as they were before."""

import contextlib
import os
import stat
import tempfile
from pathlib import Path


def write(path: Path, data: bytes | str) -> None:
    """Beside it first, then in its place, so that nobody finds half of it. Text as UTF-8, what that cannot hold
    escaped. Raises OSError; nothing is left behind then. A device or a pipe, and a file in a folder where none may be
    made, is written to itself."""
    if isinstance(data, str):
        data = data.encode("utf-8", "backslashreplace")
    target = Path(os.path.realpath(path))
    mode = _mode(target)
    if mode is not None and not stat.S_ISREG(mode):
        path.write_bytes(data)
        return
    try:
        number, name = tempfile.mkstemp(prefix=f".{target.name[:64]}.", dir=target.parent)
    except PermissionError:
        path.write_bytes(data)
        return
    try:
        with open(number, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), stat.S_IMODE(mode) if mode is not None else 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def _mode(path: Path) -> int | None:
    """None: there is no such file yet."""
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _umask() -> int:
    found = os.umask(0o077)
    os.umask(found)
    return found
