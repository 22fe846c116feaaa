"""System calls per operation."""

from collections.abc import Iterator
from typing import Any

from hakmem_lab.show import numbers
from hakmem_lab.show.answers import listed
from hakmem_lab.show.kinds import passed
from hakmem_lab.show.numbers import finite
from hakmem_lab.show.openmetrics import Sample
from hakmem_lab.show.terminal import filled

Record = dict[str, Any]


def answer(result: Record) -> str:
    arms = [arm for arm in (result["syscalls"] or {}).get("arms") or [] if isinstance(arm, dict)]
    parts = []
    for arm in arms:
        rate = finite(arm.get("per_op"))
        if rate is not None:
            parts.append(f"{arm.get('name')} {rate_text(rate)}")
    return f"System calls: {listed(parts)}" if parts else ""


def rate_text(per_op: float) -> str:
    """Calls per operation as people say it: 3.1 an operation, one in 11 million operations."""
    if per_op <= 0:
        return "none"
    if per_op >= 0.1:
        return f"{numbers.number(per_op, '', 2)} an operation"
    each = 1 / per_op
    for factor, name in ((1e9, " billion"), (1e6, " million")):
        if each >= factor:
            return f"one in {numbers.digits(each / factor, 2)}{name} operations"
    return f"one in {numbers.digits(float(f'{each:.2g}'), 2)} operations"


def word(result: Record) -> tuple[str, str]:
    return passed(result["syscalls"].get("passed"))


def _calls(part: dict | None) -> str:
    return "-" if part is None else f"{part['calls']:,.0f}"


def tables(result: Record) -> Iterator:
    """An arm has the counts of two lengths, or of the whole process where the command has no length, or none yet."""
    arms = result["syscalls"]["arms"]
    whole = any("whole" in arm for arm in arms)
    heads = ["arm", *(["in all"] if whole else ["per operation", "short run", "long run"]), "the most"]
    rows = []
    for arm in arms:
        calls = arm["whole"]["per_call"] if "whole" in arm else arm["per_call"]
        most = ", ".join(sorted(calls, key=lambda name: -calls[name])[:3]) or "-"
        rate = "-" if arm["per_op"] is None else f"{arm['per_op']:.2g}"
        counts = [_calls(arm.get("whole"))] if whole else [rate, _calls(arm.get("short")), _calls(arm.get("long"))]
        rows.append([arm["name"], *counts, most])
    yield from filled("System calls", heads, rows)


def samples(result: Record) -> Iterator[Sample]:
    for arm in result["syscalls"]["arms"]:
        yield Sample("hak_syscalls_per_operation", {"arm": arm["name"]}, arm["per_op"])
