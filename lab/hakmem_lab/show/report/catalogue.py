"""Which pictures belong to which kind of run, and in what order.

May import: pictures, svg, model.
"""

from __future__ import annotations

from collections.abc import Callable

from hakmem_lab.show.report.model import LoadedRun
from hakmem_lab.show.report.pictures.blocks import blocks
from hakmem_lab.show.report.pictures.distribution import distribution
from hakmem_lab.show.report.pictures.effects import effects, forest, hosts, selection
from hakmem_lab.show.report.pictures.fitness import correlation, false_verdicts, smallest_effect
from hakmem_lab.show.report.pictures.interaction import interaction
from hakmem_lab.show.report.pictures.memory import memory, over_time
from hakmem_lab.show.report.pictures.scores import history, scores
from hakmem_lab.show.report.pictures.service import latency, syscalls
from hakmem_lab.show.report.pictures.soak import resident, tails, throughput
from hakmem_lab.show.report.pictures.tail import tail
from hakmem_lab.show.report.svg import Picture, document, drawing

Draw = Callable[[LoadedRun, str], Picture | None]

GENERAL: dict[str, Draw] = {
    "forest": forest,
    "tail": tail,
    "blocks": blocks,
    "distribution": distribution,
    "memory-over-time": over_time,
    "memory": memory,
}

# The first picture of a kind is its leading one; the general ones follow wherever there is data for them.
OWN: dict[str, dict[str, Draw]] = {
    "matrix": {"effects": effects, "interaction": interaction},
    "sweep": {"selection": selection},
    "tune": {"selection": selection},
    "soak": {"resident": resident, "throughput": throughput, "tails": tails},
    "latency": {"latency": latency},
    "syscalls": {"syscalls": syscalls},
    "fleet": {"hosts": hosts},
    "aa": {"false-verdicts": false_verdicts, "smallest-effect": smallest_effect, "autocorrelation": correlation},
    "suite": {"scores": scores, "history": history},
}


# Their runs are of several workloads, whose figures have no common scale.
MIXED = ("suite",)
# Of these kinds there are too many arms to draw each of them.
MANY = ("tune",)
OF_EVERY_ARM = ("distribution", "memory-over-time", "memory")


def pictures(kind: str) -> dict[str, Draw]:
    """The pictures of a kind by name, the leading one first."""
    general = {} if kind in MIXED else GENERAL
    if kind in MANY:
        general = {name: draw for name, draw in general.items() if name not in OF_EVERY_ARM}
    return OWN.get(kind, {}) | general


def names(kind: str) -> list[str]:
    """Names of the pictures of a kind, the leading one first."""
    return list(pictures(kind))


def draw(run: LoadedRun, key: str, only: int | None = None) -> list[Picture]:
    """The pictures of a run for inlining, at most `only`; `key` makes identifiers unique. To be called in `drawing`."""
    drawn: list[Picture] = []
    for name, function in pictures(run.kind).items():
        if only is not None and len(drawn) >= only:
            break
        picture = function(run, f"{key}-{name}")
        if picture is not None:
            drawn.append(picture)
    return drawn


def standalone(run: LoadedRun, name: str | None = None) -> str:
    """One picture of a run as an SVG document; ValueError if there is no such picture, or no data for it."""
    chosen = pictures(run.kind)
    if name is not None and name not in chosen:
        raise ValueError(f"no picture {name!r} for a run of kind {run.kind!r}; there are: {', '.join(chosen)}")
    run = run.cleaned()
    with drawing():
        for key, function in chosen.items():
            picture = function(run, key) if name in (None, key) else None
            if picture is not None:
                return document(picture.svg)
    raise ValueError(f"the run {run.id} has no data for {'any picture' if name is None else f'the picture {name!r}'}")
