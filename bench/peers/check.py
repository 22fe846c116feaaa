"""Prove that the libraries of bench/peers/build are what they should be. Imports table, build, symbols.

For each: it exports the whole interface; malloc and free are the allocator's own functions, not shims; preloaded, the
dynamic linker binds C and C++ programs to it; programs with threads, a forked child, Python, Perl and git run on it;
it says the version that the table names; what its recommended environment is for is in force.

Exit status 1 where one is not as it should be.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from fetch import file_sha256, require_libc
from symbols import exported, shim_target
from table import BUILD, ROOT, Peer, PeerError, TooNewError, load, select

from build import read_records

PROGRAMS = BUILD / "check"
RUN_SECONDS = 300
C_INTERFACE = (
    "malloc",
    "free",
    "calloc",
    "realloc",
    "posix_memalign",
    "aligned_alloc",
    "memalign",
    "malloc_usable_size",
)
# operator new, new[], delete, delete[]: plain, nothrow, sized, aligned.
NEW = tuple(f"_Zn{kind}m{more}" for kind in "wa" for more in ("", "RKSt9nothrow_t", "St11align_val_t"))
DELETE = tuple(f"_Zd{kind}Pv{more}" for kind in "la" for more in ("", "m", "St11align_val_t", "mSt11align_val_t"))
_BINDING = re.compile(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: normal symbol `(\w+)'")
SHIM = "void *other_malloc(unsigned long); void *malloc(unsigned long size) { return other_malloc(size); }"


def compile_programs() -> dict[str, list[str]]:
    """The programs to run, as commands."""
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    sources = ROOT / "bench" / "peers" / "programs"
    plain, threads = PROGRAMS / "plain", PROGRAMS / "threads"
    for command in (
        ["gcc", "-O1", "-fno-builtin", sources / "plain.c", "-o", plain],
        ["g++", "-std=c++17", "-O1", "-pthread", sources / "threads.cc", "-o", threads],
    ):
        subprocess.run(command, check=True)
    script = "import json, threading; print(len(json.dumps([{str(i): [i] * 9} for i in range(20000)])))"
    return {
        "true": ["/bin/true"],
        "plain": [str(plain)],
        "threads": [str(threads)],
        "python": [sys.executable, "-c", script],
        "perl": ["perl", "-e", 'my %h; $h{$_} = "x" x ($_ % 300) for 1..60000; print scalar(keys %h)'],
        "git": ["git", "--version"],
        "git grep": ["git", "-C", str(ROOT / "bench"), "grep", "--no-index", "-c", "malloc"],
    }


def environment(peer: Peer, **more: str) -> dict[str, str]:
    base = {"PATH": os.environ["PATH"], "LC_ALL": "C", "PYTHONMALLOC": "malloc"}
    return base | peer.environment | {"LD_PRELOAD": str(peer.library)} | more


def check_record(peer: Peer, programs: dict) -> Iterator[str]:
    """peers.json describes this very file."""
    record = read_records(peer.folder / "peers.json").get(peer.name)
    if record is None or record["sha256"] != file_sha256(peer.library):
        yield "peers.json does not describe this library"


def check_interface(peer: Peer, programs: dict) -> Iterator[str]:
    functions = exported(peer.library)
    operators = () if peer.c_alone else NEW + DELETE
    missing = [name for name in C_INTERFACE + operators if name not in functions]
    if missing:
        yield f"does not export {', '.join(missing)}"


def check_own(peer: Peer, programs: dict) -> Iterator[str]:
    for name in ("malloc", "free"):
        target = shim_target(peer.library, name)
        if target:
            yield f"{name} only calls {target}"


def bindings(peer: Peer, command: list[str]) -> dict[str, set[str]]:
    """Which files the dynamic linker bound each function to, in the whole process."""
    with tempfile.TemporaryDirectory() as folder:
        env = environment(peer, LD_DEBUG="bindings", LD_BIND_NOW="1", LD_DEBUG_OUTPUT=f"{folder}/log")
        subprocess.run(command, env=env, capture_output=True, timeout=RUN_SECONDS, check=False)
        text = "".join(log.read_text(errors="replace") for log in Path(folder).iterdir())
    bound: dict[str, set[str]] = {}
    own = os.path.realpath(peer.library)
    for asking, path, name in _BINDING.findall(text):
        if os.path.realpath(asking) != own:  # the library itself may look for libc's function
            bound.setdefault(name, set()).add(os.path.realpath(path))
    return bound


def check_bindings(peer: Peer, programs: dict) -> Iterator[str]:
    wanted = {os.path.realpath(peer.library)}
    for program, names in (
        ("plain", ["malloc", "free", "calloc"]),
        ("threads", ["malloc", "free"] if peer.c_alone else ["malloc", "free", "_Znwm", "_ZdlPvm"]),
    ):
        bound = bindings(peer, programs[program])
        for name in names:
            # A program at a fixed address may answer for its libraries, with a jump that goes to the same target.
            served = bound.get(name, set()) - {os.path.realpath(programs[program][0])}
            if served != wanted:
                yield f"{name} of a program is bound to {', '.join(sorted(served)) or 'nothing'}"


def fault(command: list[str], env: dict[str, str]) -> str | None:
    """How a program failed or what it complained of; None where all is well."""
    done = subprocess.run(command, env=env, capture_output=True, timeout=RUN_SECONDS, check=False)
    if done.returncode == 0 and not done.stderr:
        return None
    return f"ends with {done.returncode}: {done.stderr.decode(errors='replace').strip()[-300:]}"


def check_runs(peer: Peer, programs: dict) -> Iterator[str]:
    for program, command in programs.items():
        found = fault(command, environment(peer))
        # What Debian's build of the version does wrong in the same way is the version's fault, not that of the build.
        if found and not (peer.debian and fault(command, environment(peer, LD_PRELOAD=peer.debian)) == found):
            yield f"{program} {found}"


# Prints what the library itself says is its version, where it says so.
ASK_VERSION = """
import ctypes
it = ctypes.CDLL(None)
if hasattr(it, "mi_version"):
    number = it.mi_version()
    step = 100 if number >= 10000 else 10
    print(number // step**2, number // step % step, number % step, sep=".")
elif hasattr(it, "tc_version"):
    it.tc_version.restype = ctypes.c_char_p
    print(it.tc_version(None, None, None).decode().split()[-1])
elif hasattr(it, "mallctl"):
    text, size = ctypes.c_char_p(), ctypes.c_size_t(ctypes.sizeof(ctypes.c_char_p))
    it.mallctl(b"version", ctypes.byref(text), ctypes.byref(size), None, ctypes.c_size_t(0))
    print(text.value.decode().split("-")[0])
"""


def check_version(peer: Peer, programs: dict) -> Iterator[str]:
    """The laboratory's tables name the version of peers.json; some libraries can be asked."""
    asked = subprocess.run(
        [sys.executable, "-c", ASK_VERSION], env=environment(peer), capture_output=True, text=True, check=False
    )
    said = asked.stdout.strip()
    if asked.returncode != 0 or (said and said != peer.upstream):
        yield f"says that it is version {said or asked.stderr.strip()}, the table {peer.upstream}"


def check_proof(peer: Peer, programs: dict) -> Iterator[str]:
    """What the environment is for: a function of the library says whether it is in force."""
    if not peer.proof:
        return
    ask = f"import ctypes, sys; sys.exit(not ctypes.CDLL(None).{peer.proof}())"
    if subprocess.run([sys.executable, "-c", ask], env=environment(peer), check=False).returncode != 0:
        yield f"{peer.proof}() says no: the recommended environment is not in force"


CHECKS: tuple[Callable[[Peer, dict], Iterator[str]], ...] = (
    check_record,
    check_interface,
    check_own,
    check_bindings,
    check_runs,
    check_version,
    check_proof,
)


def check_shim_is_found() -> None:
    """A library that is a shim must be called one, or check_own proves nothing. Raises PeerError."""
    for flags in (["-O2"], ["-O0"]):
        library = PROGRAMS / "libshim.so"
        command = ["gcc", *flags, "-fno-builtin", "-shared", "-fPIC", "-x", "c", "-", "-o", library]
        subprocess.run(command, input=SHIM, text=True, check=True)
        if shim_target(library, "malloc") != "other_malloc":
            raise PeerError(f"a shim built with {' '.join(flags)} is not recognised as one")


def check(peer: Peer, programs: dict[str, list[str]]) -> list[str]:
    """Everything that is wrong with one library."""
    if not peer.library.is_file():
        return ["is not built: run bench/peers/build"]
    return [wrong for part in CHECKS for wrong in part(peer, programs)]


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="check", description="Prove that the built libraries are what they should be."
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these peers")
    for kind in ("same_version", "hardened"):
        option = f"--{kind.replace('_', '-')}"
        text = f"those that bench/peers/build {option} built"
        parser.add_argument(option, dest="kind", action="store_const", const=kind, default="peer", help=text)
    options = parser.parse_args()
    try:
        wanted = select(load(options.kind), options.names)
        programs = compile_programs()
        check_shim_is_found()
    except PeerError as error:
        print(f"check: {error}", file=sys.stderr)
        return 2
    bad = 0
    for peer in wanted:
        try:
            require_libc(peer)
        except TooNewError as error:
            print(f"{peer.name}: {error}")
            continue
        wrong = check(peer, programs)
        bad += bool(wrong)
        for line in wrong:
            print(f"{peer.name}: {line}", file=sys.stderr, flush=True)
        if not wrong:
            print(f"{peer.name}: {len(CHECKS)} checks passed", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
