"""The commands of `hak`, in the order in which a user meets them."""

from typing import Annotated

import typer

from hakmem_lab import __version__
from hakmem_lab.cli import (
    baseline,
    doctor,
    explain,
    fleet,
    gallery,
    inspect,
    judge,
    measure,
    metrics,
    overview,
    profile,
    record,
    replay,
    run,
    suite,
    system,
    top,
    trace,
    tune,
)

app = typer.Typer(
    name="hak",
    cls=overview.Commands,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)
ORDER = (system, run, doctor, explain, profile, top, metrics, record, trace, replay,
         measure, tune, suite, gallery, fleet, judge, inspect, baseline)  # fmt: skip
for module in ORDER:
    module.register(app)


def _say_version(wanted: bool) -> None:
    if wanted:
        print(f"hak {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="The version")
    ] = False,
) -> None:
    """What `hak` takes before the name of a command."""
