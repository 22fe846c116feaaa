"""The forms of a profile: pprof's, collapsed stacks, a report. The name of the file says which.

pprof's profile.proto: what the library writes is read, and a profile with names is written.
"""

import gzip
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hakmem_lab.errors import LabError, refused
from hakmem_lab.inside.profile.places import (
    ALLOC_OBJECTS,
    ALLOC_SPACE,
    INUSE_OBJECTS,
    INUSE_SPACE,
    RESIDENT_SPACE,
    TYPES,
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
        raise LabError(f"-o: {path} ends in none of {', '.join(ENDINGS)}, which say what is to be written")
    if why := files.unwritable(path):
        raise LabError(f"-o: cannot write {path}: {why}")


def write(profile: HeapProfile, path: Path) -> None:
    names = resolve(profile.places(), profile.copies)
    if path.name.endswith(".pb.gz"):
        data = gzip.compress(encode(profile, names), mtime=0)
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


NUMBER, BYTES = 0, 2
GZIP_MAGIC = b"\x1f\x8b"
PAGE = 4096


# Reading. ValueError: it is no such profile.


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise ValueError("a number does not end")
        value |= (data[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not data[at - 1] & 0x80:
            return value, at


def _fields(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """(number, value, b"") or (number, 0, bytes) of each field."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        value, at = _varint(data, at)
        if key & 7 == BYTES:
            yield key >> 3, 0, data[at : at + value]
            at += value
        elif key & 7 == NUMBER:
            yield key >> 3, value, b""
        else:
            raise ValueError(f"wire type {key & 7}")


def _numbers(data: bytes) -> list[int]:
    at, found = 0, []
    while at < len(data):
        value, at = _varint(data, at)
        found.append(value)
    return found


def _message(data: bytes) -> dict[int, int]:
    return {number: value for number, value, _ in _fields(data)}


def read(path: Path) -> HeapProfile:
    """One that the library has written. Raises LabError."""
    with refused(f"{path} cannot be read"):
        data = path.read_bytes()
    try:
        return parse(gzip.decompress(data) if data.startswith(GZIP_MAGIC) else data)
    except (OSError, EOFError, KeyError, IndexError, ValueError) as error:
        raise LabError(f"{path} is no heap profile, or not all of one ({error})") from None


def parse(data: bytes) -> HeapProfile:
    rows: dict[int, list[tuple[int, bytes]]] = defaultdict(list)
    for number, value, content in _fields(data):
        rows[number].append((value, content))
    texts = [content.decode("utf-8", "replace") for _, content in rows[6]]
    kinds, mapped, named = ([_message(content) for _, content in rows[number]] for number in (1, 3, 5))
    mappings, functions = {row[1]: row for row in mapped}, {row[1]: row[2] for row in named}
    profile = HeapProfile(types=[(texts[row[1]], texts[row[2]]) for row in kinds])
    times = (rows[number][-1][0] if rows[number] else 0 for number in (9, 10, 12))
    profile.time_ns, profile.duration_ns, profile.period = times
    profile.comments = [texts[value] for value, _ in rows[13]]
    profile.main = texts[mapped[0][5]] if mapped else ""
    places = {_message(content)[1]: _places(content, mappings, functions, texts) for _, content in rows[4]}
    for _, sample in rows[2]:
        parts = {number: _numbers(content) for number, _, content in _fields(sample)}
        if len(parts[2]) != len(kinds):
            raise ValueError("a sample has other values than the profile")
        profile.add(tuple(place for each in parts[1] for place in places[each]), parts[2])
    return profile


def _places(
    content: bytes, mappings: Mapping[int, Mapping[int, int]], functions: Mapping[int, int], texts: Sequence[str]
) -> Sequence[Place | str]:
    """One; of what has names, those of the functions that are inlined there, too."""
    row = {number: value for number, value, _ in _fields(content)}
    lines = [line for number, _, line in _fields(content) if number == 4]
    if lines:
        return [texts[functions[_message(line)[1]]] for line in lines]
    address, mapping = row[3], mappings.get(row.get(2, 0))
    if mapping is None:
        return [Place("", "", address)]
    return [Place(texts[mapping[5]], texts[mapping[6]], address - mapping[2] + mapping.get(4, 0))]


# Writing


def _put_varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _number(field_: int, value: int) -> bytes:
    return _put_varint(field_ << 3 | NUMBER) + _put_varint(value)


def _bytes(field_: int, content: bytes) -> bytes:
    return _put_varint(field_ << 3 | BYTES) + _put_varint(len(content)) + content


def _packed(field_: int, values: Sequence[int]) -> bytes:
    return _bytes(field_, b"".join(_put_varint(value) for value in values))


@dataclass
class _Writer:
    texts: dict[str, int] = field(default_factory=lambda: {"": 0})
    functions: dict[tuple[str, str], int] = field(default_factory=dict)
    mappings: dict[tuple[str, str], int] = field(default_factory=dict)
    locations: dict[Place | str, int] = field(default_factory=dict)
    parts: list[bytes] = field(default_factory=list)

    def text(self, text: str) -> int:
        return self.texts.setdefault(text, len(self.texts))

    def function(self, name: str, file: str) -> int:
        number = self.functions.get((name, file))
        if number is None:
            number = self.functions[name, file] = len(self.functions) + 1
            row = _number(1, number) + _number(2, self.text(name)) + _number(3, self.text(name))
            self.parts.append(_bytes(5, row + _number(4, self.text(file))))
        return number

    def location(self, place: Place | str, names: Sequence[Name], starts: Mapping[tuple[str, str], int]) -> int:
        number = self.locations.get(place)
        if number is None:
            number = self.locations[place] = len(self.locations) + 1
            row = _number(1, number)
            if isinstance(place, Place):
                key = (place.path, place.build_id)
                row += _number(2, self.mappings[key]) + _number(3, starts[key] + place.offset)
            for name in names:
                row += _bytes(4, _number(1, self.function(name.function, name.file)) + _number(2, name.line))
            self.parts.append(_bytes(4, row))
        return number


def _starts(profile: HeapProfile) -> dict[tuple[str, str], tuple[int, int]]:
    """(file, build id) -> a range of addresses for its instructions: several processes have one profile, so that
    these are not where it was mapped. The program comes first."""
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
    writer = _Writer()
    ranges = _starts(profile)
    starts = {key: first for key, (first, _) in ranges.items()}
    for number, (key, (first, last)) in enumerate(ranges.items(), 1):
        writer.mappings[key] = number
        row = _number(1, number) + _number(2, first) + _number(3, last) + _number(4, 0)
        row += _number(5, writer.text(key[0])) + _number(6, writer.text(key[1]))
        writer.parts.append(_bytes(3, row + _number(7, 1) + _number(8, 1) + _number(9, 1)))
    for name, unit in profile.types:
        writer.parts.append(_bytes(1, _number(1, writer.text(name)) + _number(2, writer.text(unit))))
    for stack, values in profile.values.items():
        ids = [writer.location(place, names.of(place), starts) for place in stack]
        whole = [round(max(value, 0)) for value in values]
        if any(whole):
            writer.parts.append(_bytes(2, _packed(1, ids) + _packed(2, whole)))
    writer.parts.append(_bytes(11, _number(1, writer.text("space")) + _number(2, writer.text("bytes"))))
    writer.parts += [_number(9, profile.time_ns), _number(10, profile.duration_ns), _number(12, profile.period)]
    writer.parts += [_number(13, writer.text(comment)) for comment in profile.comments]
    writer.parts.append(_number(14, writer.text(TYPES[INUSE_SPACE][0])))
    texts = b"".join(_bytes(6, text.encode("utf-8", "replace")) for text in writer.texts)
    return texts + b"".join(writer.parts)
