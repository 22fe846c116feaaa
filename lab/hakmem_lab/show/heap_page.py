"""A reading of `hak explain`, or a trace by stack, as one HTML file."""

from collections.abc import Mapping
from pathlib import Path

from hakmem_lab import extras
from hakmem_lab.show import emit


def write(result: Mapping, output: Path, option: str) -> None:
    """`option`: by which it was asked for. Raises LabError where it cannot be written, or packages are missing."""
    extras.need("report", option)
    from hakmem_lab.show.report import heap, stacks

    page = stacks if "stacks" in result else heap
    emit.write_text(page.render(result), output, option)
