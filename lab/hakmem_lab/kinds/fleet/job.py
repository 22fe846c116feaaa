"""What every host of a fleet is told: the spec, the seed, and the name under which its blocks come back."""

import hashlib
import random
import secrets
from dataclasses import asdict, dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from hakmem_lab import __version__
from hakmem_lab.errors import LabError
from hakmem_lab.plan.spec import AbSpec, build, normalised, spec_hash

SEED_BITS = 31
ENGINES = ("dask", "slurm", "kubernetes")
OF_A_FLEET = ("engine", "workers", "scheduler")


class FleetSpec(AbSpec):
    """A spec of the kind ab, and where its hosts come from. max_blocks: of all hosts together.

    workers: so many processes of this machine, each counted as a host; scheduler: of a cluster that is there.
    """

    kind: Literal["fleet"] = "fleet"  # type: ignore[assignment]
    engine: Literal["dask", "slurm", "kubernetes"] = "dask"
    workers: Annotated[int, Field(ge=1, le=1000)] | None = None
    scheduler: str | None = None

    ONLY_IF_GIVEN: ClassVar[tuple[str, ...]] = (*AbSpec.ONLY_IF_GIVEN, *OF_A_FLEET[1:])

    def of_a_host(self) -> AbSpec:
        """What each of the hosts measures."""
        own = {key: value for key, value in normalised(self).items() if key not in OF_A_FLEET}
        return build(AbSpec, own | {"kind": "ab"}, "spec")


def check(spec: FleetSpec, source: str) -> None:
    """Raises LabError where the spec asks for what a fleet has not."""
    refused = {
        "duet": (spec.duet, "both arms at once need an A/A of every host first; leave it out"),
        "builds": (spec.builds > 1, "several builds are for one machine; leave it out"),
        "detect": (spec.detect is not None, "a fleet measures max-blocks blocks in all; give that"),
        "rare": (spec.rare is not None, "a fleet measures max-blocks blocks in all; give that"),
    }
    once = "it is for one machine; have the hosts ready, and leave it out"
    refused |= {key: (getattr(spec, key) is not None, once) for key in ("setup", "cleanup")}
    for key, (asked, what) in refused.items():
        if asked:
            raise LabError(f"{source}: {key}: {what}")


@dataclass(frozen=True)
class Job:
    """id: of this one asking; blocks: of all hosts. What a host needs to know, as plain values."""

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
