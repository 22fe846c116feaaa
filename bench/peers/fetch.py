"""Sources of a peer: fetched with cargo, checked against the table, unpacked. Imports table."""

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

from table import BUILD, Peer, PeerError

CRATES = BUILD / "crates"


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
    """The folder of the peer's sources below `folder`, which is made."""
    folder.mkdir(parents=True)
    subprocess.run(["tar", "-xzf", archive_of(peer), "-C", folder], check=True, stderr=sys.stderr)
    return folder / f"{peer.crate}-{peer.version}" / peer.source


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
