"""The one error that a user can put right. Imports nothing of the package."""

import difflib
from collections.abc import Iterable

EXIT_BAD_INPUT = 2


class LabError(Exception):
    """Bad input or a missing piece. Its text is the whole message: what is wrong, where, and what to do."""


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint to append to a message: the nearest valid name, or the list of all where none is near."""
    names = sorted(known)
    folded = {n.casefold(): n for n in names}
    close = difflib.get_close_matches(name.casefold(), folded, n=1, cutoff=0.5)
    if close:
        return f"did you mean '{folded[close[0]]}'?"
    return "there are " + ", ".join(names) if names else "there are none"
