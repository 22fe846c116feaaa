"""Programs and libraries in C that belong to the laboratory: compiled at their first use, into the user's cache."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from hakmem_lab.errors import LabError

FLAGS = ("-std=c17", "-D_GNU_SOURCE", "-O2")


def compiled(
    name: str,
    sources: Sequence[Path],
    *attempts: Sequence[str],
    purpose: str,
    needs: str = "",
    include: Path | None = None,
) -> Path:
    """The file built from these sources (headers among them are only looked at), of this version of them.

    attempts: flags beyond FLAGS, the first that the system can link counts; none: no further flags.
    purpose: what it is to hak, for messages. needs: what to install where no attempt succeeds.
    include: the folder from which they include each other; where it lies makes no other version.
    """
    attempts = attempts or ((),)
    digest = hashlib.sha256(repr(attempts).encode())
    for path in sorted(sources):
        digest.update(path.read_bytes())
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hakmem-lab"
    path = cache / f"{name}-{digest.hexdigest()[:16]}"
    if not path.exists():
        folder = ("-I", str(include)) if include else ()
        _compile(path, name, sources, [(*folder, *flags) for flags in attempts], purpose, needs)
    return path


def _compile(
    path: Path, name: str, sources: Sequence[Path], attempts: Sequence[Sequence[str]], purpose: str, needs: str
) -> None:
    compiler = next((found for each in ("cc", "gcc", "clang") if (found := shutil.which(each))), None)
    if compiler is None:
        raise LabError(f"hak needs a C compiler once, for its {purpose}: install gcc or clang")
    path.parent.mkdir(parents=True, exist_ok=True)
    units = [str(source) for source in sorted(sources) if source.suffix == ".c"]
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        built = Path(folder) / name
        for flags in attempts:
            command = [compiler, *FLAGS, "-o", str(built), *units, *flags]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                built.rename(path)
                return
    advice = f"; {needs}" if needs else ""
    raise LabError(f"hak cannot compile its {purpose} with {compiler}{advice}: {done.stderr.strip()[-400:]}")
