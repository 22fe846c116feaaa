"""What runs in a worker of a Dask cluster: one part, which is kept from one block to the next."""

import contextlib
from pathlib import Path

from hakmem_lab.kinds.fleet import part
from hakmem_lab.kinds.fleet.job import Job

_parts: dict[str, part.Part] = {}  # job -> its part in this process; one at most


def introduce(dask_worker) -> dict:
    """Who the worker is."""
    return {"name": str(dask_worker.name), "host": part.host_name(), "node": part.node()}


def begin(job: dict, host: str, folder: str | None) -> dict:
    """Preflight, calibration and warm-up. Raises LabError where this host cannot take part."""
    end()
    own = part.begin(Job(**job), host, Path(folder) if folder else None)
    _parts[own.job.id] = own
    return {"header": own.file.header(), "records": own.taken(), "file": str(own.file.path)}


def measure(job: str, index: int) -> dict:
    """One block: its records, and why it could not be measured, else None."""
    own = _parts[job]
    why = own.measure(index)
    return {"records": own.taken(), "why": why}


def end() -> None:
    """Nothing that a part has started is left."""
    while _parts:
        with contextlib.ExitStack() as stack:
            stack.enter_context(_parts.popitem()[1])
