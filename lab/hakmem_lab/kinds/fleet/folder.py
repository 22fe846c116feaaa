"""A folder that all hosts see: the job in it, and a file of every part that has begun.

    job.json            what is measured: spec, seed, shares
    parts/*.jsonl       append-only, one a part; nobody writes to another's
    parts/*.left        a host that could not take part, with the reason

A share is a range of the fleet's blocks. Whoever measures it looks first at what is finished of it: a share that is
begun again, on the same host or another one, goes on where the earlier parts had come to.
"""

import contextlib
import itertools
import json
import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from hakmem_lab.errors import LabError, Stopped, StoreError, one_line
from hakmem_lab.kinds.fleet import part
from hakmem_lab.kinds.fleet.job import FleetSpec, Job
from hakmem_lab.plan.spec import build, normalised
from hakmem_lab.run.endings import Progress
from hakmem_lab.store.runs import RunFile

JOB, PARTS, LEFT = "job.json", "parts", ".left"
SHARE_VARIABLES = ("SLURM_ARRAY_TASK_ID", "JOB_COMPLETION_INDEX")


def shares_of(blocks: int, shares: int) -> list[range]:
    """The blocks of every share, as even as can be."""
    ends = [blocks * index // shares for index in range(shares + 1)]
    return [range(first, last) for first, last in itertools.pairwise(ends)]


class Folder:
    """The job in a folder. Raises LabError where there is none."""

    def __init__(self, path: Path):
        self.path = path
        try:
            found = json.loads((path / JOB).read_text(encoding="utf-8"))
            self.job, self.shares = Job(**found["job"]), int(found["shares"])
            self.spec, self.source = build(FleetSpec, found["spec"], str(path / JOB)), str(found["source"])
        except (OSError, ValueError, KeyError, TypeError):
            raise LabError(
                f"{path} holds no fleet's job: hak fleet SPEC.toml --engine slurm -o {path} writes one"
            ) from None

    @property
    def parts(self) -> Path:
        return self.path / PARTS

    @classmethod
    def create(cls, path: Path, spec: FleetSpec, shares: int, source: str) -> "Folder":
        """Raises LabError where the folder cannot be written, or holds another job."""
        if (path / JOB).exists():
            raise LabError(f"-o: {path} holds a fleet's job already; name another folder")
        if shares > spec.max_blocks:
            raise LabError(f"--shares: {shares} shares of {spec.max_blocks} blocks: some would have none")
        job = Job.of(spec, spec.seed)
        asked = {"job": job.plain(), "shares": shares, "spec": normalised(spec), "source": source}
        try:
            (path / PARTS).mkdir(parents=True, exist_ok=True)
            (path / JOB).write_text(json.dumps(asked, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise StoreError(f"-o: cannot write {path}: {error.strerror}") from None
        return cls(path)

    def files(self) -> list[Path]:
        return sorted(self.parts.glob("*.jsonl"))

    def finished(self, blocks: Iterable[int]) -> set[int]:
        """Those of these blocks that some part has finished."""
        wanted = set(blocks)
        found: set[int] = set()
        for path in self.files():
            file = RunFile(path)
            with contextlib.suppress(LabError, OSError):
                if file.header("fleet")["fleet"]["job"] == self.job.id:
                    closed = (r for r in file.records() if r["type"] == "block" and r["ok"])
                    found.update(r["block"] for r in closed if r["phase"] == "measure")
        return found & wanted

    def measure(self, share: int, progress: Progress) -> int:
        """The blocks of a share that are not finished yet; how many that were. Raises LabError or Stopped."""
        if not 0 <= share < self.shares:
            raise LabError(f"--share: there is no share {share}; they are 0 to {self.shares - 1}")
        blocks = shares_of(self.job.blocks, self.shares)[share]
        left = [index for index in blocks if index not in self.finished(blocks)]
        if not left:
            return 0
        host = part.host_name()
        try:
            own = part.begin(self.job, host, self.parts)
        except LabError as error:
            self._leave(host, share, error)
            raise
        with own:
            for count, index in enumerate(left):
                progress.update(count, len(left), f"blocks of share {share} on {host}")
                if why := own.measure(index):
                    self._leave(host, share, why)
                    raise Stopped(f"share {share} on {host}: {why}")
        progress.restart()
        return len(left)

    def _leave(self, host: str, share: int, why: object) -> None:
        """A note for who collects."""
        note = {"job": self.job.id, "host": host, "share": share, "why": one_line(str(why))}
        path = self.parts / f"{share}-{secrets.token_hex(4)}{LEFT}"
        with contextlib.suppress(OSError):
            path.write_text(json.dumps(note) + "\n", encoding="utf-8")

    def left(self) -> list[tuple[str, str]]:
        """(host, why) of those that could not take part."""
        found: dict[tuple[str, str], None] = {}
        for path in sorted(self.parts.glob(f"*{LEFT}")):
            with contextlib.suppress(OSError, ValueError, KeyError):
                note = json.loads(path.read_text(encoding="utf-8"))
                if note["job"] == self.job.id:
                    found[f"{note['host']} (share {note['share']})", note["why"]] = None
        return list(found)


def share_here() -> int | None:
    """The share that the engine has given this process; None where there is no engine."""
    for name in SHARE_VARIABLES:
        with contextlib.suppress(KeyError, ValueError):
            return int(os.environ[name])
    return None
