"""Entry point of `hak`: errors and signals as one line, exit statuses.

Exit status:
    0           done, whatever the verdict
    1           `--require` or `--gate` is not met; `hak doctor`: not served; `hak doctor --machine`: disturbed
    2           bad input
    3           the measurement could not be completed
    128 + N     ended by signal N
`hak run` ends as the program does.
"""

import contextlib
import errno
import io
import os
import signal
import sys
from collections.abc import Sequence
from typing import TextIO

from hakmem_lab.errors import EXIT_BAD_INPUT, EXIT_SIGNAL, EXIT_STOPPED, Interrupted, LabError, Stopped, one_line
from hakmem_lab.system import signals

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")  # read when numpy or scipy is loaded
COMPLETION = "_HAK_COMPLETE"  # set by a shell that asks for completions


def main() -> None:
    signals.listen()
    # A linear algebra library's threads would spin on the processors that are measured. putenv leaves os.environ as the
    # caller set it, and the measured programs get their environment from os.environ.
    for name in ONE_THREAD:
        os.putenv(name, "1")
    # The caller may have closed these streams; output is then discarded.
    sys.stdout = sys.stdout or _nowhere()
    sys.stderr = sys.stderr or _nowhere()
    # A command's words may hold bytes that are not UTF-8.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        status = _run(sys.argv[1:])
        sys.stdout.flush()
    except BrokenPipeError:
        status = _read_no_further()
    except SystemExit as end:  # the parser turns a BrokenPipeError into SystemExit
        if not isinstance(end.__context__, BrokenPipeError):
            raise
        status = _read_no_further()
    except (Exception, *signals.INTERRUPTS) as error:
        status = _known(error)
        if status is None:
            raise
    sys.exit(status)


def _nowhere() -> TextIO:
    return io.TextIOWrapper(io.FileIO(os.devnull, "w"))


def _drop_output() -> None:
    """Discard what is left in the buffers of standard output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _read_no_further() -> int:
    """The exit status of a program that ends by SIGPIPE."""
    _drop_output()
    return EXIT_SIGNAL + signal.SIGPIPE


def _run(words: Sequence[str]) -> int | None:
    try:
        os.getcwd()
    except FileNotFoundError:
        raise LabError("the folder that hak was started in is gone: change to another one") from None
    if words == ["mark"]:  # in the middle of a measured program, so it imports little
        from hakmem_lab.run import after

        after.mark()
        return 0
    # Imported here because it is slow: main() also reports a signal that arrives meanwhile in one line.
    from hakmem_lab.cli import commands, measure

    if not words and COMPLETION not in os.environ:
        print(commands.overview())
        return 0
    words = measure.spread_allocators(commands.renamed(list(words)))
    app = commands.app if COMPLETION in os.environ else commands.chosen(words)
    return app(words, prog_name="hak", standalone_mode=False)


def _said(text: object, status: int) -> int:
    """Print the message in one line, even if it quotes text of several lines; return the status."""
    with contextlib.suppress(OSError):  # the terminal may be gone
        print(f"hak: {one_line(str(text))}", file=sys.stderr, flush=True)
    return status


def _known(error: BaseException) -> int | None:
    """Report an error that is not a defect of hak, and return its exit status; None for any other error."""
    if isinstance(error, signals.INTERRUPTS):
        error = Interrupted("interrupted", signals.number_of(error))
    if isinstance(error, Interrupted):
        signals.end()  # child processes, such as a build's compilers
        status = _said(error, EXIT_SIGNAL + error.number)
        signals.ignore()
        return status
    if isinstance(error, LabError):
        return _said(error, EXIT_BAD_INPUT)
    if isinstance(error, Stopped):
        return _said(error, EXIT_STOPPED)
    if isinstance(error, OSError) and error.errno in FULL and error.filename is None:
        _drop_output()
        return _said(f"standard output cannot be written: {error.strerror}", EXIT_STOPPED)
    if hasattr(error, "format_message"):  # an error of the command line's parser
        return _said(error.format_message(), EXIT_BAD_INPUT)
    return None


if __name__ == "__main__":
    main()
