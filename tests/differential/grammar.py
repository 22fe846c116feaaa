"""How programs are drawn: Hypothesis strategies. Every program is a steady state: a full slot is emptied before it is
filled, so that after a round what is alive is bounded, and rounds resemble each other."""

from typing import Any

from hypothesis import strategies as st
from programs import (
    GIB,
    HOWS,
    KIB,
    MIB,
    MISUSES,
    MOST_TEAM,
    ORDERS,
    REGION,
    REGIONS,
    SHORTAGES,
    STRIDE,
    TOUCHES,
    WAYS,
    Op,
    Program,
    cost_us,
    touched_pages,
)

# µs of one run, and what no operation exceeds: bytes alive that are touched, or not.
RUN_US = 50_000
MOST_TOUCHED = 128 * MIB
MOST_UNTOUCHED = 16 * GIB
MIN_ROUNDS, MAX_ROUNDS = 16, 512
LEAST_TRIALS, MOST_TRIALS = 3, 32

SMALL = [16, 24, 64, 100, 256, 512, 1000, 1 * KIB, 2 * KIB, 3 * KIB, 4 * KIB]
MIDDLE = [6 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 33 * KIB, 34295, 48 * KIB, 64 * KIB, 100_000, 128 * KIB, 256 * KIB]
LARGE = [512 * KIB, 768 * KIB, MIB, 3 * MIB // 2, 2 * MIB, 3 * MIB, 4 * MIB, 6 * MIB, 10 * MIB, 16 * MIB, 32 * MIB]
HUGE = [60 * MIB, 100 * MIB, 200 * MIB, 512 * MIB, GIB, 4 * GIB, 8 * GIB]
COUNTS = [1, 2, 3, 8, 20, 64, 200, 1000, 4000]


def _pick(*values: Any) -> st.SearchStrategy[Any]:
    return st.sampled_from(list(values))


@st.composite
def sizes(draw: st.DrawFn, most: int = MOST_UNTOUCHED) -> int:
    """Bytes: near what some allocator treats as a boundary, or anything, each order of magnitude as often."""
    band = [size for size in draw(_pick(SMALL, MIDDLE, LARGE, HUGE)) if size <= most] or [most]
    if draw(st.integers(0, 3)) < 3:
        return max(1, min(most, draw(st.sampled_from(band)) + draw(_pick(0, 1, -1, 17))))
    low = draw(st.sampled_from(band))
    return min(most, draw(st.integers(low, 2 * low)))


@st.composite
def ways(draw: st.DrawFn) -> int:
    """By which function, with the logarithm of the alignment above the low byte."""
    how = HOWS[draw(_pick("malloc", "malloc", "malloc", "calloc", "memalign", "aligned", "valloc"))]
    return how | draw(_pick(6, 12, 4, 16, 21)) << 8 if how in (HOWS["memalign"], HOWS["aligned"]) else how


def _fit(count: int, size: int, touch: int) -> int:
    """As many blocks as stay within what may be alive."""
    pages = touched_pages(size, touch)
    return max(1, min(count, MOST_UNTOUCHED // max(size, 1), MOST_TOUCHED // (4096 * pages) if pages > 8 else count))


def _touch_for(draw: st.DrawFn, size: int) -> int:
    touch = TOUCHES[draw(_pick("ends", "none", "pages", "whole", "start"))]
    return min(touch, TOUCHES["ends"]) if size > MOST_TOUCHED else touch


@st.composite
def allocs(draw: st.DrawFn, region: int) -> Op:
    size = draw(sizes())
    touch = _touch_for(draw, size)
    step = draw(_pick(0, 0, 0, 1, 16, 100, 4096))
    count = _fit(draw(st.sampled_from(COUNTS)), size, touch)
    if step * count > size:
        step = 0
    return {
        "op": "alloc",
        "first": region * REGION,
        "count": count,
        "x": size,
        "y": step,
        "how": draw(ways()),
        "touch": touch,
    }


def _free(draw: st.DrawFn, region: int, count: int = REGION) -> Op:
    keep = draw(_pick(0, 0, 2, 4, 10, 64))
    return {
        "op": "free",
        "first": region * REGION,
        "count": count,
        "x": ORDERS[draw(_pick("fifo", "lifo", "random"))],
        "y": keep,
    }


@st.composite
def pairs(draw: st.DrawFn, region: int) -> list[Op]:
    alloc = draw(allocs(region))
    return [alloc, _free(draw, region, alloc["count"])]


@st.composite
def repeated(draw: st.DrawFn, region: int) -> list[Op]:
    ops = draw(pairs(region))
    return [{"op": "loop", "count": draw(_pick(2, 5, 20, 100)), "body": ops}]


@st.composite
def rising(draw: st.DrawFn, region: int) -> list[Op]:
    """One size after the other, some blocks of each pinned."""
    size, touch = draw(sizes(most=256 * KIB)), _touch_for(draw, 0)
    count = min(_fit(draw(_pick(8, 16, 64, 200)), size * 4, touch), 256)
    each = {"first": region * REGION, "shift": count, "count": count}
    body = [
        {"op": "alloc", **each, "x": size, "z": max(16, size * draw(_pick(1, 5, 25)) // 100), "touch": touch},
        {"op": "free", **each, "x": 0, "y": draw(_pick(4, 2, 16, 64))},
    ]
    return [{"op": "loop", "count": draw(_pick(4, 8, 16)), "body": body}]


@st.composite
def growing(draw: st.DrawFn, region: int) -> list[Op]:
    size, touch = draw(sizes(most=4 * MIB)), TOUCHES[draw(_pick("ends", "none", "pages"))]
    step = draw(_pick(64 * KIB, 4 * KIB, MIB, 100, 1000, 0))
    target = min(max(size, draw(sizes(most=GIB))), size + 4000 * step if step else GIB)
    target = min(target, MOST_TOUCHED) if touch == TOUCHES["pages"] else target
    count = _fit(draw(_pick(1, 2, 10)), target, touch)
    where = {"first": region * REGION, "count": count}
    ops: list[Op] = [{"op": "alloc", **where, "x": size, "touch": touch}]
    ops.append({"op": "resize", **where, "x": target, "y": step, "z": 0 if step else draw(_pick(50, 100, 10))})
    if draw(st.booleans()):
        ops.append({"op": "resize", **where, "x": max(1, size // 2), "y": 0, "z": 50})
    return [*ops, _free(draw, region, count)]


@st.composite
def churning(draw: st.DrawFn, region: int, name: str = "churn") -> list[Op]:
    low = draw(sizes(most=16 * MIB))
    high = draw(sizes(most=64 * MIB))
    low, high = min(low, high), max(low, high)
    touch = _touch_for(draw, high)
    count = _fit(draw(_pick(4, 16, 100, 1000)), high, touch)
    where = {"first": region * REGION, "count": count, "x": low, "y": high}
    return [{"op": name, **where, "z": draw(_pick(20, 100, 1000)), "how": draw(ways()), "touch": touch}]


PARTS = (pairs, repeated, rising, growing, churning)


@st.composite
def teams(draw: st.DrawFn, region: int) -> list[Op]:
    """Threads that come and go, or stay; what they leave is freed by the one that began them."""
    part = draw(st.sampled_from([None, *PARTS]))
    body = draw(part(region) if part else churning(region, "exchange"))
    if draw(st.booleans()):
        body = [*body, {"op": "pause", "x": 1}]
    count = draw(_pick(2, 1, 4, 16))
    ops: list[Op] = [{"op": "threads", "count": count, "x": draw(_pick(0, 1)), "y": STRIDE, "body": body}]
    if draw(st.booleans()):
        frees = {"op": "free", "first": region * REGION, "shift": STRIDE, "count": REGION, "x": 0, "y": 0}
        ops.append({"op": "loop", "count": count, "body": [frees]})
    return ops


@st.composite
def forks(draw: st.DrawFn, region: int) -> list[Op]:
    way = draw(st.sampled_from(list(WAYS.values())))
    return [{"op": "fork", "x": way, "body": draw(draw(st.sampled_from(PARTS))(region))}]


@st.composite
def others(draw: st.DrawFn, region: int) -> list[Op]:
    return [draw(_pick({"op": "trim"}, {"op": "pause", "x": 2}, {"op": "pause", "x": 20}))]


@st.composite
def trials(draw: st.DrawFn, _region: int = 0) -> list[Op]:
    """What goes wrong where threads, forks, shortage and misuse meet."""
    name = draw(_pick("busy", "exits", "short", "refuse", "crash", "apart"))
    low = draw(sizes(most=4 * KIB if draw(st.booleans()) else 300 * KIB))
    if name == "crash":
        return [{"op": name, "x": low, "y": draw(st.sampled_from(list(MISUSES.values()))), "z": draw(_pick(0, 1))}]
    how, touch = draw(ways()), _touch_for(draw, low)
    if name == "refuse":
        return [{"op": name, "x": low, "how": how, "touch": touch}]
    if name == "short":
        room = draw(_pick(4 * MIB, MIB, 16 * MIB, 64 * MIB))
        shift = draw(st.sampled_from(list(SHORTAGES.values())))
        return [{"op": name, "shift": shift, "x": room, "y": low, "z": 1000, "how": how, "touch": touch}]
    high = max(low, draw(sizes(most=4 * low)))
    each = {"x": low, "y": high, "how": how, "touch": touch}
    if name == "busy":
        return [{"op": name, "count": draw(_pick(2, 1, 4, 8)), **each, "z": draw(_pick(4, 1, 10))}]
    count = draw(_pick(4, 1, 2, MOST_TEAM))
    if name == "apart":
        requests = min(draw(_pick(200, 64, 1000)), 8 * MIB // (high * count) + 6)
        return [{"op": name, "count": count, **each, "z": requests}]
    return [
        {"op": name, "count": count, **each, "z": min(draw(_pick(30, 6, 200, 1000)), 32 * MIB // (high * count) + 6)}
    ]


@st.composite
def tried(draw: st.DrawFn) -> Program:
    """A program with a trial or two, and something ordinary before, which leaves blocks of all kinds."""
    parts = draw(st.lists(st.tuples(st.sampled_from(PARTS), st.integers(0, REGIONS - 1)), max_size=2))
    ops = [op for kind, region in parts for op in draw(kind(region))]
    ops += [op for _ in range(draw(_pick(1, 2, 3))) for op in draw(trials())]
    lighten(ops, LEAST_TRIALS)
    rounds = max(LEAST_TRIALS, min(MOST_TRIALS, int(RUN_US / max(1.0, cost_us(ops)))))
    return {"idle_ms": 0, "rounds": rounds, "ops": ops}


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """A program that costs RUN_US at most, as cost_us reckons."""
    kinds = st.sampled_from([*PARTS, *PARTS, teams, forks, others])
    parts = draw(st.lists(st.tuples(kinds, st.integers(0, REGIONS - 1)), min_size=1, max_size=4))
    ops = [op for kind, region in parts for op in draw(kind(region))]
    lighten(ops)
    rounds = max(MIN_ROUNDS, min(MAX_ROUNDS, int(RUN_US / max(1.0, cost_us(ops)))))
    return {"idle_ms": draw(_pick(0, 0, 0, 0, 1200)), "rounds": rounds, "ops": ops}


def lighten(ops: list[Op], rounds: int = MIN_ROUNDS) -> None:
    """Makes the dearest operation cheaper, again and again, until so many rounds fit into RUN_US."""
    while cost_us(ops) * rounds > RUN_US:
        dearest = max(ops, key=lambda op: cost_us([op]))
        before = cost_us(ops)
        _halve(dearest)
        if cost_us(ops) >= before:
            return


def _halve(op: Op) -> None:
    """A loop's or a team's count before what it holds."""
    if op["op"] in ("churn", "exchange", "busy", "exits", "short", "apart") and op["z"] > 1:
        op["z"] = max(1, op["z"] // 2)
    elif op["op"] == "pause":
        op["x"] //= 2
    elif op["op"] == "resize" and op["count"] == 1:
        op["x"], op["y"] = (op["x"], op["y"] * 2) if op["y"] and op["x"] // op["y"] > 4 else (op["x"] // 2, op["y"])
    elif op.get("count", 1) > 1:
        op["count"] //= 2
    elif "body" in op:
        _halve(max(op["body"], key=lambda inner: cost_us([inner])))
