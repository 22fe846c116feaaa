"""Finds the libraries of the allocators: Debian's, those that `make peers` builds, and hakmem's own."""

import glob
import hashlib
import itertools
import json
import os
import re
import subprocess
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from hakmem_lab.errors import LabError
from hakmem_lab.plan import project
from hakmem_lab.system.compiled import BROUGHT

DEBIAN = {
    "mimalloc": ("libmimalloc2.0", ("libmimalloc.so.2.0", "libmimalloc.so.2")),
    "jemalloc": ("libjemalloc2", ("libjemalloc.so.2",)),
    "tcmalloc": ("libtcmalloc-minimal4", ("libtcmalloc_minimal.so.4",)),
}
# What is compared where nobody names the sides. Many services set two arenas, since glibc keeps less memory with them;
# the side takes a sixth of the time.
COMPARED = ("hakmem", "glibc", "glibc,MALLOC_ARENA_MAX=2", "mimalloc", "jemalloc", "tcmalloc")
PACKAGED = ("/usr/", "/lib", "/opt/")  # the folders of packages
FOLDERS = ("/usr/lib/*-linux-gnu/", "/lib/*-linux-gnu/", "/usr/lib64/", "/lib64/", "/usr/local/lib/", "/usr/lib/")

WHOLE_BYTES, PARTS, PART_BYTES = 1 << 28, 64, 1 << 20


@dataclass(frozen=True)
class Library:
    """A library to preload, with its version and configuration, and the variables that its authors advise."""

    path: Path | None
    version: str | None = None
    configuration: str | None = None
    environment: dict[str, str] = field(default_factory=dict)

    @property
    def sha256(self) -> str | None:
        return file_sha256(self.path) if self.path else None


@cache
def file_sha256(path: Path) -> str:
    """A file's hash. For a large file, the hash covers its size, its time of change and parts of its content."""
    with open(path, "rb") as file:
        info = os.fstat(file.fileno())
        if info.st_size <= WHOLE_BYTES:
            return hashlib.file_digest(file, "sha256").hexdigest()
        digest = hashlib.sha256(f"{info.st_size} {info.st_mtime_ns}".encode())
        for part in range(PARTS):
            file.seek((info.st_size - PART_BYTES) * part // (PARTS - 1))
            digest.update(file.read(PART_BYTES))
    return f"parts-{digest.hexdigest()}"


def _installed(names: tuple[str, ...]) -> Path | None:
    found = (hit for name in names for folder in FOLDERS for hit in sorted(glob.glob(folder + name)))
    return next((Path(hit) for hit in found), None)


def _dpkg_names(path: Path) -> tuple[str, ...]:
    """The names by which dpkg may know a file: that in its package may begin with /lib, a link to /usr/lib."""
    names = dict.fromkeys((str(path), str(path.resolve()), str(path).removeprefix("/usr")))
    return tuple(name for name in names if name.startswith(PACKAGED))


@cache
def _packages(names: tuple[str, ...]) -> dict[str, str]:
    """File -> its package, of these names. One call looks for all, since each call takes a tenth of a second."""
    asked = ["dpkg-query", "-S", *names]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout if names else ""
    except OSError:
        return {}
    found = (line.rpartition(": ") for line in told.splitlines())
    return {path: packages.split(",")[0] for packages, _, path in found}


def _package_of(path: Path) -> str | None:
    there = [each for each in (_libc(), *(_installed(names) for _, names in DEBIAN.values())) if each]
    names = _dpkg_names(path)
    known = _packages(tuple(itertools.chain(*map(_dpkg_names, there)))) if path in there else _packages(names)
    return next((known[name] for name in names if name in known), None)


@cache
def version_of(path: Path) -> str | None:
    """Package and version that dpkg reports for the file; else the numbers in its name."""
    if package := _package_of(path):
        ask = ["dpkg-query", "-W", "-f", "${Package} ${Version}", package]
        return subprocess.run(ask, capture_output=True, text=True, check=False).stdout or None
    numbers = re.search(r"\.so\.([\d.]+)$", path.resolve().name)
    return numbers.group(1) if numbers else None


def _libc() -> Path | None:
    paths = (
        Path(line.split()[-1])
        for line in Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    )
    return next((path for path in paths if re.match(r"libc(\.so|-)", path.name)), None)


def libc() -> Library:
    """The C library that this Python runs on. If it is preloaded, its malloc comes before that of a linked
    allocator."""
    if path := _libc():
        return Library(path, version_of(path))
    raise LabError("cannot find the file of the C library: 'glibc' cannot be measured on this system")


@cache
def built() -> dict[str, dict]:
    """Rows of build/peers/peers.json, by name; empty before `make peers`."""
    every = (top / "build" / "peers" / "peers.json" for top in project.roots())
    record = next((each for each in every if each.is_file()), None)
    return json.loads(record.read_text(encoding="utf-8"))["peers"] if record else {}


@cache
def listed() -> tuple[str, ...]:
    top = project.root()
    table = top / "bench" / "peers" / "peers.toml" if top else None
    if table is None or not table.is_file():
        return ()
    rows = tomllib.loads(table.read_text(encoding="utf-8"))["peer"]
    return tuple(row["name"] for row in rows)


def names() -> list[str]:
    return ["hakmem", "glibc", "default", *DEBIAN, *(name for name in listed() if name not in DEBIAN)]


def hakmem_library() -> Library:
    """The library of this checkout's release build, else of the package's, else installed, else in the wheel."""
    builds = map(project.release_library, project.roots())
    places = (*builds, _installed(("libhakmem.so", "libhakmem.so.1", "libhakmem.so.0")), BROUGHT / "libhakmem.so")
    path = next((each for each in places if each and each.is_file()), None)
    if path is None:
        raise LabError("libhakmem.so is not there: run make in the checkout, or install it")
    return Library(path, version_of(path))


def lacking(allocators: Iterable[str]) -> list[str]:
    """Known allocators among these that are neither installed nor built."""

    def there(name: str) -> bool:
        if name in DEBIAN:
            return _installed(DEBIAN[name][1]) is not None
        return name not in listed() or name in built()

    return [name for name in allocators if not there(name)]


def remedy(missing: Sequence[str]) -> str:
    """The one command that installs all missing allocators."""
    if any(name not in DEBIAN for name in missing):
        return "make peers"  # which installs Debian's, too
    return f"apt install {' '.join(DEBIAN[name][0] for name in missing)}"


def library(name: str) -> Library:
    """The library of an allocator by name. Raises LabError where it is not installed or built."""
    if name == "hakmem":
        return hakmem_library()
    if name == "glibc":
        return libc()
    if name == "default":
        return Library(None, None, "whatever the program itself brings")
    if name in DEBIAN:
        path = _installed(DEBIAN[name][1])
        if path is None:
            raise LabError(f"{name} is not installed: {remedy([name])}")
        return Library(path, version_of(path))
    row = built().get(name)
    if row is None:
        raise LabError(f"{name} is not built: make peers")
    path = project.required_root(name) / "build" / "peers" / row["library"]
    if not path.is_file():
        raise LabError(f"{name}: {path} is missing: make peers")
    return Library(path, row.get("version"), row.get("configuration"), dict(row.get("environment") or {}))
