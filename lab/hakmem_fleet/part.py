"""A host's part of a fleet: preflight, calibration and warm-up once, then the blocks that it is given.

A part is an ordinary session in a file of its own. Every record has a serial number: part and serial number identify
the record wherever it is copied. Only one part measures at a time on a machine. It holds a lock, which is released when
its process ends. Every host of a fleet receives the same `Job`: the spec, the seed, and the job's id, which the parts
carry.
"""

import contextlib
import fcntl
import hashlib
import os
import random
import secrets
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from hakmem_lab import __version__
from hakmem_lab.designs.contrasts import ab, pair_names
from hakmem_lab.errors import LabError, Stopped
from hakmem_lab.judge import fitness
from hakmem_lab.plan import peers
from hakmem_lab.plan.model import build
from hakmem_lab.plan.spec import AbSpec, normalised, spec_hash
from hakmem_lab.run.endings import Progress
from hakmem_lab.run.session import Session
from hakmem_lab.store.runs import default_folder

SEED_BITS = 31
OF_A_FLEET = ("engine", "workers", "scheduler")


class FleetSpec(AbSpec):
    """A spec of the kind ab, and where its hosts come from. max_blocks: of all hosts together.

    workers: number of processes on this machine, each counted as a host; scheduler: address of an existing cluster.
    """

    kind: Literal["fleet"] = "fleet"  # type: ignore[assignment]
    engine: Literal["dask", "slurm", "kubernetes"] = "dask"
    workers: Annotated[int, Field(ge=1, le=1000)] | None = None
    scheduler: str | None = None

    ONLY_IF_GIVEN: ClassVar[tuple[str, ...]] = (*AbSpec.ONLY_IF_GIVEN, *OF_A_FLEET[1:])

    def of_a_host(self) -> AbSpec:
        """The spec that each host measures by, of the kind ab."""
        own = {key: value for key, value in normalised(self).items() if key not in OF_A_FLEET}
        return build(AbSpec, own | {"kind": "ab"}, "spec")


def check(spec: FleetSpec, source: str) -> None:
    """Raises LabError if the spec has a key that a fleet does not support."""
    refused = {
        "builds": (spec.builds > 1, "several builds are for one machine; leave it out"),
        "detect": (spec.detect is not None, "a fleet measures max-blocks blocks in all; give max-blocks instead"),
        "rare": (spec.rare is not None, "a fleet measures max-blocks blocks in all; give max-blocks instead"),
    }
    once = "it is for one machine; have the hosts ready, and leave it out"
    refused |= {key: (getattr(spec, key) is not None, once) for key in ("setup", "cleanup")}
    for key, (asked, what) in refused.items():
        if asked:
            raise LabError(f"{source}: {key}: {what}")


@dataclass(frozen=True)
class Job:
    """The job as plain values, for every host. id: unique, even for the same spec; blocks: of all hosts together."""

    id: str
    spec: dict
    seed: int
    blocks: int
    lab_version: str

    @classmethod
    def of(cls, spec: FleetSpec, seed: int | None = None) -> "Job":
        drawn = random.SystemRandom().getrandbits(SEED_BITS) if seed is None else seed
        own = spec.of_a_host().model_copy(update={"seed": drawn})
        asked = hashlib.sha256(f"{spec_hash(own)} {drawn}".encode()).hexdigest()
        return cls(f"{asked[:12]}-{secrets.token_hex(2)}", normalised(own), drawn, spec.max_blocks, __version__)

    def plain(self) -> dict:
        return asdict(self)


HOST_NAMES = ("HAK_FLEET_HOST", "SLURMD_NODENAME")
BOOT = Path("/proc/sys/kernel/random/boot_id")


def host_name() -> str:
    """The engine's name for this host, else the host's own name."""
    return next((os.environ[name] for name in HOST_NAMES if os.environ.get(name)), socket.gethostname())


def node() -> str:
    """Key of the machine: the same for all hosts that run under one kernel, whatever their names."""
    with contextlib.suppress(OSError):
        return hashlib.sha256(BOOT.read_bytes()).hexdigest()[:12]
    return socket.gethostname()


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Meanwhile no other fleet of this user measures on this machine."""
    path = Path(tempfile.gettempdir()) / f"hakmem-lab-fleet-{os.getuid()}.lock"
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


class Part(Session[AbSpec]):
    """Blocks of a job, measured here."""

    def __init__(self, job: Job, host: str, folder: Path):
        spec = build(AbSpec, job.spec, "spec")
        super().__init__(spec, ab.sides(spec), Progress(quiet=True))
        self.job, self.host, self._folder = job, host, folder
        self._fresh: list[dict] = []
        self._serial = 0

    def start(self) -> None:
        """Raises LabError where this host cannot take part."""
        with alone():
            self.begin(self._folder, "fleet", (0, 0))
        if reason := fitness.unfit_reason(default_folder(), self.file.header()):
            raise LabError(reason)

    def create(self, folder: Path, source: str, **more: object) -> None:
        about = {"job": self.job.id, "host": self.host, "node": node(), "pid": os.getpid()}
        super().create(folder, source, fleet=about, **more)

    def append(self, record: Mapping[str, Any]) -> None:
        numbered = {**record, "serial": self._serial}
        if record["type"] == "block":
            numbered["finished"] = time.time()
        self._serial += 1
        super().append(numbered)
        self._fresh.append(numbered)

    def taken(self) -> list[dict]:
        """The records since the last call."""
        records, self._fresh = self._fresh, []
        return records

    def measure(self, index: int, attempt: int = 0) -> str | None:
        """Measure one block, by its number in the whole fleet; return the reason if that failed, else None."""
        control, treatment = pair_names(self.spec)
        try:
            with alone():
                self.block("measure", (control, treatment), index, attempt)
        except Stopped as error:
            return str(error)
        return None


def begin(job: Job, host: str, folder: Path | None = None) -> Part:
    """Raises LabError where this host cannot take part."""
    if job.lab_version != __version__:
        raise LabError(f"hak is {__version__} here, and {job.lab_version} where the fleet was started")
    peers.file_sha256.cache_clear()  # the worker may have started before the library was rebuilt
    part = Part(job, host, folder or default_folder() / "fleet" / job.id)
    try:
        part.start()
    except BaseException:
        part.release()
        raise
    return part


# In a worker of a Dask cluster.
_parts: dict[str, Part] = {}  # job -> its part in this process; one at most


def introduce(dask_worker) -> dict:
    return {"name": str(dask_worker.name), "host": host_name(), "node": node()}


def begin_in_worker(job: dict, host: str, folder: str | None) -> dict:
    """Preflight, calibration and warm-up. Raises LabError where this host cannot take part."""
    end_in_worker()
    own = begin(Job(**job), host, Path(folder) if folder else None)
    _parts[own.job.id] = own
    return {"header": own.file.header(), "records": own.taken(), "file": str(own.file.path)}


def measure_in_worker(job: str, index: int) -> dict:
    """Measure one block: its records, and the reason if it could not be measured, else None."""
    own = _parts[job]
    why = own.measure(index)
    return {"records": own.taken(), "why": why}


def end_in_worker() -> None:
    """End the part of this worker, and everything that it has started."""
    while _parts:
        with contextlib.ExitStack() as stack:
            stack.enter_context(_parts.popitem()[1])
