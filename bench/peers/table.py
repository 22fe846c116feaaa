"""The rows of peers.toml. Imports the standard library alone."""

import platform
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "bench" / "peers" / "peers.toml"
RECIPES = ROOT / "bench" / "peers" / "recipes"
BUILD = ROOT / "build" / "peers"


class PeerError(Exception):
    """Something is missing or wrong that the user can put right; its text is the whole message."""


class TooNewError(PeerError):
    """The library needs a later C library than this system has."""


@dataclass(frozen=True)
class Peer:
    """One library: built from a crate (`crate`, `sha256`, `source`), or copied from a Debian package, installed
    (`package`) or fetched from another release (`package`, `suite`, `sha256`)."""

    name: str
    upstream: str
    licence: str
    version: str
    recipe: str
    tools: list[str]
    compilers: dict[str, str]
    arguments: list[str]
    environment: dict[str, str]
    configuration: str
    reason: str
    crate: str | None = None
    sha256: str | None = None
    source: str | None = None
    package: str | None = None
    suite: str | None = None
    needs_libc: str | None = None
    native: bool = False
    c_alone: bool = False
    proof: str | None = None
    debian: str | None = None
    folder: Path = field(default=BUILD)

    @property
    def library(self) -> Path:
        return self.folder / f"lib{self.name}.{'a' if self.folder.name == 'musl' else 'so'}"

    def expanded_arguments(self) -> list[str]:
        return [argument.replace("{machine}", platform.machine()) for argument in self.arguments]


def load(kind: str = "peer") -> list[Peer]:
    """The peers; or `same_version`, Debian's versions; or `hardened`; or `musl`. Raises PeerError on a wrong row."""
    with open(TABLE, "rb") as file:
        table = tomllib.load(file)
    rows = table[kind]
    folder = BUILD if kind == "peer" else BUILD / kind.replace("_", "-")
    try:
        return [Peer(**row, folder=folder) for row in rows]
    except TypeError as error:
        raise PeerError(f"{TABLE.name}: {error}") from error


def select(peers: list[Peer], names: list[str]) -> list[Peer]:
    """The named ones in the order of the table, all where no name is given. Raises PeerError on an unknown name."""
    known = [peer.name for peer in peers]
    for name in names:
        if name not in known:
            raise PeerError(f"there is no peer '{name}'; there are {', '.join(known)}")
    return [peer for peer in peers if not names or peer.name in names]
