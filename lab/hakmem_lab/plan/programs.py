"""Where the program of a command is."""

import os
import shutil
from pathlib import Path

from hakmem_lab.errors import LabError, closest


def find_program(name: str, key: str = "command") -> Path:
    """Where a command's program is, as the shell would find it. `key` names the command in the message of LabError."""
    found = shutil.which(name)
    if found is not None:
        return Path(found).absolute()
    if "/" in name and os.path.exists(name):
        what = "a folder" if os.path.isdir(name) else "not executable"
        raise LabError(f"{key}: '{name}' is {what}, so it is no program")
    near = _nearest_program(name)
    raise LabError(f"{key}: there is no program '{name}'" + (f": did you mean '{near}'?" if near else ""))


def _nearest_program(name: str) -> str | None:
    """The executable with the most similar name in the same folder, or, for a name alone, in the PATH."""
    folder, base = os.path.split(name)
    known: set[str] = set()
    for place in [folder] if folder else os.get_exec_path():
        try:
            with os.scandir(place or ".") as entries:
                known |= {entry.name for entry in entries if entry.is_file() and os.access(entry.path, os.X_OK)}
        except OSError:
            continue
    near = closest(base, known)
    return os.path.join(folder, near) if near else None
