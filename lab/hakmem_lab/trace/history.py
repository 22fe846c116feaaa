"""Writes a recording as the history of a used heap: the operations of its busiest process, as one thread."""

from pathlib import Path

from hakmem_lab.errors import LabError
from hakmem_lab.trace.contents import asked, counts


def write(trace: Path, file: Path) -> None:
    """Writes the history to the file. Raises LabError where the trace has no operations."""
    processes = counts(trace)["processes"]
    busiest = max(processes, key=lambda each: each["operations"], default=None)
    if busiest is None or not busiest["operations"]:
        raise LabError(f"--history: {trace} holds no operations")
    asked(trace, "history", str(file), str(busiest["process"]))
