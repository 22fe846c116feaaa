"""A reading of `hak explain` as one HTML file: who has the memory, the heap by occupancy, the classes, the wastes."""

from collections.abc import Mapping
from pathlib import Path

from hakmem_lab import extras
from hakmem_lab.show import emit


def write(result: Mapping, output: Path, option: str) -> None:
    """`option`: by which it was asked for. Raises LabError where it cannot be written, or packages are missing."""
    extras.need("report", "hak explain --html")
    from hakmem_lab.show.report import heap

    emit.write_text(heap.render(result), output, option)
