"""Writes files for a user, completely or not at all, and reads the kernel's small text files."""

import contextlib
import os
import stat
import tempfile
from pathlib import Path

KERNEL_THREAD = 0x00200000  # of linux/sched.h: PF_KTHREAD, among the flags in /proc/PID/stat
FLAGS = 6  # index of the flags among the fields after the name


def write(path: Path, data: bytes | str) -> None:
    """Writes a temporary file beside the path, then renames it, so that nobody finds half of it. Text becomes UTF-8,
    with lone surrogates escaped. Raises OSError and then leaves nothing behind. A device, a pipe, or a file in a folder
    that takes no new file is written directly."""
    if isinstance(data, str):
        data = data.encode("utf-8", "backslashreplace")
    target = Path(os.path.realpath(path))
    mode = target.stat().st_mode if target.exists() else None
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


def unwritable(path: Path) -> str | None:
    """Why the path cannot be written, else None. Call it before work whose result is to be written, which may take
    hours."""
    if path.is_dir():
        return "it is a folder"
    if not path.parent.is_dir():
        return f"there is no folder {path.parent}"
    return None if os.access(path if path.exists() else path.parent, os.W_OK) else "no permission"


def _umask() -> int:
    found = os.umask(0o077)
    os.umask(found)
    return found


def text(path: Path | str) -> str | None:
    """Stripped text of a small file; None where it does not exist or may not be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return None


def number(path: Path) -> int | None:
    found = text(path)
    return int(found) if found is not None and found.lstrip("-").isdecimal() else None


def rows(path: Path | str) -> dict[str, str]:
    """Values by name of a file with lines `name: value` or `name value`; empty where it cannot be read."""
    pairs = (line.replace(":", " ", 1).partition(" ") for line in (text(path) or "").splitlines())
    return {name: value.strip() for name, _, value in pairs}


def no_process(pid: int, root: Path = Path("/")) -> str:
    """The reason why a process cannot be read."""
    folder = root / "proc" / str(pid)
    found = rows(folder / "status")
    if found.get("State", "?")[0] in "ZX":
        return f"process {pid} has ended, and waits for its parent, process {found['PPid']}, to take note of it"
    stat = (text(folder / "stat") or "").rpartition(")")[2].split()
    if len(stat) > FLAGS and int(stat[FLAGS]) & KERNEL_THREAD:
        return f"process {pid} is a thread of the kernel, which has no memory of its own: ps -e lists programs, too"
    return f"process {pid} is not there, or no longer: ps -e lists those that run"


def words(path: Path | str) -> list[str]:
    """Words that end in NUL characters, as in /proc/PID/cmdline; empty where the file cannot be read."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return []
    return [os.fsdecode(word) for word in data.removesuffix(b"\0").split(b"\0")] if data else []
