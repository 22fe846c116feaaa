"""LabError, for errors that a user can correct; Stopped and Interrupted, for runs that end early; message texts."""

import difflib
import os
import re
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Found = TypeVar("Found")
EXIT_BAD_INPUT, EXIT_STOPPED = 2, 3
EXIT_SIGNAL = 128
CLOSE = 0.7  # least similarity of two names (difflib's ratio) for one to be suggested for the other


class LabError(Exception):
    """Bad input or a missing piece. Its text is the whole message: what is wrong, where, and what to do."""


def rights(who: str = "be its user") -> str:
    """What to do where a process may not be read. In a container, root may lack the right to."""
    return f"{who}, or root" if os.geteuid() else "root lacks CAP_SYS_PTRACE here: docker run --cap-add SYS_PTRACE"


class StoreError(LabError):
    """The folder of the stored runs cannot be used; the spec is not at fault."""


class Stopped(Exception):
    """The run cannot go on; what it has measured is in the store."""


class Interrupted(Exception):
    """A signal has ended the run; what it has measured is in the store."""

    def __init__(self, text: str, number: int = signal.SIGINT):
        super().__init__(text)
        self.number = number


@contextmanager
def refused(what: str, then: str = "", kind: type[LabError] = LabError) -> Iterator[None]:
    """Turn an OSError of the block into the user's error. Its text is `what`, the reason, and `then`."""
    try:
        yield
    except OSError as error:
        raise kind(f"{what}: {error.strerror or error}{then}") from None


def decoded(decode: Callable[[str], Found], text: str) -> Found:
    """The text, decoded from JSON or TOML. Raises ValueError if the text is damaged or nested too deeply."""
    try:
        return decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def one_line(text: str) -> str:
    """The text on one line and harmless to a terminal: characters that cannot be printed become escapes."""
    return escaped(re.sub(r"\s*[\r\n]+\s*", " ", text).strip())


def escaped(text: str, but: str = "") -> str:
    """The text, harmless to a terminal: characters that cannot be printed become escapes, except those in `but`."""
    return "".join(c if c.isprintable() or c in but else c.encode("unicode_escape").decode() for c in text)


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most similar to this one, ignoring case; None if none is similar."""
    folded = {entry.casefold(): entry for entry in sorted(known)}
    found = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=CLOSE)
    return folded[found[0]] if found else None


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint to append to a message: the most similar valid name, or all names if none is similar."""
    names = sorted(known)
    if near := closest(name, names):
        return f"did you mean '{near}'?"
    return "there are " + ", ".join(names) if names else "there are none"
