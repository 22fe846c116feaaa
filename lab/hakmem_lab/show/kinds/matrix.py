"""Settings that act together."""

from collections.abc import Iterator
from typing import Any

from hakmem_lab.show import figures
from hakmem_lab.show.terminal import filled

Record = dict[str, Any]


def tables(result: Record) -> Iterator:
    rows = ([row["name"], row["kind"], figures.told(result, row), row["reading"] or ""] for row in result["effects"])
    yield from filled("Effects", ("effect", "kind", "effect [interval]", "reading"), rows)
