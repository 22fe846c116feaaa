"""Build current allocators as libraries to preload: bench/peers/build [NAME...] [--same-version | --hardened | --musl].

Imports table, fetch.

Builds what is out of date, one line a peer, into build/peers/lib<name>.so; build/peers/peers.json says what each of
them is. Exit status 1 where one could not be built (the others are), 2 where nothing was tried.
"""

import argparse
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path

from fetch import file_sha256, package_version, require_libc, unpack
from table import RECIPES, ROOT, Peer, PeerError, TooNewError, load, select

JOBS = os.environ.get("JOBS") or str(os.cpu_count())
SHOWN_LINES = 20
SHOWN_COLUMNS = 200
RECORDED_FLAGS = ("-O", "-f", "-m", "-D", "-g", "-std")


def compiler_versions(peer: Peer) -> dict[str, str]:
    """First line of what each compiler says about itself. Raises PeerError where a tool is missing."""
    for tool in [*peer.tools, *peer.compilers.values()]:
        if shutil.which(tool) is None:
            raise PeerError(f"{tool} is missing: run scripts/bootstrap peers")
    return {
        role: subprocess.run([name, "--version"], capture_output=True, text=True, check=True).stdout.partition("\n")[0]
        for role, name in peer.compilers.items()
    }


def key_of(peer: Peer, facts: dict) -> str:
    """Changes with everything that the library depends on."""
    row = {name: value for name, value in asdict(peer).items() if name != "folder"}
    recipes = [path.read_text(encoding="utf-8") for path in sorted(RECIPES.glob(f"{peer.recipe}*"))]
    text = json.dumps([row, facts, recipes], sort_keys=True)
    if peer.native:
        processor = Path("/proc/cpuinfo").read_text(encoding="utf-8")
        text += "".join(re.findall(r"^(?:flags|Features)\s*:.*\n", processor, re.M)[:1])
    return hashlib.sha256(text.encode()).hexdigest()


def run_recipe(peer: Peer, log: Path) -> list[str]:
    """Build the library; the compiler flags that were used, as far as they say what it does."""
    work = peer.folder / "work" / peer.name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    flags = work / "flags"
    settings = {
        "WORK": str(work / "objects"),
        "LIBRARY": str(work / peer.library.name),
        "FLAGS": str(flags),
        "RECIPES": str(RECIPES),
        "UPSTREAM": peer.upstream,
        "JOBS": JOBS,
        "SOURCE_DATE_EPOCH": "0",  # The same sources give the same library: mimalloc prints when it was compiled.
        **peer.compilers,
    }
    if peer.sha256:
        settings["SOURCE"] = str(unpack(peer, work / "source").resolve())
    # The flags are the table's alone.
    inherited = {name: value for name, value in os.environ.items() if not re.fullmatch(r"(C|CXX|CPP|LD)FLAGS", name)}
    command = [RECIPES / peer.recipe, *peer.expanded_arguments()]
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "wb") as out:
        done = subprocess.run(command, env=inherited | settings, stdout=out, stderr=out, check=False)
    if done.returncode != 0:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        tail = [line[:SHOWN_COLUMNS] for line in lines[-SHOWN_LINES:]]
        raise PeerError("\n".join(["its build failed:", *tail, f"the whole log is {log.relative_to(ROOT)}"]))
    os.replace(settings["LIBRARY"], peer.library)
    used = shlex.split(flags.read_text(encoding="utf-8")) if flags.exists() else []
    shutil.rmtree(work)
    return [flag for flag in used if flag.startswith(RECORDED_FLAGS)]


def facts_of(peer: Peer) -> dict:
    """What is installed here and goes into the library: compilers, the package."""
    require_libc(peer)
    facts = {"compilers": compiler_versions(peer)}
    if peer.suite:
        facts["package_version"] = peer.version
    elif peer.package:
        facts["package_version"] = package_version(peer)
    return facts


def record_of(peer: Peer, facts: dict, flags: list[str], key: str) -> dict:
    """The row of peers.json. `library` lies beside that file."""
    record = {
        "library": peer.library.name,
        "sha256": file_sha256(peer.library),
        "version": peer.upstream,
        "licence": peer.licence,
        "environment": peer.environment,
        "configuration": peer.configuration,
        "reason": peer.reason,
        "recipe": peer.recipe,
        "arguments": peer.arguments,
        "flags": flags,
        **facts,
        "key": key,
    }
    if peer.crate:
        record |= {"crate": peer.crate, "crate_version": peer.version, "crate_sha256": peer.sha256}
    else:
        record |= {"package": peer.package}
    if peer.suite:
        record |= {"suite": peer.suite, "package_sha256": peer.sha256}
    return record


def make(peer: Peer, old: dict | None) -> tuple[dict, str]:
    """The record of the peer and what to say about it. Raises PeerError; a library that is out of date is gone then."""
    start = time.monotonic()
    facts = facts_of(peer)
    key = key_of(peer, facts)
    if old and old["key"] == key and peer.library.is_file() and file_sha256(peer.library) == old["sha256"]:
        return old, f"{peer.upstream}, up to date"
    peer.library.unlink(missing_ok=True)
    print(f"{peer.name}: building {peer.upstream}; the log is build/peers/log/{peer.name}.log", flush=True)
    flags = run_recipe(peer, peer.folder / "log" / f"{peer.name}.log")
    said = f"{peer.upstream}, built in {time.monotonic() - start:.0f} s: {peer.library.relative_to(ROOT)}"
    installed = facts.get("package_version", peer.version)
    if installed != peer.version:
        said += f" (the table expects {peer.package} {peer.version}, installed is {installed})"
    return record_of(peer, facts, flags, key), said


def read_records(path: Path) -> dict[str, dict]:
    """By name; empty where there is no file or it is not one of ours."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))["peers"]
    except (OSError, ValueError, KeyError):
        return {}


def write_records(path: Path, records: dict[str, dict]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"peers": records}, indent=1) + "\n", encoding="utf-8")
    os.replace(new, path)


def make_all(peers: list[Peer], wanted: list[Peer]) -> bool:
    """Build the wanted ones of a table; whether all of them are there."""
    path = peers[0].folder / "peers.json"
    records = read_records(path)
    complete = True
    for peer in wanted:
        try:
            records[peer.name], said = make(peer, records.get(peer.name))
            print(f"{peer.name}: {said}", flush=True)
        except TooNewError as error:
            print(f"{peer.name}: {error}", flush=True)
        except PeerError as error:
            complete = False
            print(f"{peer.name}: {error}", file=sys.stderr, flush=True)
        there = [known.name for known in peers if known.name in records and known.library.is_file()]
        write_records(path, {name: records[name] for name in there})
    return complete


def main() -> int:
    parser = argparse.ArgumentParser(prog="build", description="Build current allocators as libraries to preload.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these peers")
    kinds = {"same_version": "the versions that Debian has, to compare the builds", "hardened": "for make security",
             "musl": "archives for static programs on musl"}  # fmt: skip
    for kind, text in kinds.items():
        option = f"--{kind.replace('_', '-')}"
        parser.add_argument(option, dest="kind", action="store_const", const=kind, default="peer", help=text)
    options = parser.parse_args()
    try:
        peers = load(options.kind)
        wanted = select(peers, options.names)
    except PeerError as error:
        print(f"build: {error}", file=sys.stderr)
        return 2
    return 0 if make_all(peers, wanted) else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
