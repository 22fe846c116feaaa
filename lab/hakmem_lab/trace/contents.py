"""Reads what a trace says about itself, and counts its operations.

The file is untrusted: every value is checked.
"""

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hakmem_lab.errors import LabError, decoded, one_line
from hakmem_lab.system import signals
from hakmem_lab.trace import reader

DAMAGED = 2  # exit status of the reader


@dataclass(frozen=True)
class Process:
    """number: number of the process in the trace. resident: (ns since it began, KiB), as recorded."""

    number: int
    about: dict[str, Any]
    resident: list[tuple[int, int]]


@dataclass(frozen=True)
class Contents:
    """partial: why the trace is not complete; None: it is complete.

    info, end and each `about`: as the recorder wrote them, or empty; their values may have any type.
    """

    path: Path
    partial: str | None
    info: dict[str, Any]
    end: dict[str, Any]
    processes: list[Process]

    @property
    def complete(self) -> bool:
        return self.partial is None


def why_partial(end: Mapping[str, Any], ended: bool, cut_bytes: int) -> str:
    if cut_bytes:
        return f"it was cut off: {cut_bytes:,} bytes at its end are an incomplete chunk"
    if not ended:
        return "its end is missing: the recorder was killed, or the file was cut off"
    return words(end, "reason") or "it does not say why"


def words(found: Mapping[str, Any], key: str) -> str:
    """The value as one line, if it is a text or a list of texts; else empty."""
    value = found.get(key)
    if isinstance(value, list):
        value = " ".join(each for each in value if isinstance(each, str))
    return one_line(_decoded(value)) if isinstance(value, str) else ""


def _decoded(text: str) -> str:
    """Decodes UTF-8: a trace holds each byte above 127 as a character of its own."""
    try:
        return text.encode("utf-8", "surrogateescape").decode("utf-8", "surrogateescape")
    except UnicodeError:
        return text


def objects(value: Any) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def left_out(end: Mapping[str, Any]) -> list[str]:
    """A line for each program that was not recorded."""
    lines = []
    for each in objects(end.get("not_recorded")):
        count, by_exec = each.get("processes"), each.get("by_exec")
        counted = f"{count} process{'es' * (count != 1)}"
        until = f", {'' if by_exec == count else f'{by_exec} of them '}recorded until it became this by exec"
        lines.append(f"{words(each, 'executable')} was not recorded ({counted}{until if by_exec else ''})")
    return lines


def until_exec(end: Mapping[str, Any]) -> bool:
    """Whether a process was recorded only until it became another program."""
    return any(each.get("by_exec") for each in objects(end.get("not_recorded")))


def ended_early(end: Mapping[str, Any]) -> str | None:
    """Why the first process ended early; None: it ended normally, or is still running."""
    first = next(iter(objects(end.get("processes"))), {})
    if type(number := first.get("signal")) is int:
        return f"it was killed by {signals.name(number)}"
    return "it was killed, or left without its exit handlers" if first.get("cut_off") is True else None


def contents(path: Path) -> Contents:
    """The contents of a trace without its operations. Raises LabError where the file is no trace or damaged."""
    found = _ask(path, "texts")
    processes = [
        Process(each["process"], _object(path, each["about"]), _resident(path, each["resident"]))
        for each in found["processes"]
    ]
    info, end = _object(path, found["info"]), _object(path, found["end"])
    partial = None if found["complete"] else why_partial(end, found["end"] is not None, found["cut_bytes"])
    return Contents(path, partial, info, end, processes)


def counts(path: Path, process: int | None = None) -> dict[str, Any]:
    """The counts of all processes or of one, as one object. Raises LabError where the file is no trace or damaged."""
    return asked(path, *([] if process is None else [str(process)]))


def asked(path: Path, *options: str) -> dict[str, Any]:
    """The reader's output for these options."""
    found = _ask(path, *options)
    ended = found["end"] is not None
    found["info"], found["end"] = _object(path, found["info"]), _object(path, found["end"])
    recorded = _recorded(found["end"])
    for each in found["processes"]:
        each["about"] = _object(path, each["about"])
        own = recorded.get(each["process"], {})
        forked = each["about"].get("forked") is True and "operations" in own
        each["inherited"] = max(each["operations"] - own["operations"], 0) if forked else 0
        each |= {key: own.get(key, 0) for key in ("unknown_frees", "lost_frees")}
    found["partial"] = None if found["complete"] else why_partial(found["end"], ended, found["cut_bytes"])
    return found


def _recorded(end: Mapping[str, Any]) -> dict[int, dict[str, int]]:
    """Counts by process, as recorded: a forked process's counts exclude the blocks that it inherits."""
    known = [row for row in objects(end.get("processes")) if type(row.get("process")) is int]
    return {row["process"]: {key: value for key, value in row.items() if type(value) is int} for row in known}


def _ask(path: Path, *options: str) -> dict[str, Any]:
    command = [str(reader()), str(path), *options]
    done = subprocess.run(command, capture_output=True, check=False)
    if done.returncode == DAMAGED:
        raise LabError(one_line(done.stderr.decode(errors="replace")))
    if done.returncode != 0:
        raise LabError(f"{path} cannot be read: its reader ended with status {done.returncode}")
    return json.loads(done.stdout.decode(errors="replace"), strict=False)


def _parsed(path: Path, text: str) -> Any:
    try:
        return decoded(lambda each: json.loads(each, parse_constant=lambda _: None), text)
    except ValueError:
        raise LabError(f"{path} is damaged: a text in it is not JSON") from None


def _object(path: Path, text: str | None) -> dict[str, Any]:
    found = {} if text is None else _parsed(path, text)
    if not isinstance(found, dict):
        raise LabError(f"{path} is damaged: a text in it is not a JSON object")
    return found


def texts_of(path: Path, texts: list[str]) -> list[Any]:
    """The values of texts that are JSON."""
    return [_parsed(path, text) for text in texts]


def _resident(path: Path, texts: list[str]) -> list[tuple[int, int]]:
    lists = texts_of(path, texts)
    if not all(isinstance(each, list) for each in lists):
        raise LabError(f"{path} is damaged: its resident memory is not a list")
    samples = [sample for each in lists for sample in each]
    if not all(isinstance(each, list) and len(each) == 2 and all(type(n) is int for n in each) for each in samples):
        raise LabError(f"{path} is damaged: its list of resident memory has a wrong entry")
    return [(ns, kib) for ns, kib in samples]
