"""Arms: an allocator with its settings, written ALLOCATOR[,NAME=VALUE...].

A value may hold commas: a part after a comma that does not begin with NAME= belongs to the value before it.
ALLOCATOR is a name that `peers.names` lists, `hakmem@REVISION` (an earlier revision of this checkout), `baseline:FILE`
(what `hak runs keep` kept), or the path of a library. NAME is a variable of the environment; one that is a
research gate of REVISION selects how it is built.

A baseline is a library with its settings in one file, to be run again in the same blocks as later versions. A figure of
another day cannot be compared: machine, kernel, load and temperature have changed since. So a baseline keeps no figure,
but the library itself: a compressed archive of `baseline.json`, the library and, if given, the spec.
"""

import contextlib
import hashlib
import io
import json
import os
import re
import shlex
import subprocess
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hakmem_lab.errors import LabError, decoded, nearest, refused
from hakmem_lab.plan import peers, project
from hakmem_lab.store.runs import now_utc
from hakmem_lab.system import files
from hakmem_lab.system.compiled import cache_folder

OPTION_PREFIX = "HAKMEM_"
# The caller's variables that choose or set an allocator; a measured program gets only those of its arm.
DROPPED = re.compile(
    r"LD_(PRELOAD|AUDIT|BIND_NOW|DEBUG.*)|GLIBC_TUNABLES|HAK_.*|HAKMEM_.*|MALLOC_.*|(_RJEM_|JE_)?MALLOC_CONF|JE_.*|_RJEM_.*"
    r"|MIMALLOC_.*|TCMALLOC_.*|SCUDO_.*|SNMALLOC_.*|RPMALLOC_.*|HEAPPROFILE|HEAPCHECK|HEAP_PROFILE_.*|HEAP_CHECK_.*"
)
PAD_NAME = "HAK_PAD"
_SETTING = re.compile(r"\s*([A-Za-z_][A-Za-z0-9_]*)=(.*)", re.DOTALL)


@dataclass(frozen=True)
class Arm:
    """One side of a comparison. `name` is short and unique in a run, `text` is what the user wrote."""

    name: str
    text: str
    allocator: str
    library: peers.Library
    variables: dict[str, str] = field(default_factory=dict)
    gates: dict[str, str] = field(default_factory=dict)
    command: tuple[str, ...] = ()  # the arm's own command, where the arms are commands

    def environment(self, extra: Mapping[str, str], pad_bytes: int = 0) -> dict[str, str]:
        """A complete environment: the caller's without the variables of allocators, then `extra`, then the arm's
        own."""
        env = callers_environment() | {**extra, **self.library.environment, **self.variables}
        if preload := self.preload(extra.get("LD_PRELOAD")):
            env["LD_PRELOAD"] = preload
        if pad_bytes:
            env[PAD_NAME] = "x" * pad_bytes
        return env

    def beside(self) -> dict[str, str]:
        """The caller's whole environment with the arm's variables added: for a program that is not measured."""
        env = {**os.environ, **self.library.environment, **self.variables}
        if preload := self.preload(os.environ.get("LD_PRELOAD")):
            env["LD_PRELOAD"] = preload
        return env

    def preload(self, others: str | None) -> str | None:
        """LD_PRELOAD: the allocator first, then the libraries for all arms (`others`), then those that the arm
        names."""
        words = (self.library.path, others, self.variables.get("LD_PRELOAD"))
        return ":".join(str(word) for word in words if word) or None

    def left_out(self, extra: Mapping[str, str]) -> str:
        """A warning that names the caller's variables that a default arm lacks; else empty."""
        given = {**extra, **self.variables}
        lacks = [name for name in os.environ if DROPPED.fullmatch(name) and name not in given]
        words = [f"{name}={os.environ[name]}" for name in lacks if not name.startswith("HAK_")]
        if self.allocator != "default" or not words:
            return ""
        way = (
            " ".join(f"--env {shlex.quote(word)}" for word in words) if self.command else ",".join(["default", *words])
        )
        return f"of the environment {', '.join(words)} was left out, as for every side; to measure with it: {way}"

    def record(self) -> dict:
        return {
            "name": self.name,
            "text": self.text,
            "allocator": self.allocator,
            "library": project.shown(self.library.path) if self.library.path else None,
            "sha256": self.library.sha256,
            "version": self.library.version,
            "configuration": self.library.configuration,
            "variables": {**self.library.environment, **self.variables},
            "gates": self.gates,
        } | ({"command": list(self.command)} if self.command else {})


