"""Tables of the terminal, and the figures in them."""

import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence

from hakmem_lab.errors import escaped
from hakmem_lab.judge.digits import readable

WIDE_COLUMNS = 120
UNBROKEN = ("run",)  # columns of names to copy
SIGNIFICANT, MOST_DIGITS, TINY = 3, 6, 1e-9
SECONDS = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))  # (factor, unit shown), the greatest first
STYLES = {"GO": "bold green", "NO-GO": "bold red", "NEUTRAL": "bold blue", "INCONCLUSIVE": "bold yellow"}


def number(value: float | None, unit: str = "") -> str:
    """Three significant digits but the whole integer part, never an exponent, with a customary prefix."""
    if value is None:
        return "-"
    factor, shown = readable(value, unit)
    if unit == "s":
        factor, shown = next((step for step in SECONDS if abs(value) >= step[0]), SECONDS[-1])
    value /= factor
    digits = max(0, SIGNIFICANT - 1 - math.floor(math.log10(abs(value)))) if value else 0
    if digits > MOST_DIGITS:
        digits = 0 if abs(value) < TINY else MOST_DIGITS
    return f"{value:,.{digits}f} {shown}".strip()


def output():
    """A console on standard output. If that is no terminal, lines have a fixed width."""
    from rich.console import Console

    class Harmless(Console):
        """Escapes control characters and markup in all texts."""

        def render_str(self, text: str, **details):
            return super().render_str(escaped(text, but="\n"), **details)

    return Harmless(highlight=False, markup=False, width=None if sys.stdout.isatty() else WIDE_COLUMNS)


def table_of(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *words: int):
    """A rich table of plain text with coloured verdicts. The first column and those at the positions `words` hold
    words, the others figures."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        of_words = {index, index - len(columns)} & {0, *words}
        folded = column not in UNBROKEN
        table.add_column(column, justify="left" if of_words else "right", overflow="fold", no_wrap=not folded)
    for first, *others in rows:
        table.add_row(_cell(re.sub(r"\s*\n\s*", " ", first)), *map(_cell, others))
    return table


def _cell(text: str):
    from rich.text import Text

    return Text(escaped(text, but="\n"), style=STYLES.get(text, ""))


def filled(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[object]:
    """The table, if there are rows."""
    rows = list(rows)
    if rows:
        yield table_of(title, columns, rows)
