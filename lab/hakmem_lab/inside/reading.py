"""What `hak explain` is asked about: a number is a process; a file is a core, or a reading of before."""

import json
from collections.abc import Mapping
from pathlib import Path

from hakmem_lab.errors import LabError
from hakmem_lab.inside import blocks, explain, layout
from hakmem_lab.inside.core import Core
from hakmem_lab.inside.explain import SCHEMA
from hakmem_lab.inside.memory import Process

FIRST_BYTES = 64


def take(subject: str, stop: bool = False) -> dict:
    if subject.isdecimal():
        return explain.process(int(subject), stop)
    path = _file(subject, stop)
    if _is_json(path):
        return load(path, "PID | CORE")
    with Core(path) as core:
        return explain.core(core)


def block(subject: str, address: str, stop: bool = False) -> dict:
    """Which block is at an address."""
    try:
        place = int(address, 16 if address.lower().startswith("0x") else 10)
    except ValueError:
        raise LabError(f"--block: '{address}' is no address: give one like 0x7f0012345670") from None
    if not 0 <= place < 1 << 64:
        raise LabError(f"--block: {address} is beyond all addresses")
    if subject.isdecimal():
        with Process(int(subject)) as memory:
            return blocks.of_process(memory, layout.find(memory), place, stop)
    with Core(_file(subject, stop)) as core:
        return blocks.of_core(core, layout.find(core), place)


def _file(subject: str, stop: bool) -> Path:
    path = Path(subject)
    if not path.is_file():
        raise LabError(f"there is no process and no file '{subject}': give a number that ps -e lists, or a core file")
    if stop:
        raise LabError(f"--stop: is for a process, and {subject} is a file")
    return path


def _is_json(path: Path) -> bool:
    try:
        with open(path, "rb") as file:
            return file.read(FIRST_BYTES).lstrip().startswith(b"{")
    except OSError as error:
        raise LabError(f"{path} cannot be read: {error.strerror}") from None


def load(path: Path, option: str) -> dict:
    """A reading that --json wrote. Raises LabError where the file is no such one."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise LabError(f"{option}: {path} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise LabError(f"{option}: {path} is no JSON: write one with hak explain --json FILE PID") from None
    if not isinstance(found, Mapping) or found.get("schema") != SCHEMA:
        raise LabError(f"{option}: {path} is no reading of this hak: write one with hak explain --json FILE PID")
    return dict(found)
