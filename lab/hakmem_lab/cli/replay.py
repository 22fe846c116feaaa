"""`hak replay TRACE`: what other allocators would make of a recorded program."""

from typing import Annotated

import typer

from hakmem_lab.cli import complete, measure
from hakmem_lab.cli.flags import (
    Allocators,
    Alpha,
    Format,
    JsonFile,
    Keys,
    Margin,
    MaxBlocks,
    Metric,
    Pin,
    Quiet,
    Repeat,
    Require,
    Seed,
    StoreFolder,
    Timeout,
)
from hakmem_lab.errors import LabError

Trace = Annotated[
    list[str] | None, typer.Argument(metavar="TRACE|SPEC.toml", help="What hak record wrote", show_default=False)
]
Touch = Annotated[
    str | None, typer.Option(metavar="recorded|all|none", help="What is written to of each block: as recorded, ...")
]
Processes = Annotated[
    str | None, typer.Option(metavar="N,N", help="Of a tree, these alone (default: all with 1 % of the operations)")
]
By = Annotated[str | None, typer.Option(metavar="stack", help="Of what --stacks recorded: which code gains from which")]
Live = Annotated[bool | None, typer.Option("--live", help="Run the recorded command, too: prediction beside truth")]
Pace = Annotated[str | None, typer.Option(metavar="fast|recorded", help="recorded: rest where the program did")]
Baseline = Annotated[
    str | None, typer.Option(help="The arm that the others are compared with", autocompletion=complete.arms)
]


def register(app: typer.Typer) -> None:
    app.command("replay")(replay)


def replay(
    ctx: typer.Context, words: Trace = None,
    allocators: Allocators = None, touch: Touch = None, processes: Processes = None, by: By = None,
    live: Live = None, pace: Pace = None, baseline: Baseline = None, metric: Metric = None, margin: Margin = None,
    alpha: Alpha = None, max_blocks: MaxBlocks = None, repeat: Repeat = None, pin: Pin = None, timeout: Timeout = None,
    set_: Keys = None, seed: Seed = None, store: StoreFolder = None, json: JsonFile = None, format_: Format = None,
    require: Require = None, quiet: Quiet = False,
) -> None:  # fmt: skip
    """What other allocators would make of a recorded program: time in the allocator, memory, predictions."""
    if not words:
        raise LabError("which trace? hak replay TRACE; one is made by: hak record -o TRACE -- COMMAND")
    if len(words) > 1:
        raise LabError(f"one trace at a time, not '{' '.join(words)}'")
    spec = words[0].endswith(".toml")
    params = ctx.params | {"words": words if spec else []}
    measure.measure_with("replay", params, {} if spec else {"trace": words[0]})
