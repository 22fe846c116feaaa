"""Baselines: a library with its settings in one file, to be run again, in the same blocks, beside what came after it.

A figure of another day is no yardstick: another machine, kernel, load and temperature are in it. So what is kept is not
a figure but the thing itself. The file is a compressed archive of `baseline.json`, the library, and, where one was
given, the spec. As an arm it is written `baseline:FILE`.
"""

import hashlib
import io
import json
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hakmem_lab.errors import LabError
from hakmem_lab.plan import project
from hakmem_lab.store.runs import now_utc
from hakmem_lab.system import files
from hakmem_lab.system.compiled import cache_folder

if TYPE_CHECKING:
    from hakmem_lab.plan.arms import Arm

PREFIX = "baseline:"
FORMAT = 1
FACTS, LIBRARY, SPEC = "baseline.json", "library.so", "spec.toml"
MOST_BYTES = 1 << 28


@dataclass(frozen=True)
class Baseline:
    """What a file holds. path: the library, unpacked into the user's cache."""

    path: Path
    text: str
    version: str | None
    configuration: str | None
    environment: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    spec: str | None = None


def save(file: Path, arm: "Arm", spec: str | None = None) -> dict:
    """Writes the arm's library and settings; spec: the text of a spec to compare by. Returns the facts.

    Raises LabError where the arm has no library that could run elsewhere, or the file cannot be written.
    """
    if arm.library.path is None or arm.allocator == "glibc":
        raise LabError(f"baseline: '{arm.allocator}' is the system's own and cannot be kept; name a library or hakmem")
    library = arm.library.path.read_bytes()
    facts = {
        "format": FORMAT,
        "created": now_utc(),
        "text": arm.text,
        "sha256": hashlib.sha256(library).hexdigest(),
        "version": arm.library.version,
        "configuration": arm.library.configuration,
        "environment": arm.library.environment,
        "variables": arm.variables,
        "git": project.git_state(project.root()),
    }
    members = {FACTS: (json.dumps(facts, indent=1) + "\n").encode(), LIBRARY: library}
    if spec is not None:
        members[SPEC] = spec.encode()
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for name, data in members.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(data), 0o644
                archive.addfile(entry, io.BytesIO(data))
        files.write(file, packed.getvalue())
    except OSError as error:
        raise LabError(f"baseline: cannot write {file}: {error.strerror}") from None
    return facts


def load(file: Path, where: str = "baseline") -> Baseline:
    """The baseline of a file, its library in the user's cache. Raises LabError where it is none."""
    members = _members(file, where)
    try:
        facts = json.loads(members[FACTS])
        known = facts["format"] == FORMAT and facts["sha256"] == hashlib.sha256(members[LIBRARY]).hexdigest()
    except (KeyError, TypeError, ValueError):
        known = False
    if not known:
        raise LabError(
            f"{where}: {file} is no baseline of this laboratory, or damaged: make one with hak baseline save"
        )
    path = _unpacked(members[LIBRARY], facts["sha256"])
    spec = members[SPEC].decode() if SPEC in members else None
    return Baseline(path, facts["text"], facts["version"], facts["configuration"], facts["environment"],
                    facts["variables"], spec)  # fmt: skip


def _members(file: Path, where: str) -> dict[str, bytes]:
    """The contents of the archive's files, by name; nothing is written by the names in it."""
    found: dict[str, bytes] = {}
    try:
        with tarfile.open(file, "r:gz") as archive:
            for entry in archive:
                if entry.isfile() and entry.name in (FACTS, LIBRARY, SPEC) and entry.size <= MOST_BYTES:
                    opened = archive.extractfile(entry)
                    found[entry.name] = opened.read() if opened else b""
    except FileNotFoundError:
        raise LabError(f"{where}: there is no baseline {file}") from None
    except (OSError, EOFError, tarfile.TarError) as error:
        raise LabError(f"{where}: {file} is no baseline: {error}") from None
    return found


def _unpacked(library: bytes, digest: str) -> Path:
    """The library under a name that says what is in it: two baselines never share a path."""
    cache = cache_folder() / "baselines"
    path = cache / f"{digest[:32]}.so"
    if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest:
        return path
    try:
        cache.mkdir(parents=True, exist_ok=True)
        files.write(path, library)
    except OSError as error:
        raise LabError(f"baseline: cannot unpack into {cache}: {error.strerror}") from None
    return path
