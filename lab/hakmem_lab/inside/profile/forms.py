"""The formats of a profile: pprof's profile.proto, collapsed stacks, a report. The file's name decides which.

Reading supports the part of profile.proto that hakmem and hak write. Written profiles contain the functions' names.
"""

import gzip
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from hakmem_lab.errors import LabError, refused
from hakmem_lab.inside.profile.places import (
    ALLOC_OBJECTS,
    ALLOC_SPACE,
    INUSE_OBJECTS,
    INUSE_SPACE,
    REGION,
    RESIDENT_SPACE,
    TYPES,
    HeapProfile,
    Name,
    Names,
    Place,
    Stack,
    region_of,
)
from hakmem_lab.inside.profile.profile_pb2 import Profile
from hakmem_lab.system import files

INHERITED = re.compile(r"inherited over fork: (\d+) bytes")  # a comment of each process
ENDINGS = (".pb.gz", ".folded", ".txt")


def headline(profile: HeapProfile) -> str:
    in_use, allocated = profile.total(INUSE_SPACE), profile.total(ALLOC_SPACE)
    if profile.missing and in_use:
        return f"{in_use:,.0f} bytes in use, by size; {profile.missing}"
    if not allocated:
        smaller = "a smaller --rate samples more, --seconds longer"
        return (
            f"of what was allocated, nothing was sampled: {smaller}" if profile.period != 1 else "nothing was allocated"
        )
    count = len(profile.values.keys() - profile.rows)
    inherited = f" (of these {profile.inherited:,.0f} inherited over fork)" if profile.inherited >= 1 else ""
    return (
        f"{in_use:,.0f} bytes in use{inherited}, {allocated:,.0f} allocated, {count:,} stack{'' if count == 1 else 's'}"
        + _without_names(profile)
    )


def _without_names(profile: HeapProfile) -> str:
    """The part of what was allocated whose stacks have bare addresses, and why they have."""
    bare = sum(
        values[ALLOC_SPACE]
        for stack, values in profile.values.items()
        if any(isinstance(place, Place) and not place.path for place in stack)
    )
    why = "addresses without names: code made at run time, or a library that was unloaded soon after its call"
    return f"; {bare:,.0f} of them through {why}" if bare >= 1 else ""


def check(path: Path) -> None:
    """Check a path before a profile is taken. Raises LabError if no profile can be written there."""
    if not path.name.endswith(ENDINGS):
        raise LabError(
            f"-o: the end of the name says what is written: {path}.pb.gz for pprof, {path}.folded for collapsed "
            f"stacks, {path}.txt for a report"
        )
    if why := files.unwritable(path):
        raise LabError(f"-o: cannot write {path}: {why}")


def write(profile: HeapProfile, path: Path) -> None:
    names = profile.names()
    if path.name.endswith(".pb.gz"):
        data = gzip.compress(encode(profile, names), mtime=0)
    else:
        data = (folded if path.name.endswith(".folded") else report)(profile, names).encode("utf-8", "replace")
    with refused(f"-o: cannot write {path}"):
        files.write(path, data)


def _functions(stack: Stack, names: Names) -> list[Name]:
    """The functions of a stack, the innermost first."""
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
    """A table of the bytes in use by stack, the largest first."""
    exact = "every block was counted" if profile.period == 1 else "estimated from a sample"
    lines = ["heap profile", *profile.comments, f"mean distance of samples: {profile.period:,} bytes: {exact}", ""]
    for title, objects, size in (("allocated", ALLOC_OBJECTS, ALLOC_SPACE), ("in use", INUSE_OBJECTS, INUSE_SPACE)):
        lines.append(f"{title:20}{profile.total(size):>18,.0f} bytes in {profile.total(objects):,.0f} blocks")
        if objects == INUSE_OBJECTS and profile.inherited >= 1:
            lines.append(f"  {'inherited over fork':18}{profile.inherited:>17,.0f}")
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
    """A table of the changes by stack, in use and allocated, the largest first. Stacks with the same function names
    count as the same stack, so the profiles may be of two builds."""
    chance = max(before.period, after.period)
    rows: dict[tuple[str, ...], list[list[float]]] = {}
    for which, profile in enumerate((before, after)):
        names = profile.names()
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
        # Two standard errors of the difference: a sample stands for the mean bytes between two samples.
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


GZIP_MAGIC = b"\x1f\x8b"


PAGE = 4096


def read(path: Path) -> HeapProfile:
    """Read a profile that hakmem or hak has written. Raises LabError."""
    with refused(f"{path} cannot be read"):
        data = path.read_bytes()
    try:
        return parse(gzip.decompress(data) if data.startswith(GZIP_MAGIC) else data)
    except (OSError, EOFError, IndexError, KeyError, ValueError, DecodeError) as error:
        raise LabError(f"{path} is not a complete heap profile ({error})") from None


