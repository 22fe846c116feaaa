"""The kinds of runs: a row for each, with what others than the kind itself have to know of it.

A kind is a module or a package of `hakmem_lab.kinds` with `Spec`, `run` and `analyse`, a module of
`hakmem_lab.show.kinds` where its result has a part of its own, and its row here.
"""

from collections.abc import Collection
from dataclasses import dataclass

BOTH = ("server", "cwd")  # keys for which no command has a flag


@dataclass(frozen=True)
class Kind:
    """part: the key of its result that no other kind has. needs: the extra without which it cannot be measured or
    analysed.

    sequential: judged after every block, and can be prolonged. by_percentile: but not each of its metrics is.
    each_arm: of more than two arms each has a verdict, and the run none; no_verdict: a run never has one.
    one_arm: of one arm against itself. confirms: the verdict is on two arms, however many it begins with.
    loses_arms: an arm other than the first may fail, and the others go on. own_aa: is to be preceded by an A/A of the
    same program. draws_seeds: {seed} in a command is drawn although there are no blocks. mixed: its runs are of several
    workloads, whose figures have no common scale. many: has too many arms to draw each of them.
    pictures: its own in a report, the leading one first, as modules and functions there.
    only_in_files: keys without a flag, where every other key has one; None: where --set gives all that is no table.
    own_spec: the checkout has a spec of it.
    """

    name: str
    part: str = ""
    needs: str = ""
    sequential: bool = False
    by_percentile: bool = False
    each_arm: bool = False
    no_verdict: bool = False
    one_arm: bool = False
    confirms: bool = False
    loses_arms: bool = False
    own_aa: bool = False
    draws_seeds: bool = False
    mixed: bool = False
    many: bool = False
    pictures: Collection[str] = ()
    only_in_files: Collection[str] | None = None
    own_spec: bool = False


_ROWS = (
    Kind("ab", sequential=True, own_aa=True, only_in_files=BOTH),
    Kind("compare", sequential=True, each_arm=True, loses_arms=True, own_aa=True,
         only_in_files=(*BOTH, "also", "looks")),
    Kind("matrix", part="effects", sequential=True, no_verdict=True, own_aa=True,
         pictures=("forest.effects", "single.interaction")),
    Kind("sweep", sequential=True, confirms=True, loses_arms=True, own_aa=True, pictures=("forest.selection",)),
    Kind("tune", part="tune", sequential=True, confirms=True, own_aa=True, many=True, pictures=("forest.selection",)),
    Kind("soak", part="soak", needs="soak", pictures=("soak.resident", "soak.throughput", "soak.tails")),
    Kind("syscalls", part="syscalls", draws_seeds=True, pictures=("single.syscalls",)),
    Kind("latency", part="latency", needs="latency", sequential=True, by_percentile=True, each_arm=True,
         loses_arms=True, pictures=("single.latency",)),
    Kind("aa", part="aa", no_verdict=True, one_arm=True,
         pictures=("single.false_verdicts", "single.smallest_effect", "single.autocorrelation"),
         only_in_files=(*BOTH, "also", "looks", "question", "env", "timeout", "warm-up", "guardrails", "resamples",
                        "rare", "expect-exit")),
    Kind("suite", part="suite", mixed=True, own_spec=True, pictures=("scores.scores", "scores.history")),
    Kind("fleet", part="fleet", pictures=("forest.hosts",)),
    Kind("replay", part="replay", sequential=True, loses_arms=True),
    Kind("judge"),
)  # fmt: skip
KINDS = {kind.name: kind for kind in _ROWS}
