"""Whether the names in a scorecard's spec refer to something."""

from hakmem_lab.errors import LabError, nearest
from hakmem_lab.kinds.scorecard.spec import BEST, Bar, ScorecardSpec, WorkloadSpec
from hakmem_lab.plan import peers


def check_names(spec: ScorecardSpec, source: str) -> None:
    """Raises LabError where a name refers to nothing."""
    keys = [row.key for row in spec.workload]
    for key in keys:
        if keys.count(key) > 1:
            raise LabError(f"{source}: workload: two have the key '{key}'")
    named = [("only", key) for key in spec.only] + [("milestone.workload", m.workload) for m in spec.milestone]
    for where, key in named:
        if key not in keys:
            raise LabError(f"{source}: {where}: there is no workload '{key}': {nearest(key, keys)}")
    if len(set(spec.allocators)) != len(spec.allocators):
        raise LabError(f"{source}: allocators: the same arm is named twice")
    if spec.subject not in spec.allocators:
        raise LabError(f"{source}: subject: '{spec.subject}' is not among the allocators: {', '.join(spec.allocators)}")
    if spec.table == "reference" and spec.reference not in spec.allocators:
        raise LabError(f"{source}: reference: '{spec.reference}' is not among the allocators")
    by_key = {row.key: row for row in spec.workload}
    for row in spec.workload:
        for bar in row.bars:
            _check_bar(spec, row, bar, f"{source}: workload '{row.key}'")
    for milestone in spec.milestone:
        _check_bar(spec, by_key[milestone.workload], milestone, f"{source}: milestone '{milestone.name}'")


def _check_bar(spec: ScorecardSpec, row: WorkloadSpec, bar: Bar, where: str) -> None:
    """An allocator that only this run leaves out is no mistake; the bar is then not judged."""
    for key, name in (("against", bar.against), ("over", bar.over)):
        known = {*(BEST if key == "against" else ()), *row.arms, *spec.allocators, *peers.names()}
        if name is not None and name not in known:
            raise LabError(f"{where}: {key}: there is no arm '{name}': {nearest(name, known)}")
