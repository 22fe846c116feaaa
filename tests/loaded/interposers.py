"""Every function of libc that the library imports, wrapped by one that allocates, initialises at its first call, sleeps
or fails; before the library and behind it:
interposers.py LIBRARY LOAD [--modes MODE...] [--only NAME...] [--every N] [--jobs N]

--every 3: of the four runs of each function one or two, so that every mode and order is tried with a third of them."""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SOURCE = Path(__file__).with_name("interpose.c")
# Without these calls there is no memory, so they alone can fail without the program's asking for it.
MAY_FAIL = ("mmap", "munmap", "mremap", "madvise", "mprotect")
TIMEOUT_S = 100


def imports(library: Path) -> list[str]:
    """Functions that the library takes from libc, by its own table; and those that it stands before and passes on."""
    table = subprocess.run(["readelf", "--dyn-syms", "--wide", library], capture_output=True, text=True, check=True)
    rows = re.findall(r" (FUNC|OBJECT|NOTYPE|TLS) +(\w+) +\w+ +(\w+) +([\w.]+)(@\S+)?", table.stdout)
    wanted = {
        name for kind, _, where, name, version in rows if where == "UND" and kind == "FUNC" and "GLIBC" in version
    }
    return sorted((wanted | {"madvise", "mprotect"}) - {"__cxa_finalize"})


def build(names: Sequence[str], folder: Path, jobs: int = 2) -> dict[str, Path]:
    """A library each. All share one object: its compilation takes longer than everything else."""
    flags = ["-fPIC", "-O1", "-fno-builtin", "-fvisibility=hidden", "-D_GNU_SOURCE"]
    compiler = [os.environ.get("CC", "cc"), *flags, SOURCE]
    common = folder / "interpose.o"
    subprocess.run([*compiler, "-c", "-o", common], check=True)

    def one(name: str) -> Path:
        library = folder / f"{name}.so"
        subprocess.run([*compiler, f"-DINTERPOSED={name}", common, "-shared", "-o", library, "-pthread"], check=True)
        return library

    with ThreadPoolExecutor(jobs) as pool:
        return dict(zip(names, pool.map(one, names), strict=True))


def run(load: Path, preloaded: list[Path], mode: str, small: bool) -> str | None:
    """What went wrong. With small caches the threads meet at the locks."""
    words = {"LD_PRELOAD": " ".join(map(str, preloaded)), "LOADED_MODE": mode, "HAKMEM_DECAY_MS": "20"}
    words |= {"HAKMEM_CACHE_CLASS_MAX": "4K"} if small else {}
    try:
        done = subprocess.run(
            [load], env=os.environ | words, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return "it hangs"
    return None if done.returncode == 0 else f"status {done.returncode}: {done.stderr.strip()[-300:]}"


def each(
    library: Path, load: Path, modes: list[str], only: list[str], every: int, jobs: int
) -> tuple[int, list[str]]:
    """How many runs, and what went wrong in which."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        names = [name for name in imports(library) if not only or name in only]
        built = build(names, Path(folder), jobs)
        cases = [
            (name, mode, order)
            for name in names
            for mode in modes
            for order in ("before", "behind")
            if mode != "fail" or name in MAY_FAIL
        ][::every]

        def one(case: tuple[str, str, str]) -> str | None:
            name, mode, order = case
            pair = [built[name], library] if order == "before" else [library, built[name]]
            wrong = run(load, pair, mode, small=order == "behind")
            return f"{name} {mode} {order}: {wrong}" if wrong else None

        return len(cases), [line for line in pool.map(one, cases) if line]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("library", type=Path)
    parser.add_argument("load", type=Path)
    parser.add_argument("--modes", nargs="+", default=["allocate", "first"])
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args()
    runs, wrong = each(given.library.resolve(), given.load.resolve(), given.modes, given.only, given.every, given.jobs)
    print("\n".join([*wrong, f"{runs} runs, {len(wrong)} went wrong"]))
    return 1 if wrong or not runs else 0


if __name__ == "__main__":
    sys.exit(main())
