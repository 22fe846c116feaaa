"""Where a run is kept, and whom it tells what it does."""

from dataclasses import dataclass
from pathlib import Path

from hakmem_lab.run.progress import Progress
from hakmem_lab.store.runs import RunFile


@dataclass(frozen=True)
class Context:
    """Where a kind writes and whom it tells. resume: the stored run to continue; more: by so many further blocks."""

    folder: Path
    source: str
    progress: Progress
    resume: RunFile | None = None
    more: int = 0
