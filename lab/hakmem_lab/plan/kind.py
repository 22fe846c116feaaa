"""The properties of a kind of runs that code outside of the kind needs; `plan.kinds` has a row for each kind."""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """design: the module of the package with its design, an object of its name.
    part: the key that only this kind's result has.
    needs: the extra without which it cannot be measured or analysed.
    mixed: its runs are of several workloads, whose figures have no common scale.
    many: has too many arms to draw each of them.
    pictures: its own pictures in a report, as module.function, the leading one first.
    only_in_files: keys without a flag; None: --set takes every key that is no table.
    own_spec: the checkout has a spec of this kind, so a command needs none.
    package: the package of its modules, if it is not this one.
    flags: keys that its command has as flags besides those of every spec.
    """

    name: str
    design: str = ""
    part: str = ""
    needs: str = ""
    mixed: bool = False
    many: bool = False
    pictures: Collection[str] = ()
    only_in_files: Collection[str] | None = None
    own_spec: bool = False
    package: str = ""
    flags: Collection[str] = ()
