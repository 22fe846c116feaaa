"""Allocation programs: what they are made of, how they are drawn, written for the machine, and read by people.

A program is plain data: `{"idle_ms": ms, "rounds": n, "ops": [operation...]}`. An operation is a dict of its name, its
fields that are not 0, and `body` where it has one. Sizes are bytes, times milliseconds unless a name says otherwise.
"""

import json
import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Op = dict[str, Any]
Program = dict[str, Any]

FIELDS = ("first", "shift", "count", "x", "y", "z", "how", "touch")
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
PAGE = 4 * KIB
REGION = 4096  # slots of one operation; four regions of one thread follow each other
REGIONS = 4
STRIDE = REGION * REGIONS
LONGEST_RUN_S = 1  # of processor time
TRIALS = ("busy", "exits", "short", "refuse", "crash", "apart")  # of them only contents and the exit status are asked
LONGEST_TRIAL_S = 10
MOST_TEAM = 16  # threads of a trial, which share two strides of slots
# What a program may cost on an ordinary allocator, in µs: about so much for a call, a page that is touched, a mapping.
CALL_US, PAGE_US, MAPPING_US, THREAD_US, FORK_US = 0.15, 0.35, 6.0, 60.0, 500.0


def _names(kind: str) -> dict[str, int]:
    """The numbers of an enumeration of machine.h, by name in small letters."""
    text = (Path(__file__).parent / "machine.h").read_text()
    found = re.search(rf"enum {kind} {{([^}}]*)}}", text)
    assert found is not None
    return {name.strip().lower(): number for number, name in enumerate(found[1].split(","))}


CODES, HOWS, TOUCHES, ORDERS, WAYS, SHORTAGES, MISUSES = (
    _names(kind) for kind in ("code", "how", "touch", "order", "way", "shortage", "misuse")
)
_TABLES = {"how": HOWS, "touch": TOUCHES, "way": WAYS, "shortage": SHORTAGES, "misuse": MISUSES}
NAMES = {name: {number: word for word, number in table.items()} for name, table in _TABLES.items()}


def flat(ops: list[Op]) -> Iterator[tuple[Op, int]]:
    """Every operation with the number of operations in its body, as they lie in the machine's file."""
    for op in ops:
        inside = list(flat(op.get("body", [])))
        yield op, len(inside)
        yield from inside


def is_trial(program: Program) -> bool:
    return any(op["op"] in TRIALS for op, _ in flat(program["ops"]))


def pack(program: Program) -> bytes:
    rows = list(flat(program["ops"]))
    trial = is_trial(program)
    threads = max([2 if trial else 1, *(op["count"] + 1 for op, _ in rows if op["op"] == "threads")])
    seconds = LONGEST_TRIAL_S if trial else LONGEST_RUN_S
    words = [STRIDE * threads, program["rounds"], seconds, program.get("idle_ms", 0), len(rows)]
    for op, body in rows:
        words += [CODES[op["op"]], body, *(op.get(field, 0) for field in FIELDS)]
    return struct.pack(f"<{len(words)}q", *words)


def touched_pages(size: int, touch: int) -> int:
    pages = size // PAGE + 1
    return {"none": 0, "start": 1, "ends": 2}.get(NAMES["touch"][touch], pages)


def cost_us(ops: list[Op]) -> float:
    """Roughly what one round costs, where large blocks come from the system and small ones from a list."""
    total = 0.0
    for op in ops:
        kind, count = op["op"], op.get("count", 1)
        inside = cost_us(op.get("body", []))
        if kind in ("alloc", "churn", "exchange"):
            times = op["z"] if kind != "alloc" else count
            size = op["x"] if kind != "alloc" else op["x"] + op.get("y", 0) * count // 2
            size = max(size, op["y"]) if kind != "alloc" else size
            pages = touched_pages(size, op.get("touch", 0))
            words = size / 8 / 2000 if op.get("touch", 0) == TOUCHES["whole"] else 0
            total += times * (CALL_US + pages * PAGE_US * (size > 32 * KIB) + (size > 128 * KIB) * MAPPING_US + words)
        elif kind == "free":
            total += count * CALL_US / 4
        elif kind == "resize":
            steps = op["x"] / op["y"] if op.get("y") else 10
            total += count * (steps * MAPPING_US / 2 + touched_pages(op["x"], op.get("touch", 0)) * PAGE_US)
        elif kind == "loop":
            total += count * inside
        elif kind == "threads":
            total += count * (THREAD_US + inside)
        elif kind == "fork":
            total += FORK_US + inside
        elif kind == "pause":
            total += op["x"] * 1000
        elif kind in TRIALS:
            total += _trial_us(op)
    return total


