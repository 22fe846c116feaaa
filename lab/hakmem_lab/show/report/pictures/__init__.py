"""The pictures of each kind of run, and their order. A picture is a function that takes a run and returns a Picture, or
None without data.
"""

import importlib
from collections.abc import Callable

from hakmem_lab.plan.kind import Kind
from hakmem_lab.plan.kinds import KINDS
from hakmem_lab.show.report.model import LoadedRun
from hakmem_lab.show.report.svg import Picture, document

Draw = Callable[[LoadedRun], Picture | None]

# Pictures of any kind with data, named module.function; they follow the kind's own.
GENERAL = ("forest.forest", "runs.tail", "runs.blocks", "runs.distribution", "runs.memory_over_time")
OF_EVERY_ARM = ("runs.distribution", "runs.memory_over_time")


def pictures(kind: str) -> dict[str, Draw]:
    """The pictures of a kind by name, the leading one first."""
    row = KINDS.get(kind, Kind(kind))
    general = [] if row.mixed else [each for each in GENERAL if not (row.many and each in OF_EVERY_ARM)]
    found = {}
    for each in (*row.pictures, *general):
        module, function = place(row, each)
        found[function.replace("_", "-")] = getattr(importlib.import_module(module), function)
    return found


def place(kind: Kind, each: str) -> tuple[str, str]:
    """(module, function) for the name of a picture. A kind in a package of its own has one module of pictures."""
    module, _, function = each.rpartition(".")
    return f"{__name__}.{module}" if module else f"{kind.package}.pictures", function


def draw(run: LoadedRun, key: str, only: int | None = None) -> list[Picture]:
    """The pictures of a run for inlining, at most `only`; `key` makes identifiers unique."""
    drawn: list[Picture] = []
    for name, function in pictures(run.kind).items():
        if only is not None and len(drawn) >= only:
            break
        if (picture := function(run)) is not None:
            drawn.append(picture.inlined(f"{key}-{name}"))
    return drawn


def standalone(run: LoadedRun, name: str | None = None) -> str:
    """One picture of a run as an SVG document; ValueError if there is no such picture, or no data for it."""
    chosen = pictures(run.kind)
    if name is not None and name not in chosen:
        raise ValueError(f"no picture {name!r} for a run of kind {run.kind!r}; there are: {', '.join(chosen)}")
    run = run.cleaned()
    for key, function in chosen.items():
        picture = function(run) if name in (None, key) else None
        if picture is not None:
            return document(picture.inlined(key).svg)
    raise ValueError(f"the run {run.id} has no data for {'any picture' if name is None else f'the picture {name!r}'}")
