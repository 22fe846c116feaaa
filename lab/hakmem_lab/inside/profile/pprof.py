"""A profile as pprof's profile.proto: what the library writes is read, and a profile with names is written."""

import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from google.protobuf.message import DecodeError

from hakmem_lab.errors import LabError, refused
from hakmem_lab.inside.profile.places import INUSE_SPACE, TYPES, HeapProfile, Names, Place
from hakmem_lab.inside.profile.profile_pb2 import Profile

GZIP_MAGIC = b"\x1f\x8b"
PAGE = 4096


def read(path: Path) -> HeapProfile:
    """One that the library has written. Raises LabError."""
    with refused(f"{path} cannot be read"):
        data = path.read_bytes()
    try:
        return parse(gzip.decompress(data) if data.startswith(GZIP_MAGIC) else data)
    except (OSError, EOFError, IndexError, KeyError, ValueError, DecodeError) as error:
        raise LabError(f"{path} is no heap profile, or not all of one ({error})") from None


def parse(data: bytes) -> HeapProfile:
    """Raises DecodeError, ValueError, KeyError or IndexError where it is no such profile."""
    found = Profile.FromString(data)
    texts = [text.decode("utf-8", "replace") for text in found.string_table]
    mappings = {mapping.id: mapping for mapping in found.mapping}
    functions = {function.id: texts[function.name] for function in found.function}
    profile = HeapProfile(types=[(texts[each.type], texts[each.unit]) for each in found.sample_type])
    profile.time_ns, profile.duration_ns, profile.period = found.time_nanos, found.duration_nanos, found.period
    profile.comments = [texts[each] for each in found.comment]
    profile.main = texts[found.mapping[0].filename] if found.mapping else ""
    places = {location.id: _places(location, mappings, functions, texts) for location in found.location}
    for sample in found.sample:
        if len(sample.value) != len(profile.types):
            raise ValueError("a sample has other values than the profile")
        profile.add(tuple(place for each in sample.location_id for place in places[each]), sample.value)
    return profile


def _places(
    location: Any, mappings: Mapping[int, Any], functions: Mapping[int, str], texts: Sequence[str]
) -> Sequence[Place | str]:
    """One; of what has names, those of the functions that are inlined there, too."""
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
    writer = _Writer(profile, names)
    for file, (first, last) in _ranges(profile).items():
        writer.map(file, first, last)
    out, text = writer.out, writer.text
    for name, unit in profile.types:
        out.sample_type.add(type=text(name), unit=text(unit))
    for stack, values in profile.values.items():
        ids = [writer.location(place) for place in stack]
        whole = [round(max(value, 0)) for value in values]
        if any(whole):
            out.sample.add(location_id=ids, value=whole)
    out.period_type.type, out.period_type.unit = text("space"), text("bytes")
    out.comment.extend(text(comment) for comment in profile.comments)
    out.default_sample_type = text(TYPES[INUSE_SPACE][0])
    out.string_table.extend(each.encode("utf-8", "replace") for each in writer.texts)
    return out.SerializeToString()