def callers_environment() -> dict[str, str]:
    """The caller's variables that a measured program or its client gets. LC_ALL=C, so that all print figures alike."""
    return {name: value for name, value in os.environ.items() if not DROPPED.fullmatch(name)} | {"LC_ALL": "C"}


def options_of(library: Path) -> set[str]:
    """Names of the options that a hakmem library knows, as it lists them itself."""
    env = {"LD_PRELOAD": str(library), "HAKMEM_HELP": "1"}
    done = subprocess.run(["/bin/true"], env=env, capture_output=True, text=True, check=False)
    return set(re.findall(r"^(HAKMEM_[A-Z0-9_]+)\s", done.stderr, re.M))


def _split(text: str, where: str) -> tuple[str, dict[str, str]]:
    """(the allocator, its variables). Raises LabError."""
    allocator, *parts = text.split(",")
    settings: list[str] = []
    for part in parts:
        if _SETTING.match(part):
            settings.append(part)
        elif settings:
            settings[-1] += f",{part}"
        else:
            raise LabError(f"{where}: '{part.strip()}' in '{text}' is not NAME=VALUE")
    if not allocator.strip():
        raise LabError(f"{where}: '{text}' names no allocator; a side is written ALLOCATOR[,NAME=VALUE...]")
    variables: dict[str, str] = {}
    for setting in settings:
        _add_setting(variables, setting.strip(), f"{where}: '{text}'")
    return allocator.strip(), variables


def _add_setting(variables: dict[str, str], setting: str, where: str) -> None:
    """Adds a setting NAME=VALUE. Raises LabError where it has another form, or the variable has a value already."""
    found = _SETTING.fullmatch(setting)
    if found is None:
        raise LabError(f"{where}: '{setting}' is not NAME=VALUE")
    name, value = found.groups()
    if "\0" in value:
        raise LabError(f"{where}: the value of '{name}' holds a NUL character")
    if name in variables:
        raise LabError(f"{where}: '{name}' is set twice")
    variables[name] = value


def _library_file(name: str, where: str) -> Path:
    with contextlib.suppress(OSError, RuntimeError, ValueError):  # too long, a loop of links, an unknown home, a NUL
        path = Path(name).expanduser().resolve()
        if path.is_file():
            return path
    raise LabError(f"{where}: there is no library {name}" + (": make programs" if project.is_own(name) else ""))


def _hakmem(allocator: str, variables: dict[str, str], where: str) -> tuple[peers.Library, dict[str, str]]:
    """Library and gates of `hakmem` or `hakmem@REVISION`. A revision that has gates is built with those that are
    set."""
    _, at, revision = allocator.partition("@")
    known = project.gates(project.sources_of(revision)) if at else set()
    gates = {name: value for name, value in variables.items() if name in known}
    path: Path | None
    if gates:
        path = project.build_with_gates(project.sources_of(revision), gates)
    elif at:
        path = project.build_revision(revision)
    else:
        path = peers.hakmem_library().path
    assert path is not None  # only `default` has none
    options = options_of(path)
    for name in variables:
        if name.startswith(OPTION_PREFIX) and name not in options | known:
            what = f"{allocator} has no option{' or gate' if known else ''}"
            raise LabError(f"{where}: {what} '{name}': {nearest(name, options | known)}")
    configuration = " ".join(f"{name}={value}" for name, value in sorted(gates.items())) or None
    return peers.Library(path, revision or peers.hakmem_library().version, configuration), gates


def need_all(texts: Iterable[str], where: str) -> None:
    """Raises LabError where several allocators of these arms are missing. The message has the command that installs all
    of them."""
    missing = peers.lacking(dict.fromkeys(text.partition(",")[0].strip() for text in texts))
    if len(missing) > 1:
        raise LabError(f"{where}: {', '.join(missing)} are not installed: {peers.remedy(missing)}")


