"""The HTML report. `write` makes one self-contained page from runs, `write_files` from stored runs, `write_reading`
from a reading of a heap or a trace. `picture` makes one SVG for the documentation.

Jinja2 is imported on the first call, so importing this is cheap.
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hakmem_lab import extras, kinds
from hakmem_lab.errors import refused
from hakmem_lab.show import formats
from hakmem_lab.show.report.model import LoadedRun
from hakmem_lab.store.results import Result
from hakmem_lab.store.runs import RunFile
from hakmem_lab.system import files

__all__ = ["LoadedRun", "load", "picture", "save_picture", "write", "write_files", "write_reading"]


def load(file: RunFile) -> LoadedRun:
    """A run with its result."""
    return LoadedRun.from_records(list(file.records()), kinds.result_of(file))


def write_files(found: Sequence[RunFile], output: Path) -> None:
    """Writes one HTML file for the runs, with links to their raw data. Raises LabError where it cannot be written."""
    extras.need("report", "hak runs report")
    links = {file.id: os.path.relpath(file.path.resolve(), output.resolve().parent) for file in found}
    with refused(f"--output: cannot write {output}"):
        write([load(file) for file in found], output, links)


def write(runs: Sequence[LoadedRun], out_path: str | Path, links: Mapping[str, str] | None = None) -> None:
    """Writes one self-contained HTML file for `runs`, in their order.

    `links` maps a run's id to the address of its raw data file, relative to the page. Raises OSError if the file cannot
    be written.
    """
    from hakmem_lab.show.report.page import render

    files.write(Path(out_path), render(runs, links or {}))


def write_reading(result: Mapping, output: Path, option: str) -> None:
    """Writes a reading of `hak heap explain`, or a trace by stack, as one HTML file. `option`: the flag that asked
    for it. Raises LabError where it cannot be written, or packages are missing."""
    extras.need("report", option)
    from hakmem_lab.show.report import readings

    page = readings.stacks if "stacks" in result else readings.heap
    formats.write_text(page(result), output, option)


def picture(result: Result, runs: Sequence[Mapping[str, Any]] = (), name: str | None = None) -> str:
    """Return one picture of a result as a standalone SVG document.

    `runs` are records of the store (run, sample, block and header lines are used). `name` chooses one of the
    pictures of the kind (`forest`, `blocks`, `distribution`, …); None takes the kind's leading one. Raises
    ValueError if the result has no such picture.
    """
    from hakmem_lab.show.report.pictures import standalone

    return standalone(LoadedRun.from_records(runs, result), name)


def save_picture(
    result: Result, runs: Sequence[Mapping[str, Any]], out_path: str | Path, name: str | None = None
) -> None:
    """Write `picture(result, runs, name)` to a file. Raises ValueError as `picture` does, and OSError."""
    files.write(Path(out_path), picture(result, runs, name))
