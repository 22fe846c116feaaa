"""The trials of scripts/test: fixed ones, in each profile. Only the exit status is asked, so none needs another arm."""

from arms import OURS, run
from programs import HOWS, KIB, MIB, MISUSES, SHORTAGES, TOUCHES, Op, Program

PROFILES = ("balanced", "hardened")
WHOLE, PAGES = TOUCHES["whole"], TOUCHES["pages"]
PLAIN = (HOWS["malloc"], HOWS["calloc"])
ALIGNED = (HOWS["memalign"] | 21 << 8,)  # to multiples of 2 MiB


def _busy(low: int, high: int, threads: int, forks: int) -> Op:
    return {"op": "busy", "count": threads, "x": low, "y": high, "z": forks, "touch": WHOLE}


def _exits(low: int, high: int, threads: int, blocks: int) -> Op:
    return {"op": "exits", "count": threads, "x": low, "y": high, "z": blocks, "touch": WHOLE}


def _apart(low: int, high: int, threads: int, requests: int, how: str = "malloc") -> Op:
    return {"op": "apart", "count": threads, "x": low, "y": high, "z": requests, "how": HOWS[how], "touch": WHOLE}


def _shortages(size: int, blocks: int, room: int = 4 * MIB, ways: tuple[int, ...] = PLAIN) -> list[Op]:
    """More blocks than fit into what is left."""
    each = {"op": "short", "x": room, "y": size, "z": blocks, "touch": PAGES}
    return [{**each, "shift": kind, "how": how} for how in ways for kind in SHORTAGES.values()]


def _refuse(size: int) -> Op:
    return {"op": "refuse", "x": size, "how": HOWS["malloc"], "touch": WHOLE}


def _crashes(size: int) -> list[Op]:
    return [{"op": "crash", "x": size, "y": misuse, "z": thread} for misuse in MISUSES.values() for thread in (0, 1)]


def _rounds(rounds: int, *ops: Op) -> Program:
    return {"idle_ms": 0, "rounds": rounds, "ops": list(ops)}


TRIALS: dict[str, Program] = {
    "busy, one class": _rounds(1, _busy(24, 24, 3, 30)),
    "busy, small": _rounds(1, _busy(24, 120, 4, 30)),
    "busy, large": _rounds(1, {**_busy(20 * KIB, 100 * KIB, 2, 4), "touch": PAGES}),
    "exits, small": _rounds(3, _exits(24, 1000, 12, 100)),
    "exits, large": _rounds(3, _exits(16, 300 * KIB, 4, 24)),
    "apart, by name": _rounds(2, _apart(16, 1000, 6, 500), _apart(1000, 100 * KIB, 3, 100)),
    "apart, scopes": _rounds(2, _apart(16, 30 * KIB, 4, 200, "calloc")),
    "short, small": _rounds(2, *_shortages(1000, 8000)),
    "short, runs": _rounds(2, *_shortages(48 * KIB, 200)),
    "short, large": _rounds(2, *_shortages(3 * MIB, 6)),
    "short, no power of two": _rounds(2, *_shortages(34312, 1000)),
    "short, aligned": _rounds(2, *_shortages(100 * KIB, 100, 16 * MIB, ALIGNED)),
    "refuse": _rounds(1, *(_refuse(size) for size in (24, 5000, 100_000, 3 * MIB))),
    "crash, small": _rounds(1, *(op for size in (24, 100, 1000) for op in _crashes(size))),
    "crash, large": _rounds(1, *(op for size in (5000, 50_000, 300_000, 3 * MIB) for op in _crashes(size))),
}


def try_trial(program: Program, profile: str) -> str:
    """Why it failed; empty if it did not."""
    done = run(OURS, program, extra={"HAKMEM_PROFILE": profile})
    return f"status {done.status}: {done.stderr}" if done.status else ""
