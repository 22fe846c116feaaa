"""Small files of the kernel, below a root that tests can make up."""

from pathlib import Path

ROOT = Path("/")


def text(path: Path) -> str | None:
    """None where there is no such file, or it is not for us."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def number(path: Path) -> int | None:
    found = text(path)
    return int(found) if found is not None and found.lstrip("-").isdecimal() else None


def rows(path: Path) -> dict[str, str]:
    """Of a file of lines `name: value` or `name value`."""
    found = {}
    for line in (text(path) or "").splitlines():
        name, _, value = line.replace(":", " ", 1).partition(" ")
        found[name] = value.strip()
    return found


def kib(value: str | None) -> int | None:
    """Bytes of '12 kB'."""
    words = (value or "").split()
    return int(words[0]) * 1024 if words and words[0].isdecimal() else None
