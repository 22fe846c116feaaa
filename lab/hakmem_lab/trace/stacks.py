"""Counts by stack: allocations, blocks freed at once, live at the peak, never freed, and growth."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hakmem_lab.errors import LabError
from hakmem_lab.inside.profile.places import TYPES as HEAP_TYPES
from hakmem_lab.inside.profile.places import UNKNOWN, HeapProfile, Place, Stack
from hakmem_lab.trace import named
from hakmem_lab.trace.contents import asked, contents, texts_of, words

# TYPES: the values of a profile; VALUES: the same values in a row. Blocks that were never freed count as in use.
TYPES = (*HEAP_TYPES[:4], ("peak_space", "bytes"), ("temporary_objects", "count"), ("temporary_space", "bytes"))
VALUES = ("calls", "bytes", "kept", "kept_bytes", "peak_bytes", "temporaries", "temporary_bytes")
SCHEMA = "hakmem-stacks 1"
MEAN_MOST = 1 << 40
BYTES = 3  # column of a row of `by_stack`
MOST_NAMED = 5
PLUMBING = ("operator new", "operator delete", "std::", "__gnu_cxx::", "void std::", "__libc_start", "_start")


def mean_bytes(path: Path) -> int:
    """Mean bytes between two samples; 1: every call has its stack. Raises LabError where no stacks were recorded."""
    mean = contents(path).info.get("stacks")
    if type(mean) is not int or not 1 <= mean <= MEAN_MOST:
        raise LabError(f"{path} has no stacks: record them with hak record --stacks -o {path} -- CMD")
    return mean


def by_stack(path: Path, process: int | None = None) -> tuple[dict[str, Any], HeapProfile]:
    """(counts with `stacks`, the same as a profile for other tools) of one process, by default the one that allocated
    most. `others` are the other processes. Stacks with the same functions form one row. Raises LabError."""
    mean = mean_bytes(path)
    found = asked(path, "stacks", str(mean), *([] if process is None else [str(process)]))
    ordered = sorted(found["processes"], key=_bytes, reverse=True)
    if not ordered or not (one := ordered[0])["by_stack"]:
        sampled = "of what was allocated, nothing was sampled: record it with a smaller --rate"
        raise LabError(f"{path}: {sampled if mean > 1 else 'nothing was allocated'}")
    places = _Places(path, texts_of(path, one["stacks"]))
    profile = HeapProfile(types=TYPES, period=mean, main=str(one["about"].get("executable", "")))
    stacks = [(places.stack(row[0]), row) for row in one["by_stack"]]
    for stack, row in stacks:
        profile.add(stack, row[2:9])
    profile.named = named.stored(path)
    names = profile.names()
    rows: dict[tuple[str, ...], dict[str, Any]] = {}
    for stack, (node, samples, *values, series) in stacks:
        frames = [name for place in stack for name in names.of(place)]
        row = rows.setdefault(tuple(name.function for name in frames), _row(frames, len(series)))
        row["samples"] += samples
        row["nodes"].append(node)
        for name, value in zip(VALUES, values, strict=True):
            row[name] += value
        row["live"] = [before + value for before, value in zip(row["live"], series, strict=True)]
    for row in rows.values():
        row["grown_bytes"] = row["live"][-1] - row["live"][len(row["live"]) // 2 - 1] if len(row["live"]) > 1 else 0.0
    kept = {key: value for key, value in one.items() if key not in ("by_stack", "stacks")}
    kept["others"] = [
        {"process": each["process"], "program": program(each), "bytes": _bytes(each)}
        for each in ordered[1:]
        if each["by_stack"]
    ]
    profile.comments = [f"hak trace {path} --by stack: process {one['process']}, {program(one)}", *not_shown(kept)]
    return kept | {"mean_bytes": mean, "stacks": [*rows.values()], "partial": found["partial"]}, profile


def _bytes(process: Mapping[str, Any]) -> float:
    """Bytes that a process has allocated itself: blocks that it inherited have no stack there."""
    return float(sum(row[BYTES] for row in process["by_stack"]))


def program(process: Mapping[str, Any]) -> str:
    """The name of a process's program."""
    text = words(process["about"], "command") or words(process["about"], "executable") or "?"
    return text.partition(" ")[0].rpartition("/")[2] or text


