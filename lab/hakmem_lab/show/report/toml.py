"""A specification back as TOML, so that it can be saved and run again.

The standard library reads TOML but does not write it. May import: nothing of the package.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def dumps(table: Mapping[str, Any]) -> str:
    """The table as TOML; keys whose value is None are left out, since TOML has no such value."""
    return "\n".join(_table(table, ())).strip() + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    lines = [f"{_key(name)} = {_value(v)}" for name, v in table.items() if v is not None and not _is_nested(v)]
    for name, value in table.items():
        if not _is_nested(value):
            continue
        inner = (*path, _key(name))
        for each in [value] if isinstance(value, Mapping) else value:
            head = ".".join(inner)
            lines += ["", f"[{head}]" if isinstance(value, Mapping) else f"[[{head}]]", *_table(each, inner)]
    return lines


def _is_nested(value: Any) -> bool:
    return isinstance(value, Mapping) or (
        isinstance(value, list) and bool(value) and all(isinstance(each, Mapping) for each in value)
    )


def _key(name: object) -> str:
    text = str(name)
    return text if _BARE.fullmatch(text) else _string(text)


def _string(text: str) -> str:
    # JSON's escapes are TOML's, but for the two halves of a surrogate pair, which ensure_ascii=False avoids.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_value(each) for each in value if each is not None) + "]"
    if isinstance(value, Mapping):
        inner = ", ".join(f"{_key(name)} = {_value(each)}" for name, each in value.items() if each is not None)
        return "{ " + inner + " }"
    return _string(str(value))
