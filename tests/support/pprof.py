"""A reader of profile.proto, gzipped or not, that trusts nothing: every field it does not know, every number that stands
for nothing, and every table that is not as the format says is an error."""

import gzip


class Malformed(Exception):
    """What is wrong with the profile."""


def varint(data, at):
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise Malformed("a number does not end")
        value |= (data[at] & 0x7F) << shift
        at += 1
        if not data[at - 1] & 0x80:
            return value, at
        shift += 7


def fields(data):
    """Yield (number, value) of a message: an int or bytes."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        if key & 7 == 0:
            value, at = varint(data, at)
        elif key & 7 == 2:
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
            if len(value) != length:
                raise Malformed("a text is cut off")
        else:
            raise Malformed(f"wire type {key & 7}")
        yield key >> 3, value


def packed(data):
    at = 0
    while at < len(data):
        value, at = varint(data, at)
        yield value


def message(data, names):
    """One value a field; `names`: {number: name}."""
    found = dict.fromkeys(names.values(), 0)
    for number, value in fields(data):
        if number not in names:
            raise Malformed(f"field {number}, where there are {names}")
        found[names[number]] = value
    return found


MAPPING = {1: "id", 2: "start", 3: "limit", 4: "offset", 5: "file", 6: "build_id"}
LOCATION = {1: "id", 2: "mapping", 3: "address", 4: "line"}
FUNCTION = {1: "id", 2: "name", 3: "system_name"}
SINGLE = {7: "drop_frames", 9: "time", 10: "duration", 12: "period", 14: "default_type"}


class Profile:
    """types: [(name, unit)]; samples: [([location], [value])]; labels: {key: text} of each sample; location: address, or name of a row; mappings: dicts."""

    def __init__(self, data):
        parts = {number: [] for number in range(1, 15)}
        for number, value in fields(data):
            if number not in parts:
                raise Malformed(f"field {number} of the profile")
            parts[number].append(value)
        self.strings = [text.decode() for text in parts[6]]
        if not self.strings or self.strings[0] != "":
            raise Malformed("the first text is not empty")
        self.types = [self.type_of(each) for each in parts[1]]
        (self.period_type,) = (self.type_of(each) for each in parts[11])
        self.comments = [self.strings[each] for each in parts[13]]
        for number, name in SINGLE.items():
            if len(parts[number]) > 1:
                raise Malformed(f"{name} stands there twice")
            setattr(self, name, parts[number][0] if parts[number] else 0)
        self.default_type = self.strings[self.default_type]
        self.mappings = self.table(parts[3], MAPPING)
        for mapping in self.mappings.values():
            mapping["file"] = self.strings[mapping["file"]]
            mapping["build_id"] = self.strings[mapping["build_id"]]
        self.functions = self.table(parts[5], FUNCTION)
        self.locations = self.table(parts[4], LOCATION)
        self.labels = []
        self.samples = [self.sample_of(each) for each in parts[2]]

    def type_of(self, data):
        found = message(data, {1: "name", 2: "unit"})
        return self.strings[found["name"]], self.strings[found["unit"]]

    @staticmethod
    def table(parts, names):
        rows = [message(part, names) for part in parts]
        found = {row["id"]: row for row in rows}
        if len(found) != len(rows) or 0 in found:
            raise Malformed(f"ids {sorted(row['id'] for row in rows)}")
        return found

    def sample_of(self, data):
        locations, values, labels = [], [], {}
        for number, value in fields(data):
            if number not in (1, 2, 3):
                raise Malformed(f"field {number} of a sample")
            if number == 3:
                label = message(value, {1: "key", 2: "text"})
                labels[self.strings[label["key"]]] = self.strings[label["text"]]
            else:
                (locations if number == 1 else values).extend(packed(value))
        self.labels.append(labels)
        if len(values) != len(self.types):
            raise Malformed(f"{len(values)} values, {len(self.types)} types")
        return [self.place(each) for each in locations], values

    def place(self, number):
        location = self.locations[number]
        if location["line"]:
            return self.strings[self.functions[message(location["line"], {1: "function"})["function"]]["name"]]
        if location["mapping"]:
            mapping = self.mappings[location["mapping"]]
            if not mapping["start"] <= location["address"] < mapping["limit"]:
                raise Malformed(f"address {location['address']:x} is not in its mapping")
        return location["address"]

    def total(self, name, where=lambda stack: True):
        column = [each[0] for each in self.types].index(name)
        return sum(values[column] for stack, values in self.samples if where(stack))

    def mapping_of(self, address):
        """(file's name, offset in the file)"""
        for mapping in self.mappings.values():
            if mapping["start"] <= address < mapping["limit"]:
                return mapping["file"], address - mapping["start"] + mapping["offset"]
        return None, address


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    return Profile(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