def not_shown(result: Mapping[str, Any]) -> list[str]:
    """A line about the processes whose stacks are not shown, the largest first; empty if there are none."""
    found: dict[str, list[float]] = {}
    for each in result.get("others", []):
        found.setdefault(each["program"], []).append(each["bytes"])
    if not found:
        return []
    most = sorted(found.items(), key=lambda row: -sum(row[1]))
    told = [
        f"{name} ({f'{len(own)} processes, ' if len(own) > 1 else ''}{sum(own):,.0f} bytes)"
        for name, own in most[:MOST_NAMED]
    ]
    more = f" and {len(most) - MOST_NAMED} more programs" if len(most) > MOST_NAMED else ""
    return [f"not shown here: {', '.join(told)}{more}; --process N shows one of them"]


def keep_names(path: Path, root: int) -> None:
    """Add names from below another root to a trace, for its processes with stacks."""
    found = asked(path, "stacks", str(mean_bytes(path)))
    places = set[Place]()
    for each in found["processes"]:
        tree = _Places(path, texts_of(path, each["stacks"]))
        stacks = [tree.stack(row[0]) for row in each["by_stack"]]
        places |= {place for stack in stacks for place in stack if isinstance(place, Place)}
    named.keep(path, places, root)


def _row(frames: list, points: int) -> dict[str, Any]:
    where = [f"{name.file}:{name.line}" if name.file else "" for name in frames]
    values: dict[str, Any] = {"frames": [name.function for name in frames], "lines": where, "nodes": [], "samples": 0}
    return values | dict.fromkeys(VALUES, 0.0) | {"live": [0.0] * points}


def without_plumbing(stacks: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The stacks without frames of language runtimes; stacks that are then equal form one row."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    for each in stacks:
        frames = tuple(one for one in each["frames"] if not one.startswith(PLUMBING)) or tuple(each["frames"])
        row = found.setdefault(frames, {"frames": frames, "live": [0.0] * len(each["live"])})
        for key in (key for key in each if key not in ("frames", "lines", "live")):
            row[key] = row.get(key, type(each[key])()) + each[key]
        row["live"] = [before + value for before, value in zip(row["live"], each["live"], strict=True)]
    return [*found.values()]


class _Places:
    """The tree of a process's stacks, from the texts of a trace, which are untrusted."""

    def __init__(self, path: Path, texts: list[Any]):
        self._files, self._nodes = list[tuple[str, str]](), list[tuple[int, int, int]]()
        try:
            for text in texts:
                self._files += [(str(name), str(build_id)) for name, build_id in text["files"]]
                self._nodes += [(int(parent), int(file), int(offset)) for parent, file, offset in text["nodes"]]
            wrong = any(parent > i or parent < 0 for i, (parent, _, _) in enumerate(self._nodes))
        except (KeyError, TypeError, ValueError, OverflowError):
            wrong = True
        if wrong:
            raise LabError(f"{path} is damaged: its list of stacks has a wrong entry")

    def stack(self, node: int) -> Stack:
        """The places of a stack, innermost first. A stack that is missing in a truncated trace is unknown."""
        found: list[Place | str] = []
        while 0 < node <= len(self._nodes):
            node, file, offset = self._nodes[node - 1]
            path, build_id = self._files[file] if 0 <= file < len(self._files) else ("", "")
            found.append(Place(path, build_id, offset))
        return tuple(found) or (UNKNOWN,)


def tree(rows: list[Mapping[str, Any]], value: str) -> dict[str, Any]:
    """The stacks as a tree, from the outermost function inwards: {"value": …, "below": {function: the same}}."""
    root: dict[str, Any] = {"value": 0.0, "below": {}}
    for row in rows:
        at = root
        at["value"] += row[value]
        for function in reversed(row["frames"]):
            at = at["below"].setdefault(function, {"value": 0.0, "below": {}})
            at["value"] += row[value]
    return root
