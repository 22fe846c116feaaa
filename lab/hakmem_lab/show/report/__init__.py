"""The HTML report: `write` makes one self-contained page from runs, `picture` one SVG for a page of documentation.

May import: statistics, errors. Jinja2 and matplotlib are imported on the first call, so importing this is cheap.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hakmem_lab.show.report.model import LoadedRun
from hakmem_lab.system import files

__all__ = ["LoadedRun", "picture", "save_picture", "write"]


def write(runs: Sequence[LoadedRun], out_path: str | Path, links: Mapping[str, str] | None = None) -> None:
    """Write one self-contained HTML file over `runs`, in their order.

    `links` maps a run's id to the address of its raw data file, relative to the page. Raises OSError if the file cannot
    be written.
    """
    from hakmem_lab.show.report.page import render

    files.write(Path(out_path), render(runs, links or {}))


def picture(result: Mapping[str, Any], runs: Sequence[Mapping[str, Any]] = (), name: str | None = None) -> str:
    """Return one picture of a result as a standalone SVG document.

    `runs` are records of the store (run, sample, block and header lines are used). `name` chooses one of the
    pictures of the kind (`forest`, `blocks`, `distribution`, …); None takes the kind's leading one. Raises
    ValueError if the result has no such picture.
    """
    from hakmem_lab.show.report.catalogue import standalone

    return standalone(LoadedRun.from_records(runs, result), name)


def save_picture(
    result: Mapping[str, Any], runs: Sequence[Mapping[str, Any]], out_path: str | Path, name: str | None = None
) -> None:
    """Write `picture(result, runs, name)` to a file. Raises ValueError as `picture` does, and OSError."""
    files.write(Path(out_path), picture(result, runs, name))
