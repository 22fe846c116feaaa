"""The forms of a profile: pprof's, collapsed stacks, a report. The name of the file says which."""

import gzip
from pathlib import Path

from hakmem_lab.errors import LabError, refused
from hakmem_lab.inside.profile import pprof
from hakmem_lab.inside.profile.places import (
    ALLOC_OBJECTS,
    ALLOC_SPACE,
    INUSE_OBJECTS,
    INUSE_SPACE,
    RESIDENT_SPACE,
    HeapProfile,
    Name,
    Names,
    Place,
    Stack,
    resolve,
)
from hakmem_lab.system import files

ENDINGS = (".pb.gz", ".folded", ".txt")


def headline(profile: HeapProfile) -> str:
    in_use, allocated = profile.total(INUSE_SPACE), profile.total(ALLOC_SPACE)
    if profile.missing and in_use:
        return f"{in_use:,.0f} bytes in use, by size; {profile.missing}"
    if not allocated:
        return "nothing that was allocated was sampled: a smaller --rate samples more, --seconds longer"
    count = len(profile.values.keys() - profile.rows)
    return f"{in_use:,.0f} bytes in use, {allocated:,.0f} allocated, {count:,} stack{'' if count == 1 else 's'}"


def check(path: Path) -> None:
    """Before there is a profile. Raises LabError where none can be written there."""
    if not path.name.endswith(ENDINGS):
        raise LabError(
            f"-o: the end of the name says what is written: {path}.pb.gz for pprof, {path}.folded for collapsed "
            f"stacks, {path}.txt for a report"
        )
    if why := files.unwritable(path):
        raise LabError(f"-o: cannot write {path}: {why}")


def write(profile: HeapProfile, path: Path) -> None:
    names = resolve(profile.places(), profile.copies)
    if path.name.endswith(".pb.gz"):
        data = gzip.compress(pprof.encode(profile, names), mtime=0)
    else:
        data = (folded if path.name.endswith(".folded") else report)(profile, names).encode("utf-8", "replace")
    with refused(f"-o: cannot write {path}"):
        files.write(path, data)


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
    fifth = profile.types[RESIDENT_SPACE][0].removesuffix("_space")
    lines.append(f"{fifth:20}{profile.total(RESIDENT_SPACE):>18,.0f} bytes, of these")
    rows = {stack: values for stack, values in profile.values.items() if not isinstance(stack[0], Place)}
    for stack, values in rows.items():
        if values[RESIDENT_SPACE] >= 1 and isinstance(stack[0], str):
            lines.append(f"  {stack[0]:18}{values[RESIDENT_SPACE]:>18,.0f}")
    lines += ["", f"{'in use':>16}{'blocks':>12}{fifth:>16}{'allocated':>18}"]
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


def changes(before: HeapProfile, after: HeapProfile) -> str:
    """What is in use, and was allocated, by stack: the largest change first. Stacks are the same that have the same
    functions, so that the profiles may be of two builds."""
    chance = max(before.period, after.period)
    rows: dict[tuple[str, ...], list[list[float]]] = {}
    for which, profile in enumerate((before, after)):
        names = resolve(profile.places(), profile.copies)
        for stack, values in profile.values.items():
            row = rows.setdefault(tuple(name.function for name in _functions(stack, names)), [[0.0] * 4, [0.0] * 4])
            row[which] = [one + other for one, other in zip(row[which], values[:4], strict=True)]
    lines = [f"{'':12}{'before':>18}{'after':>18}{'change':>18}"]
    for title, which in (("in use", INUSE_SPACE), ("blocks", INUSE_OBJECTS), ("allocated", ALLOC_SPACE)):
        old, new = before.total(which), after.total(which)
        lines.append(f"{title:12}{old:>18,.0f}{new:>18,.0f}{new - old:>+18,.0f}")
    lines += ["", f"{'in use':>16}{'before':>16}{'after':>16}{'blocks':>12}{'allocated':>18}"]
    left = 0
    for functions, (first, second) in sorted(rows.items(), key=lambda item: -abs(item[1][1][3] - item[1][0][3])):
        change = [b - a for a, b in zip(first, second, strict=True)]
        if not round(change[INUSE_SPACE]) and not round(change[ALLOC_SPACE]):
            continue
        # A sample stands for so many bytes as lie between two: two standard errors of the difference.
        errors = {i: 2 * ((first[i] + second[i]) * chance) ** 0.5 for i in (ALLOC_SPACE, INUSE_SPACE)}
        if chance > 1 and all(abs(change[i]) <= error for i, error in errors.items()):
            left += 1
            continue
        lines.append(
            f"{change[INUSE_SPACE]:>+16,.0f}{first[INUSE_SPACE]:>16,.0f}{second[INUSE_SPACE]:>16,.0f}"
            f"{change[INUSE_OBJECTS]:>+12,.0f}{change[ALLOC_SPACE]:>+18,.0f}"
        )
        lines += [f"    {function}" for function in functions]
    if left:
        lines += ["", f"{left:,} stacks are left out whose change may be chance: a sample is taken of {chance:,} bytes"]
    return "\n".join(lines) + "\n"
