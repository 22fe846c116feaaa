"""`hak tune`: which allocator, with which options, needs the least (or gives the most) of a metric, within limits."""

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from hakmem_lab.cli import complete, measure
from hakmem_lab.cli.flags import (
    Alpha,
    Env,
    Format,
    Input,
    JsonFile,
    Keys,
    Margin,
    MaxBlocks,
    Pin,
    Question,
    Quiet,
    Repeat,
    Require,
    Seed,
    StoreFolder,
    Timeout,
    Words,
)
from hakmem_lab.errors import LabError

Allocators = Annotated[
    list[str] | None,
    typer.Option(help="Those whose options are tried, or arms as they are", autocompletion=complete.arms),
]
Least = Annotated[
    str | None, typer.Option(metavar="METRIC", help="What to have the least of: wall, rss, p99 …",
                             autocompletion=complete.metrics),
]  # fmt: skip
Most = Annotated[str | None, typer.Option(metavar="METRIC", help="What to have the most of: a figure that it prints")]
Limits = Annotated[
    list[str] | None,
    typer.Option("--subject-to", metavar="METRIC=+N%", help="May grow by so much; of a rate -N%: may fall; repeatable"),
]
Read = Annotated[
    list[str] | None,
    typer.Option("--read", metavar="NAME=regex:PATTERN", help="A figure that the program prints; repeatable"),
]
Default = Annotated[
    str | None, typer.Option(metavar="ARM", help="What it runs on now", autocompletion=complete.arms)
]  # fmt: skip
Combine = Annotated[bool | None, typer.Option("--combine", help="Also several options of an allocator at once")]
Budget = Annotated[str | None, typer.Option(help="Time for all of it, such as 30m")]


def register(app: typer.Typer) -> None:
    app.command("tune")(tune)


def tune(
    ctx: typer.Context, words: Words = None,
    least: Least = None, most: Most = None, subject_to: Limits = None, read: Read = None,
    allocators: Allocators = None, default: Default = None, combine: Combine = None, budget: Budget = None,
    margin: Margin = None, alpha: Alpha = None, max_blocks: MaxBlocks = None, repeat: Repeat = None, pin: Pin = None,
    input_: Input = None, timeout: Timeout = None, seed: Seed = None, env: Env = None, question: Question = None,
    set_: Keys = None, store: StoreFolder = None, json: JsonFile = None, format_: Format = None,
    require: Require = None, quiet: Quiet = False,
) -> None:  # fmt: skip
    """Search allocators and their options, confirm the best one; ends with the line for the service file."""
    own = ("least", "most", "subject_to", "read")
    params = {name: value for name, value in ctx.params.items() if name not in own}
    if least is not None and most is not None:
        raise LabError("--least and --most: one thing at a time; what else matters is a limit: --subject-to METRIC=+2%")
    for flag, metric in (("--least", least), ("--most", most)):
        if metric is not None:
            if not metric.strip():
                raise LabError(f"{flag}: no metric is named: wall, rss, a figure that the program prints ...")
            params |= {"metric": metric, "higher_is_better": flag == "--most"}
    if allocators:
        params["allocators"] = [name for text in allocators for name in _separated(text)]
    below: dict = {}
    if subject_to:
        below["guardrails"] = _once("--subject-to", map(limit, subject_to))
    if read:
        below["readings"] = _once("--read", map(_reading, read))
    measure.measure_with("tune", params, below)


def _once(flag: str, pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """The pairs by name. Raises LabError where a name comes twice."""
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise LabError(f"{flag}: '{name}' is given twice")
        found[name] = value
    return found


def _separated(text: str) -> list[str]:
    """`glibc,hakmem` as two allocators; what sets a variable is an arm."""
    return [text] if "=" in text else [name.strip() for name in text.split(",")]


def _reading(text: str) -> tuple[str, str]:
    name, equals, pattern = text.partition("=")
    if not equals or not pattern.startswith("regex:"):
        raise LabError(f"--read: '{text}' is not NAME=regex:PATTERN")
    return name, pattern


def limit(text: str) -> tuple[str, dict]:
    """(metric, guardrail) of METRIC=+2% or, of what must not fall, METRIC=-2%. Raises LabError."""
    name, equals, change = text.rpartition("=")
    sign, size = change[:1], change[1:].removesuffix("%").strip()
    try:
        share = float(size) / 100 if change.endswith("%") else float("nan")
    except ValueError:
        share = float("nan")
    if not equals or not name or sign not in ("+", "-") or not 0 < share < 1:
        raise LabError(f"--subject-to: '{text}' is not METRIC=+N% (may grow by so much) or METRIC=-N% (may fall)")
    if sign == "+":
        return name, {"limit": share}
    return name, {"limit": 1 / (1 - share) - 1, "higher-is-better": True}
