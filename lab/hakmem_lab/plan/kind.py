"""The properties of a kind of runs that code outside of the kind needs; `plan.kinds` has a row for each kind."""

from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """command: what measures it, where that has another name; the kind's own name is its alias then.
    design: the module of the package with its design, an object of its name.
    part: the key that only this kind's result has.
    needs: the extra without which it cannot be measured or analysed.
    mixed: its runs are of several workloads, whose figures have no common scale.
    many: it searches: it has too many arms to draw each of them, and leaves out those that are missing.
    pictures: its own pictures in a report, as module.function, the leading one first.
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
    package: str = ""
    flags: Collection[str] = ()
    command: str = ""

    @property
    def called(self) -> str:
        """The command that measures it."""
        return self.command or self.name
