"""The one error that a user can put right, and two ends of a run that no mistake has caused."""

import difflib
import re
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

Found = TypeVar("Found")
EXIT_BAD_INPUT, EXIT_STOPPED = 2, 3
EXIT_SIGNAL = 128
CLOSE = 0.7  # of two names, the share of their letters that must agree for one to be taken for the other


class LabError(Exception):
    """Bad input or a missing piece. Its text is the whole message: what is wrong, where, and what to do."""


class StoreError(LabError):
    """The place where runs are kept cannot be used: nothing that a spec says is wrong."""


class Stopped(Exception):
    """The run cannot go on; what it has measured is in the store."""


class Interrupted(Exception):
    """A signal has ended it; what it has measured is in the store."""

    def __init__(self, text: str, number: int = signal.SIGINT):
        super().__init__(text)
        self.number = number


@contextmanager
def refused(what: str, then: str = "", kind: type[LabError] = LabError) -> Iterator[None]:
    """Around what the system may refuse: what cannot be done, why, and what follows becomes the user's error."""
    try:
        yield
    except OSError as error:
        raise kind(f"{what}: {error.strerror or error}{then}") from None


def decoded(decode: Callable[[str], Found], text: str) -> Found:
    """What the decoder (JSON's, TOML's) makes of the text. ValueError where it is damaged, or nested too deeply."""
    try:
        return decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def one_line(text: str) -> str:
    """The text on one line and harmless to a terminal: what is not printable is shown as an escape."""
    return escaped(re.sub(r"\s*[\r\n]+\s*", " ", text).strip())


def escaped(text: str, but: str = "") -> str:
    """The text with what is not printable, but these characters, as escapes: no terminal obeys them then."""
    return "".join(c if c.isprintable() or c in but else c.encode("unicode_escape").decode() for c in text)


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like this one, whatever their cases; None where none is near."""
    folded = {entry.casefold(): entry for entry in sorted(known)}
    found = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=CLOSE)
    return folded[found[0]] if found else None


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint to append to a message: the nearest valid name, or the list of all where none is near."""
    names = sorted(known)
    if near := closest(name, names):
        return f"did you mean '{near}'?"
    return "there are " + ", ".join(names) if names else "there are none"
