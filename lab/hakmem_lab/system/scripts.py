"""Scripts: which programs the kernel starts for them."""

import os
import shutil
from pathlib import Path

MARK = b"#!"
LONGEST_LINE = 4096
DEEPEST = 5  # scripts whose interpreters are scripts again: the kernel's own limit
ENV = "env"
ENV_WITH_VALUE = ("-u", "-C", "--unset", "--chdir")


def interpreter(path: Path) -> list[str] | None:
    """The words after `#!`: the interpreter, and what it is given before the script's own name; None for no script."""
    try:
        with open(path, "rb") as file:
            line = file.read(LONGEST_LINE).split(b"\n", 1)[0]
    except OSError:
        return None
    if not line.startswith(MARK):
        return None
    # The kernel passes all that follows the interpreter on as one word.
    return os.fsdecode(line[len(MARK) :].strip()).split(None, 1)


def _started_by_env(words: list[str]) -> str | None:
    """The program that `env` starts: the first word that is neither an option nor NAME=VALUE."""
    left = " ".join(words).split()
    while left:
        word = left.pop(0)
        if word in ENV_WITH_VALUE and left:
            left.pop(0)
        elif not word.startswith("-") and "=" not in word:
            return word
    return None


def interpreters(path: Path) -> list[Path]:
    """All programs between a script and what reads it, in the order in which they are started; none for a program."""
    found: list[Path] = []
    while len(found) < DEEPEST and (words := interpreter(path)):
        path = Path(words[0])
        found.append(path)
        if path.name == ENV and (name := _started_by_env(words[1:])) and (there := shutil.which(name)):
            path = Path(there)
            found.append(path)
    return found
