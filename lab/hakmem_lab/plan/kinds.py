"""The kinds of runs: a row for each.

A kind is a design on a workload, an object of its name in the module that its row names; or a module of
`hakmem_lab.kinds` with `Spec`, `run` and `analyse`.
Where its result has a part of its own, a module of `hakmem_lab.show.kinds` shows it. A kind in a package of its own has
the modules `kind`, `shown`, `pictures` and `command` instead. An entry point in the group `hakmem_lab.kinds` names its
row.
"""

from importlib.metadata import entry_points

from hakmem_lab.plan.kind import Kind

_ROWS = (
    Kind("ab", "designs.contrasts", command="compare"),
    Kind("compare", "designs.contrasts"),
    Kind("matrix", "designs.cells", pictures=("forest.effects", "single.interaction")),
    Kind("sweep", "designs.candidates", pictures=("forest.selection",), command="compare"),
    Kind("tune", "kinds.tune", part="tune", many=True, pictures=("forest.selection",)),
    Kind("soak", "kinds.soak", part="soak", needs="soak", pictures=("soak.resident", "soak.throughput", "soak.tails")),
    Kind("syscalls", "kinds.syscalls", part="syscalls", pictures=("single.syscalls",)),
    Kind("latency", "kinds.latency", part="latency", needs="latency", pictures=("single.latency",)),
    Kind("aa", "designs.itself", part="aa", pictures=("single.smallest_effect",), command="doctor --machine"),
    Kind("suite", part="suite", mixed=True, pictures=("scores.scores",)),
    Kind("replay", "kinds.replay", part="replay"),
    Kind("judge"),
)  # fmt: skip
KINDS = {kind.name: kind for kind in (*_ROWS, *(point.load() for point in entry_points(group="hakmem_lab.kinds")))}
