"""What others than a kind itself have to know of it; the rows stand in `plan.kinds`."""

from collections.abc import Collection
from dataclasses import dataclass


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
    own_spec: the checkout has a spec of it. package: where it is, if not in this one. flags: keys that its command has
    as flags besides those of every spec.
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
    package: str = ""
    flags: Collection[str] = ()
