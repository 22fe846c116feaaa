"""How the values of a spec are written: shares, durations, commands, text. Pure."""

import re
import shlex
from typing import Any

NUMBER = r"(?:\d+\.?\d*|\.\d+)"
SHORTEST_TIMEOUT_S = 1e-3
SHELL = ["/bin/sh", "-c"]
UNFINISHED = {"No closing quotation": "a quotation mark is not closed", "No escaped character": "a backslash ends it"}
SIZES_KIB = {"MiB": 2.0**10, "GiB": 2.0**20, "TiB": 2.0**30, "MB": 1e6 / 1024, "GB": 1e9 / 1024, "TB": 1e12 / 1024}
UNITS_S = {"ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def parse_ratio(value: Any) -> Any:
    """'1%' or 0.01 -> 0.01."""
    if isinstance(value, str) and (share := value.strip()).endswith("%"):
        try:
            return float(share[:-1]) / 100
        except ValueError:
            raise ValueError("a share is written as 1% or 0.01") from None
    return value


def parse_duration_s(value: Any) -> Any:
    """'90s', '10m', '1h', '250ms' or a number of seconds -> seconds."""
    if isinstance(value, str):
        found = re.fullmatch(rf"\s*({NUMBER})\s*(ms|s|m|h)?\s*", value)
        if not found:
            raise ValueError("a duration is written as 250ms, 90s, 10m or 1h")
        return float(found.group(1)) * UNITS_S[found.group(2) or "s"]
    return value


def price_of(text: str) -> tuple[float, float, str]:
    """'4.5/GiB-month', '$4.5/GiB-month' -> (4.5, KiB in a GiB, month). Raises ValueError."""
    found = re.fullmatch(rf"[^\d/.]*({NUMBER})[^\d/]*/\s*({'|'.join(SIZES_KIB)})-(\w+)", text.strip())
    if not found or not float(found[1]):
        raise ValueError("a price is written as 4.5/GiB-month or '4.5 EUR/GB-month'")
    return float(found[1]), SIZES_KIB[found[2]], found[3]


def check_price(value: str) -> str:
    """Returns the price, or raises ValueError."""
    price_of(value)
    return value.strip()


def parse_command(value: Any) -> Any:
    """A list of words, or one string in the quoting of the shell. Raises ValueError where it ends too early."""
    try:
        return shlex.split(value) if isinstance(value, str) else value
    except ValueError as error:
        raise ValueError(UNFINISHED.get(str(error), str(error))) from None


def parse_step(value: Any) -> Any:
    """A list of words, or a line for the shell: the shell's own time does not matter, since no step is measured."""
    return [*SHELL, value] if isinstance(value, str) else value


def check_text(value: str) -> str:
    """Returns the text if a program can get it as an argument; else raises ValueError."""
    if "\0" in value:
        raise ValueError("a NUL character ends a word: no program can be given one")
    return value


def check_environment(value: dict[str, str]) -> dict[str, str]:
    """Returns the variables, or raises ValueError where a name or a value is not possible."""
    for name in value:
        if not name or "=" in name:
            raise ValueError(f"'{name}' cannot be the name of a variable")
        check_text(name)
    return value


def check_title(value: str) -> str:
    """Returns the text if it is one line or empty; else raises ValueError."""
    if not value.isprintable():
        raise ValueError("a name is one line of text")
    return value.strip()


def check_timeout(value: float) -> float:
    if value < SHORTEST_TIMEOUT_S:
        raise ValueError("a timeout is at least 1ms")
    return value
