"""Heap profiles of one program, by three allocators, against its exact live bytes.

compare.py [--runs N] [--scale N] [--cost] [--only NAME] writes a table: for each profiler and call site the means over
the runs of estimate ÷ requested bytes and of estimate ÷ usable bytes, and the standard deviation of one run. --cost
counts instructions by callgrind instead, with the profile and without. Needs `make`, `make peers` and Debian's
jemalloc, which has a profiler. Imports the laboratory's reader of profile.proto.
"""

import argparse
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hakmem_lab.errors import LabError
from hakmem_lab.inside.profile.profile_pb2 import Profile
from hakmem_lab.plan import peers

RATE = 512 << 10
LINE = re.compile(r"^\s*(?:t\*: )?(\d+): +(\d+) \[ *\d+: +\d+\](?: @((?: 0x[0-9a-fA-F]+)*))?")
Estimates = dict[tuple[int, ...], tuple[float, float]]  # stack, the innermost first -> blocks, bytes in use


@dataclass(frozen=True)
class Profiler:
    """variables: those that profile, with {out} for the file's name; pattern: what is written then."""

    name: str
    library: Path
    variables: dict[str, str]
    pattern: str
    read: Callable[[Path], Estimates]


def _scaled(blocks: int, size: int) -> tuple[float, float]:
    """What readers of heap_v2 do: a block of the mean size is sampled with probability 1 - exp(-size / rate)."""
    if blocks == 0:
        return 0.0, 0.0
    chance = 1 - math.exp(-size / blocks / RATE)
    return blocks / chance, size / chance


def read_text(path: Path) -> Estimates:
    """Stacks of the text format. Readers scale where its first line says heap_v2, else take the values as they are."""
    found: Estimates = {}
    text = path.read_text(encoding="utf-8", errors="replace")
    kind = text.partition("\n")[0].partition("@ ")[2] or text.partition("\n")[0]
    if kind not in ("heapprofile", f"heap_v2/{RATE}"):
        raise ValueError(f"{path} is neither unsampled nor of heap_v2/{RATE}: {kind!r}")
    scaled = kind != "heapprofile"
    stack: tuple[int, ...] = ()
    for line in text.partition("MAPPED_LIBRARIES")[0].splitlines()[1:]:
        if line.startswith("@"):  # jemalloc: the stack, then a line of all threads and one of each
            stack = tuple(int(word, 16) for word in line.split()[1:])
        elif match := LINE.match(line):
            if match[3]:
                stack = tuple(int(word, 16) for word in match[3].split())
            if stack and (match[3] or line.lstrip().startswith("t*")):
                blocks, size = int(match[1]), int(match[2])
                found[stack] = _scaled(blocks, size) if scaled else (blocks, size)
    return found


def read_proto(path: Path) -> Estimates:
    """The values as they are: pprof shows no others."""
    profile = Profile.FromString(path.read_bytes())
    types = [profile.string_table[each.type].decode() for each in profile.sample_type]
    blocks = types.index("inuse_objects")
    size = types.index("inuse_space" if "inuse_space" in types else "inuse_bytes")
    places = {each.id: each.address for each in profile.location}
    found: Estimates = {}
    for sample in profile.sample:
        stack = tuple(places[each] for each in sample.location_id)
        before = found.get(stack, (0.0, 0.0))
        found[stack] = (before[0] + sample.value[blocks], before[1] + sample.value[size])
    return found


# name, allocator of the laboratory, variables, files, reader
KNOWN = (
    ("hakmem", "hakmem", {"HAKMEM_PROFILE_FILE": "{out}.pb"}, "*.pb", read_proto),
    ("mimalloc, .pb", "mimalloc3", {"MIMALLOC_PROFILE": "{out}"}, "*.pb", read_proto),
    ("mimalloc, .text", "mimalloc3", {"MIMALLOC_PROFILE": "{out}.text"}, "*.heap", read_text),
    ("jemalloc", "jemalloc", {"MALLOC_CONF": "prof:true,prof_final:true,prof_prefix:{out}"}, "*.heap", read_text),
)


def profilers() -> list[Profiler]:
    """Raises LabError where a library is not there."""
    found = ((name, peers.library(allocator).path, *rest) for name, allocator, *rest in KNOWN)
    return [Profiler(name, path, *rest) for name, path, *rest in found if path]


