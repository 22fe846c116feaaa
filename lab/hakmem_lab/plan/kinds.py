"""The kinds of runs: a row for each.

A kind consists of a module or package of `hakmem_lab.kinds` with `Spec`, `run` and `analyse`, and of its row here.
Where its result has a part of its own, a module of `hakmem_lab.show.kinds` shows it. A kind in a package of its own has
the modules `kind`, `shown`, `pictures` and `command` instead. An entry point in the group `hakmem_lab.kinds` names its
row.
"""

from importlib.metadata import entry_points

from hakmem_lab.plan.kind import Kind

_ROWS = (
    Kind("ab", sequential=True, own_aa=True, together=True, picks_metric=True, only_in_files=("cwd", "builds")),
    Kind("compare", sequential=True, each_arm=True, loses_arms=True, own_aa=True, together=True,
         picks_metric=True, only_in_files=("cwd",)),
    Kind("matrix", part="effects", sequential=True, no_verdict=True, own_aa=True, together=True,
         pictures=("forest.effects", "single.interaction")),
    Kind("sweep", sequential=True, confirms=True, loses_arms=True, own_aa=True, together=True,
         pictures=("forest.selection",)),
    Kind("tune", part="tune", sequential=True, confirms=True, own_aa=True, many=True, pictures=("forest.selection",)),
    Kind("soak", part="soak", needs="soak", pictures=("soak.resident", "soak.throughput", "soak.tails")),
    Kind("syscalls", part="syscalls", draws_seeds=True, pictures=("single.syscalls",)),
    Kind("latency", part="latency", needs="latency", sequential=True, by_percentile=True, each_arm=True,
         loses_arms=True, pictures=("single.latency",)),
    Kind("aa", part="aa", no_verdict=True, one_arm=True, together=True,
         pictures=("single.false_verdicts", "single.smallest_effect", "single.autocorrelation"),
         only_in_files=("server", "cwd", "also", "looks", "question", "env", "timeout", "warm-up", "guardrails",
                        "resamples", "rare", "expect-exit")),
    Kind("suite", part="suite", mixed=True, own_spec=True, together=True, pictures=("scores.scores",)),
    Kind("replay", part="replay", sequential=True, loses_arms=True),
    Kind("judge"),
)  # fmt: skip
# Kind -> the command that measures it, where that has another name.
COMMANDS = {"ab": "compare", "sweep": "compare", "aa": "doctor --machine"}
KINDS = {kind.name: kind for kind in (*_ROWS, *(point.load() for point in entry_points(group="hakmem_lab.kinds")))}
