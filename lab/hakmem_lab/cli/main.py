"""Entry point of `hak`: commands in the order in which a user meets them, errors as one line, exit statuses.

Exit status: 0 done (whatever the verdict), 1 `--require` not met, 2 bad input, 3 the measurement could not be
completed, 130 interrupted; `hak run` ends as the program does.
"""

import signal
import sys

import typer

from ..errors import EXIT_BAD_INPUT, LabError
from . import inspect, measure, run

EXIT_STOPPED, EXIT_INTERRUPTED = 3, 130

app = typer.Typer(
    name="hak",
    help="Which allocator, and which of its settings, make a program faster or leaner: verdicts with intervals.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)
for module in (run, measure, inspect):
    module.register(app)


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main() -> None:
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        app(measure.spread_allocators(sys.argv[1:]), prog_name="hak")
    except LabError as error:
        print(f"hak: {error}", file=sys.stderr)
        sys.exit(EXIT_BAD_INPUT)
    except KeyboardInterrupt:
        print("hak: interrupted", file=sys.stderr)
        sys.exit(EXIT_INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except Exception as error:
        # The classes live in a module that is slow to import; only a run that has imported it can raise them.
        session = sys.modules.get("hakmem_lab.session")
        if session and isinstance(error, session.Stopped | session.Interrupted):
            print(f"hak: {error}", file=sys.stderr)
            sys.exit(EXIT_STOPPED if isinstance(error, session.Stopped) else EXIT_INTERRUPTED)
        raise


if __name__ == "__main__":
    main()
