"""`hak share`: how much of a program's work is its allocator's."""

from functools import partial
from typing import Any

import typer

from hakmem_lab.cli.flags import command
from hakmem_lab.cli.measure import overrides, spec_of

WHAT = "The share of a program's instructions inside its allocator, per allocator, counted by callgrind."


def share(params: dict[str, Any]) -> None:
    from hakmem_lab.plan.arms import parse_arms
    from hakmem_lab.run import share as counting
    from hakmem_lab.run.endings import told
    from hakmem_lab.show import formats
    from hakmem_lab.show.terminal.counted import show_share

    names = overrides({"allocators": params.pop("allocators")}).get("allocators", ["glibc", "hakmem"])
    _, spec = spec_of("aa", params["words"] or [], overrides(params))
    with told():
        result = counting.measured(spec, parse_arms({name: name for name in names}, dict.fromkeys(names, "allocators")))
    formats.put(result, params["json"], partial(show_share, result))


def register(app: typer.Typer) -> None:
    app.command("share", help=WHAT)(command("words allocators input_ json", share))
