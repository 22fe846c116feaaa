"""Builds of hakmem that differ in nothing but where its functions lie: their order and alignment, drawn by a seed.

Where code lies decides which functions share a cache line, a page or an entry of the branch predictor, and a change of
one line moves everything behind it; so one build is one draw of a random factor. The compiler gives every function a
section, and a linker script places these in a random order, each behind a random padding. Cold, start-up and hot code
stay in the groups that the compiler chose.
"""

import contextlib
import fcntl
import hashlib
import os
import random
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from hakmem_lab.errors import LabError
from hakmem_lab.plan import project

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
    """The seeds of a run's builds, all different."""
    return random.Random(f"builds {seed}").sample(range(2**31), count)


def _digest(folder: Path) -> str:
    """Of everything that decides what is compiled: sources, compiler, flags of the caller."""
    digest = hashlib.sha256(project.compiler_version().encode())
    digest.update(os.environ.get("CFLAGS", "").encode())
    for name in project.SOURCES:
        path = folder / name
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.is_file():
                digest.update(f"{file.relative_to(folder)}\0".encode() + file.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


@contextlib.contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """One builder at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / "lock", "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def build(sources: Path, seed: int) -> Path:
    """The release library of these sources with the layout of the seed; built if it is not there. Raises LabError."""
    top = project.required_root("a build with another layout")
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
    """The sections of functions; configures and compiles at the first use, so that a layout costs a link."""
    known = folder / "sections.txt"
    if not known.is_file():
        flags = f"{os.environ.get('CFLAGS', '')} -ffunction-sections".strip()
        words = ["cmake", "--preset", "release", "-B", str(folder), "-DHAKMEM_TESTS=OFF", "-DHAKMEM_BENCH=OFF"]
        words += [f"-DCMAKE_C_FLAGS={flags}", f"-DCMAKE_SHARED_LINKER_FLAGS=-Wl,-T,{SCRIPT} -Wl,-Map,{MAP}"]
        project.output(words, sources, "configuring a build with another layout")
        (folder / SCRIPT).write_text(linker_script([], 0), encoding="ascii")
        _linked(folder, "compiling for another layout")
        found = sections_of((folder / MAP).read_text(encoding="utf-8", errors="replace"))
        if not found:
            raise LabError("builds: the linker named no section of a function, so there is nothing to shuffle")
        known.write_text("\n".join(found) + "\n", encoding="ascii")
    return known.read_text(encoding="ascii").split()


def _linked(folder: Path, what: str) -> Path:
    """The library, linked anew."""
    for old in folder.glob("libhakmem.so*"):
        old.unlink()
    project.output(["cmake", "--build", str(folder), "--target", "hakmem"], folder, what)
    return (folder / "libhakmem.so").resolve()
