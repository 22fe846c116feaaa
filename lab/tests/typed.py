"""Do values have the types that annotations claim, and does a schema in JSON allow these types?"""

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, Literal, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

NAMES = {str: "string", bool: "boolean", int: "integer", float: "number", NoneType: "null"}


def options(kind: Any) -> tuple[Any, ...]:
    kind = get_args(kind)[0] if get_origin(kind) is NotRequired else kind
    return get_args(kind) if isinstance(kind, UnionType) or get_origin(kind) is Union else (kind,)


def misfits(value: Any, kind: Any, place: str, closed: bool = True) -> list[str]:
    """What in a value from JSON is not of the type. closed: a key that the type lacks is a misfit, too."""
    tried = [list(_misfits(value, each, place, closed)) for each in options(kind)]
    return min(tried, key=len)


def _misfits(value: Any, kind: Any, place: str, closed: bool) -> Iterator[str]:
    origin, inner = get_origin(kind), get_args(kind)
    if is_typeddict(kind) and isinstance(value, dict):
        known = get_type_hints(kind)
        yield from (f"{place}.{key} is no key of {kind.__name__}" for key in value if closed and key not in known)
        for key in value.keys() & known.keys():
            yield from misfits(value[key], known[key], f"{place}.{key}", closed)
    elif origin is dict and isinstance(value, dict):
        for key, each in value.items():
            yield from misfits(each, inner[1], f"{place}.{key}", closed)
    elif origin in (list, tuple) and isinstance(value, list):
        kinds = inner if origin is tuple else inner * len(value)
        for index, (each, own) in enumerate(zip(value, kinds, strict=True)):
            yield from misfits(each, own, f"{place}[{index}]", closed)
    elif kind is float and type(value) is int:
        pass  # a whole number is written without a point
    elif kind is not Any and (is_typeddict(kind) or origin or type(value) is not kind):
        yield f"{place} is {value!r}, no {getattr(kind, '__name__', kind)}"


def refused(kind: Any, node: dict, defs: dict, place: str) -> list[str]:
    """What the type allows but the node of a schema does not, and keys of the schema that the type lacks."""
    return [text for each in options(kind) for text in _refused(each, node, defs, place)]


def _refused(kind: Any, node: dict, defs: dict, place: str) -> list[str]:
    node = defs[node["$ref"].rpartition("/")[2]] if "$ref" in node else node
    if "anyOf" in node:
        return min((_refused(kind, each, defs, place) for each in node["anyOf"]), key=len)
    if "enum" in node:
        allowed = {NAMES[type(each)] for each in node["enum"]}
    else:
        allowed = {node["type"]} if isinstance(node["type"], str) else {*node["type"]}
    if is_typeddict(kind):
        known, asked = get_type_hints(kind), node.get("properties", {})
        missing = [
            f"{place}.{key} is no key of {kind.__name__}" for key in {*asked, *node.get("required", ())} - {*known}
        ]
        inner = (refused(known[key], each, defs, f"{place}.{key}") for key, each in asked.items() if key in known)
        return [
            *([] if "object" in allowed else [f"{place} may be an object"]),
            *missing,
            *(t for own in inner for t in own),
        ]
    if get_origin(kind) is list:
        own = refused(get_args(kind)[0], node["items"], defs, f"{place}[]") if "items" in node else []
        return own if "array" in allowed else [f"{place} may be a list"]
    name = "object" if get_origin(kind) is dict else "string" if get_origin(kind) is Literal else NAMES[kind]
    return [] if name in allowed or (name == "integer" and "number" in allowed) else [f"{place} may be {name}"]