def functions(program: Path) -> list[tuple[int, int, str]]:
    """Start, end and name of the program's functions."""
    said = subprocess.run(["nm", "-S", program], capture_output=True, text=True, check=True).stdout
    rows = (line.split() for line in said.splitlines())
    return [(int(row[0], 16), int(row[0], 16) + int(row[1], 16), row[3]) for row in rows if len(row) == 4]


def compile_subject(folder: Path) -> Path:
    program = folder / "subject"
    source = Path(__file__).with_name("subject.c")
    flags = ["-O1", "-g", "-fno-omit-frame-pointer", "-no-pie"]
    subprocess.run([os.environ.get("CC", "gcc"), *flags, source, "-o", program], check=True)
    return program


def run(profiler: Profiler, command: list[str], folder: Path, profiled: bool = True) -> tuple[str, Estimates]:
    """What the program says, and the last profile of it."""
    env = {"PATH": os.environ["PATH"], "LD_PRELOAD": str(profiler.library)}
    if profiled:
        env |= {name: value.format(out=folder / "profile") for name, value in profiler.variables.items()}
    said = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    written = sorted(folder.glob(profiler.pattern), key=lambda path: path.stat().st_mtime_ns)
    if profiled and not written:
        raise ValueError(f"{profiler.name} wrote no profile")
    return said, profiler.read(written[-1]) if profiled else {}


def by_site(estimates: Estimates, known: list[tuple[int, int, str]], sites: set[str]) -> dict[str, tuple[float, float]]:
    """Blocks and bytes of each site: of the innermost frame that is one of them."""
    found = dict.fromkeys([*sites, "elsewhere"], (0.0, 0.0))
    for stack, (blocks, size) in estimates.items():
        names = (name for each in stack for start, end, name in known if start <= each <= end and name in sites)
        site = next(names, "elsewhere")
        found[site] = (found[site][0] + blocks, found[site][1] + size)
    return found


def accuracy(profiler: Profiler, program: Path, scale: int, runs: int) -> None:
    known = functions(program)
    ratios: dict[str, list[tuple[float, float]]] = {}
    for seed in range(1, runs + 1):
        with tempfile.TemporaryDirectory() as folder:
            said, estimates = run(profiler, [str(program), str(scale), str(seed)], Path(folder))
        exact = {line.split()[0]: [int(word) for word in line.split()[2:]] for line in said.splitlines()}
        found = by_site(estimates, known, set(exact))
        exact["all"] = [sum(each) for each in zip(*exact.values(), strict=True)]
        found["all"] = (0.0, sum(size for _, size in found.values()))
        for name, (asked, usable) in exact.items():
            ratios.setdefault(name, []).append((found[name][1] / asked, found[name][1] / usable))
    for name, pairs in ratios.items():
        asked, usable = (statistics.mean(each) for each in zip(*pairs, strict=True))
        spread = statistics.stdev(pair[1] for pair in pairs) if len(pairs) > 1 else math.nan
        print(f"| {profiler.name} | {name} | {asked:.3f} | {usable:.3f} | {spread:.3f} |", flush=True)


def cost(profiler: Profiler, program: Path, scale: int) -> None:
    """Instructions of the whole run by callgrind, without the profile and with it."""
    counts = []
    for profiled in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "callgrind.out"
            command = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", str(program), str(scale), "1"]
            run(profiler, command, Path(folder), profiled)
            counts.append(int(re.search(r"^(?:totals|summary): (\d+)", out.read_text(), re.M)[1]))
    plain, more = counts[0], counts[1] - counts[0]
    print(f"| {profiler.name} | {plain / 1e6:.1f} | {more / 1e6:.1f} | {100 * more / plain:.1f} % |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(prog="compare.py", description="Compare heap profiles with exact live bytes.")
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--scale", type=int, default=8)
    parser.add_argument("--cost", action="store_true", help="count instructions instead")
    parser.add_argument("--only", metavar="NAME", help="this profiler alone")
    options = parser.parse_args()
    try:
        wanted = [each for each in profilers() if options.only in (None, each.name)]
    except LabError as error:
        print(f"compare.py: {error}", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        program = compile_subject(Path(folder))
        for profiler in wanted:
            if options.cost:
                cost(profiler, program, options.scale)
            else:
                accuracy(profiler, program, options.scale, options.runs)
    return 0


if __name__ == "__main__":
    sys.exit(main())