def parse(data: bytes) -> HeapProfile:
    """Raises DecodeError, ValueError, KeyError or IndexError if the data are no such profile."""
    found = Profile.FromString(data)
    texts = [text.decode("utf-8", "replace") for text in found.string_table]
    mappings = {mapping.id: mapping for mapping in found.mapping}
    functions = {function.id: texts[function.name] for function in found.function}
    profile = HeapProfile(types=[(texts[each.type], texts[each.unit]) for each in found.sample_type])
    profile.time_ns, profile.duration_ns, profile.period = found.time_nanos, found.duration_nanos, found.period
    profile.comments = [texts[each] for each in found.comment]
    profile.inherited = float(sum(int(each[1]) for text in profile.comments if (each := INHERITED.match(text))))
    profile.main = texts[found.mapping[0].filename] if found.mapping else ""
    places = {location.id: _places(location, mappings, functions, texts) for location in found.location}
    for sample in found.sample:
        if len(sample.value) != len(profile.types):
            raise ValueError("a sample has other values than the profile")
        region = [REGION.format(texts[each.str]) for each in sample.label if texts[each.key] == "region"]
        profile.add((*(place for each in sample.location_id for place in places[each]), *region), sample.value)
    return profile


def _places(
    location: Any, mappings: Mapping[int, Any], functions: Mapping[int, str], texts: Sequence[str]
) -> Sequence[Place | str]:
    """The place of a location; if it has names, the names of its functions, inlined ones included."""
    if location.line:
        return [functions[line.function_id] for line in location.line]
    if (mapping := mappings.get(location.mapping_id)) is None:
        return [Place("", "", location.address)]
    offset = location.address - mapping.memory_start + mapping.file_offset
    return [Place(texts[mapping.filename], texts[mapping.build_id], offset)]


class _Writer:
    def __init__(self, profile: HeapProfile, names: Names):
        self.out = Profile(time_nanos=profile.time_ns, duration_nanos=profile.duration_ns, period=profile.period)
        self.names = names
        self.texts = {"": 0}
        self.functions: dict[tuple[str, str], int] = {}
        self.locations: dict[Place | str, int] = {}
        self.starts: dict[tuple[str, str], tuple[int, int]] = {}  # (file, build id) -> number, first address

    def text(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))

    def map(self, file: tuple[str, str], first: int, last: int) -> None:
        mapping = self.out.mapping.add(
            id=len(self.starts) + 1, memory_start=first, memory_limit=last, has_functions=True, has_filenames=True,
            has_line_numbers=True,
        )  # fmt: skip
        mapping.filename, mapping.build_id = self.text(file[0]), self.text(file[1])
        self.starts[file] = mapping.id, first

    def function(self, name: str, file: str) -> int:
        number = self.functions.setdefault((name, file), len(self.functions) + 1)
        if number > len(self.out.function):
            text = self.text(name)
            self.out.function.add(id=number, name=text, system_name=text, filename=self.text(file))
        return number

    def location(self, place: Place | str) -> int:
        number = self.locations.setdefault(place, len(self.locations) + 1)
        if number > len(self.out.location):
            location = self.out.location.add(id=number)
            if isinstance(place, Place):
                location.mapping_id, first = self.starts[place.path, place.build_id]
                location.address = first + place.offset
            for name in self.names.of(place):
                location.line.add(function_id=self.function(name.function, name.file), line=name.line)
        return number


def _ranges(profile: HeapProfile) -> dict[tuple[str, str], tuple[int, int]]:
    """(file, build id) -> an invented range of addresses for its instructions, since the processes of one profile map
    a file at different addresses. The program comes first."""
    last: dict[tuple[str, str], int] = {}
    for place in profile.places():
        key = (place.path, place.build_id)
        last[key] = max(last.get(key, 0), place.offset)
    found, at = {}, 1 << 32
    for key in sorted(last, key=lambda key: (key[0] != profile.main, key)):
        size = (last[key] // PAGE + 1) * PAGE
        found[key] = (0, size) if not key[0] else (at, at + size)
        at += 0 if not key[0] else size + (1 << 24)
    return found


def encode(profile: HeapProfile, names: Names) -> bytes:
    writer = _Writer(profile, names)
    for file, (first, last) in _ranges(profile).items():
        writer.map(file, first, last)
    out, text = writer.out, writer.text
    for name, unit in profile.types:
        out.sample_type.add(type=text(name), unit=text(unit))
    for stack, values in profile.values.items():
        region = region_of(stack)
        ids = [writer.location(place) for place in (stack[:-1] if region else stack)]
        whole = [round(max(value, 0)) for value in values]
        if any(whole):
            sample = out.sample.add(location_id=ids, value=whole)
            if region:
                sample.label.add(key=text("region"), str=text(region))
    out.period_type.type, out.period_type.unit = text("space"), text("bytes")
    out.comment.extend(text(comment) for comment in profile.comments)
    out.default_sample_type = text(TYPES[INUSE_SPACE][0])
    out.string_table.extend(each.encode("utf-8", "replace") for each in writer.texts)
    return out.SerializeToString()
