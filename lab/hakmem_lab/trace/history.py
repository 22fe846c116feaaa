"""A recording as the past of a heap: what its busiest process asked for, in the order of time, for one thread."""

from pathlib import Path

from hakmem_lab.errors import LabError
from hakmem_lab.trace.contents import asked, counts


def write(trace: Path, file: Path) -> None:
    """Raises LabError where there is nothing in the trace."""
    processes = counts(trace)["processes"]
    busiest = max(processes, key=lambda each: each["operations"], default=None)
    if busiest is None or not busiest["operations"]:
        raise LabError(f"--history: {trace} holds no operations")
    asked(trace, "history", str(file), str(busiest["process"]))
