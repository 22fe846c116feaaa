"""The checkout of hakmem in which hak was started, if any: its library and revisions. Also finds a command's program.

It can also make builds that differ only in the order and alignment of their functions, drawn by a seed. The place of
code decides which functions share a cache line, a page or an entry of the branch predictor, and a change of one line
moves all code behind it. So one build is one draw of a random factor. The compiler gives every function a section, and
a linker script places these in a random order, each behind a random padding. Cold, start-up and hot code stay in the
groups that the compiler chose.
"""

import contextlib
import fcntl
import hashlib
import os
import random
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
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
SOURCES = ("src", "inspect", "include", "scripts/cmake", "CMakeLists.txt", "CMakePresets.json")
GATE_PREFIX = "HAKMEM_"


def _around(start: Path) -> Path | None:
    """The nearest folder upwards that holds hakmem's sources."""
    for folder in (start, *start.parents):
        if (folder / "include" / "hakmem.h").is_file() and (folder / "src" / "fast.h").is_file():
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
        revision = output(["git", "rev-parse", "HEAD"], folder, "git").strip()
        changed = output(["git", "status", "--porcelain", "--", *SOURCES], folder, "git").strip()
    except LabError:
        return None
    return {"revision": revision, "dirty": bool(changed)}


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


def compiler_version() -> str:
    compiler = os.environ.get("CC", "cc")
    return output([compiler, "--version"], Path.cwd(), compiler)


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


GROUPS = (".text.unlikely.", ".text.exit.", ".text.startup.", ".text.hot.", ".text.")
STEP_BYTES, LINE_BYTES = 16, 64
SCRIPT, MAP = "layout.ld", "layout.map"
_SECTION = re.compile(r"^ (\.text\.[^\s*]+)", re.M)


def sections_of(map_text: str) -> list[str]:
    """The sections of functions that a linker's map names, each once."""
    return list(dict.fromkeys(_SECTION.findall(map_text)))


def _group(section: str) -> int:
    return next(index for index, prefix in enumerate(GROUPS) if section.startswith(prefix))


def linker_script(sections: Sequence[str], seed: int) -> str:
    """The sections, shuffled within their groups, each behind 0 to 48 bytes; the rest of the file stays as it is."""
    rng, lines = random.Random(f"layout {seed}"), []
    for group in range(len(GROUPS)):
        members = sorted(section for section in sections if _group(section) == group)
        rng.shuffle(members)
        for section in members:
            lines.append(f". = . + {rng.randrange(0, LINE_BYTES, STEP_BYTES)}; *({section})")
    return "SECTIONS\n{\n.text.layout : ALIGN(64)\n{\n" + "\n".join(lines) + "\n}\n}\nINSERT BEFORE .text;\n"


def seeds(seed: int, count: int) -> list[int]:
    return random.Random(f"builds {seed}").sample(range(2**31), count)


def _digest(folder: Path) -> str:
    """Hash of everything that decides the build: sources, compiler, flags of the caller."""
    digest = hashlib.sha256(compiler_version().encode())
    digest.update(os.environ.get("CFLAGS", "").encode())
    for name in SOURCES:
        path = folder / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                digest.update(f"{file.relative_to(folder)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(sources: Path, seed: int) -> Path:
    """The release library of these sources with the layout of the seed; built if it is not there. Raises LabError."""
    top = required_root("a build with another layout")
    folder = top / "build" / "layouts" / _digest(sources)
    library = folder / f"seed-{seed}" / "libhakmem.so"
    if library.is_file():
        return library
    with _alone(folder):
        made = folder / "release"
        sections = _prepared(sources, made)
        (made / SCRIPT).write_text(linker_script(sections, seed), encoding="ascii")
        linked = _linked(made, f"linking with the layout of seed {seed}")
        library.parent.mkdir(exist_ok=True)
        partial = library.with_suffix(f".{os.getpid()}")
        shutil.copyfile(linked, partial)
        partial.rename(library)
    return library


def _prepared(sources: Path, folder: Path) -> list[str]:
    """The sections of functions. Configures and compiles at the first use, so that a further layout only needs a
    link."""
    known = folder / "sections.txt"
    if not known.is_file():
        flags = f"{os.environ.get('CFLAGS', '')} -ffunction-sections".strip()
        words = ["cmake", "--preset", "release", "-B", str(folder), "-DHAKMEM_TESTS=OFF", "-DHAKMEM_BENCH=OFF"]
        words += [f"-DCMAKE_C_FLAGS={flags}", f"-DCMAKE_SHARED_LINKER_FLAGS=-Wl,-T,{SCRIPT} -Wl,-Map,{MAP}"]
        output(words, sources, "configuring a build with another layout")
        (folder / SCRIPT).write_text(linker_script([], 0), encoding="ascii")
        _linked(folder, "compiling for another layout")
        found = sections_of((folder / MAP).read_text(encoding="utf-8", errors="replace"))
        if not found:
            raise LabError("builds: the linker named no section of a function, so there is nothing to shuffle")
        known.write_text("\n".join(found) + "\n", encoding="ascii")
    return known.read_text(encoding="ascii").split()


def _linked(folder: Path, what: str) -> Path:
    for old in folder.glob("libhakmem.so*"):
        old.unlink()
    output(["cmake", "--build", str(folder), "--target", "hakmem"], folder, what)
    return (folder / "libhakmem.so").resolve()
