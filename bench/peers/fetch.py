"""What a peer is made of: fetched with cargo or apt, checked against the table, unpacked. Imports table."""

import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from table import BUILD, ROOT, Peer, PeerError, TooNewError

CRATES = BUILD / "crates"
PACKAGES = BUILD / "packages"


def file_sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _manifest(peer: Peer) -> Path:
    """A package that depends on nothing but exactly this crate."""
    folder = BUILD / "fetch" / f"{peer.crate}-{peer.version}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "lib.rs").touch()
    # A requirement has no build metadata, the part after '+'.
    requirement = peer.version.partition("+")[0]
    manifest = folder / "Cargo.toml"
    manifest.write_text(
        '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[lib]\npath = "lib.rs"\n[workspace]\n'
        f'[dependencies]\n{peer.crate} = "={requirement}"\n',
        encoding="utf-8",
    )
    return manifest


def _cargo_fetch(peer: Peer, name: str) -> Path:
    """Let cargo download the crate; the archive in its cache."""
    if shutil.which("cargo") is None:
        raise PeerError("cargo is missing: run scripts/bootstrap peers, or install Rust's cargo 1.85 or later")
    done = subprocess.run(
        ["cargo", "fetch", "--manifest-path", _manifest(peer)], capture_output=True, text=True, check=False
    )
    home = Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")
    found = sorted(home.glob(f"registry/cache/*/{name}"))
    if done.returncode != 0 or not found:
        reason = done.stderr.strip() or f"cargo has no {name} in its cache"
        raise PeerError(f"cargo cannot fetch {peer.crate} {peer.version}: {reason}")
    return found[-1]


def _apt_download(peer: Peer, folder: Path) -> Path:
    """Let apt fetch a package of another release, with lists of its own; the newest one that the release has."""
    for part in ("lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    sources = folder / "sources.list"
    lines = subprocess.run([ROOT / "scripts" / "debian-sources", peer.suite], capture_output=True, check=False).stdout
    sources.write_bytes(lines)
    # A mirror may be a copy of an earlier day: the signature is checked all the same.
    settings = {
        "Dir::Etc::sourcelist": sources,
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": folder / "lists",
        "Dir::Cache": folder / "cache",
        "Acquire::Check-Valid-Until": "false",
        "APT::Sandbox::User": "",
    }
    options = [word for name, value in settings.items() for word in ("-o", f"{name}={value}")]
    for command in (["update"], ["download", peer.package]):
        try:
            done = subprocess.run(
                ["apt-get", "-q", *options, *command], cwd=folder, capture_output=True, text=True, check=False
            )
        except FileNotFoundError as error:
            raise PeerError(f"this is not a Debian system: {peer.package} of {peer.suite} is needed") from error
        if done.returncode != 0:
            raise PeerError(f"apt-get cannot fetch {peer.package} of {peer.suite}: {done.stderr.strip()}")
    return max(folder.glob("*.deb"), key=lambda path: path.stat().st_mtime_ns)


def package_archive(peer: Peer) -> Path:
    """The package's file with the contents that the table expects, fetched if it is not there. Raises PeerError."""
    archive = PACKAGES / f"{peer.package}_{peer.version}.deb"
    if archive.is_file() and file_sha256(archive) == peer.sha256:
        return archive
    with tempfile.TemporaryDirectory() as folder:
        fetched = _apt_download(peer, Path(folder))
        found = file_sha256(fetched)
        if found != peer.sha256:
            raise PeerError(
                f"{peer.suite} has {fetched.name} with sha256 {found}, the table wants {peer.version}, {peer.sha256}: "
                "it is not used. Put the new version and hash into its row"
            )
        PACKAGES.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(fetched, archive)
    return archive


def archive_of(peer: Peer) -> Path:
    """The crate's archive with the contents that the table expects, fetched if it is not there. Raises PeerError."""
    name = f"{peer.crate}-{peer.version}.crate"
    archive = CRATES / name
    if archive.is_file() and file_sha256(archive) == peer.sha256:
        return archive
    fetched = _cargo_fetch(peer, name)
    found = file_sha256(fetched)
    if found != peer.sha256:
        raise PeerError(f"{name} has sha256 {found}, the table says {peer.sha256}: it is not used")
    CRATES.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(fetched, archive)
    return archive


def unpack(peer: Peer, folder: Path) -> Path:
    """The folder of the peer's sources below `folder`, which is made; of a package, what it would install."""
    folder.mkdir(parents=True)
    if peer.suite:
        subprocess.run(["dpkg-deb", "-x", package_archive(peer), folder], check=True, stderr=sys.stderr)
        return folder
    subprocess.run(["tar", "-xzf", archive_of(peer), "-C", folder], check=True, stderr=sys.stderr)
    return folder / f"{peer.crate}-{peer.version}" / peer.source


def require_libc(peer: Peer) -> None:
    """Raises TooNewError where a library that is not compiled here asks for a later C library."""
    if peer.needs_libc is None:
        return
    here = platform.libc_ver()[1] or "another"
    if [int(part) for part in re.findall(r"\d+", here)] < [int(part) for part in peer.needs_libc.split(".")]:
        raise TooNewError(f"{peer.upstream} needs glibc {peer.needs_libc} or later, here is {here}: it is left out")


def package_version(peer: Peer) -> str:
    """The installed version of the peer's Debian package. Raises PeerError where it is not installed."""
    try:
        done = subprocess.run(
            ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}", peer.package],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as error:
        raise PeerError(f"this is not a Debian system: the library of {peer.package} is needed") from error
    status, _, version = done.stdout.partition(" ")
    if done.returncode != 0 or status != "installed":
        raise PeerError(f"the package {peer.package} is missing: run scripts/bootstrap peers")
    return version
