"""`{folder}` in the commands of one execution: an empty folder of its own, removed afterwards."""

import contextlib
import fcntl
import glob
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import cache
from typing import Self

FOLDER = "{folder}"
PREFIX = "hak-folder-"
LEAST_AGE_S = 3600.0  # a young one may not be locked yet, or belong to a version that locks none


class Folder:
    """The folder that {folder} stands for in the commands of one execution. It exists from the first command that names
    it to `clear`, or to the end of the context; afterwards a new one is made. Its lock shows that its owner lives."""

    def __init__(self) -> None:
        self._path: str | None = None
        self._lock = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def fill(self, words: Sequence[str]) -> list[str]:
        """The words with the value of {folder}. Raises OSError where no folder can be made."""
        if self._path is None and any(FOLDER in word for word in words):
            _remove_abandoned()
            path = tempfile.mkdtemp(prefix=PREFIX)
            self._lock = _locked(path)
            self._path = path
        return [word.replace(FOLDER, self._path or FOLDER) for word in words]

    def clear(self) -> None:
        """Removes the folder with everything in it. Its programs must have ended."""
        if self._path is not None:
            _remove(self._path)
            os.close(self._lock)
            self._path = None


def _locked(path: str) -> int:
    """Raises OSError where another process holds the lock."""
    file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise
    return file


@cache  # once in a process
def _remove_abandoned() -> None:
    """Removes this user's folders that a killed laboratory has left."""
    for path in glob.glob(os.path.join(glob.escape(tempfile.gettempdir()), PREFIX + "*")):
        with contextlib.suppress(OSError):
            found = os.lstat(path)
            if found.st_uid == os.geteuid() and time.time() - found.st_ctime > LEAST_AGE_S:
                file = _locked(path)
                _remove(path)
                os.close(file)


def _remove(path: str) -> None:
    """Removes a folder, also where its programs have taken the right to write away. Warns of one that stays."""
    shutil.rmtree(path, ignore_errors=True)
    if not os.path.lexists(path):
        return
    for place, folders, _ in os.walk(path):
        for each in (os.path.join(place, name) for name in [".", *folders]):
            if not os.path.islink(each):
                with contextlib.suppress(OSError):
                    os.chmod(each, 0o700)
    shutil.rmtree(path, ignore_errors=True)
    if os.path.lexists(path):
        _warn(os.path.join(os.path.dirname(path), PREFIX + "*"))


@cache  # once in a process
def _warn(parent: str) -> None:
    print(f"hak: what a run left in {parent} cannot be removed: another user's files?", file=sys.stderr)
