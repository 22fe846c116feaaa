"""Makes a heap profile of a process that does not use hakmem: the recorder is loaded into it, samples for a while, and
stops."""

import tempfile
import time
from pathlib import Path

from hakmem_lab.inside.profile.places import HeapProfile
from hakmem_lab.trace import attach, stacks


def profiled(pid: int, mean_bytes: int, seconds: float) -> HeapProfile:
    """The sampled allocations of a process; those from before the sampling are unknown. Raises LabError."""
    started = time.time_ns()
    with tempfile.TemporaryDirectory(prefix="hak-profile-") as folder:
        path = Path(folder) / "sampled.trace"
        attach.process(pid, path, seconds, mean_bytes)
        _, profile = stacks.by_stack(path)
    profile.time_ns = time.time_ns()
    profile.duration_ns = profile.time_ns - started
    profile.comments = [
        f"hak heap profile {pid}: by the recorder, what was allocated in {seconds:g} s and is in use since"
    ]
    return profile