def parse_arm(text: str, name: str | None = None, where: str = "arm", settings: Sequence[str] = ()) -> Arm:
    """An arm from its text. `where` names the flag or the key in messages. Builds an earlier revision of hakmem.

    settings: further settings from the flag --set, each NAME=VALUE; a comma does not split them. Raises LabError.
    """
    allocator, variables = _split(text, where)
    for setting in settings:
        _add_setting(variables, setting, "--set")
    gates: dict[str, str] = {}
    if allocator.startswith(BASELINE):
        kept = load_baseline(Path(allocator.removeprefix(BASELINE)), where)
        library, variables = kept.library, kept.variables | variables  # the arm's own settings override the baseline's
    elif "/" in allocator:
        file = _library_file(allocator, where)
        library = peers.Library(file, peers.version_of(file))
    elif allocator == "hakmem" or allocator.startswith("hakmem@"):
        library, gates = _hakmem(allocator, variables, where)
    elif allocator in peers.names():
        library = peers.library(allocator)
    else:
        raise LabError(f"{where}: there is no allocator '{allocator}': {nearest(allocator, peers.names())}")
    own = {key: value for key, value in variables.items() if key not in gates}
    return Arm(name or text, text, allocator, library, own, gates)


BASELINE = "baseline:"
FORMAT = 1
FACTS, LIBRARY, SPEC = "baseline.json", "library.so", "spec.toml"
MOST_BYTES = 1 << 28


@dataclass(frozen=True)
class Baseline:
    """The contents of a baseline file; its library is unpacked into the user's cache."""

    library: peers.Library
    variables: dict[str, str]
    spec: str | None


def save_baseline(file: Path, arm: Arm, spec: str | None = None) -> dict:
    """Writes the arm's library and settings. spec: text of the spec for later comparisons. Returns the facts.

    Raises LabError where the arm has no library of its own to keep, or the file cannot be written.
    """
    if arm.library.path is None or arm.allocator == "glibc":
        raise LabError(
            f"baseline: '{arm.allocator}' is part of the system and cannot be kept; name a library or hakmem"
        )
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
    with refused(f"baseline: cannot write {file}"):
        file.parent.mkdir(parents=True, exist_ok=True)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for name, data in members.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(data), 0o644
                archive.addfile(entry, io.BytesIO(data))
        files.write(file, packed.getvalue())
    return facts


def load_baseline(file: Path, where: str = "baseline") -> Baseline:
    """Reads a baseline file and unpacks its library into the user's cache. Raises LabError where the file is no
    baseline."""
    members = _members(file, where)
    try:
        facts = decoded(json.loads, members[FACTS].decode())
        known = facts["format"] == FORMAT and facts["sha256"] == hashlib.sha256(members[LIBRARY]).hexdigest()
    except (KeyError, TypeError, ValueError):
        known = False
    if not known:
        what = f"{where}: {file} is no baseline of this laboratory, or damaged"
        raise LabError(f"{what}: make one with hak runs keep")
    path = _unpacked(members[LIBRARY], facts["sha256"])
    spec = members[SPEC].decode() if SPEC in members else None
    library = peers.Library(path, facts["version"], facts["configuration"], facts["environment"])
    return Baseline(library, facts["variables"], spec)


def _members(file: Path, where: str) -> dict[str, bytes]:
    """The contents of the archive's files, by name. No file is written under a name from the archive."""
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
    """Writes the library to a path with its digest, so that different libraries never share a path."""
    cache = cache_folder() / "baselines"
    path = cache / f"{digest[:32]}.so"
    if path.is_file() and hashlib.sha256(path.read_bytes()).hexdigest() == digest:
        return path
    with refused(f"baseline: cannot unpack into {cache}"):
        cache.mkdir(parents=True, exist_ok=True)
        files.write(path, library)
    return path


def parse_arms(named: dict[str, str], where: dict[str, str] | None = None) -> list[Arm]:
    """Arms from name -> text. Raises LabError."""
    need_all(named.values(), next(iter((where or {}).values()), "arms"))
    return [parse_arm(text, name, (where or {}).get(name, name)) for name, text in named.items()]


def command_arms(named: Mapping[str, Sequence[str]]) -> list[Arm]:
    """Arms that are commands, from name -> command. Each runs with its own allocator."""
    return [replace(parse_arm("default", name), text=name, command=tuple(words)) for name, words in named.items()]
