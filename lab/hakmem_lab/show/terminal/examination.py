"""What the doctor found, on the terminal: the verdict, then a line a check."""

import textwrap

from hakmem_lab.doctor.checks import Report
from hakmem_lab.errors import one_line

WIDTH, LEAST_WIDTH = 100, 60
STATES = {"ok": "green", "note": "blue", "problem": "bold red", "unknown": "yellow"}
STATE_WIDTH = 9
MARK = "-> "


def show(found: Report) -> None:
    """The verdict, then a line a check, with what to do below it."""
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    width = max(LEAST_WIDTH, min(WIDTH, console.width)) if console.is_terminal else WIDTH
    style = "bold green" if found.served else "bold red"
    for line in _wrapped(one_line(found.verdict), "", width):
        console.print(Text(line, style=style))
    console.print()
    names = max(len(check.name) for check in found.checks)
    for check in found.checks:
        margin = " " * (STATE_WIDTH + names + 2)
        first, *rest = _wrapped(one_line(check.found), margin, width)
        console.print(
            Text(f"{check.state:<{STATE_WIDTH}}", STATES[check.state]).append(f"{check.name:<{names}}  ", "default"),
            end="",
        )
        console.print(Text(first.removeprefix(margin)))
        for line in rest:
            console.print(Text(line))
        if check.remedy:
            for line in _wrapped(MARK + one_line(check.remedy), " " * STATE_WIDTH, width):
                console.print(Text(line, style="bold"))


def _wrapped(text: str, margin: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=margin, subsequent_indent=margin, break_on_hyphens=False) or [
        margin
    ]
