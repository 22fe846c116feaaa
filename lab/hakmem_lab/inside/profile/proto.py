"""pprof's profile.proto: what the library writes is read, and a profile with names is written."""

import gzip
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hakmem_lab.errors import LabError
from hakmem_lab.inside.profile.model import INUSE_SPACE, TYPES, HeapProfile, Place
from hakmem_lab.inside.profile.symbols import Name, Names

NUMBER, BYTES = 0, 2
GZIP_MAGIC = b"\x1f\x8b"
PAGE = 4096


class Malformed(Exception):
    """It is no such profile."""


# Reading


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Malformed("a number does not end")
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
            raise Malformed(f"wire type {key & 7}")


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
    try:
        data = path.read_bytes()
        return parse(gzip.decompress(data) if data.startswith(GZIP_MAGIC) else data)
    except (OSError, EOFError, Malformed, KeyError, IndexError, ValueError) as error:
        raise LabError(f"{path} is no heap profile, or not all of one ({error})") from None


def parse(data: bytes) -> HeapProfile:
    texts, samples, comments = list[str](), list[bytes](), list[int]()
    mappings, locations, functions = dict[int, dict[int, int]](), dict[int, bytes](), dict[int, int]()
    profile, order = HeapProfile(), list[int]()
    for number, value, content in _fields(data):
        if number == 2:
            samples.append(content)
        elif number == 3:
            row = _message(content)
            mappings[row[1]] = row
            order.append(row[1])
        elif number == 4:
            locations[_message(content)[1]] = content
        elif number == 5:
            row = _message(content)
            functions[row[1]] = row[2]
        elif number == 6:
            texts.append(content.decode("utf-8", "replace"))
        elif number == 9:
            profile.time_ns = value
        elif number == 10:
            profile.duration_ns = value
        elif number == 12:
            profile.period = value
        elif number == 13:
            comments.append(value)
    profile.comments = [texts[each] for each in comments]
    profile.main = texts[mappings[order[0]][5]] if order else ""
    places = {key: _place(content, mappings, functions, texts) for key, content in locations.items()}
    for sample in samples:
        parts = {number: _numbers(content) for number, _, content in _fields(sample)}
        profile.add(tuple(places[each] for each in parts[1]), parts[2])
    return profile


def _place(
    content: bytes, mappings: Mapping[int, Mapping[int, int]], functions: Mapping[int, int], texts: Sequence[str]
) -> Place | str:
    row = {number: value for number, value, _ in _fields(content)}
    lines = [line for number, _, line in _fields(content) if number == 4]
    if lines:
        return texts[functions[_message(lines[0])[1]]]
    address, mapping = row[3], mappings.get(row.get(2, 0))
    if mapping is None:
        return Place("", "", address)
    return Place(texts[mapping[5]], texts[mapping[6]], address - mapping[2] + mapping.get(4, 0))


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
    for name, unit in TYPES:
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
