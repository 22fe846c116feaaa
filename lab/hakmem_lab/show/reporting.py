"""From files of the store to the HTML report."""

import os
from collections.abc import Sequence
from pathlib import Path

from hakmem_lab import extras, kinds
from hakmem_lab.errors import LabError
from hakmem_lab.show import report
from hakmem_lab.store.runs import RunFile


def load(file: RunFile) -> report.LoadedRun:
    """A run with its result, analysed anew from its records."""
    records = list(file.records())
    header = file.header()
    return report.LoadedRun.from_records(records, kinds.module(header["kind"]).analyse(header, records))


def write(files: Sequence[RunFile], output: Path) -> None:
    """One HTML file over the runs, their raw data linked. Raises LabError where it cannot be written."""
    extras.need("report", "hak report")
    links = {file.id: os.path.relpath(file.path.resolve(), output.resolve().parent) for file in files}
    try:
        report.write([load(file) for file in files], output, links)
    except OSError as error:
        raise LabError(f"--output: cannot write {output}: {error.strerror}") from None
