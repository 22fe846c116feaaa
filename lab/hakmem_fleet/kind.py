"""`hak fleet`: is the treatment better than the control on the hosts of a fleet, whichever they are?"""

from hakmem_fleet import cluster
from hakmem_fleet.gather import Gathering
from hakmem_fleet.part import FleetSpec, Job, check
from hakmem_fleet.result import analyse
from hakmem_lab.errors import LabError
from hakmem_lab.store.results import Result

__all__ = ["Spec", "analyse", "run"]

Spec = FleetSpec


def run(spec: FleetSpec, context) -> Result:
    """Run on a Dask cluster. Raises LabError or Stopped."""
    check(spec, context.source)
    job, file = Job.of(spec, spec.seed), context.resume
    if file is not None:
        if spec.engine != "dask":
            raise LabError(f"run {file.id} is collected, not measured here: hak fleet --merge DIR")
        job = Job(**file.header("job")["job"])
    if context.more:
        raise LabError("--more: a fleet is judged once, when all of its blocks are there; start a new run")
    parts = context.folder / "fleet" / job.id
    with Gathering(spec, job, context.folder, context.source, file) as gathering:
        gathering.collect(parts.glob("*.jsonl"))
        with cluster.connected(spec) as client:
            cluster.Fleet(client, gathering, context.progress, parts).run()
        return gathering.finish(analyse)
