"""System calls per operation."""

from collections.abc import Iterator

from hakmem_lab.show.openmetrics import Sample
from hakmem_lab.show.terminal import filled
from hakmem_lab.store.results import Calls, Result


def _calls(part: Calls | None) -> str:
    return "-" if part is None else f"{part['calls']:,.0f}"


def tables(result: Result) -> Iterator[object]:
    """An arm has the counts of two lengths; of the whole process, where the command has no length; or none yet."""
    arms = result["syscalls"]["arms"]
    whole = any("whole" in arm for arm in arms)
    heads = ["side", *(["in all"] if whole else ["per operation", "short run", "long run"]), "the most"]
    rows = []
    for arm in arms:
        calls = arm["whole"]["per_call"] if "whole" in arm else arm["per_call"]
        most = ", ".join(sorted(calls, key=lambda name: -calls[name])[:3]) or "-"
        rate = "-" if arm["per_op"] is None else f"{arm['per_op']:.2g}"
        counts = [_calls(arm.get("whole"))] if whole else [rate, _calls(arm.get("short")), _calls(arm.get("long"))]
        rows.append([arm["name"], *counts, most])
    yield from filled("System calls", heads, rows)


def samples(result: Result) -> Iterator[Sample]:
    for arm in result["syscalls"]["arms"]:
        yield Sample("hak_syscalls_per_operation", {"arm": arm["name"]}, arm["per_op"])
