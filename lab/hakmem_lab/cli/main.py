"""Entry point of `hak`: commands in the order in which a user meets them, errors as one line, exit statuses.

Exit status: 0 done (whatever the verdict), 1 `--require` not met or, of `hak doctor`, not served, 2 bad input, 3 the
measurement could not be completed, 130 interrupted; `hak run` ends as the program does.
"""

import os
import signal
import sys
from typing import Annotated

import typer

from hakmem_lab import __version__
from hakmem_lab.cli import baseline, doctor, inspect, measure, overview, run
from hakmem_lab.errors import EXIT_BAD_INPUT, LabError, one_line

EXIT_STOPPED, EXIT_INTERRUPTED = 3, 130
COMPLETION = "_HAK_COMPLETE"  # set by a shell that asks what may follow

app = typer.Typer(
    name="hak",
    cls=overview.Commands,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)
for module in (run, doctor, measure, inspect, baseline):
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


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    signal.signal(signal.SIGTERM, _interrupt)
    # Words of commands may hold bytes that are no UTF-8.
    sys.stdout.reconfigure(errors="backslashreplace")
    if not sys.argv[1:] and COMPLETION not in os.environ:
        print(overview.text())
        sys.exit(0)
    try:
        status = app(measure.spread_allocators(sys.argv[1:]), prog_name="hak", standalone_mode=False)
    except KeyboardInterrupt:
        status = _said("interrupted", EXIT_INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        status = 0
    except Exception as error:
        status = _known(error)
        if status is None:
            raise
    sys.exit(status)


def _said(text: object, status: int) -> int:
    """One line, whatever the text quotes."""
    print(f"hak: {one_line(str(text))}", file=sys.stderr)
    return status


def _known(error: Exception) -> int | None:
    """The exit status for an error that is the user's to mend, once it is said; None for a defect of ours."""
    name = type(error).__name__
    if isinstance(error, LabError):
        return _said(error, EXIT_BAD_INPUT)
    if hasattr(error, "format_message"):  # of the command line's parser
        return _said(error.format_message(), EXIT_BAD_INPUT)
    # By name: the classes live in a module that is slow to import.
    status = {"Stopped": EXIT_STOPPED, "Interrupted": EXIT_INTERRUPTED, "Abort": EXIT_INTERRUPTED}.get(name)
    return None if status is None else _said(str(error) or "interrupted", status)


if __name__ == "__main__":
    main()