def _trial_us(op: Op) -> float:
    pages = PAGE_US * touched_pages(op.get("y", 0), op.get("touch", 0))
    if op["op"] == "busy":
        return op["count"] * (THREAD_US + 200 * pages) + op["z"] * 4 * FORK_US
    if op["op"] == "apart":
        return op["count"] * (THREAD_US + 6 * op["z"] * (pages + 4 * CALL_US)) + 8 * FORK_US
    if op["op"] == "exits":
        return op["count"] * (THREAD_US + op["z"] * (pages + 4 * CALL_US))
    if op["op"] == "short":
        return 2 * FORK_US + op["z"] * (pages + 4 * CALL_US)
    return 2 * FORK_US if op["op"] == "crash" else 10 * MAPPING_US


def _bytes(n: int) -> str:
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
        for off in (0, 1, -1):
            if n >= unit and (n - off) % unit == 0:
                return f"{(n - off) // unit} {name}" + ("", "+1", "-1")[off]
    return f"{n} B"


def _slots(op: Op) -> str:
    text = f"slots {op.get('first', 0)}+{op.get('count', 1)}"
    return text + (f" (+{op['shift']} each time)" if op.get("shift") else "")


def _many(op: Op) -> str:
    how = NAMES["how"][op.get("how", 0) & 255]
    return f"{how} {_bytes(op.get('x', 0))} to {_bytes(op.get('y', 0))}"


def _trial_sentence(op: Op, touch: str) -> str:
    kind, count, x, y, z = op["op"], op.get("count", 1), op.get("x", 0), op.get("y", 0), op.get("z", 0)
    words = {
        "busy": f"{z} forks beside {count} threads that {_many(op)}, {touch}",
        "exits": f"{count} threads that end with {z} blocks, {_many(op)}, {touch}",
        "apart": f"{count} threads with regions of their own that {_many(op)}, {z} times a turn, {touch}",
        "short": f"{NAMES['shortage'].get(op.get('shift', 0))} to {_bytes(x)}: {z} times {_bytes(y)}, {touch}",
        "crash": f"crash: {_bytes(x)} freed {NAMES['misuse'].get(y)}" + (" in a thread" if z else ""),
    }
    return words.get(kind, f"wrong requests beside {_bytes(x)}, {touch}")


def sentence(op: Op) -> str:
    """One operation in words."""
    kind, x, y, z = op["op"], op.get("x", 0), op.get("y", 0), op.get("z", 0)
    how = NAMES["how"][op.get("how", 0) & 255] + (f"({1 << (op['how'] >> 8)})" if op.get("how", 0) >> 8 else "")
    touch = f"touch {NAMES['touch'][op.get('touch', 0)]}"
    if kind == "alloc":
        more = (f" +{_bytes(y)} a slot" if y else "") + (f" +{_bytes(z)} each time" if z else "")
        return f"{how} {_bytes(x)}{more} in {_slots(op)}, {touch}"
    if kind == "free":
        order = next(name for name, number in ORDERS.items() if number == x)
        return f"free {_slots(op)}, {order}" + (f", but one in {y}" if y else "")
    if kind == "resize":
        by = _bytes(y) if y else f"{z} %"
        return f"realloc {_slots(op)} to {_bytes(x)} in steps of {by}"
    if kind in ("churn", "exchange"):
        return f"{kind} {z} times {how} {_bytes(x)} to {_bytes(y)} in {_slots(op)}, {touch}"
    if kind == "threads":
        return f"{op['count']} threads" + (" that stay" if x else "")
    plain = {"loop": f"{op.get('count', 1)} times", "pause": f"pause {x} ms", "fork": NAMES["way"].get(x)}
    other = _trial_sentence(op, touch) if kind in TRIALS else f"{kind} {x}" if x else kind
    return plain.get(kind) or other


def listing(program: Program) -> str:
    """The program as people read it."""

    def lines(ops: list[Op], depth: int) -> Iterator[str]:
        for op in ops:
            yield "  " * depth + sentence(op) + (":" if "body" in op else "")
            yield from lines(op.get("body", []), depth + 1)

    head = f"{program['rounds']} rounds of:"
    tail = [f"then idle {program['idle_ms']} ms"] if program.get("idle_ms") else []
    return "\n".join([head, *lines(program["ops"], 1), *tail])


def load(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text())
