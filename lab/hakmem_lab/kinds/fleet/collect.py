"""What the parts in a folder say together, as one run of the store. To collect again adds what has come since."""

import contextlib
from pathlib import Path

from hakmem_lab.errors import LabError
from hakmem_lab.kinds.fleet.folder import Folder
from hakmem_lab.kinds.fleet.gather import Gathering
from hakmem_lab.kinds.fleet.ledger import CLOSED, LEFT
from hakmem_lab.kinds.fleet.result import analyse
from hakmem_lab.run.endings import Progress
from hakmem_lab.store.runs import RunFile, Store


def earlier(store: Path, job: str) -> RunFile | None:
    """The run of an earlier collection of the same job."""
    for file in [file for file in Store(store).runs() if "-fleet-" in file.id]:
        with contextlib.suppress(LabError):  # of a damaged run
            if file.header("job")["job"]["id"] == job:
                return file
    return None


def collect(path: Path, store: Path, progress: Progress, close: bool = False) -> dict:
    """The result. close: nothing more will come, what is there is judged. Raises LabError where nothing is there."""
    folder = Folder(path)
    gathering = Gathering(folder.spec, folder.job, store, folder.source, earlier(store, folder.job.id))
    with gathering:
        for text in gathering.collect(folder.files()):
            progress.say(f"warning: {text}; it is left out")
        left = folder.left()
        if not gathering.begun:
            why = "; ".join(f"{host}: {reason}" for host, reason in left) or "no host has begun"
            raise LabError(f"{path}: nothing to collect yet: {why}")
        known = {(r["host"], r["why"]) for r in gathering.ledger.file.records() if r.get("what") == LEFT}
        for host, why in left:
            if (host, why) not in known:
                gathering.leave_out(host, why)
        if close:
            gathering.ledger.event(CLOSED, "nothing more will come")
        return gathering.finish(analyse)
