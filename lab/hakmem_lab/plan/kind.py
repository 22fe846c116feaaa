"""The properties of a kind of runs that code outside of the kind needs; `plan.kinds` has a row for each kind."""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """part: the key that only this kind's result has.
    needs: the extra without which it cannot be measured or analysed.
    sequential: judged after every block, and can be prolonged.
    by_percentile: some of its percentiles are judged after every block, the others only at planned looks.
    each_arm: with more than two arms each arm has a verdict, but the run has none.
    no_verdict: a run never has a verdict.
    one_arm: compares one arm with itself.
    confirms: the verdict is on two arms, however many take part at first.
    loses_arms: an arm other than the first may fail, and the others go on.
    own_aa: should be preceded by an A/A of the same program.
    draws_seeds: {seed} in a command is drawn although there are no blocks.
    mixed: its runs are of several workloads, whose figures have no common scale.
    many: has too many arms to draw each of them.
    pictures: its own pictures in a report, as module.function, the leading one first.
    only_in_files: keys without a flag; None: --set takes every key that is no table.
    own_spec: the checkout has a spec of this kind, so a command needs none.
    together: its arms may run at the same time.
    picks_metric: where the user names no metric, the trials choose between wall time and processor time.
    package: the package of its modules, if it is not this one.
    flags: keys that its command has as flags besides those of every spec.
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
    together: bool = False
    picks_metric: bool = False
    package: str = ""
    flags: Collection[str] = ()
