"""`hak judge`: verdicts on what Google Benchmark, go test, pytest-benchmark or hyperfine has measured."""

from typing import Annotated

import typer

from hakmem_lab.cli import measure
from hakmem_lab.cli.flags import Alpha, Format, Higher, JsonFile, Margin, Question, Require, StoreFolder

Files = Annotated[list[str], typer.Argument(metavar="OLD [NEW]", help="Two files, or one with several benchmarks; -")]
Only = Annotated[str | None, typer.Option(metavar="PATTERN", help="Benchmarks whose names match")]
Figure = Annotated[
    str | None, typer.Option(metavar="NAME", help="wall, cpu, or as the tool calls it: B/op, allocs/op …")
]
Turns = Annotated[bool | None, typer.Option("--interleaved", help="The runs of both took turns: judged in pairs")]


def register(app: typer.Typer) -> None:
    app.command("judge")(judge)


def judge(
    ctx: typer.Context, files: Files,
    only: Only = None, metric: Figure = None, higher_is_better: Higher = None, margin: Margin = None,
    alpha: Alpha = None, interleaved: Turns = None, question: Question = None, store: StoreFolder = None,
    json: JsonFile = None, format_: Format = None, require: Require = None,
) -> None:  # fmt: skip
    """What other tools have measured, as verdicts with intervals; and what cannot be known of it."""
    measure.measure_with("judge", ctx.params | {"words": None, "quiet": True}, {})
