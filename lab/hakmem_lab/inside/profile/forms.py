"""The forms of a profile: pprof's, collapsed stacks, a report. The name of the file says which."""

import gzip
import os
from pathlib import Path

from hakmem_lab.errors import LabError
from hakmem_lab.inside.profile import proto
from hakmem_lab.inside.profile.model import (
    ALLOC_OBJECTS,
    ALLOC_SPACE,
    INUSE_OBJECTS,
    INUSE_SPACE,
    RESIDENT_SPACE,
    HeapProfile,
    Place,
    Stack,
)
from hakmem_lab.inside.profile.symbols import Name, Names, resolve
from hakmem_lab.system import files

ENDINGS = (".pb.gz", ".folded", ".txt")


def headline(profile: HeapProfile) -> str:
    in_use, allocated = profile.total(INUSE_SPACE), profile.total(ALLOC_SPACE)
    if profile.missing and in_use:
        return f"{in_use:,.0f} bytes in use, by size; {profile.missing}"
    if not allocated:
        return "nothing that was allocated was sampled: a smaller --rate samples more, --seconds longer"
    return f"{in_use:,.0f} bytes in use, {allocated:,.0f} allocated, {len(profile.values):,} stacks"


def check(path: Path) -> None:
    """Before there is a profile, which may take hours. Raises LabError where none can be written there."""
    if not path.name.endswith(ENDINGS):
        raise LabError(f"-o: {path} ends in none of {', '.join(ENDINGS)}, which say what is to be written")
    if path.is_dir() or not path.parent.is_dir():
        raise LabError(
            f"-o: cannot write {path}: " + ("it is a folder" if path.is_dir() else "its folder is not there")
        )
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise LabError(f"-o: cannot write {path}: it is not for us")


def write(profile: HeapProfile, path: Path) -> None:
    names = resolve(profile.places(), profile.copies)
    if path.name.endswith(".pb.gz"):
        data = gzip.compress(proto.encode(profile, names), mtime=0)
    else:
        data = (folded if path.name.endswith(".folded") else report)(profile, names).encode("utf-8", "replace")
    try:
        files.write(path, data)
    except OSError as error:
        raise LabError(f"-o: cannot write {path}: {error.strerror}") from None


def _functions(stack: Stack, names: Names) -> list[Name]:
    """The innermost first."""
    return [name for place in stack for name in names.of(place)]


def folded(profile: HeapProfile, names: Names) -> str:
    """Bytes in use, by stack, the outermost function first."""
    sums: dict[str, float] = {}
    for stack, values in profile.values.items():
        words = [name.function.replace(";", ":").replace("\n", " ") for name in reversed(_functions(stack, names))]
        line = ";".join(words)
        sums[line] = sums.get(line, 0) + values[INUSE_SPACE]
    return "".join(f"{line} {round(value)}\n" for line, value in sorted(sums.items()) if round(value) > 0)


def report(profile: HeapProfile, names: Names) -> str:
    """What is in use, by place, the largest first."""
    exact = "every block was counted" if profile.period == 1 else "estimated from a sample"
    lines = ["heap profile", *profile.comments, f"mean distance of samples: {profile.period:,} bytes: {exact}", ""]
    for title, objects, size in (("allocated", ALLOC_OBJECTS, ALLOC_SPACE), ("in use", INUSE_OBJECTS, INUSE_SPACE)):
        lines.append(f"{title:20}{profile.total(size):>18,.0f} bytes in {profile.total(objects):,.0f} blocks")
    lines.append(f"{'resident':20}{profile.total(RESIDENT_SPACE):>18,.0f} bytes, of these")
    rows = {stack: values for stack, values in profile.values.items() if not _is_code(stack)}
    for stack, values in rows.items():
        if values[RESIDENT_SPACE] >= 1 and isinstance(stack[0], str):
            lines.append(f"  {stack[0]:18}{values[RESIDENT_SPACE]:>18,.0f}")
    lines += ["", f"{'in use':>16}{'blocks':>12}{'resident':>16}{'allocated':>18}"]
    ordered = sorted(profile.values.items(), key=lambda item: -item[1][INUSE_SPACE])
    for stack, values in ordered:
        if round(values[INUSE_SPACE]) == 0:
            continue
        lines.append(
            f"{values[INUSE_SPACE]:>16,.0f}{values[INUSE_OBJECTS]:>12,.0f}{values[RESIDENT_SPACE]:>16,.0f}"
            f"{values[ALLOC_SPACE]:>18,.0f}"
        )
        for name in _functions(stack, names):
            where = f"  {name.file}:{name.line}" if name.file else ""
            lines.append(f"    {name.function}{where}")
    return "\n".join(lines) + "\n"


def _is_code(stack: Stack) -> bool:
    return isinstance(stack[0], Place)
