"""The checkout of hakmem in which hak was started: its library and revisions. Also finds a command's program."""

import os
import shutil
import subprocess
from pathlib import Path

from hakmem_lab.errors import LabError, closest

OWN_PROGRAMS = Path("build") / "release" / "bench"


def is_own(name: str) -> bool:
    """Whether this is the path of a file that `make programs` builds."""
    top = root()
    return top is not None and Path(name).absolute().is_relative_to(top / OWN_PROGRAMS)


def find_program(name: str, key: str = "command") -> Path:
    """The path of a command's program, found as the shell finds it. `key` names the command in the message of
    LabError."""
    found = shutil.which(name)
    if found is not None and os.path.isfile(found):
        return Path(found).absolute()
    if "/" in name and os.path.exists(name):
        kind = "not executable" if os.path.isfile(name) else "no regular file"
        what = "a folder" if os.path.isdir(name) else kind
        raise LabError(f"{key}: '{name}' is {what}, so it is no program")
    if is_own(name):
        raise LabError(f"{key}: the checkout's own program '{name}' is not built: make programs")
    near = _nearest_program(name)
    raise LabError(f"{key}: there is no program '{name}'" + (f": did you mean '{near}'?" if near else ""))


def _nearest_program(name: str) -> str | None:
    """The executable with the most similar name in the same folder, or, for a name alone, in the PATH."""
    folder, base = os.path.split(name)
    known: set[str] = set()
    for place in [folder] if folder else os.get_exec_path():
        try:
            with os.scandir(place or ".") as entries:
                known |= {entry.name for entry in entries if entry.is_file() and os.access(entry.path, os.X_OK)}
        except OSError:
            continue
    near = closest(base, known)
    return os.path.join(folder, near) if near else None


BUILD_S = 900
# Older revisions have a part of the sources in inspect.
SOURCES = ("src", "inspect", "include", "scripts/cmake", "CMakeLists.txt", "CMakePresets.json")
GATE_PREFIX = "HAKMEM_"


def _around(start: Path) -> Path | None:
    """The nearest folder upwards that holds hakmem's sources."""
    for folder in (start, *start.parents):
        if (folder / "include" / "hakmem.h").is_file() and (folder / "src" / "malloc" / "fast.h").is_file():
            return folder
    return None


def own_root() -> Path | None:
    """The checkout that this package was installed from."""
    return _around(Path(__file__).resolve().parent)


def root() -> Path | None:
    """The checkout around the present folder, else the package's own."""
    return _around(Path.cwd()) or own_root()


def roots() -> list[Path]:
    """Both of them, for what is not built in the first."""
    return list(dict.fromkeys(top for top in (root(), own_root()) if top))


def shown(path: Path | str) -> str:
    """A path as it is written to records: relative to the checkout if it lies inside, else unchanged."""
    top = root()
    return str(Path(path).relative_to(top) if top and Path(path).is_relative_to(top) else path)


def located(name: str) -> Path:
    """The file for a path that `shown` returned, also where the present folder is not the checkout's top."""
    path, top = Path(name), root()
    return path if top is None or path.exists() else top / path


def required_root(what: str) -> Path:
    found = root()
    if found is None:
        raise LabError(f"{what} needs hakmem's sources: start hak inside a checkout")
    return found


def output(command: list[str], folder: Path, what: str) -> str:
    """The command's output. Raises LabError where it fails; `what` begins the message."""
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=BUILD_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise LabError(f"{what}: {error}") from None
    if done.returncode != 0:
        raise LabError(f"{what}: {(done.stderr or done.stdout).strip()[-600:]}")
    return done.stdout


def git_state(folder: Path | None) -> dict | None:
    """Revision, and whether the allocator's sources differ from it; None outside of git."""
    if folder is None:
        return None
    try:
        asked = ["git", "status", "--porcelain=v2", "--branch", "--no-ahead-behind", "--", *SOURCES]
        told = output(asked, folder, "git").splitlines()
    except LabError:
        return None
    revision = next(line.split()[2] for line in told if line.startswith("# branch.oid "))
    dirty = not all(line.startswith("# ") for line in told)
    return {"revision": revision, "dirty": dirty} if revision != "(initial)" else None


def build_facts(folder: Path | None) -> dict | None:
    """Compiler and flags of the release build, as CMake recorded them."""
    cache = folder / "build" / "release" / "CMakeCache.txt" if folder else None
    if folder is None or cache is None or not cache.is_file():
        return None
    entries = {
        line.split(":", 1)[0]: line.split("=", 1)[1]
        for line in cache.read_text(encoding="utf-8").splitlines()
        if ":" in line and "=" in line and not line.startswith(("#", "//"))
    }
    compiler = entries.get("CMAKE_C_COMPILER", "cc")
    try:
        version = output([compiler, "--version"], folder, compiler).splitlines()[0]
    except LabError:
        version = compiler
    flags = " ".join(filter(None, (entries.get("CMAKE_C_FLAGS"), entries.get("CMAKE_C_FLAGS_RELEASE"))))
    return {"compiler": version, "flags": flags, "lto": entries.get("HAKMEM_LTO", "OFF")}


def gates(folder: Path) -> set[str]:
    """Research gates of an earlier revision's sources, by the names that arms use. Published experiments set some of
    them."""
    script = folder / "scripts" / "gates"
    if not script.is_file():
        return set()
    lines = output([str(script), "--list"], folder, "scripts/gates").splitlines()
    return {GATE_PREFIX + line.split("\t")[0] for line in lines if "\t" in line}


def build_with_gates(folder: Path, settings: dict[str, str]) -> Path:
    """An earlier revision's library with these gates; built if it is not there."""
    words = [f"{name.removeprefix(GATE_PREFIX)}={value}" for name, value in sorted(settings.items())]
    what = f"building hakmem with {' '.join(words)}"
    return Path(output([str(folder / "scripts" / "gates"), *words], folder, what).strip().splitlines()[-1])


def release_library(folder: Path) -> Path:
    return folder / "build" / "release" / "libhakmem.so"


def sources_of(revision: str) -> Path:
    """The sources of an earlier revision, in build/revisions; unpacked if they are not there."""
    top = required_root(f"hakmem@{revision}")
    what = f"hakmem@{revision} (a shallow clone lacks it: git fetch --unshallow)"
    full = output(["git", "rev-parse", "--verify", f"{revision}^{{commit}}"], top, what).strip()
    folder = top / "build" / "revisions" / full[:12]
    if not folder.is_dir():
        partial = folder.with_suffix(f".{os.getpid()}")
        partial.mkdir(parents=True)
        archive = f"git archive {full} | tar -x -C '{partial}'"
        output(["bash", "-o", "pipefail", "-c", archive], top, f"unpacking {revision}")
        partial.rename(folder)
    return folder


def build_revision(revision: str) -> Path:
    """The release library of an earlier revision; built if it is not there."""
    folder = sources_of(revision)
    library = release_library(folder)
    if not library.is_file():
        configure = ["cmake", "--preset", "release", "-DHAKMEM_TESTS=OFF", "-DHAKMEM_BENCH=OFF"]
        output(configure, folder, f"configuring {revision}")
        output(["cmake", "--build", "build/release", "--target", "hakmem"], folder, f"building {revision}")
    return library
